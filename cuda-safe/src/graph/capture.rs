//! Capturing: from a closure that enqueues to a graph.

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
    /// [`Context::synchronize`] or [`Context::free_deferred`]: such a wait would invalidate it. Until then this call
    /// waits. So a host function must not wait for a thread that records: if a third thread waits for the context
    /// meanwhile, and so for that host function, none of the three goes on. While a graph is recorded, these two calls
    /// are errors.
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
        let template = capture(self.inner(), |stream| record(stream, &mut state))?;
        GraphExec::new(self, template, state)
    }
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
        let capture = inner.capture.as_ref().ok_or_else(|| {
            Error::invalid("only a stream that records can be forked")
                .with_hint("elsewhere make another stream: `Context::stream`")
        })?;
        {
            let recording = capture.enter(inner)?;
            recording.captures()?;
            recording.not_of_others("a fork")?;
        }
        let raw = create(&inner.context, 0)?;
        let stream = Self::recording(&inner.context, raw, capture.clone());
        capture.enter(inner)?.fork(inner, raw, stream.id())?;
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
        let Some(capture) = &self.inner().capture else {
            return Err(Error::invalid("only a stream that records has nodes"));
        };
        let index = capture.enter(self.inner())?.name_last(self.inner())?;
        Ok(GraphNode { recording: capture.number(), index })
    }

    /// Makes [`last_node`](Self::last_node) refuse the launch that was recorded last on this stream: for
    /// libraries, whose later work relies on what that launch writes. Does nothing on other streams.
    pub fn seal_last_node(&self) {
        if let Some(capture) = &self.inner().capture {
            capture.lock().seal_last(self.inner());
        }
    }

    /// Returns which recording the stream belongs to; `None` on a stream that doesn't record. Work on the streams of
    /// one recording runs in one launch of its graph, or not at all.
    #[must_use]
    pub fn recording_id(&self) -> Option<super::RecordingId> {
        self.inner().capture.as_ref().map(|capture| capture.id())
    }
}

/// Runs `record` on a stream that captures, and gives what was captured.
pub(super) fn capture(
    context: &Arc<ContextInner>,
    record: impl FnOnce(&Stream) -> Result<()>,
) -> Result<Template> {
    let emptied = Emptied { capture: Capture::new(), context };
    let capture = &emptied.capture;
    let part = part(context, capture, None, &[], record)?;
    let mut template = Template::empty(context);
    template.graph = part.graph;
    part.outcome?;
    template.take(capture)?;
    Ok(template)
}

/// Empties a recording when dropped: after a failure or a panic, its resources must not live on with a stream that the
/// closure has moved out.
pub(super) struct Emptied<'a> {
    pub(super) capture: Arc<Capture>,
    pub(super) context: &'a ContextInner,
}

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        self.capture.empty().failures.report(self.context);
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
    let raw = create(context, 0)?;
    let stream = Stream::recording(context, raw, capture.clone());
    context.captures.begin();
    match graph {
        None => driver::begin(context, raw),
        Some(graph) => driver::begin_to(context, raw, graph, after),
    }
    .inspect_err(|_| context.captures.end())?;
    capture.lock().begin(stream.id(), raw, after.into());
    // The capture must end whatever becomes of the closure.
    let recorded = catch_unwind(AssertUnwindSafe(|| record(&stream)));
    let (joined, tail, ended, streams) = {
        let mut recording = capture.lock();
        let joined = recording.join_all(context);
        let tail = driver::tail(context, raw);
        recording.target = Target::Ended;
        let ended = driver::end(context, raw);
        context.captures.end();
        (joined, tail, ended, std::mem::take(&mut recording.streams))
    };
    for raw in streams {
        destroy_stream(context, raw);
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
    let failures = &mut capture.lock().contents.failures;
    failures.note_returned(returned.clone());
    failures.note(error);
    returned
}
