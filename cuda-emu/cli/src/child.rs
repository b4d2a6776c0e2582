//! The program's process: signals on their way to it, and its end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;

use crate::error::Error;

/// The program's process; 0 before it starts and after its end.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal that came before the program started.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// The signals that are passed on. Signals that stop a process are not among them: the terminal stops both processes.
const PASSED_ON: [c_int; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
];

/// The end of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended(ExitStatus);

/// Passes a signal of another process on. The terminal's signals, which the kernel sends, reach the program by themselves.
extern "C" fn pass_on(signal: c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel calls this handler, which was set with SA_SIGINFO, with a valid description.
    let from_kernel = unsafe { (*info).si_code } > 0;
    if from_kernel {
        return;
    }
    match CHILD.load(Ordering::SeqCst) {
        0 => EARLY.store(signal, Ordering::SeqCst),
        // SAFETY: kill may be called in a handler, and takes any numbers.
        child => unsafe {
            libc::kill(child, signal);
        },
    }
}

/// Makes this process pass signals on, but for those that it was started to ignore: the program ignores them, too.
fn pass_signals_on() {
    for signal in PASSED_ON {
        // SAFETY: zeros are a valid `sigaction`.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the place is valid for the write, and null changes nothing.
        unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) };
        if before.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        let mut action = before;
        action.sa_sigaction =
            pass_on as extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler only uses atomics and `kill`, which is allowed at any time.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Runs the program to its end.
///
/// # Errors
/// [`Error::Start`] if it cannot be started.
pub(crate) fn run(mut command: Command, program: &Path) -> Result<Ended, Error> {
    let failed = |error| Error::Start { program: program.to_path_buf(), error };
    // Handlers are not inherited: the program has the default actions.
    pass_signals_on();
    let mut child = command.spawn().map_err(failed)?;
    let id = child.id() as c_int;
    CHILD.store(id, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 {
        // SAFETY: kill takes any numbers.
        unsafe { libc::kill(id, early) };
    }
    let status = child.wait().map_err(failed);
    CHILD.store(0, Ordering::SeqCst);
    status.map(Ended)
}

impl Ended {
    /// Returns the exit status.
    pub(crate) fn status(self) -> Option<i32> {
        self.0.code()
    }

    /// Returns the signal that ended the program.
    pub(crate) fn signal(self) -> Option<i32> {
        self.0.signal()
    }

    /// Ends this process as the program ended: with its exit status, or by the signal.
    pub(crate) fn pass_on(self) -> ExitCode {
        if let Some(code) = self.0.code() {
            return ExitCode::from(code as u8);
        }
        let signal = self.0.signal().unwrap_or(libc::SIGKILL);
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is read only; the program has written a core file of its own, if it may.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core) };
        // SAFETY: the default action is no function, and the signal ends this process, as it should.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        // The signal may be blocked; a shell reports this status for it.
        ExitCode::from(128u8.wrapping_add(signal as u8))
    }
}
