//! Points in a stream's order.

use std::fmt;

use super::{Stream, outside_capture};
use crate::error::Result;

/// A point in a stream's order: all that was enqueued on the stream before it, also through its raw
/// handle. It costs nothing until a wait for it: no event is recorded before.
#[derive(Clone)]
pub struct Mark {
    stream: Stream,
    sequence: u64,
}

impl Mark {
    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the number of the enqueue on its stream, as in
    /// [`LaunchRecord::index`](crate::LaunchRecord::index).
    #[must_use]
    pub fn index(&self) -> u64 {
        self.sequence
    }

    /// Makes the host wait until all before the mark is done; what was enqueued after it may be
    /// waited for too. Returns at once if the host has seen that much done.
    ///
    /// # Errors
    /// The error of whatever work failed.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.inner().state().usable()?;
        self.stream.inner().finish(self.sequence)?;
        self.stream.inner().context.check_fault()
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mark")
            .field("stream", &self.stream.id())
            .field("sequence", &self.sequence)
            .finish()
    }
}

impl Stream {
    /// Returns a mark behind all work that is enqueued so far, also through the raw handle.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that records.
    pub fn mark(&self) -> Result<Mark> {
        let inner = self.inner();
        inner.usable_here()?;
        inner.not_capturing("a mark")?;
        Ok(Mark { stream: self.clone(), sequence: inner.number() })
    }

    /// Makes work enqueued on this stream from now on wait for all before the mark. Costs nothing if
    /// it does already, or if the host has seen that much done.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn wait_mark(&self, mark: &Mark) -> Result<()> {
        let inner = self.inner();
        inner.usable_here()?;
        inner.state().same_driver(mark.stream.inner().state())?;
        if inner.capture.is_some() {
            return Err(outside_capture("a mark"));
        }
        inner.wait_for(mark.stream.inner(), mark.sequence)
    }
}
