//! The state that the handles to a stream share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cuda_sys::{CUresult, CUstream, MissingSymbol};

#[cfg(feature = "rust-kernels")]
use super::carry::CarryMemory;
use super::lent::Lent;
use super::{names, order};
use crate::caller;
#[cfg(feature = "rust-kernels")]
use crate::context::Attached;
use crate::context::{ContextInner, Counted, Deferred, Dropped};
use crate::driver::DeviceState;
use crate::error::{Error, LaunchRecord, Result};
use crate::memory::{AnyCapture, Packing};
use crate::quiet::Token;
use crate::sync::Lock;
use crate::trace::timed;

/// How many launches a stream remembers for error reports.
const REMEMBERED: usize = 8;

pub(crate) struct StreamInner {
    pub(crate) context: Arc<ContextInner>,
    pub(crate) raw: CUstream,
    /// Unique in the process, never used again.
    pub(crate) id: u64,
    /// The number of the newest enqueue whose driver call has returned.
    pub(super) sequence: AtomicU64,
    /// Everything up to this number is known to be done, from a wait of the host.
    pub(super) completed: AtomicU64,
    /// The work that this stream already waits for: stream number and sequence.
    pub(super) waited: Lock<Vec<(u64, u64)>>,
    /// The newest event recorded for others to wait for.
    pub(super) marker: Lock<Option<order::Marker>>,
    /// The last launches: kernel number in the upper half, sequence in the lower.
    launches: [AtomicU64; REMEMBERED],
    /// The staging block that small uploads are packed into.
    pub(crate) upload: Lock<Option<Packing>>,
    /// The number of allocations with this home stream, for the errors of `close`.
    at_home: AtomicUsize,
    /// Host functions enqueued and perhaps not run yet.
    pub(super) callbacks: Lock<Vec<u64>>,
    /// `Some` for a stream that records a graph, from its first moment to its last.
    pub(crate) capture: Option<Arc<dyn AnyCapture>>,
    /// `Some` for a stream that is lent for calls: see `lent.rs`.
    pub(super) lent: Option<Lent>,
    /// Whether it neither records nor is lent: then any thread may enqueue on it at any time.
    pub(crate) plain: bool,
    /// The Rust kernels that launches here use, unless the context is the primary one.
    #[cfg(feature = "rust-kernels")]
    pub(crate) rust_kernels: Attached,
    /// By which blocks of Rust kernels pass values on, if this stream is plain.
    #[cfg(feature = "rust-kernels")]
    pub(crate) carry: Lock<CarryMemory>,
    /// `Some` for an adopted stream: keeps it alive, and marks that this crate must not destroy it.
    pub(super) foreign: Option<Token>,
}

// SAFETY: a CUstream may be used from any thread; everything else in the struct is Send.
unsafe impl Send for StreamInner {}
// SAFETY: the driver locks the stream itself; everything else is atomic or behind a mutex.
unsafe impl Sync for StreamInner {}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl StreamInner {
    pub(super) fn new(
        context: Arc<ContextInner>,
        raw: CUstream,
        foreign: Option<Token>,
        capture: Option<Arc<dyn AnyCapture>>,
        lent: Option<Lent>,
    ) -> Self {
        context.census.add(Counted::Stream);
        Self {
            context,
            raw,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            sequence: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            waited: Lock::new(Vec::new()),
            marker: Lock::new(None),
            launches: [const { AtomicU64::new(0) }; REMEMBERED],
            upload: Lock::new(None),
            at_home: AtomicUsize::new(0),
            callbacks: Lock::new(Vec::new()),
            plain: capture.is_none() && lent.is_none(),
            capture,
            lent,
            #[cfg(feature = "rust-kernels")]
            rust_kernels: Default::default(),
            #[cfg(feature = "rust-kernels")]
            carry: Default::default(),
            foreign,
        }
    }

    /// Returns the stream as it is. Nothing is left here.
    fn move_out(&mut self) -> Self {
        self.context.census.add(Counted::Stream);
        Self {
            context: self.context.clone(),
            raw: self.raw,
            id: self.id,
            sequence: std::mem::take(&mut self.sequence),
            completed: std::mem::take(&mut self.completed),
            waited: std::mem::take(&mut self.waited),
            marker: std::mem::take(&mut self.marker),
            launches: std::mem::take(&mut self.launches),
            upload: std::mem::take(&mut self.upload),
            at_home: std::mem::take(&mut self.at_home),
            callbacks: std::mem::take(&mut self.callbacks),
            capture: self.capture.take(),
            lent: self.lent.take(),
            plain: self.plain,
            #[cfg(feature = "rust-kernels")]
            rust_kernels: std::mem::take(&mut self.rust_kernels),
            #[cfg(feature = "rust-kernels")]
            carry: std::mem::take(&mut self.carry),
            foreign: self.foreign.take(),
        }
    }

    /// Fails on a stream that records: `what` waits for the device, asks it, or goes through memory
    /// that is used again before a graph runs.
    pub(crate) fn not_capturing(&self, what: &str) -> Result<()> {
        if self.capture.is_none() {
            return Ok(());
        }
        Err(Error::invalid(format!("{what} can't be recorded")).with_hint(
            "do it on another stream, before the capture or after a launch of the graph",
        ))
    }

    /// Counts an allocation with this home stream.
    pub(crate) fn memory_made(&self) {
        self.at_home.fetch_add(1, Ordering::Relaxed);
        self.context.census.add(Counted::Buffer);
    }

    /// Counts one less.
    pub(crate) fn memory_dropped(&self) {
        self.at_home.fetch_sub(1, Ordering::Relaxed);
        self.context.census.remove(Counted::Buffer);
    }

    pub(crate) fn buffers_at_home(&self) -> usize {
        self.at_home.load(Ordering::Relaxed)
    }

    /// Runs `copy`, which enqueues a copy here, with a current context that the driver accepts. While recording that is
    /// the stream's context, which the node may keep.
    #[inline]
    pub(crate) fn copying(&self, copy: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.capture {
            None => self.context.copying(copy),
            Some(_) => self.context.with_current(copy),
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> &'static DeviceState {
        self.context.state
    }

    #[inline]
    pub(crate) fn sys(&self) -> &'static cuda_sys::Driver {
        self.context.state.sys
    }

    /// Turns the return code of a call on this stream into a result. A fatal one carries what was
    /// launched here lately.
    #[inline]
    pub(crate) fn answer(
        &self,
        call: &'static str,
        result: Result<CUresult, MissingSymbol>,
    ) -> Result<()> {
        match result {
            Ok(CUresult::CUDA_SUCCESS) => Ok(()),
            other => Err(self.context.state.failed(call, other, || self.last_launches())),
        }
    }

    /// Remembers a launch for error reports.
    #[inline]
    pub(crate) fn remember(&self, kernel: u32, sequence: u64) {
        let slot = (sequence % REMEMBERED as u64) as usize;
        let record = u64::from(kernel) << 32 | (sequence & u64::from(u32::MAX));
        self.launches[slot].store(record, Ordering::Relaxed);
    }

    /// Returns the last launches, newest first.
    pub(crate) fn last_launches(&self) -> Vec<LaunchRecord> {
        let now = self.enqueued();
        let mut records: Vec<LaunchRecord> = self
            .launches
            .iter()
            .map(|slot| slot.load(Ordering::Relaxed))
            .filter(|record| *record != 0)
            .map(|record| {
                // The upper half of the sequence is the stream's own, less a borrow when the
                // lower half has wrapped since.
                let low = record & u64::from(u32::MAX);
                let mut sequence = (now & !u64::from(u32::MAX)) | low;
                if sequence > now {
                    sequence = sequence.wrapping_sub(1 << 32);
                }
                LaunchRecord { kernel: names::get((record >> 32) as u32), index: sequence }
            })
            .collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.index));
        records
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.usable_here()?;
        self.not_capturing("Stream::synchronize")?;
        let enqueued = self.enqueued();
        let result = timed!(DEBUG, [stream = self.id, "synchronize stream"], {
            // SAFETY: the stream is live: `self` owns it or its owner token keeps it so.
            unsafe { self.state().sys.cuStreamSynchronize(self.raw) }
        });
        self.answer("cuStreamSynchronize", result)?;
        self.complete(enqueued);
        self.context.check_fault()
    }

    /// Releases the stream's resources besides its handle. Enqueues at most an event and frees.
    pub(super) fn retire(&self) {
        #[cfg(feature = "rust-kernels")]
        if let Ok(mut carry) = self.carry.lock() {
            carry.free(self);
        }
        if let Some(packing) = self.upload.lock().ok().and_then(|mut block| block.take()) {
            self.context.staging.retire(self, packing.block);
        }
        let marker = self.marker.lock().ok().and_then(|mut marker| marker.take());
        // The call above may have met the device's end.
        if let Some(marker) = marker.filter(|_| self.state().is_usable()) {
            marker.destroy(&self.context);
        }
    }

    /// Does the work of the drop and returns its error. After success nothing is left for the drop.
    pub(super) fn close(&mut self) -> Result<()> {
        self.drop_callbacks();
        self.retire();
        // One of the calls above may have detected that the device is lost.
        self.state().usable()?;
        self.destroy()?;
        // From here on the stream counts as adopted: there is nothing to destroy.
        self.foreign.get_or_insert_with(Token::none);
        Ok(())
    }

    /// Destroys the driver's stream, or leaves that to its capture, if it is ours. For the last handle.
    fn destroy(&self) -> Result<()> {
        match &self.capture {
            _ if self.foreign.is_some() => Ok(()),
            Some(capture) => {
                capture.destroy_when_ended(&self.context, self.raw);
                Ok(())
            }
            // SAFETY: ours to destroy, and this is the last handle. Work that is still running
            // finishes: cuStreamDestroy neither waits nor cancels.
            None => unsafe { call!(self, cuStreamDestroy_v2(self.raw)) },
        }
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        self.context.census.remove(Counted::Stream);
        if caller::is_host_function() && self.state().may_defer() {
            let moved = Deferred::Dropped(Dropped::Stream(Box::new(self.move_out())));
            self.context.deferred.put(moved);
            return;
        }
        // On a lost device host functions will never be called. In a forked child they are leaked.
        self.drop_callbacks();
        if !self.state().is_usable() {
            return;
        }
        self.retire();
        // `retire` may have lost the device. The capture must still be notified of its stream.
        if self.capture.is_some() || self.state().is_usable() {
            self.context.keep_drop_result(self.destroy());
        }
    }
}
