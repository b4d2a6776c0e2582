//! The tape's own memory: gradients, copies of values, partial sums. What one recording has given back
//! the next one takes again, so that a loop allocates once.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Zeroable;
use cuda_safe::{DeviceBuffer, Error, Result, Sequence, Stream};

use crate::backward::failed;
use crate::frame::{FINE, Status};

/// Memory at home on the tape's stream.
pub(crate) struct Store {
    home: Stream,
    free: Vec<DeviceBuffer<u8>>,
    /// Bytes of all that it has allocated and that is alive.
    bytes: usize,
    status: Option<DeviceBuffer<u8>>,
    /// Whether primals of a recording that is forgotten may have raised it.
    pub(crate) stale: bool,
    /// Of all adjoints, one after the other: scratch memory, partial sums (zero between launches), the log
    /// of a deterministic tape and its table (zero between launches).
    pub(crate) work: [Option<DeviceBuffer<u8>>; 4],
    /// Whether graphs raise the status, whenever they are launched.
    pub(crate) graphs_raise: bool,
    /// Whether graphs use working memory: of that, `kept` is what was replaced since.
    pub(crate) in_graphs: bool,
    kept: Vec<DeviceBuffer<u8>>,
}

/// Which of `Store::work`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    Scratch,
    Partials,
    Log,
    Sums,
}

/// Whether memory is handed out with NaNs in it.
static POISONED: AtomicBool = AtomicBool::new(false);

/// From now on the memory that tapes take, new or used before, holds NaNs: gradients that nobody has
/// written show. For tests.
#[doc(hidden)]
pub fn poison_memory() {
    POISONED.store(true, Ordering::Relaxed);
}

/// Sizes are rounded up to this, the alignment of the driver's memory.
const GRAIN: usize = 256;

impl Store {
    pub(crate) fn new(home: &Stream) -> Self {
        Self {
            home: home.clone(),
            free: Vec::new(),
            bytes: 0,
            status: None,
            stale: false,
            work: Default::default(),
            graphs_raise: false,
            in_graphs: false,
            kept: Vec::new(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn free_bytes(&self) -> usize {
        self.free.iter().map(DeviceBuffer::bytes).sum()
    }

    /// Memory of at least `bytes`, with any contents: whoever takes it writes before it reads.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<DeviceBuffer<u8>> {
        let size = bytes
            .max(1)
            .checked_next_multiple_of(GRAIN)
            .ok_or_else(|| Error::invalid("a gradient is larger than memory can be"))?;
        let mut buffer = match self.free.iter().rposition(|buffer| buffer.bytes() == size) {
            Some(at) => self.free.swap_remove(at),
            None => {
                let buffer = DeviceBuffer::<MaybeUninit<u8>>::uninit(&self.home, size)?;
                self.bytes += size;
                // SAFETY: any bits are a `u8`; the tape writes what it hands out before it is read.
                unsafe { buffer.assume_init() }
            }
        };
        if POISONED.load(Ordering::Relaxed) {
            buffer.fill(&self.home, 0xff)?;
        }
        Ok(buffer)
    }

    /// As [`take`](Self::take), all zero; at once, even if a recording is being captured.
    pub(crate) fn zeroed(&mut self, bytes: usize) -> Result<DeviceBuffer<u8>> {
        let mut buffer = self.take(bytes)?;
        buffer.fill(&self.home, 0)?;
        Ok(buffer)
    }

    /// Where adjoints say what is wrong; all zero at first.
    pub(crate) fn status(&mut self) -> Result<&DeviceBuffer<u8>> {
        if self.status.is_none() {
            self.status = Some(self.zeroed(size_of::<Status>())?);
        }
        self.known_status()
    }

    /// As [`status`](Self::status), where it was asked for before.
    pub(crate) fn known_status(&self) -> Result<&DeviceBuffer<u8>> {
        self.status.as_ref().ok_or_else(|| Error::invalid("the tape has no status"))
    }

    /// What adjoints have said, which is cleared. Waits.
    pub(crate) fn take_status(&mut self, stream: &Stream) -> Result<Status> {
        let Some(buffer) = &mut self.status else { return Ok(Status::zeroed()) };
        let mut status = Status::zeroed();
        let bytes = buffer.slice(..size_of::<Status>())?;
        bytes.download(stream, bytemuck::bytes_of_mut(&mut status))?;
        if status != Status::zeroed() {
            buffer.fill(stream, 0)?;
        }
        Ok(status)
    }

    /// As [`take_status`](Self::take_status), of a primal that counts. Waits.
    ///
    /// # Errors
    /// What was wrong before, or with it.
    pub(crate) fn take_answer(&mut self, stream: &Stream) -> Result<Status> {
        let status = self.take_status(stream)?;
        if status.code == FINE {
            return Ok(status);
        }
        self.clean_work()?;
        Err(failed(status))
    }

    /// Clears the status, which was that of something forgotten.
    pub(crate) fn clear_status(&mut self) -> Result<()> {
        let Some(status) = &mut self.status else { return Ok(()) };
        status.fill(&self.home, 0)
    }

    /// Working memory of at least so many bytes; zero where it is new.
    pub(crate) fn work(&mut self, which: Work, bytes: usize) -> Result<&DeviceBuffer<u8>> {
        let there = self.known_work(which).is_some_and(|buffer| buffer.bytes() >= bytes);
        if !there {
            let buffer = self.zeroed(bytes)?;
            if let Some(old) =
                self.work.get_mut(which as usize).and_then(|work| work.replace(buffer))
            {
                self.retire(old);
            }
        }
        self.known_work(which).ok_or_else(|| Error::invalid("the tape has no working memory"))
    }

    pub(crate) fn known_work(&self, which: Work) -> Option<&DeviceBuffer<u8>> {
        self.work.get(which as usize).and_then(Option::as_ref)
    }

    /// Takes working memory that was replaced. Graphs go on using it, and find zeros where they need them.
    pub(crate) fn retire(&mut self, old: DeviceBuffer<u8>) {
        if self.in_graphs {
            self.kept.push(old);
        } else {
            self.forget(old);
        }
    }

    /// Whether a graph is being captured in the tape's context.
    pub(crate) fn captures_now(&self) -> bool {
        self.home.context().is_recording()
    }

    /// Enqueues that no launch of a graph by another thread interrupts which uses the status, working memory, or
    /// `others`.
    pub(crate) fn sequence<'s>(
        &self,
        stream: &'s Stream,
        others: &[DeviceBuffer<u8>],
    ) -> Sequence<'s> {
        let all = self.status.iter().chain(self.work.iter().flatten()).chain(others);
        let all = all.filter(|_| self.in_graphs);
        stream.sequence(all.map(|memory| memory.allocation()))
    }

    /// Makes working memory zero again, which an adjoint that gave up has left as it was.
    pub(crate) fn clean_work(&mut self) -> Result<()> {
        let mut all = self.work.iter_mut().flatten().chain(&mut self.kept);
        all.try_for_each(|work| work.fill(&self.home, 0))
    }

    /// Frees working memory, whose contents are not known after an error; what graphs use is cleaned.
    pub(crate) fn forget_work(&mut self) {
        if self.in_graphs && self.clean_work().is_ok() {
            return;
        }
        for work in std::mem::take(&mut self.work).into_iter().flatten() {
            self.forget(work);
        }
    }

    /// Takes memory back. What a graph uses is nobody's to use again.
    pub(crate) fn give(&mut self, buffer: DeviceBuffer<u8>, captured: bool) {
        if captured {
            self.forget(buffer);
        } else {
            self.free.push(buffer);
        }
    }

    /// Frees memory that was taken here.
    pub(crate) fn forget(&mut self, buffer: DeviceBuffer<u8>) {
        self.bytes = self.bytes.saturating_sub(buffer.bytes());
    }

    /// Frees all that nobody has taken.
    pub(crate) fn trim(&mut self) {
        for buffer in std::mem::take(&mut self.free) {
            self.forget(buffer);
        }
        // Graphs would keep it in any case. The status may hold something that nobody has looked at.
        if !self.in_graphs {
            self.forget_work();
        }
    }
}
