//! One run of a kernel on the CPU.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use super::hook::{self, Mark};
use super::raise::{Cause, Check, Place, Raised};
use crate::fault::Fault;
use crate::kernel::{CpuError, Kernel, Refused};

thread_local! {
    static ONLY: Cell<Option<[u64; 3]>> = const { Cell::new(None) };
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is inside of [`run`].
pub(crate) fn running() -> bool {
    RUNNING.get()
}

/// Returns the only element that loops on this thread run, if [`only`] has set one.
pub(crate) fn single() -> Option<[u64; 3]> {
    ONLY.get()
}

/// Calls `f`; loops in it run only this element.
pub(crate) fn only<R>(element: [u64; 3], f: impl FnOnce() -> R) -> R {
    let _restore = Restore(&ONLY, ONLY.replace(Some(element)));
    f()
}

/// Restores a thread-local variable when it is dropped.
struct Restore<T: Copy + 'static>(&'static std::thread::LocalKey<Cell<T>>, T);

impl<T: Copy + 'static> Drop for Restore<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Runs a kernel's body, and returns its failure as an error.
///
/// # Errors
/// The arguments are refused, a check fails, or the body panics.
pub fn run(kernel: &'static Kernel, f: impl FnOnce()) -> Result<(), CpuError> {
    match guarded(f) {
        Ok(()) => Ok(()),
        Err(Raised::Refused(message)) => Err(Refused { kernel: kernel.name, message }.into()),
        Err(Raised::Check(check)) => Err(before_loop(kernel, &Cause::Check(check)).into()),
        Err(Raised::Element(Place { element, block }, Cause::Check(check))) => {
            let Check { kind, file, line, index, len } = check;
            // The location is unknown if the program has replaced the panic hook.
            let (file, line) = if line == 0 { (kernel.file, kernel.line) } else { (file, line) };
            Err(Fault { kernel: kernel.name, file, line, kind, index, len, element, block }.into())
        }
        Err(Raised::Element(_, Cause::Panic(message))) => {
            Err(CpuError::Panic { kernel: kernel.name, message })
        }
    }
}

/// Evaluates the code of a kernel before its loop. A panic in it refuses the launch.
///
/// # Errors
/// A condition is not satisfied, or the evaluation panics.
#[inline]
pub fn host<R>(kernel: &'static Kernel, f: impl FnOnce() -> R) -> Result<R, Refused> {
    guarded(f).map_err(|raised| refused(kernel, raised))
}

#[cold]
fn refused(kernel: &'static Kernel, raised: Raised) -> Refused {
    match raised {
        Raised::Refused(message) => Refused { kernel: kernel.name, message },
        Raised::Check(check) | Raised::Element(_, Cause::Check(check)) => {
            before_loop(kernel, &Cause::Check(check))
        }
        Raised::Element(_, Cause::Panic(message)) => before_loop(kernel, &Cause::Panic(message)),
    }
}

/// Describes a failure of the code before the loop, which has no element.
fn before_loop(kernel: &'static Kernel, cause: &Cause) -> Refused {
    let message = match cause {
        Cause::Check(Check { kind, file, line, index, len }) => {
            format!("before the loop, {} at {file}:{line}", kind.describe(*index, *len))
        }
        Cause::Panic(message) => format!("before the loop: {message}"),
    };
    Refused { kernel: kernel.name, message }
}

#[inline]
fn guarded<R>(f: impl FnOnce() -> R) -> Result<R, Raised> {
    hook::install();
    let _running = Restore(&RUNNING, RUNNING.replace(true));
    let caught = {
        let _mark = Mark::inside(true);
        panic::catch_unwind(AssertUnwindSafe(f))
    };
    caught.map_err(raised)
}

#[cold]
fn raised(payload: Box<dyn Any + Send>) -> Raised {
    match payload.downcast::<Raised>() {
        Ok(raised) => *raised,
        Err(payload) => match hook::cause(&*payload) {
            Cause::Check(check) => Raised::Check(check),
            cause @ Cause::Panic(_) => Raised::Element(Place::default(), cause),
        },
    }
}
