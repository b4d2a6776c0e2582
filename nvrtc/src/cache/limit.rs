//! Writing where a process may be limited in the size of its files.
#![cfg_attr(unix, allow(unsafe_code, reason = "blocks a signal"))]

use std::fs::File;
use std::io::{Result, Write};

/// Writes all bytes. Past the limit (`RLIMIT_FSIZE`) that is an error, as any other: `SIGXFSZ`, which would end the
/// process, is blocked on this thread meanwhile, and taken from what is pending.
pub(super) fn write_all(file: &mut File, bytes: &[u8]) -> Result<()> {
    #[cfg(unix)]
    let _blocked = signal::Blocked::new()?;
    file.write_all(bytes)
}

#[cfg(unix)]
mod signal {
    use std::io::{Error, Result};
    use std::mem::MaybeUninit;

    use libc::{SIGXFSZ, sigset_t};

    /// This thread, with the signal blocked until the drop. Other threads and the signal's action are as they were.
    pub(super) struct Blocked {
        signal: sigset_t,
        before: sigset_t,
        /// Whether the signal was pending already, and so is not that of the write.
        pending: bool,
    }

    impl Blocked {
        pub(super) fn new() -> Result<Self> {
            let mut signal = empty();
            // SAFETY: `signal` is a set.
            unsafe { libc::sigaddset(&raw mut signal, SIGXFSZ) };
            let mut before = empty();
            // SAFETY: both are sets.
            let code = unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signal, &raw mut before)
            };
            match code {
                0 => Ok(Self { signal, before, pending: is_pending() }),
                code => Err(Error::from_raw_os_error(code)),
            }
        }
    }

    impl Drop for Blocked {
        fn drop(&mut self) {
            if !self.pending && is_pending() {
                let mut taken = 0;
                // SAFETY: `signal` is a set, and `taken` a place for a number. The signal of a write is pending for this
                // thread alone, so the call returns at once.
                unsafe { libc::sigwait(&raw const self.signal, &raw mut taken) };
            }
            // SAFETY: the set was returned for this thread, and the old one is not asked for.
            unsafe {
                libc::pthread_sigmask(
                    libc::SIG_SETMASK,
                    &raw const self.before,
                    std::ptr::null_mut(),
                )
            };
        }
    }

    fn empty() -> sigset_t {
        let mut set = MaybeUninit::<sigset_t>::zeroed();
        // SAFETY: `set` is a place for a set, which the call makes.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: made above; a failure leaves zeros, which are a set on every system.
        unsafe { set.assume_init() }
    }

    fn is_pending() -> bool {
        let mut pending = empty();
        // SAFETY: `pending` is a set.
        let code = unsafe { libc::sigpending(&raw mut pending) };
        // SAFETY: as above.
        code == 0 && unsafe { libc::sigismember(&raw const pending, SIGXFSZ) } == 1
    }
}
