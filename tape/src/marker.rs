//! A marker, which shows whether captured work has run.

use cuda_safe::{DeviceBuffer, RecordingId, Result, Stream};

use crate::frame::{FINE, NEVER_RAN};
use crate::store::Store;

/// Memory that each launch of a graph writes. The host finds out by its version whether the graph was launched, and
/// adjoints find out by its contents whether the recorded work has run.
pub(crate) struct Marker {
    /// The field `Status::code`: [`NEVER_RAN`], and [`FINE`] after the first run.
    memory: DeviceBuffer<u8>,
    /// The version when the write was recorded.
    recorded: u64,
    within: Option<RecordingId>,
}

impl Marker {
    /// Records the marker as the last work of the capture of `stream`.
    pub(crate) fn record(stream: &Stream, store: &mut Store) -> Result<Self> {
        // The initial code is written at once, on the tape's own stream.
        let mut memory = store.marker(NEVER_RAN)?;
        memory.slice_mut(..4)?.cast_mut()?.fill(stream, FINE)?;
        let recorded = memory.allocation().version(memory.byte_range());
        Ok(Self { memory, recorded, within: stream.recording_id() })
    }

    pub(crate) fn never_ran(&self) -> bool {
        self.memory.allocation().version(self.memory.byte_range()) == self.recorded
    }

    /// Returns the memory that adjoints on `stream` read to find out whether this work has run; `None` if both run in
    /// one launch of a graph. A launch may fail, or skip a conditional body, so the host does not know.
    pub(crate) fn asked_by(&self, stream: &Stream) -> Option<&DeviceBuffer<u8>> {
        (stream.recording_id() != self.within).then_some(&self.memory)
    }

    /// Drops the marker; its memory is not reused, because the graph goes on writing to it.
    pub(crate) fn forget(self, store: &mut Store) {
        store.forget(self.memory);
    }
}
