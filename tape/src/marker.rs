//! Whether what was captured has run.

use cuda_safe::{DeviceBuffer, RecordingId, Result, Stream};

use crate::frame::{FINE, NEVER_RAN};
use crate::store::Store;

/// Memory that each launch of a graph writes: the host finds by its version whether there was a launch, and
/// adjoints by what it holds whether what was recorded has run.
pub(crate) struct Marker {
    /// `Status::code`: [`NEVER_RAN`], and [`FINE`] from the first run on.
    memory: DeviceBuffer<u8>,
    /// The version when the write was recorded.
    recorded: u64,
    within: Option<RecordingId>,
}

impl Marker {
    /// At the end of what `stream` captures.
    pub(crate) fn record(stream: &Stream, store: &mut Store) -> Result<Self> {
        // At once, on the tape's own stream.
        let mut memory = store.marker(NEVER_RAN)?;
        memory.slice_mut(..4)?.cast_mut()?.fill(stream, FINE)?;
        let recorded = memory.allocation().version(memory.byte_range());
        Ok(Self { memory, recorded, within: stream.recording_id() })
    }

    /// Returns whether its graph was never launched.
    pub(crate) fn never_ran(&self) -> bool {
        self.memory.allocation().version(self.memory.byte_range()) == self.recorded
    }

    /// Returns what adjoints on `stream` read to find out whether this has run; `None` where both run in one
    /// launch of a graph. A launch may have failed, or left a conditional body out, so the host does not know.
    pub(crate) fn asked_by(&self, stream: &Stream) -> Option<&DeviceBuffer<u8>> {
        (stream.recording_id() != self.within).then_some(&self.memory)
    }

    /// The graph goes on writing to the memory, so it is never used again.
    pub(crate) fn forget(self, store: &mut Store) {
        store.forget(self.memory);
    }
}
