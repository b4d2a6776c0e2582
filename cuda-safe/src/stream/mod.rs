//! Streams: queues of work on a device.

mod callback;
#[cfg(feature = "rust-kernels")]
mod carry;
mod enqueue_group;
mod graph_lock;
mod inner;
mod lent;
mod mark;
pub(crate) mod names;
mod order;
mod slab;

pub use enqueue_group::EnqueueGroup;
pub use graph_lock::GraphLock;
pub(crate) use inner::StreamInner;
pub(crate) use lent::{InCall, Lent, mixes_with_capture};
pub use mark::Mark;
pub(crate) use order::create_event;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUresult, CUstream, CUstream_flags};

use crate::consume::ConsumeError;
use crate::context::{Context, ContextInner, list};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::{AnyCapture, Enqueue, Enqueuing};
use crate::quiet::Token;

/// A stream: work enqueued on it runs in order, and unordered with other streams unless a buffer
/// is used on both.
///
/// Streams made here never wait for the NULL stream (`CU_STREAM_NON_BLOCKING`). A clone is another
/// handle to the same stream. Dropping the last handle does not wait: enqueued work still runs.
///
/// Every enqueue through this crate is numbered. That is how buffers know, without asking the
/// driver, whether one stream has to wait for another.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

impl Stream {
    /// Creates a new stream with default priority.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuStreamCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        Self::with_priority(context, 0)
    }

    /// Creates a new stream with a priority: a lower number is more urgent. The driver clamps it to
    /// [`Device::stream_priorities`](crate::Device::stream_priorities).
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuStreamCreateWithPriority")]
    pub fn with_priority(context: &Context, priority: i32) -> Result<Self> {
        let raw = create(context.inner(), priority)?;
        Ok(Self::wrap(context.inner().clone(), raw, None, None, None))
    }

    /// Creates a stream that records: `raw` captures, or is null if nothing is to be enqueued on it.
    pub(crate) fn recording(
        context: &Arc<ContextInner>,
        raw: CUstream,
        capture: Arc<dyn AnyCapture>,
    ) -> Self {
        Self::wrap(context.clone(), raw, None, Some(capture), None)
    }

    /// Returns a stream that other code has lent for a call; `capture` is `Some` while that code captures it.
    pub(crate) fn lent(
        context: &Arc<ContextInner>,
        raw: CUstream,
        legacy: bool,
        capture: Option<Arc<dyn AnyCapture>>,
    ) -> Self {
        // A foreign stream is not destroyed here.
        let foreign = Some(Token::none());
        Self::wrap(context.clone(), raw, foreign, capture, Some(Lent::new(legacy)))
    }

    pub(crate) fn from_inner(inner: Arc<StreamInner>) -> Self {
        Self { inner }
    }

    /// Adopts a stream of other code, such as a framework's.
    ///
    /// `token` is kept until the last handle, and every buffer with this home stream, is dropped. It should keep the
    /// stream alive.
    ///
    /// # Errors
    /// The NULL stream and the special per-thread and legacy handles are refused: the stream that they name depends on
    /// the calling thread and its current context.
    ///
    /// # Safety
    /// `raw` must be a stream of `context` and stay valid until `token` is dropped. It must not be
    /// captured while it is used through this handle: uses recorded as if they ran would not.
    pub unsafe fn from_raw(
        context: &Context,
        raw: CUstream,
        token: impl Any + Send + Sync,
    ) -> Result<Self> {
        // 0 is the NULL stream, 1 CU_STREAM_LEGACY, 2 CU_STREAM_PER_THREAD.
        if raw.addr() <= 2 {
            return Err(Error::invalid(
                "the NULL, legacy and per-thread streams can't be adopted: what they name depends \
                 on the calling thread",
            ));
        }
        context.inner().state.usable()?;
        let token = Token::new(Box::new(token));
        Ok(Self::wrap(context.inner().clone(), raw, Some(token), None, None))
    }

    fn wrap(
        context: Arc<ContextInner>,
        raw: CUstream,
        foreign: Option<Token>,
        capture: Option<Arc<dyn AnyCapture>>,
        lent: Option<Lent>,
    ) -> Self {
        let inner = Arc::new(StreamInner::new(context, raw, foreign, capture, lent));
        if inner.capture.is_none() {
            inner.context.register_stream(&inner);
        }
        Self { inner }
    }

    /// Returns the context that this stream belongs to.
    #[must_use]
    pub fn context(&self) -> Context {
        Context::from_inner(self.inner.context.clone())
    }

    /// Returns the raw handle. It stays valid while any handle to this stream lives. It is null for the stream
    /// that [`GraphExec::update`](crate::GraphExec::update) gives its closure.
    ///
    /// Work enqueued through it is not numbered: buffers that it uses must be ordered by the
    /// caller.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.inner.raw
    }

    /// Gives up the handle: the stream is the caller's to destroy, and its context is retained for
    /// ever.
    ///
    /// # Errors
    /// The error holds the stream and names the reason: buffers with this home stream or other handles to it are alive,
    /// it is an adopted stream, it records a graph, or the device is lost.
    pub fn into_raw(self) -> Result<CUstream, ConsumeError<Self>> {
        if let Err(error) = self.is_ours_to_give() {
            return Err(ConsumeError::new(self, error));
        }
        let inner = Self::only_handle(self.inner)?;
        inner.retire();
        let raw = inner.raw;
        std::mem::forget(inner);
        Ok(raw)
    }

    fn is_ours_to_give(&self) -> Result<()> {
        let inner = &*self.inner;
        inner.state().usable()?;
        inner.not_capturing("Stream::into_raw")?;
        match inner.foreign {
            None => Ok(()),
            Some(_) => Err(Error::invalid(
                "the stream is somebody else's: it was adopted by Stream::from_raw",
            )),
        }
    }

    /// Returns whether nothing else holds the stream: no other handle, and no buffer with this home stream.
    pub(crate) fn is_only_handle(&mut self) -> bool {
        Arc::get_mut(&mut self.inner).is_some()
    }

    fn only_handle(inner: Arc<StreamInner>) -> Result<StreamInner, ConsumeError<Self>> {
        Arc::try_unwrap(inner).map_err(|inner| {
            let others = Arc::strong_count(&inner).saturating_sub(1);
            let buffers = inner.buffers_at_home();
            let handles = others.saturating_sub(buffers);
            let left = list(&[(buffers, "buffer"), (handles, "other handle")]);
            let error = Error::invalid(format!("the stream is still in use by {left}"));
            let error = match buffers {
                0 => error,
                _ => error.with_hint("a buffer is freed on its home stream, which it keeps"),
            };
            ConsumeError::new(Self { inner }, error)
        })
    }

    /// Waits until everything enqueued so far is done.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that records; otherwise the error
    /// of whatever work failed.
    #[doc(alias = "cuStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.inner.synchronize()
    }

    /// Returns whether everything enqueued so far is done.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that records; otherwise the error
    /// of whatever work failed. 'Not ready' is not an error.
    #[doc(alias = "cuStreamQuery")]
    pub fn is_done(&self) -> Result<bool> {
        let inner = &*self.inner;
        inner.usable_here()?;
        inner.not_capturing("Stream::is_done")?;
        let enqueued = inner.enqueued();
        // SAFETY: the stream is live; this handle keeps it so.
        match unsafe { inner.context.state.sys.cuStreamQuery(inner.raw) } {
            Ok(CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
            other => {
                inner.answer("cuStreamQuery", other)?;
                inner.complete(enqueued);
                inner.context.check_fault()?;
                Ok(true)
            }
        }
    }

    /// Makes work enqueued on this stream from now on wait for `event`.
    ///
    /// Waiting for an event that was never recorded does nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the event was recorded in a capture and the
    /// stream does not record the same one, or the other way round; otherwise the error that the driver
    /// returns.
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        let inner = &*self.inner;
        let mut enqueuing = Enqueuing::of_no_launch(self)?;
        inner.context.state.same_driver(event.context().state)?;
        // Held until the wait is enqueued: recorded in a capture meanwhile, the event would pull
        // the stream in.
        let _recorded = event.may_be_waited_for(inner)?;
        // SAFETY: both handles are live: `self` and `event` own them.
        unsafe { call!(inner, cuStreamWaitEvent(inner.raw, event.as_raw(), 0)) }?;
        enqueuing.number();
        Ok(())
    }

    /// Makes work enqueued on this stream from now on wait for all that `other` has enqueued.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if one of them records a graph and the
    /// other does not record the same one; otherwise the error that the driver returns.
    pub fn wait_stream(&self, other: &Self) -> Result<()> {
        self.inner.usable_here()?;
        self.inner.context.state.same_driver(other.inner.context.state)?;
        match (&self.inner.capture, &other.inner.capture) {
            (None, None) => {}
            (Some(capture), Some(others)) if capture.number() == others.number() => {
                return capture.enter(&self.inner)?.join(&self.inner, &other.inner);
            }
            _ => return Err(outside_capture("a stream")),
        }
        // A new number, so that work enqueued through raw handles is waited for too.
        let newest = match other.inner.usable_here() {
            Ok(()) => other.inner.number(),
            // Lent, and used by nobody else's raw handles that the caller could know of.
            Err(_) => other.inner.enqueued(),
        };
        self.inner.wait_for(&other.inner, newest)
    }

    /// Enqueues a function for the host to run when all earlier work is done, on a thread of the
    /// driver. Later work of the stream waits for it.
    ///
    /// The function runs on the driver's thread, where CUDA must not be called: calls of this crate in it are errors. A
    /// buffer or stream that it drops is freed by the next allocation or host function of the context. A panic in the
    /// function is caught. If the stream is dropped, or the device is lost, before it ran, it is dropped without being
    /// run.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that records; otherwise the error that the
    /// driver returns. The function is then dropped without being run.
    #[doc(alias = "cuLaunchHostFunc")]
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.inner.host_function(Box::new(function))
    }

    /// Enqueues a function for the host to run, as [`Stream::host_function`] does, that may be
    /// called more than once: captured into a graph it is called at every launch of the graph. Two
    /// calls never overlap, and a panic in one is caught and does not keep later ones from running.
    ///
    /// It is kept until the graph is dropped or recorded again; launches that are still running don't call it
    /// afterwards. On an ordinary stream it is dropped with the stream and called once, so [`Stream::host_function`]
    /// suits better.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) in the body of a conditional node; otherwise the
    /// driver's error. The function is then dropped without being run.
    #[doc(alias = "cuLaunchHostFunc")]
    pub fn host_function_mut(&self, function: impl FnMut() + Send + 'static) -> Result<()> {
        callback::host_function_mut(self, Box::new(function))
    }

    /// Returns this stream's priority, after clamping. A stream that records has the default priority,
    /// which its nodes have too unless [`LaunchConfig::priority`](crate::LaunchConfig::priority) sets another.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the stream's recording has ended, and in
    /// [`GraphExec::update`](crate::GraphExec::update), where there is no stream of the driver;
    /// otherwise what the driver returned.
    #[doc(alias = "cuStreamGetPriority")]
    pub fn priority(&self) -> Result<i32> {
        let inner = &*self.inner;
        inner.usable_here()?;
        // Held until the driver has returned: the stream goes with its recording.
        let _recording = match &inner.capture {
            None => None,
            Some(capture) => {
                let recording = capture.enter(inner)?;
                recording.captures()?;
                Some(recording)
            }
        };
        let mut priority = 0;
        // SAFETY: the stream is live, not null since it is none of an update, and `priority` is a valid
        // place for an int.
        unsafe { call!(inner, cuStreamGetPriority(inner.raw, &raw mut priority)) }?;
        Ok(priority)
    }

    /// Destroys the stream now and returns the driver's error; a drop leaves an error for
    /// [`Context::take_drop_errors`]. Does not wait: enqueued work still runs. A foreign stream is not destroyed, but
    /// its token is dropped. A stream that records is destroyed when its capture has ended.
    ///
    /// # Errors
    /// The error holds the stream and names the reason: buffers with this home stream or other handles to it are alive,
    /// or the driver's error.
    #[doc(alias = "cuStreamDestroy")]
    pub fn close(self) -> Result<(), ConsumeError<Self>> {
        if let Err(error) = self.inner.state().usable() {
            return Err(ConsumeError::new(self, error));
        }
        let mut inner = Self::only_handle(self.inner)?;
        if let Err(error) = inner.close() {
            let inner = Arc::new(inner);
            if inner.capture.is_none() {
                inner.context.register_stream(&inner);
            }
            return Err(ConsumeError::new(Self { inner }, error));
        }
        Ok(())
    }

    /// Returns whether what is enqueued becomes part of a graph instead of running: see
    /// [`Context::capture`](crate::Context::capture).
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.inner.capture.is_some()
    }

    /// Returns a number that names this stream in the process and is never used again; the events of the
    /// feature `tracing` call it `stream`.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<StreamInner> {
        &self.inner
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("id", &self.inner.id)
            .field("raw", &self.inner.raw)
            .field("enqueued", &self.inner.enqueued())
            .finish()
    }
}

impl PartialEq for Stream {
    /// Returns whether both are handles to one stream.
    fn eq(&self, other: &Self) -> bool {
        self.inner.id == other.inner.id
    }
}

impl Eq for Stream {}

/// Returns the driver's stream, which never waits for the NULL stream.
pub(crate) fn create(context: &ContextInner, priority: i32) -> Result<CUstream> {
    let mut raw = std::ptr::null_mut();
    context.with_current(|| {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        // SAFETY: `raw` is a valid place for a handle, and this context is current.
        unsafe { call!(context, cuStreamCreateWithPriority(&raw mut raw, flags, priority)) }
    })?;
    Ok(raw)
}

/// Returns the error for waiting across the border of a capture, which would invalidate it.
#[cold]
pub(crate) fn outside_capture(what: &str) -> Error {
    Error::invalid(format!(
        "work that is recorded can't wait for {what} outside the recording, nor the other way round"
    ))
    .with_hint(
        "each launch of the graph waits for what used its memory before; `Stream::fork` makes \
         another stream of the same recording",
    )
}
