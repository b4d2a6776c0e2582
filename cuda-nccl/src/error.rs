//! The errors of this crate.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::raw::{LoadError, MissingSymbol, ncclResult_t};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Makes `Debug` the same as `Display`: `unwrap` and a `main` that returns an error print `Debug`, and people read it.
macro_rules! debug_as_display {
    ($($error:ty),+) => {$(
        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}
debug_as_display!(Error, LoadError, MissingSymbol);

/// A failure of a collective, or of the making of communicators.
///
/// Cloning it is cheap enough: the first error that breaks a communicator is every later call's.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// NCCL was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The loaded NCCL lacks a function that the call needs. Nothing was enqueued.
    #[error(transparent)]
    Missing(#[from] MissingSymbol),
    /// An error of the driver, or of the memory or stream of a call.
    #[error(transparent)]
    Cuda(#[from] cuda_safe::Error),
    /// The request makes no sense. Nothing was enqueued, and the communicators are as before.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// NCCL returned an error. The communicators of the call are aborted.
    #[error("{call} of rank {rank}: {}{}", code_text(*.code), detail_text(.detail))]
    Nccl {
        /// The function.
        call: &'static str,
        /// The code that it returned.
        code: ncclResult_t,
        /// The rank in the communicator.
        rank: usize,
        /// NCCL's last message, often empty.
        detail: String,
    },
    /// Earlier work of the communicator has failed: a peer that died, the network, or a fault of the device. The
    /// communicators of this process are aborted.
    #[error("earlier work of rank {rank} failed: {}{}", code_text(*.code), detail_text(.detail))]
    Asynchronous {
        /// The code.
        code: ncclResult_t,
        /// The rank in the communicator.
        rank: usize,
        /// NCCL's last message, often empty.
        detail: String,
    },
    /// The other ranks did not come in time. The communicators of this process are aborted, unless
    /// [`Communicator::close`](crate::Communicator::close) returns it: they are then destroyed later.
    #[error(
        "{what} of rank {rank} did not end within {after:?}: another rank has not come, or hangs; each rank makes the same \
         calls, from a separate thread or in one `Group`"
    )]
    Timeout {
        /// The operation that took too long.
        what: &'static str,
        /// The rank in the communicator.
        rank: usize,
        /// The communicator's time limit.
        after: Duration,
    },
    /// The ranks disagree. The later call is not enqueued. If the other call was, the communicators of this process are
    /// aborted, so that it ends.
    #[error("call {number} of rank {rank} is {call}, but that of rank {other_rank} is {other}")]
    Mismatch {
        /// How many collectives and splits the rank had made before the call; of a message in a group, before the
        /// group. Always 0 with [`Config::checked`](crate::Config::checked).
        number: u64,
        /// The rank whose call is refused.
        rank: usize,
        /// Its call.
        call: String,
        /// A rank that has made another call.
        other_rank: usize,
        /// That call.
        other: String,
    },
    /// A rank of this process is gone: its communicator was dropped. Nothing was enqueued, unless its peers had made
    /// calls before that it has not made; then the communicators of this process are aborted.
    #[error(
        "the communicator of rank {rank} was dropped after {calls} calls; make new communicators"
    )]
    Gone {
        /// The rank.
        rank: usize,
        /// How many collectives and splits it has made. Messages are not counted.
        calls: u64,
    },
    /// The communicator was aborted by [`Abort`](crate::Abort).
    #[error("the communicator was aborted; make a new one")]
    Aborted,
}

impl Error {
    /// Creates an error of kind [`Error::Invalid`].
    #[cold]
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(message.into())
    }

    /// Returns whether an error of this kind, returned by a call, means that the communicators of the call were
    /// aborted, so that every later call returns it. After any other error, such as [`Mismatch`](Self::Mismatch) or
    /// [`Gone`](Self::Gone), [`Communicator::check`](crate::Communicator::check) returns whether they were.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Nccl { .. }
            | Self::Asynchronous { .. }
            | Self::Timeout { .. }
            | Self::Aborted => true,
            Self::Cuda(error) => error.is_fatal(),
            _ => false,
        }
    }
}

fn code_text(code: ncclResult_t) -> Cow<'static, str> {
    let meaning = match code {
        ncclResult_t::ncclUnhandledCudaError => "a call of CUDA failed",
        ncclResult_t::ncclSystemError => "a call of the system failed",
        ncclResult_t::ncclInternalError => "an internal check failed",
        ncclResult_t::ncclInvalidArgument => "an argument is invalid",
        ncclResult_t::ncclInvalidUsage => "the call is not allowed now",
        ncclResult_t::ncclRemoteError => "a peer or the network failed",
        ncclResult_t::ncclTimeout => "it took too long",
        _ => "it failed",
    };
    match code.name() {
        Some(name) => format!("{meaning} ({name})").into(),
        None => format!("NCCL returned code {}", code.0).into(),
    }
}

fn detail_text(detail: &str) -> String {
    match detail.trim() {
        "" => "; set NCCL_DEBUG=WARN for NCCL's messages".to_owned(),
        detail => format!(": {detail}"),
    }
}
