//! Executable graphs.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use cuda_sys::CUgraphExec;

use super::capture::{capture, distinct};
use super::driver;
use super::node::{GraphNode, Update};
use super::recording::{Capture, Recording, Target};
use super::template::Template;
use crate::consume::ConsumeError;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{AnyRecording, Enqueue, Enqueuing};
use crate::stream::{Stream, names};
use crate::trace::event;

/// A graph, ready to be launched, and the state that it works on; made by
/// [`Context::capture`](crate::Context::capture) or a [`GraphBuilder`](crate::GraphBuilder).
///
/// The memory that it uses lives as long as the graph, even if the state drops it. `'env` is the lifetime of the
/// recording closure's borrows.
///
/// Dropping it does not wait: launches that are running finish.
pub struct GraphExec<'env, S> {
    exec: CUgraphExec,
    template: Template,
    /// The newest shape, where it is not the template's: by a recapture.
    newest: Option<Template>,
    /// Whether nodes were changed, which `template` does not show.
    changed: bool,
    name: u32,
    /// The stream that records the change of a node. The next update records on it again only if no
    /// closure has kept a handle to it.
    recorder: Option<(Stream, Arc<Capture>)>,
    /// Last: it is dropped after the graph.
    state: S,
    env: PhantomData<&'env ()>,
}

// SAFETY: the driver ties graphs to no thread; all that changes or reads them needs `&mut self`,
// and everything else is Send and Sync where the state is.
unsafe impl<S: Send> Send for GraphExec<'_, S> {}
// SAFETY: as above; `&self` gives nothing of the driver's but a number.
unsafe impl<S: Sync> Sync for GraphExec<'_, S> {}

/// The result of [`GraphExec::recapture`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recaptured {
    /// The executable graph was changed in place. Nodes keep their names, and those that the recapture
    /// has given them hold too, until the next.
    Updated,
    /// The shape differs, or what was named in it: a new one was made. Nodes named before the recapture
    /// are no longer known; those named in it are.
    Rebuilt,
}

impl<'env, S> GraphExec<'env, S> {
    pub(super) fn new(context: &Context, template: Template, state: S) -> Result<Self> {
        let exec = template.explain(driver::instantiate(context.inner(), template.graph))?;
        let (name, _) = names::intern("(graph)")?;
        let (newest, recorder, env) = (None, None, PhantomData);
        Ok(Self { exec, template, newest, changed: false, name, recorder, state, env })
    }

    /// Returns the state of the graph. Device memory in it is ordered with the graph's launches as with any
    /// other work.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns the state of the graph, to be changed. The graph goes on using the memory that it was
    /// recorded with.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }

    /// Returns the launches that were named with [`Stream::last_node`] when the graph was recorded last, in
    /// that order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = GraphNode> + use<S> {
        let recording = self.template.number;
        (0..self.template.contents.nodes.len()).map(move |index| GraphNode { recording, index })
    }

    /// Gives up the graph and gives back its state. Does not wait: launches that are running finish.
    #[must_use]
    pub fn into_state(self) -> S {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped and not used after these reads, so each field is owned
        // once: the graph by `parts`, which is dropped here, the state by the caller.
        let (parts, state) = unsafe {
            let parts = GraphExec::<()> {
                exec: this.exec,
                template: std::ptr::read(&raw const this.template),
                newest: std::ptr::read(&raw const this.newest),
                changed: this.changed,
                name: this.name,
                recorder: std::ptr::read(&raw const this.recorder),
                state: (),
                env: PhantomData,
            };
            (parts, std::ptr::read(&raw const this.state))
        };
        drop(parts);
        state
    }

    /// Enqueues the whole graph on `stream`: one driver call, but for waits for other streams.
    ///
    /// On a stream that records, a copy of the graph as it is now becomes a node of that recording;
    /// later changes of this graph don't reach it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a stream of another context; otherwise
    /// the error that the driver returns. Faults of the graph's work come later, from whichever call waits
    /// for it.
    #[doc(alias = "cuGraphLaunch")]
    pub fn launch(&mut self, stream: &Stream) -> Result<()> {
        let inner = stream.inner();
        self.template.of_context(&inner.context)?;
        if inner.capture.is_some() {
            return self.launch_as_child(stream);
        }
        let context = &self.template.context;
        let mut enqueuing = Enqueuing::on(stream)?;
        let uses = &self.template.contents.uses;
        if !uses.is_empty() {
            enqueuing.take_graph_locks(uses.locks_besides(context))?;
            enqueuing.between_contexts();
        }
        let enqueued = enqueuing.run(&self.template.contents.uses, Some(self.name), |_| {
            // SAFETY: graph and stream are live and of one context; all memory and code that the graph
            // uses is kept by it. Two launches of one graph never overlap: the driver orders them.
            let result = unsafe { context.state.sys.cuGraphLaunch(self.exec, inner.raw) };
            // Recorded even if the call failed: part of it may have been enqueued.
            Ok(self.template.explain(inner.answer("cuGraphLaunch", result)))
        })?;
        drop(enqueuing);
        event!(TRACE, stream = inner.id, sequence = enqueued.sequence, "graph launch");
        enqueued.recorded.and(enqueued.output)
    }

    fn launch_as_child(&mut self, stream: &Stream) -> Result<()> {
        let mut enqueuing = Enqueuing::on(stream)?;
        let shape = self.shape()?;
        if let Some(recording) = enqueuing.recording().and_then(Recording::of) {
            recording.captures()?;
            if shape.contents.spans {
                recording.not_in_body("a graph of several contexts can't be launched")?;
                recording.not_of_others("a launch of a graph of several contexts")?;
            }
        }
        enqueuing.between_contexts();
        let (context, raw) = (&shape.context, stream.inner().raw);
        let enqueued = enqueuing.run(&shape.contents.uses, None, |_| {
            let (graph, tail) = driver::capturing(context, raw)?;
            let node = shape.explain(driver::add_child(context, graph, &tail, shape.graph))?;
            // The child is in the graph, so its resources are recorded even if the next step fails.
            Ok(driver::continue_at(context, raw, node))
        })?;
        let followed = enqueued.recorded.and(enqueued.output);
        if let Some(recording) = enqueuing.recording().and_then(Recording::of) {
            recording.keep_all(&shape.contents);
            recording.contents.spans |= shape.contents.spans;
            if let Err(error) = &followed {
                recording.contents.failures.note_returned(error.clone());
            }
        }
        followed
    }

    /// Returns the graph that was recorded last, if that is what runs.
    fn shape(&self) -> Result<&Template> {
        if self.changed {
            return Err(Error::invalid(
                "nodes of the graph were changed, which its copies don't show",
            )
            .with_hint("`GraphExec::recapture` records the graph anew"));
        }
        Ok(self.newest.as_ref().unwrap_or(&self.template))
    }

    /// Changes one launch in the graph: `record` makes the launch that takes its place, with any
    /// arguments, extents and kernel, on a stream where nothing else can be enqueued. Launches of the
    /// graph that are enqueued already are not affected.
    ///
    /// The closure lends the graph what it borrows (`'env`), so locals of a loop must be moved in, and
    /// kernels be a reference that lives long enough, as here, or a clone.
    ///
    /// ```no_run
    /// # use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, Stream, kernels};
    /// # kernels! { struct Kernels;
    /// #     unsafe in "" { safe fn scale(a: f32, x: &mut [f32], n: usize) where n <= x.len(); } }
    /// # fn run(context: &Context, stream: &Stream, kernels: &Kernels, x: DeviceBuffer<f32>) -> Result<()> {
    /// let n = x.len();
    /// let mut graph = context.capture(x, |stream, x| {
    ///     kernels.scale(stream, LaunchConfig::cover(n, 256), 1.0, &mut *x, n)?;
    ///     stream.last_node()?;
    ///     Ok(())
    /// })?;
    /// let node = graph.nodes().next().expect("named above");
    /// for step in 0..10 {
    ///     graph.update(node, move |stream, x| {
    ///         kernels.scale(stream, LaunchConfig::cover(n, 256), step as f32, &mut *x, n)
    ///     })?;
    ///     graph.launch(stream)?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the node is not one of this graph,
    /// nothing or more than one launch was made, the launch has other attributes (cooperative,
    /// cluster, priority), or, in a graph with branches (after [`Stream::fork`], or from a
    /// [`GraphBuilder`](crate::GraphBuilder)), it uses memory that another node uses and this one did
    /// not; the error that `record` returns;
    /// otherwise the error that the driver returns. The node is then unchanged, unless `record` fails after its launch.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    pub fn update<F>(&mut self, node: GraphNode, record: F) -> Result<()>
    where
        F: FnOnce(&Stream, &mut S) -> Result<()> + 'env,
    {
        let newest = self.newest.as_ref().map(|newest| newest.number);
        let known = [Some(self.template.number), newest].contains(&Some(node.recording));
        let index = node.index;
        let Some(kernel) = self.template.contents.nodes.get(index).filter(|_| known).cloned()
        else {
            return Err(Error::invalid("the node is not one of this graph"));
        };
        // A handle that an earlier closure has kept must stay ended.
        self.recorder.take_if(|(stream, _)| !stream.is_only_handle());
        let (stream, capture) = self.recorder.get_or_insert_with(|| {
            let capture = Capture::new();
            let raw = std::ptr::null_mut();
            let stream = Stream::recording(&self.template.context, raw, capture.clone());
            (stream, capture)
        });
        {
            let mut recording = capture.lock()?;
            let update = Update::new(self.exec, kernel, &self.template.contents);
            recording.target = Target::Update(update);
            recording.belongs_to_this_thread();
            recording.contents.uses = std::mem::take(&mut self.template.contents.uses);
        }
        let mut change =
            Change { capture, template: &mut self.template, changed: &mut self.changed, index };
        let recorded = record(stream, &mut self.state);
        match change.finish() {
            Some(true) => recorded,
            _ => recorded.and(Err(Error::invalid("no launch was made to change the node to"))),
        }
    }

    /// Records the graph again, with its state. If the shape is the same, the executable graph is changed in place,
    /// which is much cheaper than a new one. A graph with branches in which launches are named (by
    /// [`Stream::last_node`]) is always instantiated again: the driver doesn't say which node became which. So is a graph
    /// that uses several contexts, since drivers crash at the launch of one that was changed.
    ///
    /// Waits while another thread waits for the whole context, as [`Context::capture`] does.
    ///
    /// # Errors
    /// As [`Context::capture`](crate::Context::capture). The graph is then unchanged, unless the driver fails in the
    /// middle of changing it: then it is unknown what it runs until a later recapture succeeds.
    #[doc(alias = "cuGraphExecUpdate")]
    pub fn recapture<F>(&mut self, record: F) -> Result<Recaptured>
    where
        F: FnOnce(&Stream, &mut S) -> Result<()> + 'env,
    {
        let state = &mut self.state;
        let new = capture(&self.template.context, &[], |streams| match streams {
            [stream, ..] => record(stream, state),
            [] => Ok(()),
        })?;
        self.become_new(new)
    }

    /// As [`recapture`](Self::recapture), on several contexts: see [`Context::capture_on`]. The first is the one that the
    /// graph belongs to.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the first context is another one; otherwise as
    /// [`recapture`](Self::recapture) and [`Context::capture_on`].
    pub fn recapture_on<F>(
        &mut self,
        contexts: &[impl Borrow<Context>],
        record: F,
    ) -> Result<Recaptured>
    where
        F: FnOnce(&[Stream], &mut S) -> Result<()> + 'env,
    {
        let (first, others) = distinct(contexts)?;
        self.template.of_context(first.inner())?;
        let state = &mut self.state;
        let new = capture(first.inner(), &others, |streams| record(streams, state))?;
        self.become_new(new)
    }

    fn become_new(&mut self, new: Template) -> Result<Recaptured> {
        let context = &self.template.context;
        // The driver pairs with the graph that was used last.
        let shape = self.newest.as_ref().unwrap_or(&self.template);
        let updated = match shape.pairs_with(&new)? {
            true => new.explain(driver::update(context, self.exec, new.graph)),
            false => Ok(false),
        };
        let updated = updated.inspect_err(|_| {
            // The new nodes are unknown, so the resources of both graphs are kept.
            self.template.contents.uses.merge(&new.contents.uses);
            self.template.contents.keep_all(&new.contents);
            self.changed = true;
        })?;
        if updated {
            let mut contents = new.contents.clone();
            // Nodes are known to the executable graph by the handles of its first template.
            for (new, old) in contents.nodes.iter_mut().zip(&self.template.contents.nodes) {
                new.node = old.node;
            }
            self.template.contents = contents;
            self.newest = Some(new.into_second_shape());
            self.changed = false;
            return Ok(Recaptured::Updated);
        }
        let exec = driver::instantiate(context, new.graph)?;
        let old = std::mem::replace(&mut self.exec, exec);
        context.keep_drop_result(driver::destroy_exec(context, old));
        self.template = new;
        self.newest = None;
        self.changed = false;
        Ok(Recaptured::Rebuilt)
    }

    /// Creates another executable graph of the same shape, on the same memory, with a separate state: two
    /// launches of one graph never overlap, those of two may, where they use no memory in common for
    /// writing. Nodes keep their names.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if nodes were changed since the graph was
    /// recorded; otherwise the error that the driver returns, such as for a graph that allocates memory.
    #[doc(alias = "cuGraphClone")]
    pub fn try_clone<T>(&mut self, state: T) -> Result<GraphExec<'env, T>> {
        let number = self.template.number;
        let shape = self.shape()?;
        let context = &shape.context;
        let mut copy = Template::empty(context);
        copy.graph = shape.explain(driver::clone(context, shape.graph))?;
        copy.contents = shape.contents.clone();
        copy.number = number;
        for node in &mut copy.contents.nodes {
            node.node = driver::find_in_clone(context, node.node, copy.graph)?;
        }
        GraphExec::new(&Context::from_inner(context.clone()), copy, state)
    }

    /// Writes the graph as it was recorded to a file, in the DOT language of Graphviz.
    ///
    /// # Errors
    /// The error that the driver returns, such as for a file that can't be written.
    #[doc(alias = "cuGraphDebugDotPrint")]
    pub fn write_dot(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let shape = self.newest.as_ref().unwrap_or(&self.template);
        driver::write_dot(&shape.context, shape.graph, path.as_ref())
    }

    /// Puts the graph on the device now, so that its first launch costs what later ones do.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&mut self, stream: &Stream) -> Result<()> {
        let inner = stream.inner();
        inner.usable_here()?;
        inner.not_capturing("GraphExec::upload")?;
        self.template.of_context(&inner.context)?;
        // SAFETY: both are live and of one context.
        unsafe { call!(inner, cuGraphUpload(self.exec, inner.raw)) }?;
        inner.number();
        Ok(())
    }

    /// Destroys the graph and gives back its state. A drop keeps its error for
    /// [`Context::take_drop_errors`](crate::Context::take_drop_errors).
    ///
    /// # Errors
    /// The error holds the state and the driver's error; the graph is destroyed in any case.
    pub fn close(mut self) -> Result<S, ConsumeError<S>> {
        let exec = std::mem::replace(&mut self.exec, std::ptr::null_mut());
        let graph = std::mem::replace(&mut self.template.graph, std::ptr::null_mut());
        let context = self.template.context.clone();
        let closed = context
            .state
            .usable()
            .and_then(|()| driver::destroy_exec(&context, exec))
            .and(driver::destroy_graph(&context, graph));
        let state = self.into_state();
        match closed {
            Ok(()) => Ok(state),
            Err(error) => Err(ConsumeError::new(state, error)),
        }
    }
}

/// The change of a node, undone or completed when it goes: also if the closure panics.
struct Change<'a> {
    capture: &'a Capture,
    template: &'a mut Template,
    changed: &'a mut bool,
    index: usize,
}

impl Change<'_> {
    /// Puts the uses back where they belong. Says whether the node was changed; `None` the second
    /// time.
    fn finish(&mut self) -> Option<bool> {
        let mut update = {
            let mut recording = self.capture.lock().ok()?;
            let Target::Update(update) = std::mem::replace(&mut recording.target, Target::Ended)
            else {
                return None;
            };
            self.template.contents.uses = std::mem::take(&mut recording.contents.uses);
            update
        };
        // No lock is held from here on: `apply` may free allocations, which runs user code.
        update.apply(&mut self.template.contents.uses);
        let done = update.done;
        let Update { node, gone, .. } = update;
        if done && let Some(changed) = self.template.contents.nodes.get_mut(self.index) {
            *changed = node;
            *self.changed = true;
        }
        drop(gone);
        Some(done)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

impl<S> Drop for GraphExec<'_, S> {
    fn drop(&mut self) {
        let context = &self.template.context;
        context.keep_drop_result(driver::destroy_exec(context, self.exec));
    }
}

impl<S: fmt::Debug> fmt::Debug for GraphExec<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec")
            .field("state", &self.state)
            .field("nodes", &self.template.contents.nodes.len())
            .finish_non_exhaustive()
    }
}
