//! Conditional nodes: parts of a graph that run if, or while, a number in device memory is not zero.

use std::ffi::CStr;
use std::sync::Arc;

use cuda_sys::{
    CUfunction, CUgraph, CUgraphConditionalHandle, CUgraphConditionalNodeType, CUgraphNodeParams,
    CUgraphNodeType,
};

use super::capture::{Emptied, part};
use super::driver::{self, RawNode};
use super::recording::{Capture, Target};
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::memory::{
    Access, Allocation, AnyRecording, DeviceSlice, DeviceSliceMut, Enqueue, Enqueuing,
};
use crate::stream::{Stream, StreamInner};

/// PTX of a kernel that sets a conditional handle to a value in device memory.
const SET_CONDITIONAL: &CStr = cr"
.version 8.0
.target sm_50
.address_size 64

.extern .func cudaGraphSetConditional
(
    .param .b64 handle,
    .param .b32 value
);

.visible .entry set_conditional
(
    .param .u64 handle,
    .param .u64 flag
)
{
    .reg .b32 %value;
    .reg .b64 %handle, %flag;

    ld.param.u64 %handle, [handle];
    ld.param.u64 %flag, [flag];
    cvta.to.global.u64 %flag, %flag;
    ld.global.u32 %value, [%flag];
    {
        .param .b64 first;
        .param .b32 second;
        st.param.b64 [first], %handle;
        st.param.b32 [second], %value;
        call.uni cudaGraphSetConditional, (first, second);
    }
    ret;
}
";

impl Stream {
    /// Records a part of the graph that runs only if `flag[0]` is not zero when the graph gets there.
    /// `body` enqueues it on the stream that it is given. It can't allocate memory, use memory that was
    /// allocated in the capture, or call host functions. Needs a driver of CUDA 12.4.
    ///
    /// ```no_run
    /// # use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, Stream, kernels};
    /// # kernels! { struct Kernels;
    /// #     unsafe in "" { safe fn repair(x: &mut [f32], n: usize) where n <= x.len(); } }
    /// # fn run(context: &Context, kernels: &Kernels, x: DeviceBuffer<f32>, broken: DeviceBuffer<u32>) -> Result<()> {
    /// let (n, shape) = (x.len(), LaunchConfig::cover(x.len(), 256));
    /// let graph = context.capture((x, broken), |stream, (x, broken)| {
    ///     stream.record_if(&*broken, |stream| kernels.repair(stream, shape, &mut *x, n))
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that doesn't record, or for a `flag`
    /// that is empty or belongs to another context: the capture goes on. The error of `body`, after which
    /// the capture fails too. Otherwise the driver's error.
    #[doc(alias = "CU_GRAPH_COND_TYPE_IF")]
    pub fn record_if<'a>(
        &self,
        flag: impl Into<DeviceSlice<'a, u32>>,
        body: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        conditional(self, flag.into(), kind, body)
    }

    /// Records a part of the graph that repeats as long as `flag[0]` is not zero; the graph reads the flag before each
    /// iteration. `body` enqueues the part on the stream that it is given. It also gets a view of the flag, which the
    /// part has to clear for the loop to end. Needs a driver of CUDA 12.4.
    ///
    /// ```no_run
    /// # use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, Stream, kernels};
    /// # kernels! { struct Kernels;
    /// #     unsafe in "" { safe fn relax(x: &mut [f32], more: &mut [u32], n: usize) where n <= x.len(), 1 <= more.len(); } }
    /// # fn run(context: &Context, stream: &Stream, kernels: &Kernels, x: DeviceBuffer<f32>) -> Result<()> {
    /// let (n, shape) = (x.len(), LaunchConfig::cover(x.len(), 256));
    /// let more = DeviceBuffer::from_slice(stream, &[1u32])?;
    /// let mut graph = context.capture((x, more), |stream, (x, more)| {
    ///     // `relax` writes 0 to `more[0]` when nothing is left to be done.
    ///     stream.record_while(more, |stream, more| kernels.relax(stream, shape, &mut *x, more, n))
    /// })?;
    /// graph.launch(stream)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Stream::record_if`]; also for a `flag` that was allocated in the capture, which bodies can't
    /// use.
    #[doc(alias = "CU_GRAPH_COND_TYPE_WHILE")]
    pub fn record_while<'a>(
        &self,
        flag: impl Into<DeviceSliceMut<'a, u32>>,
        body: impl FnOnce(&Self, DeviceSliceMut<'_, u32>) -> Result<()>,
    ) -> Result<()> {
        let mut flag = flag.into();
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
        // Both views are of the same memory, but one after the other: the closure has returned its view before the
        // flag is read again.
        let again = DeviceSlice::new(flag.allocation(), flag.byte_range().start, flag.len());
        conditional(self, again, kind, |stream| body(stream, flag.reborrow()))
    }
}

fn conditional(
    stream: &Stream,
    flag: DeviceSlice<'_, u32>,
    kind: CUgraphConditionalNodeType,
    body: impl FnOnce(&Stream) -> Result<()>,
) -> Result<()> {
    let inner = stream.inner();
    let context = &inner.context;
    let Some(capture) = &Capture::of(inner) else {
        return Err(Error::invalid("only a stream that records takes conditional work"));
    };
    let flag = flag.slice(..1)?;
    capture.enter(inner)?.not_of_others("a conditional part")?;
    // The flag is checked before the handle is created: a handle without a node makes the graph invalid.
    check_flag(capture, inner, flag.allocation(), kind)?;
    let function = context.conditional.function(context, SET_CONDITIONAL, c"set_conditional")?;
    let (graph, handle) = {
        let recording = capture.enter(inner)?;
        recording.captures()?;
        let (graph, _) = driver::capturing(context, inner.raw)?;
        (graph, create_handle(context, graph)?)
    };
    let begin = || {
        set(stream, function, handle, flag)?;
        let mut recording = capture.enter(inner)?;
        let (_, tail) = driver::capturing(context, inner.raw)?;
        let (node, inside) = add_node(context, graph, &tail, handle, kind)?;
        driver::continue_at(context, inner.raw, node)?;
        let sequence = recording.number(inner);
        recording.target = Target::Body;
        Ok((node, inside, sequence))
    };
    // The handle makes the graph invalid if its node fails, so this error is reported and no later one.
    let (node, inside, sequence) = begin().inspect_err(|error: &Error| {
        if let Ok(mut recording) = capture.lock() {
            recording.contents.failures.note_returned(error.clone());
        }
    })?;
    let emptied = Emptied { capture: Capture::of_body(), context };
    let bodys = &emptied.capture;
    let mut outer = Outer { capture, done: false };
    let made = part(context, bodys, Some(inside), &[], |stream| {
        body(stream)?;
        match kind {
            CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE => {
                set(stream, function, handle, flag)
            }
            _ => Ok(()),
        }
    });
    outer.done = true;
    let mut noted = bodys.empty()?;
    // Held until the body's uses are noted: the recording must not end without them.
    let mut recording = capture.lock()?;
    recording.target = Target::Capture;
    // A body that is incomplete must not run: the whole capture fails.
    let done = made.and_then(|part| part.outcome).and_then(|()| {
        if let Some(error) = noted.failures.first() {
            return Err(error);
        }
        recording.take_body(inner, (graph, node), &mut noted, sequence)
    });
    noted.failures.report(context);
    if let Err(error) = &done {
        recording.contents.failures.note_returned(error.clone());
    }
    done
}

/// Fails for a flag that the recording, or the body of a loop, can't use.
fn check_flag(
    capture: &Capture,
    stream: &StreamInner,
    flag: &Allocation,
    kind: CUgraphConditionalNodeType,
) -> Result<()> {
    stream.state().usable()?;
    let recording = capture.enter(stream)?;
    recording.captures()?;
    recording.in_first_context(stream, "a conditional part")?;
    recording.may_use(stream, flag, false)?;
    if kind == CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE && flag.is_of_graph() {
        return Err(Error::invalid(
            "the flag of a loop was allocated in the capture, and bodies can't use such memory",
        )
        .with_hint("allocate the flag before the capture, and put it into the state"));
    }
    Ok(())
}

/// Invalidates the recording if the body's closure panics: half a body is in the graph.
struct Outer<'a> {
    capture: &'a Capture,
    done: bool,
}

impl Drop for Outer<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.capture
                .give_up_body(Error::invalid("the closure of a conditional body has panicked"));
        }
    }
}

/// Enqueues the kernel that makes the handle's value what lies in `flag`.
fn set(
    stream: &Stream,
    function: CUfunction,
    mut handle: CUgraphConditionalHandle,
    flag: DeviceSlice<'_, u32>,
) -> Result<()> {
    let inner: &StreamInner = stream.inner();
    let mut address = flag.device_ptr();
    let mut pointers = [(&raw mut handle).cast(), (&raw mut address).cast()];
    let (pointers, none) = (pointers.as_mut_ptr(), std::ptr::null_mut());
    let uses = [(flag.allocation(), flag.byte_range(), Access::Read)];
    let enqueued = Enqueuing::on(stream)?.run(&uses, None, |_| {
        // SAFETY: the kernel takes a handle and an address, reads four bytes there, which lie in a
        // live allocation, and writes nothing. The driver copies both before it returns.
        unsafe {
            call!(inner, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, inner.raw, pointers, none))
        }
    })?;
    enqueued.recorded
}

fn create_handle(context: &ContextInner, graph: CUgraph) -> Result<CUgraphConditionalHandle> {
    let mut handle = 0;
    // SAFETY: `handle` is a valid place for one, and graph and context are live. A handle that is
    // not set in a launch of the graph is 0 in it.
    unsafe {
        call!(
            context,
            cuGraphConditionalHandleCreate(&raw mut handle, graph, context.raw, 0, ASSIGN_DEFAULT)
        )
    }?;
    Ok(handle)
}

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`.
const ASSIGN_DEFAULT: u32 = 1;

/// Adds a conditional node behind `after`; returns it and the graph of its body.
fn add_node(
    context: &ContextInner,
    graph: CUgraph,
    after: &Arc<[RawNode]>,
    handle: CUgraphConditionalHandle,
    kind: CUgraphConditionalNodeType,
) -> Result<(RawNode, CUgraph)> {
    let mut params = CUgraphNodeParams {
        type_: CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL,
        ..Default::default()
    };
    params.__bindgen_anon_1.conditional = cuda_sys::CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: kind,
        size: 1,
        phGraph_out: std::ptr::null_mut(),
        ctx: context.raw,
    };
    let mut node = std::ptr::null_mut();
    let (nodes, count, params_at) = (RawNode::raws(after), after.len(), &raw mut params);
    context.with_current(|| {
        // SAFETY: the graph is live, the nodes are `count` of its nodes, `node` is a valid place for
        // a handle, and the parameters are those of a conditional node.
        unsafe {
            call!(
                context,
                cuGraphAddNode_v2(&raw mut node, graph, nodes, std::ptr::null(), count, params_at),
                else cuGraphAddNode(&raw mut node, graph, nodes, count, params_at)
            )
        }
    })?;
    // SAFETY: these are the parameters of a conditional node, as set above.
    let bodies = unsafe { params.__bindgen_anon_1.conditional.phGraph_out };
    if bodies.is_null() {
        return Err(Error::invalid("cuGraphAddNode returned success without a body"));
    }
    // SAFETY: the driver gives an array of `size`, that is one, graphs, which lives with the node.
    let inside = unsafe { bodies.read() };
    Ok((RawNode::new(node), inside))
}
