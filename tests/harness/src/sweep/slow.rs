//! The tests that are slow without a fault ([`Suite::slow`](crate::Suite)). They would take more than half of a sweep's
//! time, so a run sweeps a part of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::is_swept;
use crate::{Suite, TestResult, deep, ensure, sample, suite};

/// A run sweeps one of so many, drawn by its seed; a deep run sweeps all, and any run those that it names.
const TURNS: u64 = 4;

/// Returns whether a run that names no tests sweeps this one.
pub(super) fn is_due(suite: &Suite, name: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    (sample::seed(), name).hash(&mut hasher);
    deep() || !suite.slow.contains(&name) || hasher.finish().is_multiple_of(TURNS)
}

/// Fails if the list names a test that does not exist, such as one that was renamed.
pub(super) fn exist() -> TestResult {
    let suite = suite();
    for name in &suite.slow {
        ensure!(
            suite.cases.iter().any(|case| case.name == *name && is_swept(suite, case)),
            "there is no test {name} to sweep"
        );
    }
    Ok(())
}
