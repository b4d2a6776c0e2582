//! The uses of memory while a graph is captured. Streams of one recording wait for each other by them, and each launch
//! of the graph registers them all.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use cuda_sys::{CUfunction, CUgraph, CUstream};

use super::branches::{Branch, Order};
use super::driver::{self, RawNode};
use super::failures::Failures;
use super::lent::LentRecording;
use super::node::{KernelNode, Update};
use super::uses::Uses;
use crate::context::{ContextInner, this_thread};
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, call_name, issue};
use crate::memory::{Allocation, AnyRecording, Ranges};
use crate::quiet::Kept;
use crate::stream::StreamInner;
use crate::sync::Lock;

/// A recording that streams share: a capture, or the change of a node of a graph.
pub(crate) struct Capture {
    pub(super) number: u64,
    pub(super) recording: Lock<Recording>,
}

/// Identifies the recording that a stream belongs to; the body of a conditional node is a separate recording. From
/// [`Stream::recording_id`](crate::Stream::recording_id).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordingId(u64);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// How enqueued work is recorded.
pub(super) enum Target {
    /// It is captured by the driver.
    Capture,
    /// Nothing may be enqueued here while the body of a conditional node is recorded.
    Body,
    /// The arguments and shape of one launch become those of a node.
    Update(Update),
    /// Nothing may be enqueued any more.
    Ended,
}

/// The contents of a recording. An enqueue on one of its streams holds it over the driver call.
pub(crate) struct Recording {
    pub(super) number: u64,
    pub(super) target: Target,
    pub(super) branches: Vec<Branch>,
    /// By the place of the allocation on the heap; `uses` keeps it there.
    pub(super) order: HashMap<usize, Ranges<Order>>,
    pub(super) contents: Contents,
    /// Raw streams whose handles are gone, to be destroyed once nothing is captured any more, and their contexts.
    pub(super) streams: Vec<(CUstream, Arc<ContextInner>)>,
    /// The thread that runs the closure. Another thread may not enqueue: the graph's `'env` says nothing
    /// about what such a thread has borrowed.
    pub(super) thread: Option<u64>,
    /// Whether it is the body of a conditional node, in which drivers allocate no memory and call no host functions.
    pub(super) body: bool,
    /// `Some` if other code captures; see `lent.rs`.
    pub(super) lent: Option<LentRecording>,
}

// SAFETY: the driver's handles are not tied to threads, and everything else is Send.
unsafe impl Send for Recording {}

/// The uses of a recording, and the resources that its graph needs.
#[derive(Clone, Default)]
pub(super) struct Contents {
    pub(super) uses: Uses,
    /// Modules and pinned memory, which launches of the graph use.
    pub(super) resources: Vec<Kept>,
    /// Other values that must live as long as the graph, such as captures of host functions.
    pub(super) kept: Vec<Kept>,
    /// The launches that were named, to change them later.
    pub(super) nodes: Vec<KernelNode>,
    /// Buffers allocated while capturing that are alive.
    pub(super) memory: usize,
    /// Whether the graph allocates memory when it runs.
    pub(super) allocates: bool,
    /// Whether a capture with several streams is recorded: then some nodes may run at the same time.
    pub(super) has_branches: bool,
    /// Whether the graph runs in several contexts, or uses memory of another one than its own.
    pub(super) spans: bool,
    pub(super) failures: Failures,
}

impl Contents {
    /// Keeps what another graph keeps.
    pub(super) fn keep_all(&mut self, other: &Self) {
        self.resources.extend(other.resources.iter().cloned());
        self.kept.extend(other.kept.iter().cloned());
    }
}

impl Capture {
    pub(super) fn new() -> Arc<Self> {
        Self::with_body(false)
    }

    /// Returns a recording for the body of a conditional node.
    pub(super) fn of_body() -> Arc<Self> {
        Self::with_body(true)
    }

    fn with_body(body: bool) -> Arc<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let recording = Recording {
            number,
            target: Target::Ended,
            branches: Vec::new(),
            order: HashMap::new(),
            contents: Contents::default(),
            streams: Vec::new(),
            thread: None,
            body,
            lent: None,
        };
        Arc::new(Self { number, recording: Lock::new(recording) })
    }

    /// Returns the identifier of the recording.
    pub(crate) fn id(&self) -> RecordingId {
        RecordingId(self.number)
    }

    /// Returns the recording of a stream that records.
    pub(crate) fn of(stream: &StreamInner) -> Option<Arc<Self>> {
        let capture: Arc<dyn Any + Send + Sync> = stream.capture.clone()?;
        Arc::downcast(capture).ok()
    }

    /// Returns the contents, to enqueue something on `stream`.
    ///
    /// # Errors
    /// As [`AnyRecording::may_enqueue`].
    pub(crate) fn enter(&self, stream: &StreamInner) -> Result<MutexGuard<'_, Recording>> {
        let mut recording = self.lock()?;
        recording.may_enqueue(stream)?;
        Ok(recording)
    }

    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Recording>> {
        Ok(self.recording.lock()?)
    }

    /// Takes the recorded uses, to make a graph of them or to drop them where nothing is locked:
    /// streams of the recording may live on and must not keep it.
    pub(super) fn empty(&self) -> Result<Contents> {
        let mut recording = self.lock()?;
        recording.order.clear();
        // The branches are cleared also because they hold their contexts.
        recording.branches.clear();
        Ok(std::mem::take(&mut recording.contents))
    }

    /// Invalidates the recording with a body's node, because it must not be used.
    pub(super) fn give_up_body(&self, error: Error) {
        let Ok(mut recording) = self.lock() else { return };
        if matches!(recording.target, Target::Body) {
            recording.target = Target::Capture;
        }
        recording.contents.failures.note_returned(error);
    }
}

pub(super) fn destroy_stream(context: &ContextInner, raw: CUstream) {
    if !context.state.is_usable() {
        return;
    }
    // SAFETY: no handle to the stream is left, and nothing is captured on it any more.
    context.keep_drop_result(unsafe { call!(context, cuStreamDestroy_v2(raw)) });
}

impl Recording {
    /// Returns the recording that an enqueue holds.
    pub(crate) fn of<'a>(recording: &'a mut (dyn AnyRecording + 'static)) -> Option<&'a mut Self> {
        let recording: &mut dyn Any = recording;
        recording.downcast_mut()
    }

    /// Makes this the thread that may enqueue.
    pub(super) fn belongs_to_this_thread(&mut self) {
        self.thread = Some(this_thread());
    }

    pub(super) fn is_of_this_thread(&self) -> Result<()> {
        if self.thread == Some(this_thread()) {
            return Ok(());
        }
        Err(Error::invalid("only the thread that runs a recording's closure can record")
            .with_hint(
                "a graph keeps borrowed what its closure has borrowed, not what another thread has; let \
                 other threads return what they have prepared, and enqueue it in the closure",
            ))
    }

    /// Fails for memory that the recording can't use. `between` says whether the work goes between contexts, as a copy
    /// or a graph: then it need not be reached by kernels.
    pub(crate) fn may_use(
        &self,
        stream: &StreamInner,
        allocation: &Allocation,
        between: bool,
    ) -> Result<()> {
        let home = &allocation.home_stream().inner().context;
        if !Arc::ptr_eq(&stream.context, home) {
            let of_recording = match &self.target {
                Target::Update(update) => update.spans,
                _ => between || self.records_on(home),
            };
            if !of_recording {
                return Err(Error::invalid("a graph can't use a buffer of another context")
                    .with_hint(
                        "`Context::capture_on` records a graph of several contexts, and \
                         `DeviceSliceMut::copy_from_peer` copies between two",
                    ));
            }
            if allocation.is_of_graph() {
                return Err(Error::invalid(
                    "memory that was allocated in a capture is used by streams of its own context alone",
                ));
            }
            if !between {
                allocation.reachable_from(&stream.context)?;
            }
        }
        if allocation.is_of_graph() && !allocation.is_of(self.number) {
            return Err(Error::invalid("the buffer was allocated in another capture"));
        }
        allocation.is_there()
    }

    pub(super) fn advance(&mut self, context: &ContextInner, stream: u64) -> u64 {
        if !matches!(self.target, Target::Capture) {
            return 0;
        }
        let Ok(branch) = self.branch(stream) else { return 0 };
        match driver::tail(context, self.branches[branch].raw) {
            Ok(tail) => self.branches[branch].tail = tail,
            Err(error) => self.contents.failures.note(error),
        }
        let branch = &mut self.branches[branch];
        branch.sequence += 1;
        match (&mut branch.last, &*branch.tail) {
            (Some(last), [node]) if last.node == RawNode::NULL => last.node = *node,
            (last, _) => *last = None,
        }
        branch.sequence
    }

    /// Fails for a launch that can't be recorded here.
    pub(crate) fn check(&self, launch: &LaunchConfig) -> Result<()> {
        match &self.target {
            Target::Update(update) => update.check(launch),
            _ => Ok(()),
        }
    }

    /// Takes over the uses of a conditional node's body: `node` follows every use that conflicts with them, and
    /// represents them from now on.
    pub(super) fn take_body(
        &mut self,
        stream: &StreamInner,
        (graph, node): (CUgraph, RawNode),
        body: &mut Contents,
        sequence: u64,
    ) -> Result<()> {
        let mut before: Vec<RawNode> = Vec::new();
        for used in body.uses.iter() {
            for mark in self.conflicts(used) {
                if mark.branch != stream.id {
                    before.extend(mark.nodes.iter().copied());
                }
            }
        }
        before.sort_unstable();
        before.dedup();
        driver::add_edges(&stream.context, graph, &before, node)?;
        for used in body.uses.in_order() {
            self.end_use(stream, used, sequence);
        }
        self.contents.resources.append(&mut body.resources);
        self.contents.kept.append(&mut body.kept);
        self.contents.has_branches |= body.has_branches;
        self.contents.spans |= body.spans;
        Ok(())
    }

    /// Enqueues a launch, or makes it the parameters of a node.
    ///
    /// # Safety
    /// As [`issue`], where it is enqueued; as there but for the stream, where it is not.
    pub(crate) unsafe fn launch(
        &mut self,
        stream: &StreamInner,
        function: CUfunction,
        launch: &LaunchConfig,
        module: Kept,
        pointers: &mut [*mut c_void],
    ) -> Result<()> {
        match &mut self.target {
            Target::Update(update) => {
                // SAFETY: the caller's promise.
                unsafe { update.launch(&stream.context, function, launch, module, pointers) }
            }
            _ => {
                self.keep_resource(module.clone());
                // SAFETY: the caller's promise.
                let result =
                    unsafe { issue(stream.state().sys, function, launch, stream.raw, pointers) };
                let result = stream.answer(call_name(launch), result);
                if let Ok(branch) = self.branch(stream.id) {
                    let node = result.is_ok().then(|| KernelNode::new(launch, module));
                    self.branches[branch].last = node;
                }
                result
            }
        }
    }

    /// Keeps what a part of the graph needs that was recorded elsewhere.
    pub(super) fn keep_all(&mut self, part: &Contents) {
        let Contents { resources, kept, .. } = part;
        match &self.lent {
            Some(lent) => resources.iter().chain(kept).for_each(|kept| lent.keep(kept.clone())),
            None => self.contents.keep_all(part),
        }
    }

    /// Returns the newest launch of a stream, to be changed later.
    pub(super) fn name_last(&mut self, stream: &StreamInner) -> Result<usize> {
        self.captures()?;
        self.not_of_others("naming a launch")?;
        self.in_first_context(stream, "a launch can't be named")?;
        let branch = self.branch(stream.id)?;
        match self.branches[branch].last.take() {
            Some(node) if node.node != RawNode::NULL => {
                self.contents.nodes.push(node);
                Ok(self.contents.nodes.len() - 1)
            }
            _ => Err(Error::invalid(
                "the newest that the stream has recorded is no launch of a kernel, or is named already",
            )
            .with_hint(
                "call `last_node` once, right after the launch and on the same stream; copies, fills, \
                 graphs and bodies can't be changed later",
            )),
        }
    }

    /// Lets nobody name what the stream has recorded last.
    pub(super) fn seal_last(&mut self, stream: &StreamInner) {
        if let Ok(branch) = self.branch(stream.id) {
            self.branches[branch].last = None;
        }
    }

    pub(super) fn free(&mut self, home: &StreamInner, allocation: &Allocation) -> Result<()> {
        let place = std::ptr::from_ref(allocation).addr();
        // If the part that allocated the memory has ended, the part that goes on frees it.
        let open = self.first();
        let branch = self.branch(home.id).or_else(|error| open.ok_or(error))?;
        if let Some(order) = self.order.remove(&place) {
            let mut marks = Vec::new();
            let _ = order.for_each(0..allocation.size_bytes(), |order| {
                marks.extend(order.write.iter().chain(&order.reads).cloned());
                Ok::<(), std::convert::Infallible>(())
            });
            for mark in marks {
                self.wait(branch, &mark)?;
            }
        }
        let Branch { raw, stream, .. } = self.branches[branch];
        driver::free(&home.context, raw, allocation.device_ptr())?;
        if let Some(lent) = &mut self.lent {
            lent.freed(allocation.device_ptr());
        }
        self.advance(&home.context, stream);
        Ok(())
    }
}
