//! Every fault: each device test again on the software device, with one of its driver calls failing.
//!
//! A process of its own runs the test once, and counts its calls; then once for each of them, on a
//! device that is opened for that run, with that call failing. Afterwards there must have been no
//! panic, nothing of the run may be alive, the device must be well, and an error must name
//! the call: one of the test, one that a drop kept, or one of closing the context. See `judge`.
//!
//! A short run is a sample of the faults: of the first three calls of each name, at least one, and then as many as
//! the test's share of time allows, in an order that the run's seed draws. CI's sample is larger and takes one fault
//! of each function first. Of the tests that are slow without a fault a short run tries a part, see `slow`. A deep run
//! tries every call of every test.
//!
//! Not here: opening the context, which `host/faults.rs` sweeps, as it does fatal codes; and tests
//! with a process of their own (`Case::fault`, `Case::process`), which are about faults already, but for those of
//! several devices (`Case::several`).

mod absorbed;
mod child;
mod contracts;
mod fault;
mod judge;
mod keeper;
mod parent;
mod planted;
mod slow;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Case, Run, Suite, TestResult, deep, ensure, report};

pub use absorbed::{Absorbed, Codes};
pub(crate) use child::{CHILD, child_main};

/// How many calls of each name fail.
fn occurrences() -> u64 {
    if deep() { u64::MAX } else { 3 }
}

/// What the sweeps of this process have found, for the count at the end.
struct Totals {
    cases: AtomicU64,
    /// Those with at least one fault, or with no call that could fail.
    swept: AtomicU64,
    clean_ms: AtomicU64,
    possible: AtomicU64,
    named: AtomicU64,
    absorbed: AtomicU64,
    missed: AtomicU64,
}

static TOTALS: Totals = Totals {
    cases: AtomicU64::new(0),
    swept: AtomicU64::new(0),
    clean_ms: AtomicU64::new(0),
    possible: AtomicU64::new(0),
    named: AtomicU64::new(0),
    absorbed: AtomicU64::new(0),
    missed: AtomicU64::new(0),
};

/// Returns whether the sweep includes this test.
fn is_swept(suite: &Suite, case: &Case) -> bool {
    let named = |name: &str| case.name.ends_with(name) || case.name.starts_with(name);
    (matches!(case.run, Run::Device(_)) || case.is_of_several())
        && !suite.not_swept.iter().any(|(name, _)| named(name))
}

/// The sweeps of a suite's tests.
pub(crate) fn cases(suite: &Suite) -> Vec<Case> {
    let swept = suite.cases.iter().filter(|case| is_swept(suite, case));
    let sweep = |case: &Case| {
        let sweep = Case::sweep(case.name, parent::sweep);
        if slow::is_due(suite, case.name) { sweep } else { sweep.only_if_asked() }
    };
    let mut cases: Vec<_> = swept.map(sweep).collect();
    if !cases.is_empty() {
        cases.push(Case::host("sweep::slow_tests_exist", slow::exist));
        cases.push(Case::sweep_end("enough_faults", count));
    }
    cases
}

/// Tests of the sweep itself.
pub(crate) fn own_cases() -> Vec<Case> {
    let mut cases = planted::sweeps().to_vec();
    cases.push(Case::sweep("contracts", |_| contracts::contracts()));
    cases
}

/// The tests that are swept to test the sweep.
pub(crate) fn planted() -> Vec<Case> {
    planted::cases().to_vec()
}

/// Counts the faults, of which each swept test has had one. `cargo xtask test` wants a number of them over all programs.
fn count() -> TestResult {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (named, absorbed) = (of(&TOTALS.named), of(&TOTALS.absorbed));
    let tried = named + absorbed;
    println!(
        "sweep: {tried} faults of {} in {} tests: {named} named by an error, {absorbed} absorbed (a list \
         of {}); {} calls were not made again; without a fault the tests take {} ms",
        of(&TOTALS.possible),
        of(&TOTALS.cases),
        absorbed::entries(),
        of(&TOTALS.missed),
        of(&TOTALS.clean_ms),
    );
    let (cases, swept) = (of(&TOTALS.cases), of(&TOTALS.swept));
    ensure!(swept == cases, "of {cases} tests {} were tried with no fault", cases - swept);
    report::count_faults(tried);
    Ok(())
}
