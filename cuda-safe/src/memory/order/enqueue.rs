//! Enqueuing: uses are ordered behind those before them, then comes the driver call, then they are
//! recorded for those to come. [`Enqueue::run`] does so for all work that uses memory.

use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use super::recording::AnyRecording;
use super::uses::Access;
use crate::context::{ContextGraphLock, HeldGraphLock};
use crate::error::{Error, Result};
use crate::memory::Allocation;
use crate::stream::{Stream, StreamInner};

/// One enqueue on a stream, from the ordering of its uses to their recording.
pub(crate) trait Enqueue<'a>: Sized {
    /// Returns the stream.
    fn stream(&self) -> &'a Stream;

    /// Returns the recording, on a stream that captures.
    fn recording(&mut self) -> Option<&mut (dyn AnyRecording + 'static)>;

    /// Orders a use that is about to be enqueued behind conflicting uses on other streams.
    fn begin_use(&mut self, used: Used<'_>) -> Result<()>;

    /// Numbers the enqueue, whose driver call has returned.
    #[inline]
    fn number(&mut self) -> u64 {
        let stream = self.stream().inner();
        match self.recording() {
            None => stream.number(),
            Some(recording) => recording.number(stream),
        }
    }

    /// Records a use that was enqueued and numbered.
    #[inline]
    fn end_use(&mut self, used: Used<'_>, sequence: u64) {
        let (stream, (allocation, range, access)) = (self.stream(), &used);
        match self.recording() {
            None => allocation.end_use(stream, range.clone(), *access, sequence),
            Some(recording) => recording.end_use(stream.inner(), used, sequence),
        }
    }

    /// Orders the uses, calls the driver by `call`, numbers the enqueue and records the uses. Outside of
    /// recordings, error reports name it by `name`, a number of [`names`](crate::stream::names).
    ///
    /// # Errors
    /// A use can't be ordered, and nothing is called; or the error of `call`, and nothing is recorded. A
    /// call that may have enqueued a part of its work before it failed returns its own result within
    /// `Ok`.
    #[inline]
    fn run<U: Accesses, T>(
        &mut self,
        uses: &U,
        name: Option<u32>,
        call: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Enqueued<T>> {
        uses.order(self)?;
        let output = call(self)?;
        let sequence = self.number();
        if let Some(name) = name
            && self.recording().is_none()
        {
            self.stream().inner().remember(name, sequence);
        }
        let recorded = uses.record(self, sequence);
        Ok(Enqueued { output, sequence, recorded })
    }
}

/// The work that [`Enqueue::run`] has enqueued.
pub(crate) struct Enqueued<T> {
    pub(crate) output: T,
    pub(crate) sequence: u64,
    /// The error of arguments that refused to report their uses again.
    pub(crate) recorded: Result<()>,
}

/// The memory that an enqueue uses, and how: arguments of a launch, ranges of allocations, or a graph.
pub(crate) trait Accesses {
    /// Orders the uses before the driver call.
    fn order<'a>(&self, enqueuing: &mut impl Enqueue<'a>) -> Result<()>;

    /// Records them after it.
    fn record<'a>(&self, enqueuing: &mut impl Enqueue<'a>, sequence: u64) -> Result<()>;
}

/// Receives the memory that an argument reaches.
pub trait UseVisitor {
    /// A range of bytes of an allocation and how it is used.
    ///
    /// # Errors
    /// If the use can't be ordered; the launch is then not made.
    fn visit(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()>;
}

impl<F: FnMut(&Arc<Allocation>, Range<usize>, Access) -> Result<()>> UseVisitor for F {
    #[inline]
    fn visit(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        self(allocation, range, access)
    }
}

/// A range of an allocation and how it is used.
pub(crate) type Used<'a> = (&'a Arc<Allocation>, Range<usize>, Access);

impl<const N: usize> Accesses for [Used<'_>; N] {
    fn order<'a>(&self, enqueuing: &mut impl Enqueue<'a>) -> Result<()> {
        self.iter().try_for_each(|used| enqueuing.begin_use(used.clone()))
    }

    fn record<'a>(&self, enqueuing: &mut impl Enqueue<'a>, sequence: u64) -> Result<()> {
        self.iter().for_each(|used| enqueuing.end_use(used.clone(), sequence));
        Ok(())
    }
}

/// An enqueue on a stream that doesn't record.
///
/// If memory is used that some graph uses too, it takes the context's graph lock, which is held until the
/// uses are recorded: a graph may be launched by a thread that has not borrowed the buffers, and no use may come
/// between another's ordering and recording.
pub(crate) struct DirectEnqueuing<'a, 'l> {
    stream: &'a Stream,
    /// A reference, so that nothing takes the address of this struct: its fields stay in registers, which
    /// saves 3 ns of a launch.
    graph_lock: &'l mut Option<HeldGraphLock<'a>>,
}

impl<'a> Enqueue<'a> for DirectEnqueuing<'a, '_> {
    #[inline]
    fn stream(&self) -> &'a Stream {
        self.stream
    }

    #[inline]
    fn recording(&mut self) -> Option<&mut (dyn AnyRecording + 'static)> {
        None
    }

    /// Makes the stream wait for conflicting uses on other streams. Costs two loads while all uses of the allocation
    /// are on its home stream and with a borrow.
    #[inline]
    fn begin_use(&mut self, used: Used<'_>) -> Result<()> {
        let (allocation, range, access) = used;
        if allocation.is_quiet_on(self.stream) {
            return Ok(());
        }
        begin_shared_use(self.stream, self.graph_lock, allocation, range, access)
    }
}

impl<'a, 'l> DirectEnqueuing<'a, 'l> {
    /// Begins an enqueue, if the device is not lost. The caller drops the guard in `graph_lock` when the enqueue is
    /// over.
    #[inline]
    pub(crate) fn on(
        stream: &'a Stream,
        graph_lock: &'l mut Option<HeldGraphLock<'a>>,
    ) -> Result<Self> {
        stream.inner().state().usable()?;
        Ok(Self { stream, graph_lock })
    }
}

/// Orders a use by a stream that doesn't record.
#[cold]
fn begin_shared_use<'a>(
    stream: &'a Stream,
    graph_lock: &mut Option<HeldGraphLock<'a>>,
    allocation: &Arc<Allocation>,
    range: Range<usize>,
    access: Access,
) -> Result<()> {
    if allocation.is_captured() {
        // The lock is that of the memory's context. Uses are found one by one here, and locks of several contexts
        // can only be taken in one step.
        of_same_context(stream, allocation)?;
        take_graph_lock(stream, graph_lock)?;
    }
    if allocation.is_alone_on(stream) {
        // Kept, and used on its home stream only, which keeps order.
        return Ok(());
    }
    allocation.begin_shared_use(stream, range, access)
}

/// Orders a use of memory of another context by a copy between contexts, for which kernels need no access, or by a
/// graph, which has asked for access when it was recorded. If graphs use the memory, the caller holds the graph lock of
/// its context.
fn begin_peer_use(stream: &Stream, (allocation, range, access): Used<'_>) -> Result<()> {
    allocation.home_stream().inner().state().usable()?;
    allocation.order_use(stream, range, access)
}

fn take_graph_lock<'a>(stream: &'a Stream, lock: &mut Option<HeldGraphLock<'a>>) -> Result<()> {
    if lock.is_none() {
        *lock = stream.inner().context.graph_lock.take()?;
    }
    Ok(())
}

fn is_of_same_context(stream: &Stream, allocation: &Allocation) -> bool {
    Arc::ptr_eq(&stream.inner().context, &allocation.home_stream().inner().context)
}

fn of_same_context(stream: &Stream, allocation: &Allocation) -> Result<()> {
    if is_of_same_context(stream, allocation) {
        return Ok(());
    }
    Err(Error::invalid(
        "memory that a graph uses or has used, or that a tape keeps, can only be used by streams of \
         its own context",
    )
    .with_hint("copy it into other memory by DeviceSliceMut::copy_from_peer"))
}

/// An enqueue on a stream, recording or not. On a stream that records it holds the recording, so that the capture can't
/// end between the check and the driver call.
pub(crate) struct Enqueuing<'a> {
    stream: &'a Stream,
    graph_lock: Option<HeldGraphLock<'a>>,
    recording: Option<MutexGuard<'a, dyn AnyRecording + 'static>>,
    between_contexts: bool,
}

impl<'a> Enqueue<'a> for Enqueuing<'a> {
    #[inline]
    fn stream(&self) -> &'a Stream {
        self.stream
    }

    #[inline]
    fn recording(&mut self) -> Option<&mut (dyn AnyRecording + 'static)> {
        self.recording.as_deref_mut()
    }

    fn begin_use(&mut self, used: Used<'_>) -> Result<()> {
        let (stream, graph_lock) = (self.stream, &mut self.graph_lock);
        match &mut self.recording {
            Some(recording) => recording.begin_use(stream.inner(), used, self.between_contexts),
            None if self.between_contexts && !is_of_same_context(stream, used.0) => {
                begin_peer_use(stream, used)
            }
            None => DirectEnqueuing { stream, graph_lock }.begin_use(used),
        }
    }
}

impl<'a> Enqueuing<'a> {
    /// Begins an enqueue, if the device is not lost and a capture has not ended.
    #[inline]
    pub(crate) fn on(stream: &'a Stream) -> Result<Self> {
        let inner = stream.inner();
        inner.usable_here()?;
        let recording = match &inner.capture {
            None => None,
            Some(capture) => Some(capture.enter(inner)?),
        };
        Ok(Self { stream, graph_lock: None, recording, between_contexts: false })
    }

    /// Begins an enqueue of anything but the launch of a kernel: fails where a node of a graph is changed,
    /// which takes a launch alone.
    #[inline]
    pub(crate) fn of_no_launch(stream: &'a Stream) -> Result<Self> {
        let this = Self::on(stream)?;
        if let Some(recording) = &this.recording {
            recording.captures()?;
        }
        Ok(this)
    }

    /// Lets the enqueue use memory of other contexts, as copies between them and graphs do. If graphs use such memory,
    /// [`take_graph_locks`](Self::take_graph_locks) comes before.
    pub(crate) fn between_contexts(&mut self) {
        self.between_contexts = true;
    }

    /// Takes the graph lock of the stream's context and those of others until this enqueue is over.
    ///
    /// # Errors
    /// This thread holds graph locks without one of these.
    pub(crate) fn take_graph_locks(
        &mut self,
        others: impl IntoIterator<Item = &'a ContextGraphLock>,
    ) -> Result<()> {
        if self.graph_lock.is_none() {
            self.graph_lock = self.stream.inner().context.graph_lock.take_with(others)?;
        }
        Ok(())
    }
}

/// Enqueues work on `stream` that uses `uses`: ordered behind conflicting uses before, and
/// recorded for those to come.
pub(crate) fn enqueue<const N: usize>(
    stream: &Stream,
    uses: [Used<'_>; N],
    call: impl FnOnce(&StreamInner) -> Result<()>,
) -> Result<()> {
    let mut enqueuing = Enqueuing::of_no_launch(stream)?;
    // Recorded even if the call failed: part of it may have been enqueued.
    let enqueued = enqueuing.run(&uses, None, |_| Ok(call(stream.inner())))?;
    enqueued.recorded.and(enqueued.output)
}
