//! Whether what was captured has run.

use cuda_safe::{DeviceBuffer, Result, Stream};

use crate::store::Store;

/// Memory that each launch of a graph writes: its version tells whether there was one.
pub(crate) struct Marker {
    memory: DeviceBuffer<u8>,
    /// The version when the write was recorded.
    recorded: u64,
}

impl Marker {
    /// At the end of what `stream` captures.
    pub(crate) fn record(stream: &Stream, store: &mut Store) -> Result<Self> {
        let mut memory = store.take(1)?;
        memory.slice_mut(..4)?.fill(stream, 0)?;
        let recorded = memory.allocation().version(memory.byte_range());
        Ok(Self { memory, recorded })
    }

    /// Whether its graph was never launched.
    pub(crate) fn never_ran(&self) -> bool {
        self.memory.allocation().version(self.memory.byte_range()) == self.recorded
    }

    /// The graph goes on writing to the memory, which is nobody's to use again.
    pub(crate) fn forget(self, store: &mut Store) {
        store.forget(self.memory);
    }
}
