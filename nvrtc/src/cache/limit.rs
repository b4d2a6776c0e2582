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
            if !self.pending {
                take(&self.signal);
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

    /// Takes the signal if it is pending, without waiting. A signal of the process may be taken by another thread at any
    /// time, so a call that waits could wait forever.
    #[cfg(any(
        target_os = "android",
        target_os = "dragonfly",
        target_os = "freebsd",
        target_os = "linux",
        target_os = "netbsd"
    ))]
    fn take(signal: &sigset_t) {
        // SAFETY: zeros are a `timespec`, the time zero.
        let no_time: libc::timespec = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: `signal` is a set and `no_time` a time; both are only read and outlive the call. Null says that no
        // information on the signal is to be written.
        unsafe { libc::sigtimedwait(signal, std::ptr::null_mut(), &raw const no_time) };
    }

    /// Takes the signal if it is pending. The system has no call that takes without waiting, so this one waits if another
    /// thread takes a signal of the process between the two calls.
    #[cfg(not(any(
        target_os = "android",
        target_os = "dragonfly",
        target_os = "freebsd",
        target_os = "linux",
        target_os = "netbsd"
    )))]
    fn take(signal: &sigset_t) {
        if is_pending() {
            let mut taken = 0;
            // SAFETY: `signal` is a set that outlives the call, and `taken` is valid for one write.
            unsafe { libc::sigwait(signal, &raw mut taken) };
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

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_signal_that_is_gone_is_not_waited_for() {
            let (done, wait) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                if let Ok(blocked) = Blocked::new() {
                    // `take` stands for another thread that takes the signal first.
                    take(&blocked.signal);
                    let _ = done.send(());
                }
            });
            assert_eq!(wait.recv_timeout(std::time::Duration::from_secs(60)), Ok(()));
        }

        #[test]
        fn a_signal_of_the_thread_is_taken_and_the_mask_restored() {
            let blocked = Blocked::new().expect("a mask");
            assert!(!is_pending());
            // SAFETY: the signal is blocked on this thread, to which it is sent.
            assert_eq!(unsafe { libc::raise(SIGXFSZ) }, 0);
            assert!(is_pending());
            // A pending signal that is unblocked would end the process.
            drop(blocked);
            assert!(!is_pending());
        }
    }
}
