//! Memory and streams of other code: memory that is lent for a call, memory that outlives the call whose stream it is at
//! home on, and memory that a graph of other code reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(feature = "dlpack")]
use cuda_sys::CUresult;
use cuda_sys::{CUdeviceptr, CUstream};

use super::allocation::Kind;
#[cfg(feature = "dlpack")]
use super::allocation::is_of_a_free;
use super::{Access, Allocation};
#[cfg(feature = "dlpack")]
use crate::caller;
#[cfg(feature = "dlpack")]
use crate::context::ContextInner;
use crate::context::{Deferred, NO_STREAM};
use crate::error::{Error, Result};
use crate::quiet::Token;
use crate::stream::Stream;
#[cfg(feature = "dlpack")]
use crate::stream::create_event;
use crate::sync::Lock;

/// The state of memory that is lent for a call.
#[derive(Default)]
pub(crate) struct LentMemory {
    /// Whether the call is over. Raised together with the flag that makes each use look here.
    ended: AtomicBool,
}

/// The ranges of an allocation that graphs of other code read. Nothing may write them while such a graph lives: its
/// launches are unknown here.
#[derive(Default)]
pub(crate) struct Frozen {
    /// How many there are, so that a write of memory without any takes no lock.
    count: AtomicUsize,
    ranges: Lock<Vec<Range<usize>>>,
}

impl Frozen {
    fn meets(&self, range: &Range<usize>) -> bool {
        if self.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let meets = |other: &Range<usize>| other.start < range.end && range.start < other.end;
        // Without the lock, the range counts as frozen.
        self.ranges.lock().map_or(true, |ranges| ranges.iter().any(meets))
    }

    fn add(&self, range: Range<usize>) -> Result<()> {
        let mut ranges = self.ranges.lock()?;
        self.count.fetch_add(1, Ordering::SeqCst);
        ranges.push(range);
        Ok(())
    }

    fn remove(&self, range: &Range<usize>) {
        let Ok(mut ranges) = self.ranges.lock_in_host_function() else { return };
        if let Some(place) = ranges.iter().position(|known| known == range) {
            ranges.swap_remove(place);
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Allocation {
    /// Returns memory that other code has lent for the call that `home` is lent for.
    pub(crate) fn lent(start: CUdeviceptr, bytes: usize, home: &Stream) -> Arc<Self> {
        Self::with_kind(start, bytes, home, Kind::Lent(LentMemory::default()))
    }

    /// Returns whether it was used on its home stream alone, in no recording, and no other handle exists, not even a `Weak`
    /// one. Call it for lent memory.
    #[inline]
    pub(crate) fn is_idle(self: &mut Arc<Self>) -> bool {
        self.shared.is_quiet()
            && !self.is_captured()
            && self.frozen.get().is_none()
            && Arc::get_mut(self).is_some()
    }

    /// Lends other memory by this allocation.
    ///
    /// # Safety
    /// It was [idle](Self::is_idle), and from that query on no reference to it was given to anybody.
    #[inline]
    pub(crate) unsafe fn lend_again(self: &mut Arc<Self>, start: CUdeviceptr, bytes: usize) {
        // SAFETY: `Arc::get_mut` has returned the same reference in `is_idle`, and without a reference nobody can have
        // made a handle since, says the caller.
        let this = unsafe { &mut *Arc::as_ptr(self).cast_mut() };
        this.move_to(start, bytes);
    }

    /// Returns whether it is lent for a call.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.kind(), Kind::Lent(_))
    }

    /// Fails for memory that was lent for a call that has ended.
    pub(crate) fn is_there(&self) -> Result<()> {
        match self.kind() {
            Kind::Lent(lent) if lent.ended.load(Ordering::SeqCst) => Err(Error::invalid(
                "the memory was lent for a call of `Context::lend` that has ended",
            )
            .with_hint("copy what is needed later, or keep the tensor by `Tensor::into_buffer`")),
            _ => Ok(()),
        }
    }

    /// Ends the lending: the stream that the memory was lent with waits for uses on other streams, and later uses are
    /// refused.
    ///
    /// # Errors
    /// The driver's error, if the stream could not wait for a use. The host has waited then; if that failed too, the
    /// context keeps the error.
    pub(crate) fn end_lending(self: &Arc<Self>) -> Result<()> {
        let Kind::Lent(lent) = self.kind() else { return Ok(()) };
        if lent.ended.load(Ordering::SeqCst) {
            return Ok(());
        }
        let home = self.home_stream().inner();
        // Uses without a borrow, of other threads, come before the end or find it.
        let _held = match self.is_captured() {
            true => home.context.graph_lock.take()?,
            false => None,
        };
        lent.ended.store(true, Ordering::SeqCst);
        self.record_from_now_on();
        match home.capture {
            // Uses on streams outside of the capture were refused.
            Some(_) => Ok(()),
            None => self.join_home().inspect_err(|_| self.finish_uses_elsewhere()),
        }
    }

    /// Makes the host wait for the uses on other streams than the home stream. The home's context keeps errors.
    #[cold]
    fn finish_uses_elsewhere(&self) {
        let context = &self.home_stream().inner().context;
        let Ok(uses) = self.newest_uses(Access::Write) else { return };
        for (stream, sequence) in uses {
            if stream != *self.home_stream() {
                context.keep_drop_result(stream.inner().finish(sequence));
            }
        }
    }

    /// Fails for a write of a range that a graph of other code reads.
    pub(crate) fn may_be_written(&self, range: &Range<usize>) -> Result<()> {
        match self.frozen.get() {
            Some(frozen) if frozen.meets(range) => Err(Error::invalid(
                "a graph that other code has captured reads the memory: it can't be written while that graph lives",
            )
            .with_hint("write other memory, or destroy the graph first")),
            _ => Ok(()),
        }
    }

    /// Marks a range as read by a graph of other code, from the capture of the read on. The caller keeps the
    /// allocation until [`thaw`](Self::thaw).
    ///
    /// # Errors
    /// Work that writes the range has not finished: nothing would order it before the launches of the graph.
    pub(crate) fn freeze(&self, range: &Range<usize>) -> Result<()> {
        // Launches of our graphs, which don't borrow what they write, come before this or are refused.
        let _held = self.home_stream().inner().context.graph_lock.take()?;
        self.note_captured();
        let frozen = self.frozen.get_or_init(Box::default)?;
        frozen.add(range.clone())?;
        let uses = self.newest_uses_of(range.clone(), Access::Read)?;
        let all_finished: Result<bool> =
            uses.iter().try_fold(true, |finished, (stream, sequence)| {
                Ok(finished && stream.inner().is_finished(*sequence)?)
            });
        if let Ok(true) = all_finished
            && !self.is_shut_off()
        {
            return Ok(());
        }
        frozen.remove(range);
        all_finished?;
        Err(Error::invalid(
            "the memory was written by work outside of the capture that has not finished: a launch of the graph \
             would not wait for it",
        )
        .with_hint("before the capture begins, wait for the work: `Stream::synchronize`"))
    }

    /// Takes back a [`freeze`](Self::freeze) that succeeded. Calls no function of the driver.
    pub(crate) fn thaw(&self, range: &Range<usize>) {
        if let Some(frozen) = self.frozen.get() {
            frozen.remove(range);
        }
    }

    /// Frees the memory where its home stream can't be used: it was lent for a call that has ended, or that another
    /// thread is in.
    pub(super) fn free_apart(&mut self) -> Result<()> {
        match self.kind() {
            Kind::Pooled | Kind::OfPool(_) => {
                let context = self.home_stream().inner().context.clone();
                let caretaker = context.caretaker.stream(&context)?;
                // SAFETY: the stream is the context's, and nothing captures it.
                unsafe { self.let_wait(caretaker) }?;
                let start = self.device_ptr();
                // SAFETY: this owns the memory, and every use of it is ordered before this free by the waits above.
                unsafe { call!(context, cuMemFreeAsync(start, caretaker)) }?;
                self.replace_kind(Kind::Released);
                Ok(())
            }
            Kind::Blocking => {
                self.replace_kind(Kind::Released);
                let item = Deferred::Device {
                    start: self.device_ptr(),
                    bytes: self.size_bytes(),
                    stream: NO_STREAM,
                };
                self.home_stream().inner().context.deferred.put(item);
                Ok(())
            }
            Kind::Borrowed { .. } => self.give_back_apart(),
            _ => Ok(()),
        }
    }

    /// Drops the owner of memory that other code has given away for longer than a call, when the stream that it was
    /// given away on waits for all uses.
    fn give_back_apart(&mut self) -> Result<()> {
        let home = self.home_stream().clone();
        let inner = home.inner();
        let mut uses = self.newest_uses(Access::Write)?;
        uses.retain(|(stream, _)| *stream != home);
        let in_order = uses.is_empty() || inner.capture.is_some();
        if !in_order && inner.is_legacy() {
            inner.with_handle(|| {
                uses.iter().try_for_each(|(stream, sequence)| {
                    // SAFETY: the legacy stream of the context, which is current, and which nothing captures.
                    unsafe { stream.inner().let_wait(inner.raw, *sequence) }
                })
            })?;
        } else if !in_order {
            if let Kind::Borrowed { token } = self.replace_kind(Kind::Released) {
                let context = inner.context.clone();
                context.deferred.put(Deferred::Lent { token, home, uses });
            }
            return Ok(());
        }
        drop(self.replace_kind(Kind::Released));
        Ok(())
    }

    /// Makes a stream of the driver's wait for all uses.
    ///
    /// # Safety
    /// As [`StreamInner::let_wait`](crate::stream::StreamInner::let_wait).
    pub(crate) unsafe fn let_wait(&self, waiter: CUstream) -> Result<()> {
        self.pass_gates()?;
        let home = self.home_stream().inner();
        // SAFETY: the caller's promise.
        unsafe { home.let_wait(waiter, home.enqueued().max(self.born())) }?;
        for (stream, sequence) in self.newest_uses(Access::Write)? {
            if stream != *self.home_stream() {
                // SAFETY: as above.
                unsafe { stream.inner().let_wait(waiter, sequence) }?;
            }
        }
        Ok(())
    }
}

/// Whether what keeps memory of other code alive orders its work and the free of the memory.
pub(super) type IsOrdered = fn(&Token) -> bool;

#[cfg(feature = "dlpack")]
impl Allocation {
    /// Frees the memory behind all work of its context, since a consumer of other code has used it in a way that is
    /// unknown here. Where that is not possible now, a wait for the device frees it. Of memory of other code, an owner that
    /// `is_ordered` is dropped at once.
    pub(crate) fn free_after_consumer(mut self: Arc<Self>, is_ordered: IsOrdered) {
        let context = self.home_stream().inner().context.clone();
        let Some(this) = self.only_handle() else { return };
        if !context.state.may_defer() || this.hold_back_from_consumer(is_ordered) {
            return;
        }
        match this.kind() {
            Kind::Pooled | Kind::OfPool(_) => {
                let start = this.device_ptr();
                let freed = this.free_behind_context(&context);
                this.replace_kind(Kind::Released);
                match freed {
                    Ok(true) => {}
                    Ok(false) => context.deferred.put(Deferred::Unordered { start }),
                    Err(error) => {
                        if !is_of_a_free(&error) {
                            context.deferred.put(Deferred::Unordered { start });
                        }
                        context.keep_drop_error(error);
                    }
                }
            }
            Kind::Blocking => {
                let (start, bytes, stream) = (this.device_ptr(), this.size_bytes(), NO_STREAM);
                this.replace_kind(Kind::Released);
                context.deferred.put(Deferred::Device { start, bytes, stream });
            }
            // Uses of this crate are joined by the drop.
            Kind::Borrowed { token } if is_ordered(token) => {}
            Kind::Borrowed { .. } => {
                if let Kind::Borrowed { token } = this.replace_kind(Kind::Released) {
                    context.deferred.put(Deferred::Token(token));
                }
            }
            _ => {}
        }
    }

    /// Enqueues the free behind all work of the context; `false` if that can't be done now.
    fn free_behind_context(&self, context: &ContextInner) -> Result<bool> {
        if caller::is_host_function() || context.lent.may_be_captured() || context.captures.any() {
            return Ok(false);
        }
        let caretaker = context.caretaker.stream(context)?;
        let event = create_event(context)?;
        // This wait keeps captures of this crate from beginning meanwhile, which the driver would invalidate.
        let recorded = context.captures.wait(|| {
            // SAFETY: both are live.
            match unsafe { context.sys().cuCtxRecordEvent(context.raw, event) } {
                // The driver is older than 12.5, and other code captures.
                Err(_) | Ok(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) => Ok(false),
                result => context.answer("cuCtxRecordEvent", result).map(|()| true),
            }
        });
        let waits = recorded.and_then(|recorded| {
            if recorded {
                // SAFETY: both are live, and nothing captures the stream.
                unsafe { call!(context, cuStreamWaitEvent(caretaker, event, 0)) }?;
                // SAFETY: as above. Streams of other contexts may have used it.
                unsafe { self.let_wait(caretaker) }?;
            }
            Ok(recorded)
        });
        if context.state.is_usable() {
            // SAFETY: made above; a wait that is enqueued needs it no more.
            context.keep_drop_result(unsafe { call!(context, cuEventDestroy_v2(event)) });
        }
        if !waits? {
            return Ok(false);
        }
        // SAFETY: the memory is this allocation's, and each use of it is ordered before the free by the waits above.
        unsafe { call!(context, cuMemFreeAsync(self.device_ptr(), caretaker)) }?;
        Ok(true)
    }
}
