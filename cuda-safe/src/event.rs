//! Events: marks in a stream, to wait for and to measure time between.

use std::fmt;
use std::sync::{Arc, MutexGuard};

use cuda_sys::{CUevent, CUevent_flags, CUresult};

use crate::caller;
use crate::consume::ConsumeError;
use crate::context::{Context, ContextInner, Counted, Deferred, Dropped};
use crate::error::{Error, Result};
use crate::memory::{Enqueue, Enqueuing};
use crate::stream::{Stream, StreamInner, outside_capture};
use crate::sync::Lock;
use crate::trace::timed;

/// An event. After it is recorded on a stream, it is done when all work is done that was enqueued on the stream before.
///
/// Dropping it does not wait.
pub struct Event {
    context: Arc<ContextInner>,
    /// Null once it is destroyed.
    raw: CUevent,
    timing: bool,
    /// The capture that it was last recorded in; 0 if it was recorded on an ordinary stream. The lock
    /// is held while it is recorded or waited for by a stream, so that this is what the driver knows.
    captured: Lock<u64>,
}

// SAFETY: a CUevent may be used from any thread, and the driver locks it itself.
unsafe impl Send for Event {}
// SAFETY: as above; all methods only pass the handle to the driver.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event without timing, which is cheaper to record and to wait for.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuEventCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        Self::with_flags(context, CUevent_flags::CU_EVENT_DISABLE_TIMING.0, false)
    }

    /// Creates a new event that measures time; see [`Event::elapsed_ms`].
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuEventCreate")]
    pub fn timing(context: &Context) -> Result<Self> {
        Self::with_flags(context, CUevent_flags::CU_EVENT_DEFAULT.0, true)
    }

    fn with_flags(context: &Context, flags: u32, timing: bool) -> Result<Self> {
        let context = context.inner();
        let mut raw = std::ptr::null_mut();
        context.with_current(|| {
            // SAFETY: `raw` is a valid place for a handle, and this context is current.
            unsafe { call!(context, cuEventCreate(&raw mut raw, flags)) }
        })?;
        Ok(Self::wrap(context.clone(), raw, timing))
    }

    /// Adopts an event: it is destroyed when this is dropped.
    ///
    /// `timing` says whether it was created with timing.
    ///
    /// # Safety
    /// `raw` must be an event of `context` that nobody else destroys.
    #[must_use]
    pub unsafe fn from_raw(context: &Context, raw: CUevent, timing: bool) -> Self {
        Self::wrap(context.inner().clone(), raw, timing)
    }

    fn wrap(context: Arc<ContextInner>, raw: CUevent, timing: bool) -> Self {
        context.census.add(Counted::Event);
        Self { context, raw, timing, captured: Lock::new(0) }
    }

    pub(crate) fn context(&self) -> &ContextInner {
        &self.context
    }

    /// Returns the raw handle.
    #[must_use]
    pub fn as_raw(&self) -> CUevent {
        self.raw
    }

    /// Gives up the handle: the event is the caller's to destroy.
    #[must_use]
    pub fn into_raw(self) -> CUevent {
        let this = std::mem::ManuallyDrop::new(self);
        this.context.census.remove(Counted::Event);
        // SAFETY: `this` is never used or dropped again, so the Arc is dropped exactly once.
        drop(unsafe { std::ptr::read(&raw const this.context) });
        this.raw
    }

    /// Records the event: it is done when all that `stream` has enqueued so far is done.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the stream belongs to another context; otherwise
    /// what the driver returned.
    #[doc(alias = "cuEventRecord")]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let mut enqueuing = Enqueuing::of_no_launch(stream)?;
        let stream = stream.inner();
        self.of_context(&stream.context)?;
        let mut captured = self.captured()?;
        // SAFETY: both handles are live: `self` and `stream` own them.
        unsafe { call!(stream, cuEventRecord(self.raw, stream.raw)) }?;
        *captured = stream.capture.as_ref().map_or(0, |capture| capture.number());
        drop(captured);
        enqueuing.number();
        Ok(())
    }

    /// Returns whether a stream may wait for it: an event recorded in a capture exists in that capture alone.
    /// That stays so as long as the returned value is held.
    pub(crate) fn may_be_waited_for(&self, stream: &StreamInner) -> Result<MutexGuard<'_, u64>> {
        let capture = stream.capture.as_ref().map_or(0, |capture| capture.number());
        let captured = self.captured()?;
        match *captured == capture {
            true => Ok(captured),
            false => Err(outside_capture("an event recorded")),
        }
    }

    /// Fails unless the driver's context is this one: it records events, and measures between them, in their
    /// own context alone.
    fn of_context(&self, context: &ContextInner) -> Result<()> {
        self.context.state.same_driver(context.state)?;
        if self.context.raw == context.raw {
            return Ok(());
        }
        Err(Error::invalid("the event belongs to another context")
            .with_hint("make it by `Event::new` with the context of the stream"))
    }

    fn captured(&self) -> Result<MutexGuard<'_, u64>> {
        Ok(self.captured.lock()?)
    }

    fn recorded_outside_captures(&self) -> Result<()> {
        match *self.captured()? {
            0 => Ok(()),
            _ => Err(Error::invalid("the event was recorded in a capture, where nothing runs")),
        }
    }

    /// Returns whether the work before the newest record is done. An event never recorded is done.
    ///
    /// # Errors
    /// The error of the work that failed. 'Not ready' is not an error.
    #[doc(alias = "cuEventQuery")]
    pub fn is_done(&self) -> Result<bool> {
        self.context.state.usable()?;
        self.recorded_outside_captures()?;
        // SAFETY: the event is live: `self` owns it.
        match unsafe { self.context.state.sys.cuEventQuery(self.raw) } {
            Ok(CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
            other => {
                self.context.answer("cuEventQuery", other)?;
                self.context.check_fault()?;
                Ok(true)
            }
        }
    }

    /// Waits until the work before the newest record is done.
    ///
    /// # Errors
    /// The error of the work that failed.
    #[doc(alias = "cuEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.context.state.usable()?;
        self.recorded_outside_captures()?;
        let result = timed!(DEBUG, ["synchronize event"], {
            // SAFETY: the event is live: `self` owns it.
            unsafe { self.context.state.sys.cuEventSynchronize(self.raw) }
        });
        self.context.answer("cuEventSynchronize", result)?;
        self.context.check_fault()
    }

    /// Milliseconds on the device from this event's record to `end`'s, with a resolution of about
    /// half a microsecond. Waits for both.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if one of them measures no time, they belong to
    /// different contexts, or another thread records one of them again meanwhile and that record is not
    /// done. Otherwise the driver's error, for example if an event was never recorded.
    #[doc(alias = "cuEventElapsedTime")]
    pub fn elapsed_ms(&self, end: &Self) -> Result<f32> {
        if !self.timing || !end.timing {
            return Err(Error::invalid("an event made without timing measures no time")
                .with_hint("make both with Event::timing"));
        }
        self.of_context(&end.context)?;
        self.synchronize()?;
        end.synchronize()?;
        let mut milliseconds = 0.0;
        let sys = self.context.state.sys;
        let to = &raw mut milliseconds;
        // SAFETY: both events are live and `milliseconds` is a valid place for a float.
        match unsafe { sys.cuEventElapsedTime(to, self.raw, end.raw) } {
            // Both were done at the first query, so one of them has a newer record.
            Ok(CUresult::CUDA_ERROR_NOT_READY) => Err(Error::invalid(
                "an event was recorded again by another thread while its time was measured",
            )
            .with_hint("record each event once for each measurement")),
            other => self.context.answer("cuEventElapsedTime", other).map(|()| milliseconds),
        }
    }

    /// Destroys the event now and says whether that went well; a drop leaves an error for
    /// [`Context::take_drop_errors`]. Does not wait.
    ///
    /// # Errors
    /// The error holds the event and what the driver returned.
    #[doc(alias = "cuEventDestroy")]
    pub fn close(mut self) -> Result<(), ConsumeError<Self>> {
        match self.destroy() {
            Ok(()) => Ok(()),
            Err(error) => Err(ConsumeError::new(self, error)),
        }
    }

    /// Destroys the event. Nothing is left for the drop if it went well.
    pub(crate) fn destroy(&mut self) -> Result<()> {
        if self.raw.is_null() {
            return Ok(());
        }
        self.context.state.usable()?;
        // SAFETY: this owns the event. Destroying an event that is recorded but not done is allowed and does not wait.
        unsafe { call!(self.context, cuEventDestroy_v2(self.raw)) }?;
        self.raw = std::ptr::null_mut();
        Ok(())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.census.remove(Counted::Event);
        let state = self.context.state;
        if caller::is_host_function() && state.may_defer() && !self.raw.is_null() {
            self.context.deferred.put(Deferred::Dropped(Dropped::Event(self.raw)));
        }
        if !state.is_usable() {
            return;
        }
        let destroyed = self.destroy();
        self.context.keep_drop_result(destroyed);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("raw", &self.raw).field("timing", &self.timing).finish()
    }
}
