//! A tape's contents, in a form for people to read.

mod dot;

use std::fmt;

use crate::record::Copied;
use crate::tape::Tape;

/// The uses of a tape's memory, in bytes; see [`Tape::memory`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Gradients of the last pass.
    pub gradients: usize,
    /// The number of these buffers: a buffer that one step no longer needs is used for another.
    pub gradient_buffers: usize,
    /// Copies of what was overwritten, and what primals have written.
    pub copies: usize,
    /// Scratch memory, partial sums, logs.
    pub work: usize,
    /// Kept for the next recording.
    pub free: usize,
    /// Parameters of launches and other records, on the host.
    pub host: usize,
    /// Steps that gradients come through, and launches that they do not.
    pub steps: usize,
    /// Launches that were made and are not remembered: no gradient comes through them.
    pub inactive: usize,
}

impl Tape {
    /// Returns the uses of the tape's memory.
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
    /// Returns all of it on the device.
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
