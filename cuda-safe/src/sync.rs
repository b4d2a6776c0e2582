//! Synchronization primitives. `tests/models` includes the files that use them, and nothing of CUDA, with its own
//! versions of these, and checks them in all orders of their threads.

pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, atomic,
};
pub(crate) use std::thread;
