//! Sums whose bits do not depend on the order of their summands: see device/kernels/tape.cu.

use cuda_safe::{
    Access, DeviceBuffer, Error, KernelArg, Result,
    arg::{ArgType, UseVisitor},
};

use super::plan::Lent;
use super::run::{Pass, PlaceArg, cover, whole};
use crate::frame::Frame;
use crate::store::Work;

/// `geom::tape::LogHeader` and `geom::tape::LogEntry`.
const HEADER: usize = ptx_ad::abi::LOG_HEADER;
const ENTRY: usize = ptx_ad::abi::LOG_ENTRY;
/// The size of `Sum` of tape.cu.
pub(super) const SUM: usize = 32;

impl Pass<'_> {
    /// Returns the bytes of a log for `most` summands, and the slots of its table.
    pub(super) fn log_size(&self, most: usize) -> Result<Option<(usize, usize)>> {
        if most == 0 {
            return Ok(None);
        }
        let needed = most.saturating_mul(ENTRY).saturating_add(HEADER);
        let bytes = self.log_bytes.map_or(needed, |set| set.max(HEADER + ENTRY));
        let places = places((bytes - HEADER) / ENTRY)
            .filter(|places| places.checked_mul(SUM).is_some())
            .ok_or_else(|| Error::invalid("an adjoint's log is larger than memory can be"))?;
        Ok(Some((bytes, places)))
    }

    /// Prepares a log for `most` summands.
    pub(crate) fn prepare_log(&mut self, most: usize, frame: &mut Frame) -> Result<()> {
        let Some((bytes, places)) = self.log_size(most)? else { return Ok(()) };
        let log = self.store.work(Work::Log, bytes)?;
        (frame.log, frame.log_bytes) = (log.device_ptr(), bytes as u64);
        self.store.work(Work::Sums, places * SUM).map(drop)
    }

    /// Adds the summands in the log to the gradients, and empties it.
    pub(crate) fn sum_log(&mut self, frame: &Frame) -> Result<()> {
        let entries = (frame.log_bytes as usize).saturating_sub(HEADER) / ENTRY;
        let (Some(places), Some(log), Some(sums)) =
            (places(entries), self.store.known_work(Work::Log), self.store.known_work(Work::Sums))
        else {
            return Ok(());
        };
        let launch = cover(entries);
        let (frame, log, status) = (*frame, whole(log), self.status()?);
        let frame = FrameArg { frame, log, status, gradients: &[], lent: &[], partials: None };
        let Self { kernels, stream, plan, .. } = &*self;
        let (sums, partials) = (whole(sums), self.store.known_work(Work::Partials));
        let applied = FrameArg { gradients: &plan.buffers, lent: &plan.lent, partials, ..frame };
        // SAFETY: the log has as many entries as the frame says; the table has at least twice as many slots, a power
        // of two; entries point into gradients, which are reported as uses here.
        unsafe {
            kernels.log_insert(stream, launch, frame, sums, places as u64 - 1)?;
            kernels.log_add(stream, launch, frame, sums)?;
            kernels.log_apply(stream, launch, applied, sums)?;
        }
        self.clear(Work::Log, HEADER)
    }
}

/// Returns the slots of a table: at least twice as many as entries, and a power of two.
fn places(entries: usize) -> Option<usize> {
    entries.checked_mul(2)?.max(2).checked_next_power_of_two()
}

/// A frame as an argument, with the memory that it points to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameArg<'a> {
    pub(crate) frame: Frame,
    pub(crate) log: PlaceArg<'a>,
    pub(crate) status: PlaceArg<'a>,
    /// The memory that the log's entries point to, for the kernel that adds them: all gradients and the partial sums.
    pub(crate) gradients: &'a [DeviceBuffer<u8>],
    pub(crate) lent: &'a [Lent],
    pub(crate) partials: Option<&'a DeviceBuffer<u8>>,
}

// SAFETY: the log, the status and the memory of the log's entries are reported; these frames point to nothing else.
unsafe impl KernelArg for FrameArg<'_> {
    type Abi = Frame;
    const TYPE: ArgType = ArgType::value::<Frame>();

    fn abi(&self) -> Frame {
        self.frame
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.log.uses(visitor)?;
        self.status.uses(visitor)?;
        self.gradients.iter().chain(self.partials).try_for_each(|buffer| {
            visitor.visit(buffer.allocation(), buffer.byte_range(), Access::Write)
        })?;
        let written = |lent: &&Lent| lent.access == Access::Write;
        self.lent
            .iter()
            .filter(written)
            .try_for_each(|lent| visitor.visit(&lent.allocation, lent.range.clone(), lent.access))
    }
}
