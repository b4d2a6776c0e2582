//! Streams that a framework lends for one call: see [`Context::lend`](crate::Context::lend).
//!
//! The framework promises to keep such a stream until the call returns, and no longer. So only a thread that is inside a
//! call may use it, and when the last call on a stream ends, an event is recorded that covers all work on it: memory and
//! other streams that outlive the call wait for that event, and never touch the stream again. The legacy stream is the
//! exception: it lives as long as its context and is never captured, so its event is recorded when a stream waits for it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cuda_sys::{CUresult, CUstream, CUstreamCaptureStatus};

use super::StreamInner;
use crate::context::ContextInner;
use crate::error::{Error, Result};

/// What distinguishes a lent stream.
pub(crate) struct Lent {
    /// Whether it is the legacy stream, whose handle means the stream of the current context.
    pub(super) legacy: bool,
    /// The calls under way. It is reduced with the stream's marker locked, unless nothing else refers to the stream.
    calls: AtomicUsize,
    /// Whether small uploads were packed in the call, so that the end of a call without any takes no lock.
    packed: AtomicBool,
}

thread_local! {
    /// The number of the stream that this thread has been lent; 0 outside of calls.
    static LENT_HERE: Cell<u64> = const { Cell::new(0) };
}

/// A thread inside a call of `lend`. Ends when it is dropped.
pub(crate) struct InCall(());

/// The number that [`LENT_HERE`] has before the stream is known.
const UNKNOWN: u64 = u64::MAX;

impl InCall {
    /// Begins a call.
    ///
    /// # Errors
    /// The thread is inside a call already, or ends.
    pub(crate) fn begin() -> Result<Self> {
        match LENT_HERE.try_with(|here| here.replace(UNKNOWN)) {
            Ok(0) => Ok(Self(())),
            Ok(outer) => {
                let _ = LENT_HERE.try_with(|here| here.set(outer));
                Err(Error::invalid("`Context::lend` was called inside a call of `Context::lend`")
                    .with_hint("pass the stream that the outer call has lent"))
            }
            Err(_) => Err(Error::invalid("the thread is ending: it can't use lent streams")),
        }
    }

    /// Names the stream of the call.
    pub(crate) fn on(&self, stream: &StreamInner) {
        let _ = LENT_HERE.try_with(|here| here.set(stream.id));
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        let _ = LENT_HERE.try_with(|here| here.set(0));
    }
}

impl Lent {
    pub(crate) fn new(legacy: bool) -> Self {
        Self { legacy, calls: AtomicUsize::new(0), packed: AtomicBool::new(false) }
    }
}

impl StreamInner {
    /// Fails if this thread may not enqueue on the stream, or wait for it, now: the device is lost, or the stream is
    /// lent and this thread is not inside the call.
    #[inline]
    pub(crate) fn usable_here(&self) -> Result<()> {
        self.state().usable()?;
        match &self.lent {
            None => Ok(()),
            Some(lent) => self.is_lent_here(lent),
        }
    }

    fn is_lent_here(&self, lent: &Lent) -> Result<()> {
        if LENT_HERE.try_with(Cell::get) != Ok(self.id) {
            return Err(Error::invalid(
                "the stream was lent for a call that has ended, or that another thread is in",
            )
            .with_hint(
                "a lent stream is used by the closure of `Context::lend` alone, on its thread",
            ));
        }
        if lent.legacy && !self.context.is_current()? {
            return Err(Error::invalid(
                "another context was made current inside the call: the legacy stream would be that of the other \
                 context",
            ));
        }
        Ok(())
    }

    /// Fails on a lent stream: the result of `what` would outlive the call and need the stream.
    pub(crate) fn not_lent(&self, what: &str) -> Result<()> {
        match &self.lent {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("{what} needs a stream that outlives the call"))
                .with_hint("use a stream of `Context::stream`")),
        }
    }

    /// Returns whether it is lent for calls.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Returns whether this is the legacy stream.
    pub(crate) fn is_legacy(&self) -> bool {
        self.lent.as_ref().is_some_and(|lent| lent.legacy)
    }

    /// Counts a call.
    pub(crate) fn begin_call(&self) {
        if let Some(lent) = &self.lent {
            lent.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that small uploads are packed into a block of the stream: the end of the call takes it.
    pub(crate) fn note_packing(&self) {
        if let Some(lent) = &self.lent {
            lent.packed.store(true, Ordering::Relaxed);
        }
    }

    /// Ends a call. `outlived` says whether anything refers to the stream after it: then an event is recorded that
    /// covers all work of the stream so far, unless that can be done later.
    ///
    /// # Errors
    /// The driver's error for the event: whatever outlives the call can't be ordered any more, and is freed by
    /// [`Context::free_deferred`](crate::Context::free_deferred).
    pub(crate) fn end_call(&self, outlived: bool) -> Result<()> {
        let Some(lent) = &self.lent else { return Ok(()) };
        if lent.packed.load(Ordering::Relaxed) {
            lent.packed.store(false, Ordering::Relaxed);
            let block = self.upload.lock()?.take();
            if let Some(packing) = block {
                self.context.staging.retire(self, packing.block);
            }
        }
        if !outlived {
            lent.calls.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        let mut marker = self.marker.lock()?;
        lent.calls.fetch_sub(1, Ordering::Relaxed);
        if lent.legacy || self.capture.is_some() {
            return Ok(());
        }
        self.state().usable()?;
        self.record_marker(&mut marker, self.enqueued() + 1).map(drop)
    }

    /// Fails if no event can be recorded on the stream, whose marker is locked: the call that it was lent for is over.
    pub(super) fn may_be_marked(&self) -> Result<()> {
        match &self.lent {
            Some(lent) if !lent.legacy && lent.calls.load(Ordering::Relaxed) == 0 => {
                Err(Error::invalid(
                    "work on a lent stream can't be waited for: its call has ended, and no event was recorded",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Runs `call`, which names the stream, with the context current that a handle of the legacy stream needs.
    ///
    /// # Errors
    /// A stream that the legacy stream waits for is captured: the driver would invalidate the capture.
    pub(crate) fn with_handle<R>(&self, call: impl FnOnce() -> Result<R>) -> Result<R> {
        if !self.is_legacy() {
            return call();
        }
        self.context.with_current(|| {
            not_captured(&self.context, self.raw)?;
            call()
        })
    }

    /// Returns whether the device has done everything up to `sequence`. Asks the driver if the host has not seen it.
    ///
    /// # Errors
    /// The error of the work that failed, or of asking.
    pub(crate) fn is_finished(&self, sequence: u64) -> Result<bool> {
        if sequence == 0 || self.has_completed(sequence) {
            return Ok(true);
        }
        self.state().usable()?;
        if self.capture.is_some() {
            return Ok(false);
        }
        let marker = self.marker.lock()?;
        let (code, covers, name) = match &*marker {
            Some(known) if known.covers >= sequence => {
                // SAFETY: the event is the stream's; the lock keeps it.
                (unsafe { self.sys().cuEventQuery(known.event) }, known.covers, "cuEventQuery")
            }
            _ => {
                self.may_be_marked()?;
                let covers = self.number();
                // SAFETY: the stream is live: it is ours, the legacy stream, or lent for a call that can't end while
                // the marker is locked.
                let query = || Ok(unsafe { self.sys().cuStreamQuery(self.raw) });
                (self.with_handle(query)?, covers, "cuStreamQuery")
            }
        };
        drop(marker);
        if let Ok(CUresult::CUDA_ERROR_NOT_READY) = code {
            return Ok(false);
        }
        self.answer(name, code)?;
        self.complete(covers);
        Ok(true)
    }
}

/// Fails if a stream that the legacy stream waits for is captured. The query itself leaves the capture alone.
fn not_captured(context: &ContextInner, legacy: CUstream) -> Result<()> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: `status` is a valid place for the result, and the context is current.
    match unsafe { context.sys().cuStreamIsCapturing(legacy, &raw mut status) } {
        Ok(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) => Err(mixes_with_capture()),
        result => context.answer("cuStreamIsCapturing", result),
    }
}

/// Returns the error for the legacy stream while a stream that waits for it is captured.
#[cold]
pub(crate) fn mixes_with_capture() -> Error {
    Error::invalid(
        "a stream of the context that waits for the legacy stream is being captured: work on the legacy stream would \
         invalidate the capture",
    )
    .with_hint("capture on a stream that was created with CU_STREAM_NON_BLOCKING")
}
