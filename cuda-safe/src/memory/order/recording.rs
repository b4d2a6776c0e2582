//! What an enqueue calls where its stream records a graph. Graphs implement it, and stand above memory and streams.

use std::any::Any;
use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUstream};

use super::enqueue::Used;
use crate::context::ContextInner;
use crate::error::Result;
use crate::memory::Allocation;
use crate::quiet::Kept;
use crate::stream::StreamInner;
use crate::sync::{Lock, MutexGuard};

/// A recording that streams share.
pub(crate) trait AnyCapture: Any + Send + Sync {
    /// Names the recording in the process; never 0.
    fn number(&self) -> u64;

    /// Returns the contents, of a recording that may have ended.
    fn recording(&self) -> &Lock<dyn AnyRecording>;

    /// Destroys a stream of the recording whose last handle is gone: now, or when the capture ends.
    fn destroy_when_ended(&self, context: &Arc<ContextInner>, raw: CUstream);

    /// Frees memory that was allocated in the capture: its graph frees it there.
    fn free(&self, home: &StreamInner, allocation: &Allocation);
}

impl dyn AnyCapture {
    /// Returns the recording, to enqueue something on `stream`.
    ///
    /// # Errors
    /// As [`AnyRecording::may_enqueue`].
    pub(crate) fn enter(
        &self,
        stream: &StreamInner,
    ) -> Result<MutexGuard<'_, dyn AnyRecording + 'static>> {
        let mut recording = self.recording().lock()?;
        recording.may_enqueue(stream)?;
        Ok(recording)
    }

    /// Keeps what launches of the graph use.
    pub(crate) fn keep_resource(&self, resource: Kept) -> Result<()> {
        self.recording().lock()?.keep_resource(resource);
        Ok(())
    }
}

/// The contents of a recording. An enqueue on one of its streams holds it over the driver call.
///
/// Only `Recording` of `graph` implements it: modules above `graph` get that type by `Recording::of`.
pub(crate) trait AnyRecording: Any + Send {
    /// Fails if nothing can be enqueued on `stream` now.
    ///
    /// # Errors
    /// The recording has ended or is broken, a body is recorded in it, or this is another thread than the
    /// one that runs the recording's closure.
    fn may_enqueue(&mut self, stream: &StreamInner) -> Result<()>;

    /// Fails where only the launch of a kernel makes sense.
    fn captures(&self) -> Result<()>;

    /// Fails in the body of a conditional node, with an error that begins with `what`. Drivers fail later, and
    /// invalidate the capture.
    fn not_in_body(&self, what: &str) -> Result<()>;

    /// Orders a use behind those that conflict with it on other streams of the recording. Each launch of the graph
    /// waits for uses of the memory outside of it. `between` says whether the work goes between contexts.
    fn begin_use(&mut self, stream: &StreamInner, used: Used<'_>, between: bool) -> Result<()>;

    /// Numbers what was enqueued, and looks which node it became.
    fn number(&mut self, stream: &StreamInner) -> u64;

    /// Records a use that was enqueued and numbered.
    fn end_use(&mut self, stream: &StreamInner, used: Used<'_>, sequence: u64);

    /// Makes what `stream` records next follow all that `other` has recorded.
    fn join(&mut self, stream: &StreamInner, other: &StreamInner) -> Result<()>;

    /// Keeps something alive as long as the graph.
    fn keep(&mut self, kept: Kept);

    /// Keeps what launches of the graph use: modules and pinned memory.
    fn keep_resource(&mut self, resource: Kept);

    /// Allocates memory that the graph allocates and frees each time it runs.
    fn allocate(&mut self, stream: &StreamInner, bytes: usize) -> Result<CUdeviceptr>;
}
