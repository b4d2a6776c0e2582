//! Enqueuing: uses are ordered behind those before them, then comes the driver call, then they are
//! recorded for those to come.

use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use super::allocation::Allocation;
use super::uses::Access;
use crate::context::HeldGraphLock;
use crate::error::{Error, Result};
use crate::graph::Recording;
use crate::stream::{Stream, StreamInner};

/// The ordering of an enqueue's uses on a stream that doesn't record.
///
/// If memory is used that some graph uses too, it holds the context's graph lock until the uses are
/// recorded: a graph may be launched by a thread that has not borrowed the buffers, and no use may
/// slip in between another's ordering and recording.
pub(crate) struct Ordering<'a> {
    stream: &'a Stream,
    graph_lock: Option<HeldGraphLock<'a>>,
}

impl<'a> Ordering<'a> {
    #[inline]
    pub(crate) fn on(stream: &'a Stream) -> Self {
        Self { stream, graph_lock: None }
    }

    /// To be called before a use is enqueued: makes the stream wait for conflicting uses on other
    /// streams. Costs two loads while the allocation stays on its home stream and is borrowed by all who
    /// use it.
    #[inline]
    pub(crate) fn begin_use(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        if allocation.is_quiet_on(self.stream) {
            return Ok(());
        }
        self.begin_shared_use(allocation, range, access)
    }

    #[cold]
    fn begin_shared_use(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        if allocation.is_captured() {
            // The lock belongs to a context, and no thread ever holds two.
            self.is_of_its_context(allocation)?;
            self.take_graph_lock()?;
        }
        if allocation.is_alone_on(self.stream) {
            // Kept, and used on its home stream only, which keeps order.
            return Ok(());
        }
        allocation.begin_shared_use(self.stream, range, access)
    }

    fn take_graph_lock(&mut self) -> Result<()> {
        if self.graph_lock.is_none() {
            self.graph_lock = self.stream.inner().context.graph_lock.take()?;
        }
        Ok(())
    }

    fn is_of_its_context(&self, allocation: &Allocation) -> Result<()> {
        if Arc::ptr_eq(&self.stream.inner().context, &allocation.home_stream().inner().context) {
            return Ok(());
        }
        Err(Error::invalid(
            "memory that a graph uses or has used, or that a tape keeps, can only be used by streams of \
             its own context",
        )
        .with_hint(
            "copy it into other memory by DeviceSliceMut::copy_from_peer, on a stream of its own \
             context",
        ))
    }
}

/// One enqueue on a stream, whether that records or not, from the ordering of its uses to their
/// recording. On a stream that records it holds the recording, so that the capture can't end between
/// the look at it and the driver call.
pub(crate) struct Enqueuing<'a> {
    ordering: Ordering<'a>,
    recording: Option<MutexGuard<'a, Recording>>,
}

impl<'a> Enqueuing<'a> {
    /// Begins an enqueue, if the device is not lost and a capture has not ended.
    #[inline]
    pub(crate) fn on(stream: &'a Stream) -> Result<Self> {
        let inner = stream.inner();
        inner.state().usable()?;
        let recording = match &inner.capture {
            None => None,
            Some(capture) => Some(capture.enter(inner)?),
        };
        Ok(Self { ordering: Ordering::on(stream), recording })
    }

    /// To be called before a use is enqueued; see [`Ordering::begin_use`].
    #[inline]
    pub(crate) fn begin_use(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        match &mut self.recording {
            None => self.ordering.begin_use(allocation, range, access),
            Some(recording) => {
                let stream = self.ordering.stream.inner();
                recording.begin_use(stream, allocation, range, access)
            }
        }
    }

    /// As [`begin_use`](Self::begin_use) for work that the driver itself does between contexts, for
    /// which kernels need no access.
    pub(crate) fn begin_peer_use(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        if Arc::ptr_eq(
            &self.ordering.stream.inner().context,
            &allocation.home_stream().inner().context,
        ) {
            return self.begin_use(allocation, range, access);
        }
        if allocation.is_captured() {
            self.ordering.is_of_its_context(allocation)?;
        }
        allocation.home_stream().inner().state().usable()?;
        allocation.order_use(self.ordering.stream, range, access)
    }

    /// Takes the graph lock until this enqueue is over.
    pub(crate) fn take_graph_lock(&mut self) -> Result<()> {
        self.ordering.take_graph_lock()
    }

    /// Numbers the enqueue, whose driver call has returned.
    #[inline]
    pub(crate) fn number(&mut self) -> u64 {
        let inner = self.ordering.stream.inner();
        match &mut self.recording {
            None => inner.number(),
            Some(recording) => recording.number(inner),
        }
    }

    /// To be called after the use was enqueued and numbered.
    #[inline]
    pub(crate) fn end_use(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
        sequence: u64,
    ) {
        match &mut self.recording {
            None => allocation.end_use(self.ordering.stream, range, access, sequence),
            Some(recording) => {
                recording.end_use(
                    self.ordering.stream.inner(),
                    allocation,
                    range,
                    access,
                    sequence,
                );
            }
        }
    }

    /// The recording, on a stream that captures.
    #[inline]
    pub(crate) fn recording(&mut self) -> Option<&mut Recording> {
        self.recording.as_deref_mut()
    }
}

/// Enqueues work on `stream` that uses `uses`: ordered behind conflicting uses before, and
/// recorded for those to come.
pub(crate) fn enqueue<const N: usize>(
    stream: &Stream,
    uses: [(&Arc<Allocation>, Range<usize>, Access); N],
    call: impl FnOnce(&StreamInner) -> Result<()>,
) -> Result<()> {
    let mut enqueuing = Enqueuing::on(stream)?;
    if let Some(recording) = enqueuing.recording() {
        recording.captures()?;
    }
    for (allocation, range, access) in &uses {
        enqueuing.begin_use(allocation, range.clone(), *access)?;
    }
    let done = call(stream.inner());
    // Recorded even if the call failed: part of it may have been enqueued.
    let sequence = enqueuing.number();
    for (allocation, range, access) in uses {
        enqueuing.end_use(allocation, range, access, sequence);
    }
    done
}
