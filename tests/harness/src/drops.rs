//! Failures in drops of the tests' own objects, which no result could return.

use std::sync::{Mutex, PoisonError};

use crate::TestResult;

static FAILED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records the failure of a call in a drop.
pub fn note_failure(result: TestResult) {
    if let Err(failed) = result {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).push(failed.to_string());
    }
}

/// Returns the failures so far, and forgets them. The process may run one test alone.
pub fn take_failures() -> Vec<String> {
    std::mem::take(&mut *FAILED.lock().unwrap_or_else(PoisonError::into_inner))
}
