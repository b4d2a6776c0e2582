//! What the kernels of geometry trust: memory that graphs, or code of users, could change or leave half done.

mod between;
mod names;
mod unlaunched;

use std::sync::{Mutex, MutexGuard, PoisonError};

use test_harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [names::cases(), between::cases(), unlaunched::cases()].concat()
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
