//! Streams that a framework lends for one call of an operator.

mod views;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cuda_sys::{CU_STREAM_LEGACY, CUstream, CUstreamCaptureMode};

use crate::context::{Context, ContextInner, Idle, LentStreams, exchange_mode, relax_captures};
use crate::error::{Error, Result};
use crate::graph::{Capture, capture_of};
use crate::memory::{Allocator, forget_allocator, set_allocator};
use crate::stream::{InCall, Stream};

/// A stream that other code has lent for a call of [`Context::lend`]. It dereferences to a [`Stream`].
///
/// Memory that comes with the call is seen through views, which borrow this: [`slice_from_raw`](Self::slice_from_raw),
/// [`slice_from_raw_mut`](Self::slice_from_raw_mut).
pub struct LentStream {
    /// The stream and the views, which later calls find here if nothing refers to the stream.
    kept: Box<Idle>,
    /// `Some` while the other code captures the stream, with this thread's mode before the call.
    capture: Option<(Arc<Capture>, CUstreamCaptureMode)>,
    /// The call is this thread's.
    not_send: PhantomData<*const ()>,
}

impl Context {
    /// Runs `call` with a stream of other code, such as the current stream of a framework, which it lends for this one
    /// call. The stream may be the legacy stream (0 or 1), on which PyTorch runs by default.
    ///
    /// ```no_run
    /// # use cuda_safe::{Context, LaunchConfig, Result, kernels, sys};
    /// # kernels! { struct Kernels;
    /// #     unsafe in "" { safe fn axpy(a: f32, x: &[f32], y: &mut [f32], n: usize) where n <= x.len(), n <= y.len(); } }
    /// # fn run(context: &Context, kernels: &Kernels, raw: sys::CUstream, x: u64, y: u64, n: usize) -> Result<()> {
    /// // SAFETY: the framework keeps its stream and its tensors of n floats until the call returns, no other work
    /// // writes them meanwhile, and a capture neither begins nor ends in it.
    /// unsafe {
    ///     context.lend(raw, |lent| {
    ///         let x = lent.slice_from_raw::<f32>(x, n)?;
    ///         let y = lent.slice_from_raw_mut::<f32>(y, n)?;
    ///         kernels.axpy(lent, LaunchConfig::cover(n, 256), 2.0, x, y, n)
    ///     })
    /// }
    /// # }
    /// ```
    ///
    /// The lent stream is used by `call` alone, on this thread; a handle to it that outlives the call, or goes to
    /// another thread, returns errors. Memory whose home stream it is may outlive the call. One stream stays one stream
    /// over all calls: memory that is made in one call and used in the next needs no event.
    ///
    /// If `raw` is the legacy stream, the context is made current for the call.
    ///
    /// # Under a capture of the other code
    /// While the other code captures the stream, as `torch.cuda.graph` does, `call` records into its graph, and
    /// [`Stream::is_recording`] is true. The launches of that graph are unknown here. So:
    /// - Launches, copies and fills that use memory which is lent for the call, or made *and dropped* in it, are
    ///   recorded.
    /// - Other memory of this crate may be read if the work that wrote it has finished. The graph keeps it, and until
    ///   the graph and all that was made from it are destroyed, writing it is an error. [`Context::free_deferred`], and
    ///   later calls of `lend`, free what a graph has kept.
    /// - All else is an error before the driver is asked, so the capture goes on: writing other memory, waits of the
    ///   host, waits for events and streams outside of the capture, buffers that outlive the call, and forks.
    ///
    /// # Errors
    /// The error of `call`. [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), without a call of `call`, if `raw` is the
    /// per-thread stream or belongs to another context, inside another call of `lend`, inside a closure of another context's
    /// [`Stream::graph_lock`], if the stream's capture was invalidated, or if work on the legacy stream would invalidate a
    /// capture. The error that the driver returns, such as for a handle that is none. After `call`, if something made under
    /// a capture outlives it, or if the driver fails where the lent stream must wait for work on other streams that uses
    /// lent memory; the host has waited for it then.
    ///
    /// If the end of the call fails after an error or a panic of `call`, [`Context::take_drop_errors`] returns the later
    /// error.
    ///
    /// # Safety
    /// Until this returns:
    /// - `raw` is a stream of the context, or 0 or 1 for its legacy stream;
    /// - no other code begins or ends a capture of the stream, or destroys a graph that it captures;
    /// - if it is captured, the graph is launched only in the context of the capture, by code that orders the launch
    ///   with all other uses of the lent memory.
    ///
    /// Lent memory that `call` puts behind a [`Gate`](crate::Gate), as collectives of `cuda-nccl` do, and the stream stay until
    /// their work has ended on all devices; after an abort or a failure, until `cuda_nccl::Abort::wait` has returned `true`.
    #[doc(alias = "cuStreamGetId")]
    pub unsafe fn lend<R>(
        &self,
        raw: CUstream,
        call: impl FnOnce(&LentStream) -> Result<R>,
    ) -> Result<R> {
        let inner = self.inner();
        inner.state.usable()?;
        let legacy = match raw.addr() {
            0 | 1 => true,
            2 => {
                return Err(Error::invalid(
                    "the per-thread stream (2) can't be lent: what it names depends on the calling thread",
                )
                .with_hint("lend a stream that the framework has created, or its legacy stream (1)"));
            }
            _ => false,
        };
        inner.graph_lock.may_be_taken()?;
        let here = InCall::begin()?;
        inner.deferred.drop_retired();
        let raw = if legacy { CU_STREAM_LEGACY } else { raw };
        let run = || {
            let lent = LentStream::open(inner, raw, legacy)?;
            here.on(lent.inner());
            let result = catch_unwind(AssertUnwindSafe(|| {
                inner.deferred.give_back(&lent)?;
                call(&lent)
            }));
            let closed = lent.close(inner);
            match result {
                Ok(Ok(result)) => closed.map(|()| result),
                Ok(Err(error)) => {
                    inner.keep_drop_result(closed);
                    Err(error)
                }
                Err(panic) => {
                    inner.keep_drop_result(closed);
                    resume_unwind(panic)
                }
            }
        };
        if legacy && !inner.is_current()? { inner.with_current(run) } else { run() }
    }
}

impl LentStream {
    /// Begins the call on a stream; on the legacy one with the context current.
    fn open(context: &Arc<ContextInner>, raw: CUstream, legacy: bool) -> Result<Self> {
        // This query comes first: others fail while the stream's capture is invalidated.
        let capturing = capture_of(context, raw)?;
        let is_of_context = || {
            let mut owner = std::ptr::null_mut();
            if legacy {
                return Ok(());
            }
            // SAFETY: the stream is live, says the caller of `lend`, and `owner` is a valid place for a handle.
            unsafe { call!(context, cuStreamGetCtx(raw, &raw mut owner)) }?;
            match owner == context.raw {
                true => Ok(()),
                false => Err(Error::invalid("the lent stream belongs to another context")),
            }
        };
        if let Some(capturing) = capturing {
            is_of_context()?;
            context.lent.note_capture(true);
            let mode = relax_captures(context)?;
            // Waits for the context are refused after this call.
            context.captures.join()?;
            let capture = Capture::of_lent(context, &capturing).inspect_err(|_| {
                context.captures.end();
                context.keep_drop_result(exchange_mode(context, mode).map(drop));
            })?;
            let stream = Stream::lent(context, raw, legacy, Some(capture.clone()));
            stream.inner().begin_call();
            capture.begin_lent(stream.inner(), capturing)?;
            let (kept, capture) = (Idle::new(0, stream), Some((capture, mode)));
            return Ok(Self { kept, capture, not_send: PhantomData });
        }
        let mut id = 0;
        // SAFETY: the stream is live, and `id` is a valid place for the number.
        unsafe { call!(context, cuStreamGetId(raw, &raw mut id)) }?;
        let kept = match context.lent.find(id) {
            // The driver never uses a number again, so it is a stream of this context.
            Some(idle) => idle,
            None => {
                is_of_context()?;
                context.lent.add(id, Stream::lent(context, raw, legacy, None))?
            }
        };
        context.lent.note_capture(false);
        kept.stream.inner().begin_call();
        Ok(Self { kept, capture: None, not_send: PhantomData })
    }

    /// Takes the memory of buffers that are made on this stream from now on in the call from a framework's allocator
    /// instead of this crate's pool: scratch memory and results, also under a capture of the framework, where such
    /// buffers may outlive the call.
    pub fn set_allocator(&self, allocator: impl Allocator + 'static) {
        set_allocator(allocator);
    }

    /// Ends the call: from here on the other code may do with stream and memory what it likes.
    fn close(self, context: &ContextInner) -> Result<()> {
        let Self { mut kept, capture, .. } = self;
        forget_allocator();
        let Idle { stream, views, .. } = &mut *kept;
        let views = views.get_mut();
        // SAFETY: `self` was consumed, so no reference borrows it.
        let mut closed = unsafe { views.end(context) };
        if let Some((capture, mode)) = &capture {
            closed = context.first_error(closed, capture.end_lent(stream.inner()));
            context.captures.end();
            closed = context.first_error(closed, exchange_mode(context, *mode).map(drop));
        }
        // Views that are left hold the stream too.
        let outlived = Arc::strong_count(stream.inner()) > 1 + views.len();
        let ended = stream.inner().end_call(outlived);
        if !outlived && capture.is_none() {
            LentStreams::leave(context, kept);
        }
        context.first_error(closed, ended)
    }
}

impl Deref for LentStream {
    type Target = Stream;

    #[inline]
    fn deref(&self) -> &Stream {
        &self.kept.stream
    }
}

impl fmt::Debug for LentStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentStream")
            .field("stream", &self.kept.stream)
            .field("captured", &self.capture.is_some())
            .finish_non_exhaustive()
    }
}
