//! The common part of the driver's functions, before and after their work: count, fail on demand, check the state,
//! catch panics, log.

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Debug;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use cuda_sys::CUresult;

use super::process::{Process, initialised};
use super::watch::{self, Moment, Planted};
use crate::config::Config;
use crate::run;

/// The outcome of a call.
pub(super) type Answer<T = ()> = Result<T, CUresult>;

/// The state that a function requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// No needs: the function can be called at any time.
    Nothing,
    /// `cuInit`. It works after a fault, too.
    Init,
    /// A device that has not been lost to a fault.
    Device,
}

/// A function and how often it was called.
pub(super) struct Call {
    name: &'static str,
    count: AtomicU64,
}

impl Call {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, count: AtomicU64::new(0) }
    }
}

/// A function of the table.
pub(super) struct Entry {
    /// The exported name.
    pub(super) name: &'static str,
    pub(super) address: *const c_void,
    /// Whether it does something, or only says that it is not supported.
    pub(super) supported: bool,
}

// SAFETY: the address is a function's, which is the same for all threads.
unsafe impl Sync for Entry {}
// SAFETY: as above.
unsafe impl Send for Entry {}

/// A call of the program: the how manieth of its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Made {
    name: &'static str,
    count: u64,
}

impl core::fmt::Display for Made {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "call {} of {}", self.count, self.name)
    }
}

thread_local! {
    /// The call that is under way.
    static CURRENT: Cell<Option<Made>> = const { Cell::new(None) };
    /// Whether NULL means this thread's own stream, in the call that is under way.
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread runs a host function, which must not call the driver.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Raised in children made by `fork`: the threads of the driver are not there.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Arranges for [`FORKED`] to be raised.
pub(super) fn watch_fork() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // SAFETY: the handler only stores to a static atomic, which is safe after a fork.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Runs a host function of the user's.
pub(super) fn in_callback(run: impl FnOnce()) {
    IN_CALLBACK.set(true);
    run();
    IN_CALLBACK.set(false);
}

/// Makes a call for which NULL means the thread's own stream.
pub(super) fn with_per_thread(call: impl FnOnce() -> CUresult) -> CUresult {
    PER_THREAD.set(true);
    let code = call();
    PER_THREAD.set(false);
    code
}

/// Returns whether NULL means the thread's own stream.
pub(super) fn is_per_thread() -> bool {
    PER_THREAD.get()
}

/// Returns the call that is under way on this thread, while leaks are looked for.
pub(super) fn made() -> Option<Made> {
    if Config::active().checks.leak { CURRENT.get() } else { None }
}

/// Runs the body of a function. Not generic: there are hundreds of functions, and each would compile all of this.
pub(super) fn enter(
    call: &Call,
    needs: Needs,
    arguments: &dyn Fn(&mut String),
    body: &dyn Fn() -> Answer,
) -> CUresult {
    let count = call.count.fetch_add(1, Ordering::Relaxed) + 1;
    let planted = watch::count(call.name);
    CURRENT.set(Some(Made { name: call.name, count }));
    let guarded = || {
        if let Some(code) = injected(call.name, count) {
            return Err(code);
        }
        match planted {
            Some(Planted { code, moment: Moment::Before }) => return Err(code),
            _ => allowed(needs)?,
        }
        body()?;
        planted.map_or(Ok(()), |planted| Err(planted.code))
    };
    // The body's state is behind locks that ignore the poison of a panic.
    let result = catch_unwind(AssertUnwindSafe(guarded)).unwrap_or_else(|_| {
        eprintln!("cuda-emu: {} panicked; this is a mistake in the software device", call.name);
        Err(CUresult::CUDA_ERROR_UNKNOWN)
    });
    let code = result.err().unwrap_or(CUresult::CUDA_SUCCESS);
    if code != CUresult::CUDA_SUCCESS && run::is_on() {
        run::note_failure(call.name, code);
    }
    log(call.name, arguments, code);
    code
}

/// Returns that a function is not supported.
pub(super) fn refuse(call: &Call) -> CUresult {
    run::note_unsupported(call.name);
    enter(call, Needs::Nothing, &|_| {}, &|| Err(CUresult::CUDA_ERROR_NOT_SUPPORTED))
}

fn allowed(needs: Needs) -> Answer {
    if needs == Needs::Nothing {
        return Ok(());
    }
    if FORKED.load(Ordering::Relaxed) {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    let process = initialised().ok_or(CUresult::CUDA_ERROR_NOT_INITIALIZED)?;
    if needs == Needs::Device {
        if IN_CALLBACK.get() {
            return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
        }
        process.usable()?;
    }
    Ok(())
}

/// Returns the process's state; an error before `cuInit`.
pub(super) fn process() -> Answer<&'static Process> {
    initialised().ok_or(CUresult::CUDA_ERROR_NOT_INITIALIZED)
}

/// Returns whether the configuration makes this call fail, and how.
fn injected(name: &str, count: u64) -> Option<CUresult> {
    let failures = &Config::active().failures;
    failures.iter().find(|failure| failure.fits(name, count)).map(|failure| failure.code)
}

/// Writes a line to the call log, if there is one.
fn log(name: &str, arguments: &dyn Fn(&mut String), code: CUresult) {
    static LOG: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let file = LOG.get_or_init(|| {
        let path = Config::active().log.as_ref()?;
        match File::create(path) {
            Ok(file) => Some(Mutex::new(file)),
            Err(error) => {
                eprintln!("cuda-emu: no log at {}: {error}", path.display());
                None
            }
        }
    });
    let Some(file) = file else { return };
    let mut line = format!("ThreadId({}) {name}(", super::thread::number());
    arguments(&mut line);
    line.push_str(&format!(") -> {} {}\n", code.0, code.name().unwrap_or("?")));
    // A log that cannot be written must not change what the program does.
    let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
}

/// An argument on its way into the log.
pub(super) struct Shown<T>(pub(super) T);

fn show(name: &str, value: core::fmt::Arguments<'_>, line: &mut String) {
    let comma = if line.ends_with('(') { "" } else { ", " };
    line.push_str(&format!("{comma}{name}={value}"));
}

/// How arguments are logged that can be printed; preferred by method lookup.
pub(super) trait ShowValue {
    fn show(&self, name: &str, line: &mut String);
}

impl<T: Debug> ShowValue for Shown<T> {
    fn show(&self, name: &str, line: &mut String) {
        show(name, format_args!("{:?}", self.0), line);
    }
}

/// How other arguments are logged.
pub(super) trait ShowName {
    fn show(&self, name: &str, line: &mut String);
}

impl<T> ShowName for &Shown<T> {
    fn show(&self, name: &str, line: &mut String) {
        show(name, format_args!(".."), line);
    }
}

/// Defines functions of `cuda.h`: `Needs fn name(arguments) { body }`, where the body returns
/// with an [`Answer`]. Makes the functions, the symbols that a C program finds, and the `TABLE`.
macro_rules! functions {
    ($($needs:ident fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $crate::driver::call::functions_of_other_headers! {
            $($needs fn $name($($arg: $ty),*) $body)*
        }

        // The table deals in untyped addresses; this makes the compiler compare the types.
        const _: fn(&mut cuda_sys::DriverFns) = |fns| {
            $(fns.$name = Some(implementation::$name);)*
        };
    };
}

/// As `functions`, for those that the driver exports and `cuda.h` does not declare.
macro_rules! functions_of_other_headers {
    ($($needs:ident fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        #[allow(non_snake_case, reason = "the driver's names")]
        pub(in crate::driver) mod implementation {
            #[allow(unused_imports, reason = "not every file uses everything")]
            use super::*;
            $(pub(in crate::driver) unsafe extern "C" fn $name($($arg: $ty),*) -> cuda_sys::CUresult {
                static CALL: $crate::driver::call::Call =
                    $crate::driver::call::Call::new(stringify!($name));
                #[allow(unused_imports, reason = "the second is for few arguments")]
                use $crate::driver::call::{ShowName as _, ShowValue as _};
                let arguments = |line: &mut String| {
                    let _ = &line;
                    $((&$crate::driver::call::Shown($arg)).show(stringify!($arg), line);)*
                };
                let body = || -> $crate::driver::call::Answer {
                    #[allow(unused_unsafe, reason = "some bodies touch no pointer")]
                    // SAFETY: the caller keeps the rules of the C function: its pointers are null
                    // or valid for what it asks to be read and written.
                    unsafe { $body }
                };
                let needs = $crate::driver::call::Needs::$needs;
                $crate::driver::call::enter(&CALL, needs, &arguments, &body)
            })*
        }

        /// The symbols, apart from the functions: our own tables must not be bound to another
        /// library's symbols of the same names.
        #[allow(non_snake_case, reason = "the driver's names")]
        mod exports {
            #[allow(unused_imports, reason = "not every file uses everything")]
            use super::*;
            $(#[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $ty),*) -> cuda_sys::CUresult {
                // SAFETY: the caller's promise is the same.
                unsafe { implementation::$name($($arg),*) }
            })*
        }

        /// The functions of this file.
        pub(in crate::driver) static TABLE: &[$crate::driver::call::Entry] = &[
            $($crate::driver::call::Entry {
                name: stringify!($name),
                address: implementation::$name as *const core::ffi::c_void,
                supported: true,
            }),*
        ];
    };
}

/// Defines functions of `cuda.h` that only return `CUDA_ERROR_NOT_SUPPORTED`, with the ABI that they have.
macro_rules! refused {
    ($(fn $name:ident($($ty:ty),* $(,)?);)*) => {
        $crate::driver::call::refused_of_other_headers! { $(fn $name($($ty),*);)* }

        const _: fn(&mut cuda_sys::DriverFns) = |fns| {
            $(fns.$name = Some(implementation::$name);)*
        };
    };
}

/// As `refused`, for those that the driver exports and `cuda.h` does not declare.
macro_rules! refused_of_other_headers {
    ($(fn $name:ident($($ty:ty),* $(,)?);)*) => {
        mod implementation {
            #[allow(unused_imports, reason = "not every file uses everything")]
            use super::*;
            $(pub(super) unsafe extern "C" fn $name($(_: $ty),*) -> cuda_sys::CUresult {
                static CALL: $crate::driver::call::Call =
                    $crate::driver::call::Call::new(stringify!($name));
                $crate::driver::call::refuse(&CALL)
            })*
        }

        /// The symbols; see `functions`.
        mod exports {
            #[allow(unused_imports, reason = "not every file uses everything")]
            use super::*;
            $($crate::driver::call::refused_of_other_headers!(@export $name ($($ty),*) () (a b c d e f g h i j k l m n o p q r));)*
        }

        /// The functions of this file.
        pub(in crate::driver) static TABLE: &[$crate::driver::call::Entry] = &[
            $($crate::driver::call::Entry {
                name: stringify!($name),
                address: implementation::$name as *const core::ffi::c_void,
                supported: false,
            }),*
        ];
    };
    // Gives each parameter a name, to pass it on.
    (@export $name:ident ($ty:ty $(, $rest:ty)*) ($($arg:ident: $of:ty),*) ($next:ident $($names:ident)*)) => {
        $crate::driver::call::refused_of_other_headers!(@export $name ($($rest),*) ($($arg: $of,)* $next: $ty) ($($names)*));
    };
    (@export $name:ident () ($($arg:ident: $of:ty),*) ($($names:ident)*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $of),*) -> cuda_sys::CUresult {
            // SAFETY: the caller's promise is the same.
            unsafe { implementation::$name($($arg),*) }
        }
    };
}

pub(super) use {functions, functions_of_other_headers, refused, refused_of_other_headers};

/// Writes a result to where the caller wants it.
///
/// # Safety
/// `place` is null or valid for the write.
pub(super) unsafe fn put<T>(place: *mut T, value: T) -> Answer {
    if place.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// As [`put`], but a null place means that the result is not wanted.
///
/// # Safety
/// As [`put`].
pub(super) unsafe fn put_if_wanted<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, and the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Writes a text and its NUL, cut to `len` bytes.
///
/// # Safety
/// `place` is null or valid for `len` bytes.
pub(super) unsafe fn put_text(place: *mut c_char, len: c_int, text: &str) -> Answer {
    let room = usize::try_from(len).unwrap_or(0);
    if place.is_null() || room == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let count = text.len().min(room - 1);
    let place = place.cast::<u8>();
    // SAFETY: `count + 1 <= len` bytes at a place that the caller vouches for.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr(), count);
        place.add(count).write(0);
    }
    Ok(())
}

/// Returns a name that the caller gives.
///
/// # Safety
/// `text` is null or a string with a NUL at its end.
pub(super) unsafe fn text<'a>(text: *const c_char) -> Answer<&'a str> {
    if text.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let text = unsafe { core::ffi::CStr::from_ptr(text) };
    text.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
}
