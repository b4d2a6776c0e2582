//! Errors, and the text that `ncclGetLastError` returns.

use core::cell::RefCell;
use core::ffi::c_char;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use crate::types::ncclResult_t;

/// An error of a function: the code that it returns, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) code: ncclResult_t,
    pub(crate) text: String,
}

pub(crate) type Result<T = ()> = core::result::Result<T, Error>;

impl Error {
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::ncclInvalidArgument, text: text.into() }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::ncclInvalidUsage, text: text.into() }
    }

    pub(crate) fn cuda(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::ncclUnhandledCudaError, text: text.into() }
    }

    pub(crate) fn system(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::ncclSystemError, text: text.into() }
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::ncclInternalError, text: text.into() }
    }

    pub(crate) fn remote(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::ncclRemoteError, text: text.into() }
    }

    /// No failure: a non-blocking communicator has not finished its call.
    pub(crate) fn in_progress() -> Self {
        Self { code: ncclResult_t::ncclInProgress, text: String::new() }
    }
}

/// The text of the last error of any thread.
static LAST: Mutex<String> = Mutex::new(String::new());

thread_local! {
    /// The text that this thread was given last.
    static GIVEN: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps the text of an error for `ncclGetLastError`.
pub(crate) fn remember(error: &Error) {
    if error.code != ncclResult_t::ncclInProgress {
        LAST.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&error.text);
    }
}

/// Returns the text of the last error: valid until this thread asks again or ends.
pub(crate) fn last() -> *const c_char {
    let text = LAST.lock().unwrap_or_else(PoisonError::into_inner).replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    // While the thread ends, there is no place for the text.
    GIVEN
        .try_with(|given| {
            given.replace(text);
            given.borrow().as_ptr()
        })
        .unwrap_or(c"".as_ptr())
}

/// Returns the string of a code.
pub(crate) fn describe(code: ncclResult_t) -> *const c_char {
    match code {
        ncclResult_t::ncclSuccess => c"no error",
        ncclResult_t::ncclUnhandledCudaError => c"unhandled cuda error",
        ncclResult_t::ncclSystemError => c"unhandled system error",
        ncclResult_t::ncclInternalError => c"internal error",
        ncclResult_t::ncclInvalidArgument => c"invalid argument",
        ncclResult_t::ncclInvalidUsage => c"invalid usage",
        ncclResult_t::ncclRemoteError => c"remote process exited or there was a network error",
        ncclResult_t::ncclInProgress => c"NCCL operation in progress",
        _ => c"unknown result code",
    }
    .as_ptr()
}
