//! What the harness must know of these tests.

use test_harness::Suite;

use crate::{checkers, generated, golden};

/// The tests of `cuda-emu`.
#[must_use]
pub fn suite() -> Suite {
    let cases = [golden::cases(), generated::cases(), checkers::cases()].concat();
    Suite {
        commands: vec![golden::command, generated::command, checkers::command],
        // Tests that took more than 0.9 s without a fault, on one core of an AMD EPYC on 2026-11-28.
        slow: vec!["generated::programs"],
        ..Suite::new("-p cuda-emu --test suite", cases)
    }
}
