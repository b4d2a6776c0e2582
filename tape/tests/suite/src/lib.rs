//! Device tests of the tape: gradients against formulas and central differences, and what it refuses.

mod arguments;
mod awkward;
mod barriers;
mod basics;
mod chains;
mod checked;
mod choices;
mod custom;
mod declared;
mod fresh;
mod generated;
mod gradcheck;
mod graphs;
mod halves;
mod kept;
mod libm;
mod logs;
mod loops;
mod masks;
mod ops;
mod outputs;
mod planted;
mod primals;
mod refusals;
mod replay;
mod rust;
mod seeds;
mod shapes;
mod specs;
mod stale;
mod streams;
mod suite;
mod told;
mod twins;
mod unborrowed;
mod unfinished;
mod unseen;
mod unwritten;
mod values;
mod vjp;
mod withheld;

use test_harness::Case;

pub use suite::suite;

fn cases() -> Vec<Case> {
    // Fresh memory is often zero, which would hide gradients that nobody has written.
    tape::poison_memory();
    [
        specs::cases(),
        basics::cases(),
        awkward::cases(),
        values::cases(),
        vjp::cases(),
        stale::cases(),
        primals::cases(),
        arguments::cases(),
        masks::cases(),
        seeds::cases(),
        fresh::cases(),
        outputs::cases(),
        shapes::cases(),
        told::cases(),
        unfinished::cases(),
        unborrowed::cases(),
        unwritten::cases(),
        custom::cases(),
        graphs::cases(),
        streams::cases(),
        chains::cases(),
        generated::cases(),
        halves::cases(),
        refusals::cases(),
        replay::cases(),
        rust::cases(),
        declared::cases(),
        twins::cases(),
        unseen::cases(),
        kept::cases(),
        barriers::cases(),
        choices::cases(),
        libm::cases(),
        loops::cases(),
        logs::cases(),
        gradcheck::cases(),
        withheld::cases(),
        planted::cases(),
        checked::cases(),
    ]
    .concat()
}
