//! Capturing: from a closure that enqueues to a graph.

use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cuda_sys::CUgraph;

use super::driver::{self, RawNode};
use super::exec::GraphExec;
use super::node::GraphNode;
use super::recording::{Capture, Target, destroy_stream};
use super::template::Template;
use crate::context::{Context, ContextInner};
use crate::error::{Error, Result};
use crate::memory::AnyRecording;
use crate::stream::{Stream, create};

impl Context {
    /// Records what `record` enqueues as a graph, to be launched as often as wanted for the host
    /// cost of one launch.
    ///
    /// `record` gets a separate stream, on which nothing runs: launches, copies between device memory and fills become
    /// nodes of the graph. `state` holds the graph's data; the graph owns it, and [`GraphExec::state`] returns it. In
    /// the closure it is a `&mut`, so kernels get `&*x` to read and `&mut *x` to write, or `&state.x` and
    /// `&mut state.y`. Buffers that the closure borrows from around it stay borrowed as long as the graph lives.
    ///
    /// ```no_run
    /// # use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, kernels};
    /// # kernels! { struct Kernels;
    /// #     unsafe in "" { safe fn step(x: &[f32], y: &mut [f32], n: usize) where n <= x.len(), n <= y.len(); } }
    /// # fn run(context: &Context, kernels: &Kernels) -> Result<()> {
    /// struct State { now: DeviceBuffer<f32>, next: DeviceBuffer<f32> }
    /// let stream = context.stream()?;
    /// let state = State {
    ///     now: DeviceBuffer::zeroed(&stream, 1000)?,
    ///     next: DeviceBuffer::zeroed(&stream, 1000)?,
    /// };
    /// let mut graph = context.capture(state, |stream, State { now, next }| {
    ///     for _ in 0..100 {
    ///         kernels.step(stream, LaunchConfig::cover(1000, 256), &*now, &mut *next, 1000)?;
    ///         kernels.step(stream, LaunchConfig::cover(1000, 256), &*next, &mut *now, 1000)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// for _ in 0..10 {
    ///     graph.launch(&stream)?;
    /// }
    /// let result = graph.state().now.to_vec(&stream)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # What stays borrowed
    /// Borrows of `record` for `'env` last as long as the graph. Memory that it reaches in another way is not borrowed:
    /// a buffer behind a lock or a channel, or one that it has created and moved elsewhere. A launch of the graph may
    /// then change the values that a view shows. The graph keeps such memory, and the device orders its launches with
    /// all other uses, as the host's guards are. So unsafe code must not rely on values in device memory to stay as
    /// they were checked, unless it owns the memory.
    ///
    /// # Order
    /// Each launch of the graph uses all that its nodes use: it waits for conflicting work on other
    /// streams, and later work waits for it, as for any other launch. So memory may be in use while
    /// a graph is captured, and none of it is waited for then.
    ///
    /// # What a recording can't hold
    /// Waits for the device, queries of it, downloads to the host's memory, and waits for events and streams from
    /// outside return an error before the driver is called, so the capture goes on. Work that the closure enqueues on
    /// *other* streams than the one it is given, and its forks, is not recorded: it runs at once, without an error.
    /// Only the thread that runs `record` can enqueue on these streams: a graph can't keep borrowed what another thread
    /// has borrowed. The slice of an upload is read while recording, and each launch of the graph copies it again.
    ///
    /// # Waiting
    /// A capture begins only when no other thread waits for the whole context, by
    /// [`Context::synchronize`] or [`Context::free_deferred`], or runs [`Context::outside_captures`], as libraries do:
    /// such a wait would invalidate it. Until then this call waits. So a host function must not wait for a thread that
    /// records: if a third thread waits for the context meanwhile, and so for that host function, none of the three goes
    /// on. While a graph is recorded, these calls are errors.
    ///
    /// # Memory of the graph
    /// A buffer made in the closure is allocated and freed by the graph each time that it runs: it
    /// must be dropped before the closure ends.
    ///
    /// # Errors
    /// The error that `record` returns; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a buffer made in
    /// the closure is still alive; otherwise the error that the driver returns. `state` is then dropped.
    #[doc(alias = "cuStreamBeginCapture")]
    #[doc(alias = "cuGraphInstantiate")]
    pub fn capture<'env, S, F>(&self, mut state: S, record: F) -> Result<GraphExec<'env, S>>
    where
        F: FnOnce(&Stream, &mut S) -> Result<()> + 'env,
    {
        let template = capture(self.inner(), &[], |streams| match streams {
            [stream, ..] => record(stream, &mut state),
            [] => Ok(()),
        })?;
        GraphExec::new(self, template, state)
    }

    /// Records what `record` enqueues on streams of several contexts as one graph.
    ///
    /// `record` gets a stream of each context, in the order of `contexts`. Work on different streams may run at the same
    /// time, except where it uses the same memory: [`capture`](Self::capture) describes order, borrows, and what a
    /// recording can't hold, and all of that applies to every stream here.
    /// [`copy_from_peer`](crate::DeviceSliceMut::copy_from_peer) copies between the devices. A kernel may use memory of
    /// another one of the contexts if its own has [access](Self::enable_peer_access) to it, as elsewhere.
    ///
    /// The graph belongs to the first context: it is launched on streams of that context, one call for the work of all
    /// devices. Each launch waits for conflicting work on all of them, and later work on any of them waits for it. To
    /// free modules that kernels of the graph came from, and its pinned memory, call
    /// [`free_deferred`](Self::free_deferred) of the first context before that of the others.
    ///
    /// Buffers, conditional parts and named launches ([`Stream::last_node`]) are for the first stream and its
    /// [forks](Stream::fork). [`GraphExec::recapture`] instantiates such a graph again instead of changing it in place.
    ///
    /// ```no_run
    /// # use cuda_safe::{Context, DeviceBuffer, Devices, LaunchConfig, Result, kernels};
    /// # kernels! { struct Kernels;
    /// #     unsafe in "" { safe fn step(x: &[f32], y: &mut [f32], n: usize) where n <= x.len(), n <= y.len(); } }
    /// # fn run(kernels: &[Kernels; 2]) -> Result<()> {
    /// let devices = Devices::open(&[0, 1])?;
    /// let streams = devices.streams()?;
    /// let buffer = |device: usize| DeviceBuffer::<f32>::zeroed(&streams[device], 1000);
    /// // Two buffers on each device.
    /// let state = [[buffer(0)?, buffer(0)?], [buffer(1)?, buffer(1)?]];
    /// let mut graph = Context::capture_on(devices.contexts(), state, |streams, [[a, b], [c, d]]| {
    ///     let shape = LaunchConfig::cover(1000, 256);
    ///     kernels[0].step(&streams[0], shape, &*a, &mut *b, 1000)?;
    ///     kernels[1].step(&streams[1], shape, &*c, &mut *d, 1000)?;
    ///     // Both kernels may run at the same time; each copy waits for the one whose result it reads.
    ///     c.as_slice_mut().copy_from_peer(&streams[1], &*b)?;
    ///     a.as_slice_mut().copy_from_peer(&streams[0], &*d)
    /// })?;
    /// for _ in 0..100 {
    ///     graph.launch(&streams[0])?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there are no contexts, if one is there twice, or if they
    /// belong to different drivers; otherwise as [`capture`](Self::capture).
    pub fn capture_on<'env, S, F>(
        contexts: &[impl Borrow<Self>],
        mut state: S,
        record: F,
    ) -> Result<GraphExec<'env, S>>
    where
        F: FnOnce(&[Stream], &mut S) -> Result<()> + 'env,
    {
        let (first, others) = distinct(contexts)?;
        let template = capture(first.inner(), &others, |streams| record(streams, &mut state))?;
        GraphExec::new(first, template, state)
    }
}

/// Returns the first of several contexts, and the others.
///
/// # Errors
/// There are none, one is there twice, or they belong to different drivers.
pub(super) fn distinct<C: Borrow<Context>>(
    contexts: &[C],
) -> Result<(&Context, Vec<Arc<ContextInner>>)> {
    let Some((first, others)) = contexts.split_first() else {
        return Err(Error::invalid("no context is given to record on"));
    };
    let first = first.borrow();
    let mut known = vec![first.inner()];
    for context in others {
        let context = context.borrow().inner();
        first.inner().state.same_driver(context.state)?;
        if known.iter().any(|other| Arc::ptr_eq(other, context)) {
            return Err(Error::invalid(format!(
                "the context of device {} is given twice",
                context.state.ordinal
            ))
            .with_hint("`Stream::fork` makes another stream of the same context"));
        }
        known.push(context);
    }
    Ok((first, known.into_iter().skip(1).cloned().collect()))
}

impl Stream {
    /// Creates another stream of the same recording, which starts at this stream's current node. Work on it is not
    /// ordered with later work on this stream, except where both use the same memory. [`Stream::wait_stream`] joins it
    /// again; streams that are not joined when the capture ends are joined then.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that doesn't record; otherwise
    /// the error that the driver returns.
    pub fn fork(&self) -> Result<Self> {
        let inner = self.inner();
        let capture = Capture::of(inner).ok_or_else(|| {
            Error::invalid("only a stream that records can be forked")
                .with_hint("elsewhere make another stream: `Context::stream`")
        })?;
        {
            let recording = capture.enter(inner)?;
            recording.captures()?;
            recording.not_of_others("a fork")?;
        }
        self.fork_in(&inner.context, &capture)
    }

    /// Creates another stream of the same recording, perhaps in another context.
    fn fork_in(&self, context: &Arc<ContextInner>, capture: &Arc<Capture>) -> Result<Self> {
        let raw = create(context, 0)?;
        let stream = Self::recording(context, raw, capture.clone());
        capture.enter(self.inner())?.fork(self.inner(), stream.inner())?;
        Ok(stream)
    }

    /// Returns the launch that was recorded last on this stream, to be changed later with
    /// [`GraphExec::update`](crate::GraphExec::update). The graph lists what was named so:
    /// [`GraphExec::nodes`](crate::GraphExec::nodes).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the stream doesn't record, or the newest
    /// that it has recorded is no launch of a kernel, or is named already.
    pub fn last_node(&self) -> Result<GraphNode> {
        let Some(capture) = Capture::of(self.inner()) else {
            return Err(Error::invalid("only a stream that records has nodes"));
        };
        let index = capture.enter(self.inner())?.name_last(self.inner())?;
        Ok(GraphNode { recording: capture.number, index })
    }

    /// Makes [`last_node`](Self::last_node) refuse the launch that was recorded last on this stream: for
    /// libraries, whose later work relies on what that launch writes. Does nothing on other streams, and in a subscriber
    /// of `tracing`.
    pub fn freeze_last_node(&self) {
        if let Some(capture) = Capture::of(self.inner()) {
            // A subscriber's thread may have locked it.
            if let Ok(mut recording) = capture.lock() {
                recording.seal_last(self.inner());
            }
        }
    }

    /// Returns which recording the stream belongs to; `None` on a stream that doesn't record. Work on the streams of
    /// one recording runs in one launch of its graph, or not at all.
    #[must_use]
    #[inline]
    pub fn recording_id(&self) -> Option<super::RecordingId> {
        // Most streams do not record.
        self.inner().capture.as_ref()?;
        Capture::of(self.inner()).map(|capture| capture.id())
    }
}

/// Runs `record` on streams that capture, one of each context, and gives what was captured.
pub(super) fn capture(
    context: &Arc<ContextInner>,
    others: &[Arc<ContextInner>],
    record: impl FnOnce(&[Stream]) -> Result<()>,
) -> Result<Template> {
    let emptied = Emptied { capture: Capture::new(), context };
    let capture = &emptied.capture;
    // `_begun` lasts until the capture has ended, also by a panic.
    let _begun = others.iter().map(|other| Begun::new(other)).collect::<Result<Vec<_>>>()?;
    let part = part(context, capture, None, &[], |stream| {
        if others.is_empty() {
            return record(std::slice::from_ref(stream));
        }
        let mut streams = vec![stream.clone()];
        for other in others {
            streams.push(stream.fork_in(other, capture)?);
        }
        record(&streams)
    })?;
    let mut template = Template::empty(context);
    template.graph = part.graph;
    part.outcome?;
    template.take(capture)?;
    Ok(template)
}

/// Keeps waits for the whole of another context out of a capture that streams of it join.
struct Begun<'a>(&'a ContextInner);

impl<'a> Begun<'a> {
    fn new(context: &'a ContextInner) -> Result<Self> {
        context.state.usable()?;
        context.captures.begin()?;
        Ok(Self(context))
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.captures.end();
    }
}

/// Empties a recording when dropped: after a failure or a panic, its resources must not live on with a stream that the
/// closure has moved out.
pub(super) struct Emptied<'a> {
    pub(super) capture: Arc<Capture>,
    pub(super) context: &'a ContextInner,
}

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        if let Ok(mut contents) = self.capture.empty() {
            contents.failures.report(self.context);
        }
    }
}

/// The results of one capture.
pub(super) struct Part {
    pub(super) graph: CUgraph,
    /// The last nodes of the captured stream.
    pub(super) tail: Arc<[RawNode]>,
    /// The closure's error, or the error that invalidated the capture; a graph exists nevertheless.
    pub(super) outcome: Result<()>,
}

/// Captures to a new graph or, behind `after`, into `graph`.
pub(super) fn part(
    context: &Arc<ContextInner>,
    capture: &Arc<Capture>,
    graph: Option<CUgraph>,
    after: &[RawNode],
    record: impl FnOnce(&Stream) -> Result<()>,
) -> Result<Part> {
    // Pinned sources of uploads, left by dropped graphs, are bounded now: within the capture nothing can be freed.
    context.deferred.bound_pinned(context);
    let raw = create(context, 0)?;
    let stream = Stream::recording(context, raw, capture.clone());
    context.captures.begin()?;
    match graph {
        None => driver::begin(context, raw),
        Some(graph) => driver::begin_to(context, raw, graph, after),
    }
    .inspect_err(|_| context.captures.end())?;
    if let Ok(mut recording) = capture.lock() {
        recording.begin(stream.inner(), after.into());
    }
    // The capture must end even if the closure panics.
    let recorded = catch_unwind(AssertUnwindSafe(|| record(&stream)));
    let (joined, tail, ended, streams) = {
        let mut recording = capture.lock()?;
        let joined = recording.join_all();
        let tail = driver::tail(context, raw);
        recording.target = Target::Ended;
        let ended = driver::end(context, raw);
        context.captures.end();
        (joined, tail, ended, std::mem::take(&mut recording.streams))
    };
    for (raw, context) in streams {
        destroy_stream(&context, raw);
    }
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(panic) => {
            if let (Ok(made), None) = (ended, graph) {
                context.keep_drop_result(driver::destroy_graph(context, made));
            }
            resume_unwind(panic);
        }
    };
    // The closure's error is more specific than that of the capture that it invalidated.
    let outcome = match joined {
        Ok(()) => recorded,
        Err(error) => Err(first(capture, recorded, error)),
    };
    let graph = match ended {
        Ok(made) => made,
        Err(error) => return Err(first(capture, outcome, error)),
    };
    let (tail, outcome) = match tail {
        Ok(tail) => (tail, outcome),
        Err(error) => (Arc::from([]), Err(first(capture, outcome, error))),
    };
    Ok(Part { graph, tail, outcome })
}

/// Returns the error of a part whose end has failed: that of the closure, if that has failed too.
fn first(capture: &Capture, outcome: Result<()>, error: Error) -> Error {
    let Err(returned) = outcome else { return error };
    if let Ok(mut recording) = capture.lock() {
        recording.contents.failures.note_returned(returned.clone());
        recording.contents.failures.note(error);
    }
    returned
}
