//! Reports of a tape's contents.

mod dot;

use std::fmt;

use crate::record::Copied;
use crate::tape::Tape;

/// The memory that a tape uses, in bytes; see [`Tape::memory`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Gradients of the last pass.
    pub gradients: usize,
    /// The number of gradient buffers. A buffer that no step needs any more is reused.
    pub gradient_buffers: usize,
    /// Copies of values that were overwritten, and memory that primals have written.
    pub copies: usize,
    /// Scratch memory, partial sums and logs.
    pub work: usize,
    /// Memory kept for the next recording.
    pub free: usize,
    /// Parameters of launches and other records, on the host.
    pub host: usize,
    /// The recorded steps: those that gradients flow through.
    pub steps: usize,
    /// Launches that were not recorded, because no gradient flows through them.
    pub inactive: usize,
}

impl Tape {
    /// Returns how much memory the tape uses.
    #[must_use]
    pub fn memory(&self) -> MemoryReport {
        let recording = &self.recording;
        let copied = |copied: &Copied| copied.buffer.size_bytes();
        let work = self.store.work_bytes();
        MemoryReport {
            gradients: self.plan.bytes(),
            gradient_buffers: self.plan.buffers.len(),
            copies: recording.copies.iter().map(copied).sum(),
            work,
            free: self.store.free_bytes(),
            host: size_of_val(recording.steps.as_slice())
                + size_of_val(recording.uses.as_slice())
                + size_of_val(recording.bytes.as_slice())
                + size_of_val(self.plan.actions.as_slice())
                + size_of_val(self.plan.places.as_slice()),
            steps: recording.steps.len(),
            inactive: recording.inactive,
        }
    }
}

impl MemoryReport {
    /// Returns the sum of all device memory.
    #[must_use]
    pub fn total(&self) -> usize {
        self.gradients + self.copies + self.work + self.free
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gradients, gradient_buffers, copies, work, free, host, steps, inactive } = self;
        writeln!(f, "{steps} steps ({inactive} without gradients), {host} bytes on the host")?;
        writeln!(f, "gradients {gradients} bytes in {gradient_buffers} buffers")?;
        write!(f, "copies {copies}, work {work}, free {free} bytes")
    }
}
