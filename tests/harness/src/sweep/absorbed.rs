//! Calls whose failure no error reports, each with its reason. Everything else about such a run is judged
//! as always: no panic, nothing left, no touch of freed memory.

use super::fault::Fault;
use crate::suite;

/// The codes that an entry is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    All,
    OutOfMemory,
}

/// Calls whose failure no error reports.
#[derive(Clone, Copy)]
pub struct Absorbed {
    pub calls: &'static [&'static str],
    pub codes: Codes,
    /// How the names of the tests begin.
    pub tests: &'static str,
    pub why: &'static str,
}

/// Those of all tests.
const OF_ALL: [Absorbed; 2] = [
    Absorbed {
        calls: &["cuMemAllocFromPoolAsync"],
        codes: Codes::OutOfMemory,
        tests: "",
        why: "the pool is trimmed and asked again",
    },
    Absorbed {
        calls: &["cuCtxDestroy_v2"],
        codes: Codes::All,
        tests: "",
        why: "the test calls it itself, in a drop",
    },
];

fn all() -> impl Iterator<Item = &'static Absorbed> {
    OF_ALL.iter().chain(&suite().absorbed)
}

/// Returns how many calls of tests may fail without an error.
pub(super) fn entries() -> usize {
    all().map(|entry| entry.calls.len()).sum()
}

/// Returns whether no error is required.
pub(super) fn absorbed(test: &str, fault: &Fault) -> bool {
    all().any(|entry| {
        entry.calls.contains(&fault.name)
            && (entry.codes == Codes::All || fault.out_of_memory)
            && test.starts_with(entry.tests)
    })
}
