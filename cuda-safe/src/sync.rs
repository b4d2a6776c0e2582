//! What threads share and meet at. The files that use it, and nothing of CUDA, are checked in all
//! orders of their threads by `tests/models`, which includes them and puts its own in place of these.

pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, atomic,
};
pub(crate) use std::thread;
