//! Who calls the crate: the program, a subscriber of `tracing`, a host function, or a forked child.
//!
//! Subscribers run in the middle of a call of this crate, perhaps with its locks held. Host functions run on a thread of the
//! driver, where calls of CUDA are forbidden, while other threads may wait for them with locks held. Calls of both are
//! refused by a flag of the thread. In a forked child CUDA does not work, and locks may be held for ever.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Code that runs on a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Program,
    /// Of `tracing`.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nothing is emitted then"))]
    Subscriber,
    HostFunction,
}

/// The error of a lock that the caller can't wait for.
#[derive(Debug)]
pub(crate) struct NotNow;

impl From<NotNow> for Error {
    fn from(NotNow: NotNow) -> Self {
        refused()
    }
}

thread_local! {
    static CALLER: Cell<Caller> = const { Cell::new(Caller::Program) };
}

/// Raised in a child process by the handler that [`watch_fork`] installs.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Restores the caller that was before, also by unwinding.
struct Restore(Caller);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = CALLER.try_with(|caller| caller.set(self.0));
    }
}

/// Runs code of the user as `caller`.
pub(crate) fn run_as<R>(caller: Caller, run: impl FnOnce() -> R) -> R {
    // The slot has no destructor, so it is there as long as the thread runs.
    let _restore = Restore(CALLER.try_with(|now| now.replace(caller)).unwrap_or(caller));
    run()
}

#[inline]
fn now() -> Caller {
    CALLER.try_with(Cell::get).unwrap_or(Caller::Program)
}

/// Returns whether the caller may call the driver and wait for locks.
#[inline]
pub(crate) fn is_free() -> bool {
    now() == Caller::Program && !forked()
}

/// Fails unless the caller may call the driver and wait for locks.
#[inline]
pub(crate) fn may_call() -> Result<(), NotNow> {
    if is_free() { Ok(()) } else { Err(NotNow) }
}

/// Fails unless the caller may leave what it drops to the deferred-free list: also a host function may.
#[inline]
pub(crate) fn may_drop() -> Result<(), NotNow> {
    if forked() || is_subscriber() { Err(NotNow) } else { Ok(()) }
}

/// Returns whether a subscriber of `tracing` is the caller.
#[inline]
pub(crate) fn is_subscriber() -> bool {
    now() == Caller::Subscriber
}

/// Returns whether a host function is the caller.
#[inline]
pub(crate) fn is_host_function() -> bool {
    now() == Caller::HostFunction
}

/// Fails if the calling thread can't call this crate: in a subscriber of `tracing` that handles one of its events, in a host
/// function, and in a process that was forked after a driver was initialised.
///
/// Crates on top of this one call it before they take locks of their own that they hold while they call this crate.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or [`ErrorKind::Forked`](crate::ErrorKind::Forked), with what to do.
#[inline]
pub fn check_caller() -> Result<()> {
    Ok(may_call()?)
}

/// Returns the error for a caller that [`may_call`] refuses.
#[cold]
pub(crate) fn refused() -> Error {
    if forked() {
        return Error::forked();
    }
    if is_host_function() {
        return Error::invalid("a host function called cuda-safe").with_hint(
            "CUDA can't be used on the thread that runs host functions: send what you need to another thread",
        );
    }
    Error::invalid("a subscriber of `tracing` called cuda-safe while it handled one of its events")
        .with_hint(
            "a call of the crate is under way on this thread: send what you need to another thread",
        )
}

/// Returns whether this process is a child, made by `fork` after a driver was initialised in its parent.
#[inline]
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Arranges for [`FORKED`] to be raised in children: the driver returns nonsense there, and some
/// of its calls crash.
pub(crate) fn watch_fork() {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            FORKED.store(true, Ordering::Relaxed);
        }
        static INSTALLED: AtomicBool = AtomicBool::new(false);
        if !INSTALLED.swap(true, Ordering::Relaxed) {
            // SAFETY: the handler only stores to a static atomic, which is async-signal-safe and
            // stays mapped for the life of the process: statically linked, or in a library that
            // the leaked driver state keeps in use.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
    }
}
