//! What the harness must know of these tests.

use test_harness::Suite;

use crate::checkers;

/// The tests of `cuda-emu`.
#[must_use]
pub fn suite() -> Suite {
    Suite {
        commands: vec![checkers::command],
        ..Suite::new("-p cuda-emu --test suite", checkers::cases())
    }
}
