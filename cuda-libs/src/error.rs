//! The errors of this crate.

use std::borrow::Cow;
use std::fmt;

use cuda_sys::cublas::cublasStatus_t;
use cuda_sys::cufft::cufftResult;
use cuda_sys::curand::curandStatus_t;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a call of a library.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A library was not loaded, or the driver, the memory or the stream of a call refused it.
    #[error(transparent)]
    Cuda(#[from] cuda_safe::Error),
    /// An argument makes no sense. Nothing was enqueued.
    #[error("{call}: {argument} {message}")]
    Invalid {
        /// The function of this crate.
        call: &'static str,
        /// The name of its argument.
        argument: &'static str,
        /// The mistake, with the values.
        message: Cow<'static, str>,
    },
    /// The loaded library lacks a function. Nothing was enqueued.
    #[error("{call}: this {library} has no {function}, which came with {since}")]
    Missing {
        /// The function of this crate.
        call: &'static str,
        /// The library, with its version.
        library: String,
        /// The exported name of the missing function.
        function: &'static str,
        /// The version that introduced it.
        since: &'static str,
    },
    /// The library can't be used, although it was loaded.
    #[error("{library} can't be used: {reason}")]
    Unusable {
        /// The library, with its version.
        library: String,
        /// The reason, and what to do.
        reason: String,
    },
    /// cuBLAS returned an error.
    #[error("{call}: {}", status_text(*.status))]
    Cublas {
        /// The function of this crate.
        call: &'static str,
        /// The code.
        status: cublasStatus_t,
    },
    /// cuFFT returned an error.
    #[error("{call}: {}{detail}", cufft_text(*.status))]
    Cufft {
        /// The function of this crate.
        call: &'static str,
        /// The code.
        status: cufftResult,
        /// The shape of a plan that could not be made.
        detail: String,
    },
    /// cuRAND returned an error.
    #[error("{call}: {}", curand_text(*.status))]
    Curand {
        /// The function of this crate.
        call: &'static str,
        /// The code.
        status: curandStatus_t,
    },
}

impl fmt::Debug for Error {
    /// The same as `Display`: `unwrap` and a `main` that returns an error print it, and people read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Creates the error of an argument.
    #[cold]
    pub(crate) fn invalid(
        call: &'static str,
        argument: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Invalid { call, argument, message: message.into() }
    }
}

/// For closures that return errors of `cuda_safe`, such as those of captures.
impl From<Error> for cuda_safe::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Cuda(error) => error,
            other => Self::invalid(other.to_string()),
        }
    }
}

fn status_text(status: cublasStatus_t) -> String {
    let meaning = match status {
        cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED => "cuBLAS could not be initialised",
        cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => "memory of cuBLAS ran out",
        cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE => "cuBLAS refuses an argument",
        cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH => "the device lacks a feature",
        cublasStatus_t::CUBLAS_STATUS_MAPPING_ERROR => "cuBLAS can't access memory",
        cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED => "work could not be enqueued",
        cublasStatus_t::CUBLAS_STATUS_INTERNAL_ERROR => "an internal call of cuBLAS failed",
        cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => "cuBLAS does not support the request",
        _ => "cuBLAS failed",
    };
    text(meaning, status.name(), status.0)
}

fn cufft_text(status: cufftResult) -> String {
    let meaning = match status {
        cufftResult::CUFFT_ALLOC_FAILED => "memory of cuFFT ran out",
        cufftResult::CUFFT_INVALID_VALUE => "cuFFT refuses an argument",
        cufftResult::CUFFT_INVALID_SIZE => "cuFFT refuses the size",
        cufftResult::CUFFT_EXEC_FAILED => "work could not be enqueued",
        cufftResult::CUFFT_SETUP_FAILED => "cuFFT could not be initialised",
        cufftResult::CUFFT_INTERNAL_ERROR => "an internal call of cuFFT failed",
        cufftResult::CUFFT_NOT_SUPPORTED => "cuFFT does not support the request",
        _ => "cuFFT failed",
    };
    text(meaning, status.name(), status.0)
}

fn curand_text(status: curandStatus_t) -> String {
    let meaning = match status {
        curandStatus_t::CURAND_STATUS_ALLOCATION_FAILED => "memory of cuRAND ran out",
        curandStatus_t::CURAND_STATUS_TYPE_ERROR => "the algorithm of cuRAND lacks the request",
        curandStatus_t::CURAND_STATUS_OUT_OF_RANGE => "cuRAND refuses an argument",
        curandStatus_t::CURAND_STATUS_LAUNCH_FAILURE => "work could not be enqueued",
        curandStatus_t::CURAND_STATUS_INITIALIZATION_FAILED => "cuRAND could not be initialised",
        curandStatus_t::CURAND_STATUS_INTERNAL_ERROR => "an internal call of cuRAND failed",
        _ => "cuRAND failed",
    };
    text(meaning, status.name(), status.0)
}

fn text(meaning: &str, name: Option<&str>, code: u32) -> String {
    match name {
        Some(name) => format!("{meaning} ({name})"),
        None => format!("{meaning} with code {code}"),
    }
}
