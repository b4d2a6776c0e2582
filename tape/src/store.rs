//! The tape's own memory: gradients, copies of values, partial sums. A recording reuses memory that an earlier one has
//! returned, so that a loop allocates once.

use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Zeroable;
use cuda_safe::{DeviceBuffer, Error, Result, Stream};

use crate::backward::failed;
use crate::frame::{FINE, Status};

/// The working memory of adjoints. There are two: graphs use theirs at every launch, so work that is not captured
/// uses the other.
#[derive(Default)]
struct Working {
    status: Option<DeviceBuffer<u8>>,
    /// Memory that all adjoints use in turn: scratch memory, partial sums (zero between launches), the log of a
    /// deterministic tape and its table (zero between launches).
    work: [Option<DeviceBuffer<u8>>; 4],
}

/// Memory whose home stream is the tape's.
pub(crate) struct Store {
    home: Stream,
    free: Vec<DeviceBuffer<u8>>,
    /// The bytes of all memory that the store has allocated and not freed.
    bytes: usize,
    direct: Working,
    graphs: Working,
    /// Whether the current work is captured.
    captures: bool,
    /// Whether primals of a discarded recording may have raised the status.
    pub(crate) stale: bool,
    /// Whether graphs raise the status, whenever they are launched.
    pub(crate) graphs_raise: bool,
    /// Working memory of graphs that was replaced since.
    kept: Vec<DeviceBuffer<u8>>,
    /// The copy through which the status of graphs is read.
    heard: Option<DeviceBuffer<u8>>,
    /// Whether new memory is filled with NaNs; `None` if the setting for all tapes applies.
    pub(crate) poisoned: Option<bool>,
}

/// The index in `Store::work`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    Scratch,
    Partials,
    Log,
    Sums,
}

/// Whether all tapes fill new memory with NaNs.
static POISONED: AtomicBool = AtomicBool::new(false);

/// Fills the memory that tapes take from now on, new or reused, with NaNs, so that unwritten gradients show. For
/// tests.
#[cfg(feature = "internals")]
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
            direct: Working::default(),
            graphs: Working::default(),
            captures: false,
            stale: false,
            graphs_raise: false,
            kept: Vec::new(),
            heard: None,
            poisoned: None,
        }
    }

    /// Chooses the working memory for work that is enqueued on `stream` from now on.
    pub(crate) fn enqueues_on(&mut self, stream: &Stream) {
        self.captures = stream.is_recording();
    }

    /// Returns the tape's own stream, which never records.
    pub(crate) fn home(&self) -> &Stream {
        &self.home
    }

    fn working(&self) -> &Working {
        if self.captures { &self.graphs } else { &self.direct }
    }

    fn working_mut(&mut self) -> &mut Working {
        if self.captures { &mut self.graphs } else { &mut self.direct }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn free_bytes(&self) -> usize {
        self.free.iter().map(DeviceBuffer::size_bytes).sum()
    }

    pub(crate) fn work_bytes(&self) -> usize {
        let all = self.direct.work.iter().chain(&self.graphs.work).flatten();
        all.map(DeviceBuffer::size_bytes).sum()
    }

    /// Returns memory of at least `bytes` with any contents: its user writes before it reads. New memory is zero,
    /// because a graph that reads it may run without the graph that writes it.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<DeviceBuffer<u8>> {
        let size = bytes
            .max(1)
            .checked_next_multiple_of(GRAIN)
            .ok_or_else(|| Error::invalid("a gradient is larger than memory can be"))?;
        let mut buffer = match self.free.iter().rposition(|buffer| buffer.size_bytes() == size) {
            Some(at) => self.free.swap_remove(at),
            None => {
                let buffer = DeviceBuffer::zeroed(&self.home, size)?;
                self.bytes += size;
                buffer
            }
        };
        if self.poisoned.unwrap_or_else(|| POISONED.load(Ordering::Relaxed)) {
            buffer.fill(&self.home, 0xff)?;
        }
        Ok(buffer)
    }

    /// Like [`take`](Self::take), but all zero. The memory is cleared at once, even if a recording is being captured.
    pub(crate) fn zeroed(&mut self, bytes: usize) -> Result<DeviceBuffer<u8>> {
        let mut buffer = self.take(bytes)?;
        buffer.fill(&self.home, 0)?;
        Ok(buffer)
    }

    /// Returns memory for a separate status, with this code. It is written at once, even if a recording is being
    /// captured.
    pub(crate) fn marker(&mut self, code: u32) -> Result<DeviceBuffer<u8>> {
        let mut buffer = self.zeroed(size_of::<Status>())?;
        buffer.slice_mut(..4)?.cast_mut()?.fill(&self.home, code)?;
        Ok(buffer)
    }

    /// Returns the status of adjoints; all zero at first.
    pub(crate) fn status(&mut self) -> Result<&DeviceBuffer<u8>> {
        if self.working().status.is_none() {
            let status = self.zeroed(size_of::<Status>())?;
            self.working_mut().status = Some(status);
        }
        self.known_status()
    }

    /// Returns the status, if [`status`](Self::status) was called before.
    pub(crate) fn known_status(&self) -> Result<&DeviceBuffer<u8>> {
        let known = self.working().status.as_ref();
        known.ok_or_else(|| Error::invalid("the tape has no status"))
    }

    /// Returns the status of work that was not captured, which primals may have raised.
    pub(crate) fn direct_status(&self) -> Option<&DeviceBuffer<u8>> {
        self.direct.status.as_ref()
    }

    /// Returns and clears the status of adjoints that were not captured. Waits.
    pub(crate) fn take_status(&mut self, stream: &Stream) -> Result<Status> {
        let Some(buffer) = &mut self.direct.status else { return Ok(Status::zeroed()) };
        let status = status_in(buffer, stream)?;
        if status != Status::zeroed() {
            buffer.fill(stream, 0)?;
        }
        Ok(status)
    }

    /// Returns and clears the status of adjoints and primals in graphs. Waits.
    pub(crate) fn take_status_of_graphs(&mut self, stream: &Stream) -> Result<Status> {
        if self.graphs.status.is_none() {
            return Ok(Status::zeroed());
        }
        if self.heard.is_none() {
            self.heard = Some(self.zeroed(size_of::<Status>())?);
        }
        let (Some(buffer), Some(heard)) = (&mut self.graphs.status, &mut self.heard) else {
            return Ok(Status::zeroed());
        };
        // The graph lock prevents that a graph of another thread raises a status in between, which would be lost.
        stream.graph_lock([buffer.allocation()]).run(|| {
            heard.copy_from(stream, &*buffer)?;
            buffer.fill(stream, 0)
        })?;
        status_in(heard, stream)
    }

    /// Like [`take_status`](Self::take_status), for a primal that also returns a count. Waits.
    ///
    /// # Errors
    /// An earlier error, or the primal's.
    pub(crate) fn take_answer(&mut self, stream: &Stream) -> Result<Status> {
        let status = self.take_status(stream)?;
        if status.code == FINE {
            return Ok(status);
        }
        self.clean_work()?;
        Err(failed(status))
    }

    /// Clears the status of work that was not captured, after a recording was dropped.
    pub(crate) fn clear_status(&mut self) -> Result<()> {
        let Some(status) = &mut self.direct.status else { return Ok(()) };
        status.fill(&self.home, 0)
    }

    /// Returns working memory of at least `bytes`; new memory is zero. The memory of graphs can't grow, so it gets
    /// the size that earlier passes needed.
    pub(crate) fn work(&mut self, which: Work, bytes: usize) -> Result<&DeviceBuffer<u8>> {
        let direct = self.direct.work.get(which as usize).and_then(Option::as_ref);
        let bytes = bytes.max(direct.map_or(0, DeviceBuffer::size_bytes));
        let there = self.known_work(which).is_some_and(|buffer| buffer.size_bytes() >= bytes);
        if !there {
            let buffer = self.zeroed(bytes)?;
            if let Some(work) = self.work_mut(which)
                && let Some(old) = work.replace(buffer)
            {
                self.retire(old);
            }
        }
        self.known_work(which).ok_or_else(|| Error::invalid("the tape has no working memory"))
    }

    pub(crate) fn known_work(&self, which: Work) -> Option<&DeviceBuffer<u8>> {
        self.working().work.get(which as usize).and_then(Option::as_ref)
    }

    pub(crate) fn work_mut(&mut self, which: Work) -> Option<&mut Option<DeviceBuffer<u8>>> {
        self.working_mut().work.get_mut(which as usize)
    }

    /// Takes replaced working memory. Graphs go on using theirs, and expect zeros in parts of it.
    pub(crate) fn retire(&mut self, old: DeviceBuffer<u8>) {
        if self.captures {
            self.kept.push(old);
        } else {
            self.forget(old);
        }
    }

    /// Returns whether a graph is being captured in the tape's context.
    pub(crate) fn captures_now(&self) -> bool {
        self.home.context().is_recording()
    }

    /// Clears working memory that an adjoint has left uncleared because it gave up.
    pub(crate) fn clean_work(&mut self) -> Result<()> {
        let work = self.direct.work.iter_mut().chain(&mut self.graphs.work).flatten();
        work.chain(&mut self.kept).try_for_each(|work| work.fill(&self.home, 0))
    }

    /// Frees working memory, whose contents are unknown after an error; the memory of graphs is cleared instead.
    pub(crate) fn forget_work(&mut self) -> Result<()> {
        for work in std::mem::take(&mut self.direct.work).into_iter().flatten() {
            self.forget(work);
        }
        self.clean_work()
    }

    /// Returns memory for reuse, unless a graph uses it.
    pub(crate) fn give(&mut self, buffer: DeviceBuffer<u8>, captured: bool) {
        if captured {
            self.forget(buffer);
        } else {
            self.free.push(buffer);
        }
    }

    /// Frees memory that was taken here.
    pub(crate) fn forget(&mut self, buffer: DeviceBuffer<u8>) {
        self.bytes = self.bytes.saturating_sub(buffer.size_bytes());
    }

    /// Frees all memory that is not in use.
    pub(crate) fn trim(&mut self) {
        for buffer in std::mem::take(&mut self.free) {
            self.forget(buffer);
        }
        // Only direct working memory is freed: graphs use theirs. The status stays, because it may hold an unread error.
        for work in std::mem::take(&mut self.direct.work).into_iter().flatten() {
            self.forget(work);
        }
    }
}

/// Returns the status in some memory. Waits.
fn status_in(memory: &DeviceBuffer<u8>, stream: &Stream) -> Result<Status> {
    let mut status = Status::zeroed();
    let bytes = memory.slice(..size_of::<Status>())?;
    bytes.download(stream, bytemuck::bytes_of_mut(&mut status))?;
    Ok(status)
}
