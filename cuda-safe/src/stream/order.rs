//! Order between streams, by numbers instead of questions to the driver.
//!
//! Each stream numbers its enqueues, *after* the driver call has returned: once number `n` is
//! read, an event that is recorded from then on covers everything up to `n`. A stream remembers
//! how far it already waits for each other stream; only a use beyond that costs an event and a
//! wait. No query is ever made (one costs as much as four records).

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use cuda_sys::{CUevent, CUevent_flags, CUstream};

use super::{StreamInner, outside_capture};
use crate::context::ContextInner;
use crate::error::Result;
use crate::trace::event;

/// How many other streams a stream remembers having waited for. Forgetting one is sound: at worst
/// it is waited for once more.
const MOST_WAITED: usize = 64;

/// An event, recorded so that it covers all enqueues up to a number. It is recorded again when
/// more must be covered: a wait refers to the record that was newest when the wait was enqueued.
pub(super) struct Marker {
    pub(super) event: CUevent,
    pub(super) covers: u64,
}

impl Marker {
    pub(super) fn destroy(self, context: &ContextInner) {
        // SAFETY: the marker owns the event; waits that refer to it have been enqueued and keep
        // what they need.
        context.keep_drop_result(unsafe { call!(context, cuEventDestroy_v2(self.event)) });
    }
}

impl StreamInner {
    /// Returns the number of the newest enqueue whose driver call has returned.
    #[inline]
    pub(crate) fn enqueued(&self) -> u64 {
        // SeqCst: pairs with the `shared` flag of allocations; see `memory/order/uses.rs`.
        self.sequence.load(Ordering::SeqCst)
    }

    /// Returns a number for work whose driver call has returned, without using one up: if no later enqueue takes it, a
    /// wait for it does (see `mark_for`). An event that covers it was recorded after the number was taken, so after the
    /// call had returned.
    #[inline]
    pub(crate) fn next_number(&self) -> u64 {
        self.enqueued() + 1
    }

    /// Numbers an enqueue whose driver call has returned.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Notes that the host has seen everything up to `sequence` done.
    pub(crate) fn complete(&self, sequence: u64) {
        self.completed.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Returns whether the host has seen everything up to `sequence` done.
    pub(crate) fn has_completed(&self, sequence: u64) -> bool {
        self.completed.load(Ordering::Acquire) >= sequence
    }

    /// Makes later work of this stream wait for `other` up to `sequence`; free if it already does.
    pub(crate) fn wait_for(&self, other: &Self, sequence: u64) -> Result<()> {
        if other.id == self.id || sequence == 0 || other.has_completed(sequence) {
            return Ok(());
        }
        {
            let waited = self.waited.lock()?;
            if waited.iter().any(|&(id, far)| id == other.id && far >= sequence) {
                return Ok(());
            }
        }
        self.usable_here()?;
        let covers = other.mark_for(self, sequence)?;
        event!(DEBUG, stream = self.id, waits_for = other.id, sequence = covers, "stream waits");
        let mut waited = self.waited.lock()?;
        match waited.iter_mut().find(|(id, _)| *id == other.id) {
            Some((_, far)) => *far = (*far).max(covers),
            None => {
                if waited.len() == MOST_WAITED {
                    waited.remove(0);
                }
                waited.push((other.id, covers));
            }
        }
        Ok(())
    }

    /// Makes the host wait for everything up to `sequence`; free if it has seen that done. It waits
    /// for no other stream, and of this one at most for what is enqueued by now.
    pub(crate) fn finish(&self, sequence: u64) -> Result<()> {
        if sequence == 0 || self.has_completed(sequence) {
            return Ok(());
        }
        // The lock is released before the wait, so that other threads go on. If they record the event again, this waits
        // for more than it must.
        let (event, covers) = {
            let (_lock, event, covers) = self.marker(sequence)?;
            (event, covers)
        };
        // SAFETY: the event lives as long as the stream, of which the caller has a handle.
        unsafe { call!(self, cuEventSynchronize(event)) }?;
        self.complete(covers);
        Ok(())
    }

    /// Enqueues on `waiter` a wait for this stream up to at least `sequence` and says how far the
    /// wait reaches.
    fn mark_for(&self, waiter: &Self, sequence: u64) -> Result<u64> {
        // The lock is held until the wait is enqueued, so that the event isn't recorded again in between.
        let (_lock, event, covers) = self.marker(sequence)?;
        // SAFETY: both handles are live; the lock held keeps the event.
        unsafe { call!(waiter, cuStreamWaitEvent(waiter.raw, event, 0)) }?;
        self.context.counters.stream_waits.fetch_add(1, Ordering::Relaxed);
        Ok(covers)
    }

    /// Makes a stream of the driver's wait for this one up to at least `sequence`.
    ///
    /// # Safety
    /// `waiter` is a live stream of the driver that no code captures.
    pub(crate) unsafe fn let_wait(&self, waiter: CUstream, sequence: u64) -> Result<()> {
        if sequence == 0 || self.has_completed(sequence) {
            return Ok(());
        }
        let (_lock, event, _) = self.marker(sequence)?;
        // SAFETY: the caller's promise, and the lock held keeps the event.
        unsafe { call!(self, cuStreamWaitEvent(waiter, event, 0)) }?;
        self.context.counters.stream_waits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns an event that covers at least `sequence`, how far it reaches, and the lock under which it is not
    /// recorded again.
    fn marker(&self, sequence: u64) -> Result<(MutexGuard<'_, Option<Marker>>, CUevent, u64)> {
        // The caller has checked its own device; this stream's may be another one.
        self.state().usable()?;
        if self.capture.is_some() {
            // Its work is none of any stream. An event recorded there would pull the waiter into the
            // capture, or name a stream that does not exist.
            return Err(outside_capture("a stream"));
        }
        let mut marker = self.marker.lock()?;
        let (event, covers) = match &*marker {
            Some(marker) if marker.covers >= sequence => (marker.event, marker.covers),
            _ => {
                self.may_be_marked()?;
                self.record_marker(&mut marker, sequence)?
            }
        };
        Ok((marker, event, covers))
    }

    /// Records the event of the marker, which is locked, so that it covers at least `sequence`. Returns it and how far
    /// it reaches.
    pub(super) fn record_marker(
        &self,
        marker: &mut Option<Marker>,
        sequence: u64,
    ) -> Result<(CUevent, u64)> {
        let event = match marker {
            Some(marker) => marker.event,
            None => create_event(&self.context)?,
        };
        let covers = match self.enqueued() {
            now if now >= sequence => now,
            // Asked for by `next_number`, and not taken since.
            _ => self.number(),
        };
        let recorded = self.with_handle(|| {
            // SAFETY: both handles are live and of one context.
            let result = unsafe { self.state().sys.cuEventRecord(event, self.raw) };
            self.answer("cuEventRecord", result)
        });
        // Even if recording failed the event must be kept to be destroyed later; it then
        // covers nothing.
        let kept = if recorded.is_ok() { covers } else { 0 };
        *marker = Some(Marker { event, covers: kept });
        recorded?;
        self.context.counters.events_recorded.fetch_add(1, Ordering::Relaxed);
        Ok((event, covers))
    }
}

/// Returns an event without timing, which is cheaper to record and to wait for.
pub(crate) fn create_event(context: &ContextInner) -> Result<CUevent> {
    let mut event = std::ptr::null_mut();
    context.with_current(|| {
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
        // SAFETY: `event` is a valid place for a handle, and the context is current.
        unsafe { call!(context, cuEventCreate(&raw mut event, flags)) }
    })?;
    Ok(event)
}
