//! The uses of memory while a graph is captured. Streams of one recording wait for each other by them, and each launch
//! of the graph registers them all.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use cuda_sys::{CUdeviceptr, CUfunction, CUgraph, CUstream};

use super::branches::{Branch, Mark, Order};
use super::driver::{self, RawNode};
use super::failures::Failures;
use super::lent::LentRecording;
use super::node::{KernelNode, Update};
use super::uses::Uses;
use crate::context::{ContextInner, this_thread};
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, call_name, issue};
use crate::memory::{Access, Allocation, Ranges, Used};
use crate::quiet::Kept;
use crate::stream::StreamInner;
use crate::sync::Lock;

/// A recording that streams share: a capture, or the change of a node of a graph.
pub(crate) struct Capture {
    number: u64,
    recording: Lock<Recording>,
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
    number: u64,
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
    body: bool,
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

/// Adds something to keep, unless it was added lately.
fn add(known: &mut Vec<Kept>, kept: Kept) {
    // Launches name their module again and again. Of the others, as the sources of uploads, each is a new one: a
    // search of all would make the time of a recording quadratic in its length.
    const SEARCHED: usize = 32;
    if !known.iter().rev().take(SEARCHED).any(|other| other.is_same(&kept)) {
        known.push(kept);
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

    /// Names the recording in the process; never 0.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the identifier of the recording.
    pub(crate) fn id(&self) -> RecordingId {
        RecordingId(self.number)
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

    /// Returns the recording, to enqueue something on `stream`.
    ///
    /// # Errors
    /// The recording has ended or is broken, a body is recorded in it, or this is another thread than the
    /// one that runs the recording's closure.
    pub(crate) fn enter(&self, stream: &StreamInner) -> Result<MutexGuard<'_, Recording>> {
        let mut recording = self.lock()?;
        if let Some(error) = recording.contents.failures.first() {
            // This error is returned, because later ones only follow from it.
            return Err(error);
        }
        if !matches!(recording.target, Target::Ended) {
            recording.is_of_this_thread()?;
        }
        match recording.target {
            // A stream of an earlier part does not capture any more: the driver would run the work.
            Target::Capture => {
                recording.branch(stream.id)?;
            }
            Target::Update(_) => {}
            Target::Ended => {
                return Err(Error::invalid("the recording that this stream belongs to has ended")
                    .with_hint("launch the graph on an ordinary stream"));
            }
            Target::Body => {
                return Err(Error::invalid(
                    "the body of a conditional node is recorded on the stream that its closure is \
                     given",
                ));
            }
        }
        Ok(recording)
    }

    /// Keeps what launches of the graph use.
    pub(crate) fn keep_resource(&self, resource: Kept) -> Result<()> {
        self.lock()?.keep_resource(resource);
        Ok(())
    }

    /// Destroys a stream of the recording whose last handle is gone: now, or when the capture ends.
    pub(crate) fn destroy_when_ended(&self, context: &Arc<ContextInner>, raw: CUstream) {
        if raw.is_null() {
            return;
        }
        {
            let Ok(mut recording) = self.lock() else { return };
            if !matches!(recording.target, Target::Ended) {
                recording.streams.push((raw, context.clone()));
                return;
            }
        }
        destroy_stream(context, raw);
    }

    /// Invalidates the recording with a body's node, because it must not be used.
    pub(super) fn give_up_body(&self, error: Error) {
        let Ok(mut recording) = self.lock() else { return };
        if matches!(recording.target, Target::Body) {
            recording.target = Target::Capture;
        }
        recording.contents.failures.note_returned(error);
    }

    /// Frees memory that was allocated in the capture: its graph frees it there.
    pub(crate) fn free(&self, home: &StreamInner, allocation: &Allocation) {
        let Ok(mut recording) = self.lock() else { return };
        if !matches!(recording.target, Target::Capture) {
            return;
        }
        match recording.free(home, allocation) {
            Ok(()) => recording.contents.memory = recording.contents.memory.saturating_sub(1),
            Err(error) => recording.contents.failures.note(error),
        }
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
    /// Makes this the thread that may enqueue.
    pub(super) fn belongs_to_this_thread(&mut self) {
        self.thread = Some(this_thread());
    }

    fn is_of_this_thread(&self) -> Result<()> {
        if self.thread == Some(this_thread()) {
            return Ok(());
        }
        Err(Error::invalid("only the thread that runs a recording's closure can record")
            .with_hint(
                "a graph keeps borrowed what its closure has borrowed, not what another thread has; let \
                 other threads return what they have prepared, and enqueue it in the closure",
            ))
    }

    /// Fails where only the launch of a kernel makes sense.
    pub(crate) fn captures(&self) -> Result<()> {
        match self.target {
            Target::Capture => Ok(()),
            _ => Err(Error::invalid("a node for a launch can only be changed by one launch")),
        }
    }

    /// Fails for another stream of the recording than that by which it was entered, if its part has ended.
    pub(crate) fn admit(&self, stream: &StreamInner) -> Result<()> {
        self.captures()?;
        self.branch(stream.id).map(drop)
    }

    /// Fails in the body of a conditional node, with an error that begins with `what`. Drivers fail later, and
    /// invalidate the capture.
    pub(crate) fn not_in_body(&self, what: &str) -> Result<()> {
        match self.body {
            true => Err(Error::invalid(format!("{what} in the body of a conditional node"))),
            false => Ok(()),
        }
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

    /// Orders a use behind those that conflict with it on other streams of the recording. Each launch of the graph
    /// waits for uses of the memory outside of it.
    pub(crate) fn begin_use(
        &mut self,
        stream: &StreamInner,
        used: Used<'_>,
        between: bool,
    ) -> Result<()> {
        self.may_use(stream, used.0, between)?;
        if used.1.is_empty() {
            return Ok(());
        }
        if let Target::Update(update) = &mut self.target {
            return update.begin_use(&self.contents.uses, used);
        }
        if let Some(lent) = &self.lent
            && !used.0.is_of(self.number)
        {
            lent.admit(&used)?;
        }
        let marks = self.conflicts(used);
        let branch = self.branch(stream.id)?;
        for mark in marks {
            self.wait(branch, &mark)?;
        }
        Ok(())
    }

    /// Numbers what was enqueued, and looks which node it became.
    pub(crate) fn number(&mut self, stream: &StreamInner) -> u64 {
        self.advance(&stream.context, stream.id)
    }

    fn advance(&mut self, context: &ContextInner, stream: u64) -> u64 {
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

    /// Records a use that was enqueued and numbered.
    pub(crate) fn end_use(&mut self, stream: &StreamInner, used: Used<'_>, sequence: u64) {
        let (allocation, range, access) = used.clone();
        if range.is_empty() || !matches!(self.target, Target::Capture) {
            return;
        }
        let Ok(branch) = self.branch(stream.id) else { return };
        let branch = &mut self.branches[branch];
        let mark = Mark { branch: stream.id, sequence, nodes: branch.tail.clone() };
        if access == Access::Write {
            // The write is noted for code that has computed data from the memory in the same recording.
            allocation.note_write(range.clone());
        }
        if allocation.is_of_graph() || self.lent.is_some() {
            // The graph does not keep it: its owner drops it within the capture. A graph of other code keeps it by now,
            // or its owner does.
        } else {
            allocation.note_captured();
            self.contents.spans |=
                !Arc::ptr_eq(&stream.context, &allocation.home_stream().inner().context);
            let key = self.contents.uses.add(&used);
            if let Some(last) = &mut branch.last {
                last.keys.push(key);
                last.order = self.contents.uses.last();
            }
        }
        let order = self
            .order
            .entry(Arc::as_ptr(allocation).addr())
            .or_insert_with(|| Ranges::new(allocation.size_bytes(), Order::default()));
        order.update(range, |order| match access {
            Access::Write => {
                order.write = Some(mark.clone());
                order.reads.clear();
            }
            Access::Read => match order.reads.iter_mut().find(|read| read.branch == mark.branch) {
                Some(read) => *read = mark.clone(),
                None => order.reads.push(mark.clone()),
            },
        });
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

    /// Keeps something alive as long as the graph.
    pub(crate) fn keep(&mut self, kept: Kept) {
        match &self.lent {
            Some(lent) => lent.keep(kept),
            None => add(&mut self.contents.kept, kept),
        }
    }

    /// Keeps what launches of the graph use.
    pub(crate) fn keep_resource(&mut self, resource: Kept) {
        match &self.lent {
            Some(lent) => lent.keep(resource),
            None => add(&mut self.contents.resources, resource),
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

    /// Allocates memory that the graph allocates and frees each time it runs.
    pub(crate) fn allocate(&mut self, stream: &StreamInner, bytes: usize) -> Result<CUdeviceptr> {
        self.captures()?;
        self.not_in_body("memory can't be allocated").map_err(|error| {
            error.with_hint("allocate it before the capture, and put it into the state")
        })?;
        self.in_first_context(stream, "memory can't be allocated")?;
        let start = driver::allocate(stream, bytes)?;
        self.contents.allocates = true;
        self.contents.memory += 1;
        if let Some(lent) = &mut self.lent {
            lent.allocated(start);
        }
        Ok(start)
    }

    /// Records the allocation of a buffer as a write, so that its uses come after it.
    pub(crate) fn allocated(&mut self, stream: &StreamInner, allocation: &Arc<Allocation>) {
        let sequence = self.number(stream);
        let written = (allocation, 0..allocation.size_bytes(), Access::Write);
        self.end_use(stream, written, sequence);
    }

    fn free(&mut self, home: &StreamInner, allocation: &Allocation) -> Result<()> {
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
