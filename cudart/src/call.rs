//! The common part of the functions: errors, panics, the driver and its context.

use core::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_sys::{CU_STREAM_PER_THREAD, CUresult, CUstream, Driver, MissingSymbol};

use crate::bindings::runtime::{cudaError, cudaError_t};

/// The outcome of a call.
pub type CudaResult<T = ()> = Result<T, cudaError_t>;

thread_local! {
    /// The last error of this thread. It has no destructor, so static destructors of programs can use it.
    static LAST: Cell<cudaError_t> = const { Cell::new(cudaError::cudaSuccess) };
}

/// Runs the body of a function, and remembers its error. No panic leaves it.
#[inline]
pub fn guard(body: impl FnOnce() -> CudaResult) -> cudaError_t {
    // The state of the bodies is behind locks that ignore the poison of a panic.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        eprintln!("cudart: a function panicked, which is a mistake in this library");
        Err(cudaError::cudaErrorUnknown)
    });
    match result {
        Ok(()) => cudaError::cudaSuccess,
        Err(code) => {
            // Unfinished work is no error: `cudaGetLastError` does not return it.
            if code != cudaError::cudaErrorNotReady {
                LAST.set(code);
            }
            code
        }
    }
}

/// Returns the last error of this thread, and forgets it.
pub(crate) fn take_last() -> cudaError_t {
    LAST.replace(cudaError::cudaSuccess)
}

/// Returns the last error of this thread.
pub(crate) fn last() -> cudaError_t {
    LAST.get()
}

/// Returns what a function of the driver returned as a result of the runtime. The codes have the same values.
///
/// # Errors
/// The driver's code, or 36 if the driver lacks the function.
#[inline]
pub fn check(result: Result<CUresult, MissingSymbol>) -> CudaResult {
    match result {
        Ok(CUresult::CUDA_SUCCESS) => Ok(()),
        Ok(code) => Err(cudaError_t(code.0)),
        Err(_) => Err(cudaError::cudaErrorCallRequiresNewerDriver),
    }
}

/// Returns the driver with a context that is current on this thread: the primary context of the thread's device, unless
/// the program has made another one current.
///
/// # Errors
/// The reasons for which there is no driver, no device or no context.
#[inline]
pub fn ready() -> CudaResult<&'static Driver> {
    crate::context::ready()
}

/// Returns the stream that a function with the suffix `_ptsz` or `_ptds` means by this handle.
#[inline]
#[must_use]
pub fn own(stream: CUstream) -> CUstream {
    if stream.is_null() { CU_STREAM_PER_THREAD } else { stream }
}

/// Passes an argument to a function of the driver whose parameter has the same representation under the driver's name.
///
/// # Safety
/// The bits of `value` are a valid `B`: both are integers, enums as integers or pointers; what pointers point to has the
/// same layout.
#[inline]
pub unsafe fn pass<A: Copy, B: Copy>(value: A) -> B {
    const { assert!(size_of::<A>() == size_of::<B>() && align_of::<A>() == align_of::<B>()) };
    // SAFETY: the sizes are equal, and the caller promises that the bits are valid.
    unsafe { core::mem::transmute_copy(&value) }
}

/// Writes a result.
///
/// # Errors
/// 1 if the place is null.
///
/// # Safety
/// `place` is null or valid for the write.
#[inline]
pub unsafe fn put<T>(place: *mut T, value: T) -> CudaResult {
    if place.is_null() {
        return Err(cudaError::cudaErrorInvalidValue);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Returns an error for a null place, before anything is allocated for it.
///
/// # Errors
/// 1 if the place is null.
#[inline]
pub(crate) fn given<T>(place: *mut T) -> CudaResult {
    if place.is_null() { Err(cudaError::cudaErrorInvalidValue) } else { Ok(()) }
}

/// Defines exported functions: `fn NAME(arguments) { body }`, where the body returns an [`CudaResult`].
///
/// - `fn NAME, NAME_ptsz [stream] (arguments)` defines a second function, for which a null `stream` is the stream of the
///   calling thread.
/// - `fn NAME, NAME_ptds [sync] (arguments)` defines a second function for copies that wait: in the body `sync` is null, and
///   in the second function the stream of the calling thread.
/// - `fn NAME(arguments) = FUNCTION [expressions];` calls the function of the driver with this name, in a context. Without
///   `[expressions]` it gets the same arguments.
///
/// The constant `TABLE` has the names.
#[macro_export]
#[doc(hidden)]
macro_rules! functions {
    ($($items:tt)*) => {
        $crate::functions_each! { $($items)* }
        $crate::functions_names! { [] $($items)* }
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! functions_each {
    () => {};
    (fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        $crate::exported! { $name($($arg: $ty),*) { $body } }
        $crate::functions_each! { $($rest)* }
    };
    (fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $function:ident; $($rest:tt)*) => {
        $crate::exported! { $name($($arg: $ty),*) {
            $crate::check($crate::ready()?.$function($($crate::pass($arg)),*))
        } }
        $crate::functions_each! { $($rest)* }
    };
    (fn $name:ident, $second:ident [$stream:ident] ($($arg:ident: $ty:ty),* $(,)?) = $function:ident; $($rest:tt)*) => {
        $crate::exported! { $name($($arg: $ty),*) {
            $crate::check($crate::ready()?.$function($($crate::pass($arg)),*))
        } }
        $crate::exported! { $second($($arg: $ty),*) {
            let $stream = $crate::own($stream);
            $crate::check($crate::ready()?.$function($($crate::pass($arg)),*))
        } }
        $crate::functions_each! { $($rest)* }
    };
    (fn $name:ident, $second:ident [sync $stream:ident] ($($arg:ident: $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        $crate::exported! { $name($($arg: $ty),*) {
            let $stream: $crate::Sync = $crate::Sync::Driver;
            $body
        } }
        $crate::exported! { $second($($arg: $ty),*) {
            let $stream: $crate::Sync = $crate::Sync::PerThread;
            $body
        } }
        $crate::functions_each! { $($rest)* }
    };
    (fn $name:ident, $second:ident [$stream:ident] ($($arg:ident: $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        $crate::exported! { $name($($arg: $ty),*) { $body } }
        $crate::exported! { $second($($arg: $ty),*) { let $stream = $crate::own($stream); $body } }
        $crate::functions_each! { $($rest)* }
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! functions_names {
    ([$($names:literal,)*]) => {
        /// The names of the functions of this file.
        pub const TABLE: &[&str] = &[$($names),*];
    };
    ([$($names:tt)*] fn $name:ident $(, $second:ident [$($how:tt)*])? ($($args:tt)*) $body:block $($rest:tt)*) => {
        $crate::functions_names! { @ [$($names)*] $name $($second)? => $($rest)* }
    };
    ([$($names:tt)*] fn $name:ident $(, $second:ident [$($how:tt)*])? ($($args:tt)*) = $function:ident; $($rest:tt)*) => {
        $crate::functions_names! { @ [$($names)*] $name $($second)? => $($rest)* }
    };
    (@ [$($names:tt)*] $name:ident $($second:ident)? => $($rest:tt)*) => {
        $crate::functions_names! { [$($names)* $name $($second)?] $($rest)* }
    };
    ([$($names:ident)*]) => {
        /// The names of the functions of this file.
        pub const TABLE: &[&str] = &[$(stringify!($names)),*];
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! exported {
    ($name:ident($($arg:ident: $ty:ty),*) { $($body:tt)* }) => {
        #[doc = concat!("`", stringify!($name), "` of the runtime API.")]
        ///
        /// # Safety
        /// The rules of the C function: pointers are null where the header allows it, or valid for what the function reads
        /// and writes; handles are alive.
        #[allow(non_snake_case, reason = "the header's names")]
        #[allow(clippy::too_many_arguments, reason = "the header's")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::bindings::runtime::cudaError_t {
            $crate::guard(|| {
                #[allow(unused_unsafe, reason = "some bodies touch no pointer")]
                #[allow(unused_braces, reason = "some bodies are blocks of their own")]
                // SAFETY: the caller keeps the rules of the C function, so that pointers are null or valid for what it
                // reads and writes, and the driver's function has the same rules.
                unsafe { $($body)* }
            })
        }
    };
}

/// How a copy that waits is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// By the driver's function that waits, on the legacy stream.
    Driver,
    /// On the stream of the calling thread, which the call then waits for.
    PerThread,
}

impl Sync {
    /// Makes a copy or fills memory: by `wait`, or by `enqueue` and a wait.
    ///
    /// # Errors
    /// The driver's.
    pub fn run(
        self,
        wait: impl FnOnce(&'static Driver) -> CudaResult,
        enqueue: impl FnOnce(&'static Driver, CUstream) -> CudaResult,
    ) -> CudaResult {
        let driver = ready()?;
        match self {
            Self::Driver => wait(driver),
            Self::PerThread => {
                enqueue(driver, CU_STREAM_PER_THREAD)?;
                // SAFETY: the handle is valid on every thread with a context.
                check(unsafe { driver.cuStreamSynchronize(CU_STREAM_PER_THREAD) })
            }
        }
    }
}
