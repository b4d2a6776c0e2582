//! Tests that need neither a compiler nor a device: the safe layer on the no-op driver.

mod attributes;
mod closing;
mod counts;
mod current;
mod drops;
mod faults;
mod fork;
mod grammar;
mod kernels;
mod messages;
mod missing;
mod order;
mod scenarios;
mod threads;

use test_harness::Case;

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
        kernels::cases(),
        messages::cases(),
        missing::cases(),
        order::cases(),
        threads::cases(),
    ];
    modules.into_iter().flatten().collect()
}
