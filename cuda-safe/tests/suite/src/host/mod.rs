//! Tests that need neither a compiler nor a device: the safe layer on the no-op driver.

mod attributes;
mod closing;
mod counts;
mod current;
mod drops;
mod faults;
mod fork;
mod grammar;
mod grid;
mod kernels;
mod lab;
mod messages;
mod missing;
mod names;
mod order;
mod scenarios;
mod soundness;
mod table;
mod threads;

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    let modules = [
        attributes::cases(),
        closing::cases(),
        counts::cases(),
        current::cases(),
        drops::cases(),
        faults::cases(),
        fork::cases(),
        grammar::cases(),
        grid::cases(),
        kernels::cases(),
        messages::cases(),
        missing::cases(),
        names::cases(),
        order::cases(),
        soundness::cases(),
        threads::cases(),
    ];
    modules.into_iter().flatten().collect()
}
