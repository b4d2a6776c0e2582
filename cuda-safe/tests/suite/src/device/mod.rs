//! Tests of `cuda-safe` on a device: written once, run on every kind of device that there is.

mod arguments;
mod buffers;
mod checked_ports;
mod checks;
mod clusters;
mod contexts;
mod copies;
mod declarations;
mod dlpack;
mod events;
mod foreign;
mod framework;
pub(crate) mod futures;
mod gate;
mod globals;
mod graphs;
pub(crate) mod groups;
mod guarded;
mod kernels;
mod lazy;
mod lent;
mod libraries;
mod life;
mod limits;
mod linking;
mod marks;
mod memory;
mod modules;
mod names;
mod order;
mod parameters;
mod pinned;
mod planted;
mod pools;
mod ported;
mod ports;
mod recorders;
mod saxpy;
mod sequences;
mod several;
mod shaped;
mod sharing;
mod soundness;
mod streams;
mod unified;
mod variables;

use test_harness::Case;

pub(crate) use checked_ports::planted;
pub(crate) use foreign::RawContext;

pub(crate) fn cases() -> Vec<Case> {
    [
        saxpy::cases(),
        declarations::cases(),
        globals::cases(),
        parameters::cases(),
        buffers::cases(),
        copies::cases(),
        shaped::cases(),
        pinned::cases(),
        ports::cases(),
        futures::cases(),
        unified::cases(),
        memory::cases(),
        streams::cases(),
        events::cases(),
        order::cases(),
        graphs::cases(),
        marks::cases(),
        sharing::cases(),
        sequences::cases(),
        recorders::cases(),
        soundness::cases(),
        variables::cases(),
        contexts::cases(),
        foreign::cases(),
        libraries::cases(),
        lent::cases(),
        dlpack::cases(),
        pools::cases(),
        linking::cases(),
        modules::cases(),
        names::cases(),
        kernels::cases(),
        clusters::cases(),
        groups::cases(),
        guarded::cases(),
        arguments::cases(),
        limits::cases(),
        lazy::cases(),
        ported::cases(),
        life::cases(),
        several::cases(),
        planted::cases(),
        checked_ports::cases(),
    ]
    .concat()
}

/// Numbers of elements around what may go wrong: none, one, around a warp, an odd number, many.
const SIZES: [usize; 7] = [0, 1, 31, 32, 33, 1000, 1 << 20];

/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;
