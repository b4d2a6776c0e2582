//! The failures of a recording, and how they are reported.

use cuda_sys::CUresult;

use crate::context::ContextInner;
use crate::error::Error;

/// The failures of a recording. After the first one nothing more can be recorded.
///
/// Each is reported once: by the call that fails, by the next call on the recording, or by the end of the recording. If
/// none of these returns it, since the closure returns another error, it becomes an error of a drop.
#[derive(Clone, Default)]
pub(super) struct Failures {
    first: Option<Error>,
    /// Whether `first` is still to be reported.
    pending: bool,
    /// The later failures that no call has returned.
    later: Vec<Error>,
}

impl Failures {
    /// Notes a failure that the call returns too.
    pub(super) fn note_returned(&mut self, error: Error) {
        self.first.get_or_insert(error);
    }

    /// Notes a failure that the call can't return.
    pub(super) fn note(&mut self, error: Error) {
        if self.first.is_none() {
            self.first = Some(error);
            self.pending = true;
        } else if !follows(&error) {
            self.later.push(error);
        }
    }

    /// Returns the first failure, which the caller must return.
    pub(super) fn first(&mut self) -> Option<Error> {
        self.pending = false;
        self.first.clone()
    }

    /// Reports the failures that no call has returned as errors of drops.
    pub(super) fn report(&mut self, context: &ContextInner) {
        let first = self.first.take().filter(|_| self.pending);
        self.pending = false;
        for error in first.into_iter().chain(self.later.drain(..)) {
            context.keep_drop_error(error);
        }
    }
}

/// Returns whether the error says only that the recording had failed before.
fn follows(error: &Error) -> bool {
    matches!(error.code(), None | Some(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED))
}
