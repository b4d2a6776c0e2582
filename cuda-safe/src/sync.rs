//! Synchronization primitives, and the locks of the crate. `tests/models` includes the files that use them, and nothing
//! of CUDA, with its own versions of these, and checks them in all orders of their threads.
//!
//! A subscriber of `tracing` and a host function run while other code of the crate may hold a lock, and in a forked child
//! a lock may be held by a thread that exists in the parent only. So every lock of the crate is a [`Lock`], and every value
//! that is made once is a [`Once`]: they ask who the caller is before they wait. The check `sources::locks` of
//! `tests/attacks` refuses those of `std` in all other files.

pub(crate) use std::sync::atomic::AtomicUsize as PlainUsize;
pub(crate) use std::sync::{Condvar, MutexGuard, PoisonError, atomic};
pub(crate) use std::thread;

use std::sync::{Mutex, OnceLock, TryLockError};

use crate::caller;

pub(crate) use caller::NotNow;

/// A mutex that is not poisoned, and that is not waited for where its holder may not run again.
#[derive(Debug)]
pub(crate) struct Lock<T: ?Sized>(Mutex<T>);

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits for the lock.
    ///
    /// # Errors
    /// The caller is a subscriber, a host function or a forked child.
    #[inline]
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, T>, NotNow> {
        caller::may_call()?;
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`lock`](Self::lock), also in a host function. For locks that are never held while the driver is called or an
    /// event is emitted.
    pub(crate) fn lock_in_host_function(&self) -> Result<MutexGuard<'_, T>, NotNow> {
        caller::may_drop()?;
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock if nobody holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs code of the user on a thread of the driver.
pub(crate) fn as_host_function<R>(run: impl FnOnce() -> R) -> R {
    caller::run_as(caller::Caller::HostFunction, run)
}

/// A value that is made once, by one of the threads that ask for it.
#[derive(Debug)]
pub(crate) struct Once<T>(OnceLock<T>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Once<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the value if it was made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Returns the value, which is made now if it was not yet; waits for a thread that is making it.
    ///
    /// # Errors
    /// The value was not made yet, and the caller is a subscriber, a host function or a forked child.
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> Result<&T, NotNow> {
        match self.0.get() {
            Some(made) => Ok(made),
            None => {
                caller::may_call()?;
                Ok(self.0.get_or_init(make))
            }
        }
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}
