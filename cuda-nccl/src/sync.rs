//! The locks of the crate. A subscriber of `tracing` runs in the middle of a call, and in a forked child a lock may be held by
//! a thread that exists in the parent only. So every lock is a [`Lock`], which asks who the caller is before it waits. The
//! check `sources::locks` of `tests/attacks` refuses those of `std` in all other files.

pub(crate) use std::sync::{Condvar, MutexGuard, PoisonError};

use std::sync::Mutex;

use cuda_safe::check_caller;

/// A mutex that is not poisoned.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// The caller is a subscriber, a host function or a forked child.
    #[inline]
    pub(crate) fn lock(&self) -> cuda_safe::Result<MutexGuard<'_, T>> {
        check_caller()?;
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
