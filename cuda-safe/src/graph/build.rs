//! Graphs put together from parts, with the dependencies that the caller names.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::capture::part;
use super::driver::{self, RawNode};
use super::exec::GraphExec;
use super::recording::Capture;
use super::template::Template;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A graph being put together from parts.
///
/// A part is whatever a closure enqueues: one launch, copy, fill or host function, or several in the
/// order of their stream. It comes after the parts that the caller names, and after those that have
/// used its memory in a way that conflicts; with all others it may run at the same time. Needs a
/// driver of CUDA 12.3.
///
/// ```no_run
/// # use cuda_safe::{Context, DeviceBuffer, GraphBuilder, LaunchConfig, Result, Stream, kernels};
/// # kernels! { struct Kernels;
/// #     unsafe in "" { safe fn fill(x: &mut [f32], n: usize) where n <= x.len();
/// #         safe fn add(x: &[f32], y: &mut [f32], n: usize) where n <= x.len(), n <= y.len(); } }
/// # fn run(context: &Context, stream: &Stream, kernels: &Kernels, x: DeviceBuffer<f32>, y: DeviceBuffer<f32>) -> Result<()> {
/// let (n, shape) = (x.len(), LaunchConfig::cover(x.len(), 256));
/// let mut builder = GraphBuilder::new(context, (x, y))?;
/// let one = builder.add(&[], |stream, (x, _)| kernels.fill(stream, shape, x, n))?;
/// let two = builder.add(&[], |stream, (_, y)| kernels.fill(stream, shape, y, n))?;
/// builder.add(&[one, two], |stream, (x, y)| kernels.add(stream, shape, &*x, y, n))?;
/// let mut graph = builder.instantiate()?;
/// graph.launch(stream)?;
/// # Ok(()) }
/// ```
pub struct GraphBuilder<'env, S> {
    growing: Growing,
    /// The last nodes of each part.
    parts: Vec<Arc<[RawNode]>>,
    /// Why nothing more can be made of the graph, if a capture has failed.
    spoilt: Option<Error>,
    state: S,
    env: PhantomData<&'env ()>,
}

/// The graph so far, and its recording, whose contents go with it also if streams of it live on.
struct Growing {
    template: Template,
    capture: Arc<Capture>,
}

impl Drop for Growing {
    fn drop(&mut self) {
        if let Ok(mut contents) = self.capture.empty() {
            contents.failures.report(&self.template.context);
        }
    }
}

/// A part of a graph; see [`GraphBuilder::add`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphPart {
    recording: u64,
    index: usize,
}

// SAFETY: the driver ties graphs to no thread, and everything else is Send where the state is.
unsafe impl<S: Send> Send for GraphBuilder<'_, S> {}
// SAFETY: `&self` gives nothing of the driver's.
unsafe impl<S: Sync> Sync for GraphBuilder<'_, S> {}

impl<'env, S> GraphBuilder<'env, S> {
    /// Creates a graph without parts, to work on `state`.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuGraphCreate")]
    pub fn new(context: &Context, state: S) -> Result<Self> {
        let inner = context.inner();
        let mut template = Template::empty(inner);
        template.graph = driver::create(inner)?;
        let growing = Growing { template, capture: Capture::new() };
        Ok(Self { growing, parts: Vec::new(), spoilt: None, state, env: PhantomData })
    }

    /// Adds a part that comes after all of `after`. `record` can enqueue the same work as the closure of a
    /// [capture](crate::Context::capture). A buffer made in one part may be dropped in a later one. Waits while another
    /// thread waits for the whole context, as [`Context::capture`](crate::Context::capture) does.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a part of another graph; the error that `record`
    /// returns; otherwise the error that the driver returns. Whatever was enqueued before the error stays in
    /// the graph.
    #[doc(alias = "cuGraphAddKernelNode")]
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    pub fn add<F>(&mut self, after: &[GraphPart], record: F) -> Result<GraphPart>
    where
        F: FnOnce(&Stream, &mut S) -> Result<()> + 'env,
    {
        let mut nodes = Vec::new();
        for part in after {
            let known = self
                .parts
                .get(part.index)
                .filter(|_| part.recording == self.growing.capture.number);
            let tail = known
                .ok_or_else(|| Error::invalid("the part to come after is of another graph"))?;
            nodes.extend(tail.iter().copied());
        }
        nodes.sort_unstable();
        nodes.dedup();
        if let Some(error) = &self.spoilt {
            return Err(error.clone());
        }
        // Unless the capture ends normally, the state of its nodes is unknown.
        self.spoilt = Some(Error::invalid("the closure of a part has panicked"));
        let Growing { template, capture } = &self.growing;
        let (graph, state) = (Some(template.graph), &mut self.state);
        let recorded = |stream: &Stream| record(stream, state);
        let made = part(&template.context, capture, graph, &nodes, recorded);
        self.spoilt = made.as_ref().err().cloned();
        let made = made?;
        made.outcome?;
        self.parts.push(made.tail);
        Ok(GraphPart { recording: self.growing.capture.number, index: self.parts.len() - 1 })
    }

    /// Returns the graph, ready to be launched.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a buffer made in a part is still alive;
    /// otherwise the error that the driver returns.
    #[doc(alias = "cuGraphInstantiate")]
    pub fn instantiate(mut self) -> Result<GraphExec<'env, S>> {
        if let Some(error) = self.spoilt.take() {
            return Err(error);
        }
        let Growing { template, capture } = &mut self.growing;
        template.take(capture)?;
        let context = Context::from_inner(template.context.clone());
        let template = std::mem::replace(template, Template::empty(context.inner()));
        GraphExec::new(&context, template, self.state)
    }
}

impl<S: fmt::Debug> fmt::Debug for GraphBuilder<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphBuilder")
            .field("state", &self.state)
            .field("parts", &self.parts.len())
            .finish_non_exhaustive()
    }
}
