//! The common part of the functions: errors, panics, places of results.

use core::cell::RefCell;
use core::fmt::Display;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a function failed. Each library has a code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A handle or plan that does not exist.
    Handle,
    /// An argument.
    Value,
    /// A combination of arguments that is not supported.
    Unsupported,
    /// A type that is not supported.
    Type,
    /// A size, such as the length of a transform.
    Size,
    /// Memory that is missing or too small.
    Memory,
    /// There is no driver, device or context.
    Start,
    /// The driver refused work.
    Launch,
    /// A mistake in this crate.
    Internal,
}

/// An error of a function: its kind, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

pub(crate) type Result<T = ()> = core::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn value(text: impl Into<String>) -> Self {
        Self::new(Kind::Value, text)
    }

    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, text)
    }
}

/// The result code of a library.
pub(crate) trait Code: Copy {
    const SUCCESS: Self;
    fn of(kind: Kind) -> Self;
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns the text of this thread's last error.
pub(crate) fn last() -> String {
    LAST.try_with(|last| last.borrow().clone()).unwrap_or_default()
}

/// Runs the body of a function, and keeps the text of its error. No panic leaves it.
pub(crate) fn guard<C: Code>(name: &str, body: impl FnOnce() -> Result) -> C {
    // The state of the bodies is behind locks that ignore the poison of a panic.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Error::new(Kind::Internal, "blas-emu panicked, which is a mistake in it"))
    });
    match result {
        Ok(()) => C::SUCCESS,
        Err(Error { kind, text }) => {
            let text = format!("{name}: {text}");
            if std::env::var_os("BLAS_EMU_LOG").is_some() {
                // Not `eprintln!`, which panics if nobody reads.
                let _ = writeln!(std::io::stderr(), "blas-emu: {text}");
            }
            // While the thread ends, there is no place for the text.
            let _ = LAST.try_with(|last| last.replace(text));
            C::of(kind)
        }
    }
}

/// Writes a result.
///
/// # Safety
/// `place` is null or valid for the write.
pub(crate) unsafe fn put<T>(place: *mut T, name: impl Display, value: T) -> Result {
    if place.is_null() {
        return Err(Error::value(format!("{name} is null: pass a place for the result")));
    }
    // SAFETY: not null, and the caller's promise. Callers in C need not align it.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Defines exported functions: `fn NAME(arguments) { body }`, where the body returns a [`Result`]. The type of the result
/// code, the type of the table in whose field of this name the function must fit, and the name of the constant that lists
/// the functions come first.
macro_rules! functions {
    ($code:ty, $table:ty, $list:ident;
     $($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            #[doc = concat!("`", stringify!($name), "` of the library.")]
            ///
            /// # Safety
            /// The rules of the C function: pointers are null where the header allows it, or valid for what the function
            /// reads and writes until the work is done.
            #[allow(non_snake_case, reason = "the header's names")]
            #[allow(clippy::too_many_arguments, reason = "the header's")]
            #[cfg_attr(feature = "export", unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $code {
                $crate::call::guard::<$code>(stringify!($name), || {
                    #[allow(unused_unsafe, reason = "some bodies touch no pointer")]
                    // SAFETY: the caller keeps the rules of the C function, so that pointers are null or valid for what
                    // it reads and writes.
                    unsafe { $body }
                })
            }
            const _: fn(&mut $table) = |table| table.$name = Some($name);
        )*
        /// The functions, with their addresses.
        pub(crate) const $list: &[(&str, $crate::Address)] =
            &[$((stringify!($name), $crate::Address($name as *const core::ffi::c_void)),)*];
    };
}

pub(crate) use functions;
