//! The driver calls that capturing and graphs are made of, each with its result as a `Result`. None is
//! made once the device is lost: a closure that records may have met that, and come back.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use cuda_sys::{
    CUdeviceptr, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus, CUstreamUpdateCaptureDependencies_flags,
};

use crate::caller;
use crate::context::{ContextInner, Deferred, Dropped};
use crate::error::{Error, Result};
use crate::stream::{StreamInner, create_event};

/// A node's handle. The driver ties nodes to no thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct RawNode(CUgraphNode);

// SAFETY: a handle is a number to everybody but the driver, which only gets it from code that holds
// the graph exclusively.
unsafe impl Send for RawNode {}
// SAFETY: as above.
unsafe impl Sync for RawNode {}

impl RawNode {
    /// No node.
    pub(super) const NULL: Self = Self(std::ptr::null_mut());

    pub(super) fn new(raw: CUgraphNode) -> Self {
        Self(raw)
    }

    pub(super) fn raw(self) -> CUgraphNode {
        self.0
    }

    /// Returns the handles, as the driver takes them.
    pub(super) fn raws(nodes: &[Self]) -> *const CUgraphNode {
        nodes.as_ptr().cast()
    }
}

/// Begins a capture. In relaxed mode, since the crate itself refuses what a capture can't hold, and
/// other threads and libraries are none of its business.
pub(super) fn begin(context: &ContextInner, stream: CUstream) -> Result<()> {
    context.state.usable()?;
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the stream is live and ours alone.
    unsafe { call!(context, cuStreamBeginCapture_v2(stream, mode)) }
}

/// Begins a capture whose nodes are added to `graph`, the first of them behind `after`.
pub(super) fn begin_to(
    context: &ContextInner,
    stream: CUstream,
    graph: CUgraph,
    after: &[RawNode],
) -> Result<()> {
    context.state.usable()?;
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let none: *const CUgraphEdgeData = std::ptr::null();
    let (nodes, count) = (RawNode::raws(after), after.len());
    // SAFETY: stream and graph are live, and the nodes are `count` nodes of the graph.
    unsafe { call!(context, cuStreamBeginCaptureToGraph(stream, graph, nodes, none, count, mode)) }
}

/// Ends a capture. Whatever was captured is given back even if the caller has no use for it.
pub(super) fn end(context: &ContextInner, stream: CUstream) -> Result<CUgraph> {
    context.state.usable()?;
    let mut graph = std::ptr::null_mut();
    // SAFETY: the stream is live, and `graph` is a valid place for a handle.
    unsafe { call!(context, cuStreamEndCapture(stream, &raw mut graph)) }?;
    if graph.is_null() {
        return Err(Error::invalid("cuStreamEndCapture returned success without a graph"));
    }
    Ok(graph)
}

/// Returns the graph that a stream captures, and the nodes that the next one will follow.
pub(super) fn capturing(
    context: &ContextInner,
    stream: CUstream,
) -> Result<(CUgraph, Arc<[RawNode]>)> {
    context.state.usable()?;
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph) = (0, std::ptr::null_mut());
    let mut nodes: *const CUgraphNode = std::ptr::null();
    let (mut edges, mut count) = (std::ptr::null(), 0);
    let (status_at, id_at, graph_at) = (&raw mut status, &raw mut id, &raw mut graph);
    let (nodes_at, edges_at, count_at) = (&raw mut nodes, &raw mut edges, &raw mut count);
    // SAFETY: the stream is live, and each pointer is a valid place for what is written there. Drivers
    // before 12.3 know no data of edges.
    unsafe {
        call!(
            context,
            cuStreamGetCaptureInfo_v3(
                stream, status_at, id_at, graph_at, nodes_at, edges_at, count_at
            ),
            else cuStreamGetCaptureInfo_v2(stream, status_at, id_at, graph_at, nodes_at, count_at)
        )
    }?;
    if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
        return Err(Error::invalid("a call that can't be captured has invalidated the capture"));
    }
    if nodes.is_null() || count == 0 {
        return Ok((graph, Arc::from([])));
    }
    // SAFETY: the driver gives `count` handles, which stay there until the next call that concerns
    // the capture; the caller holds the recording.
    let tail = unsafe { std::slice::from_raw_parts(nodes.cast::<RawNode>(), count) };
    Ok((graph, tail.into()))
}

/// Returns the nodes that the next one of a capturing stream will follow.
pub(super) fn tail(context: &ContextInner, stream: CUstream) -> Result<Arc<[RawNode]>> {
    capturing(context, stream).map(|(_, tail)| tail)
}

/// Makes the next node of a capturing stream follow `nodes` too, or follow nothing else.
fn set_tail(
    context: &ContextInner,
    stream: CUstream,
    nodes: &[RawNode],
    flags: CUstreamUpdateCaptureDependencies_flags,
) -> Result<()> {
    context.state.usable()?;
    let mut nodes: Vec<CUgraphNode> = nodes.iter().map(|node| node.raw()).collect();
    let (first, count, none) = (nodes.as_mut_ptr(), nodes.len(), std::ptr::null());
    // SAFETY: the stream is live, and `nodes` are that many nodes of the graph that it captures.
    unsafe {
        call!(
            context,
            cuStreamUpdateCaptureDependencies_v2(stream, first, none, count, flags.0),
            else cuStreamUpdateCaptureDependencies(stream, first, count, flags.0)
        )
    }
}

/// Makes the next node of a capturing stream follow `nodes` too.
pub(super) fn follow(context: &ContextInner, stream: CUstream, nodes: &[RawNode]) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let add = CUstreamUpdateCaptureDependencies_flags::CU_STREAM_ADD_CAPTURE_DEPENDENCIES;
    set_tail(context, stream, nodes, add)
}

/// Makes the next node of a capturing stream follow `node` alone.
pub(super) fn continue_at(context: &ContextInner, stream: CUstream, node: RawNode) -> Result<()> {
    let set = CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    set_tail(context, stream, &[node], set)
}

/// Makes `waiter` wait for `other`, which is a stream of the context, by an event: if one of them captures, both do from
/// then on.
pub(super) fn join(context: &ContextInner, waiter: CUstream, other: CUstream) -> Result<()> {
    let event = create_event(context)?;
    // SAFETY: all handles are live.
    let recorded = unsafe { call!(context, cuEventRecord(event, other)) };
    // SAFETY: as above.
    let wait = |()| unsafe { call!(context, cuStreamWaitEvent(waiter, event, 0)) };
    let joined = recorded.and_then(wait);
    if !context.state.is_usable() {
        return joined;
    }
    // SAFETY: made above; the wait is an edge of the graph by now and needs no event.
    joined.and(unsafe { call!(context, cuEventDestroy_v2(event)) })
}

/// Allocates memory in a capture: a node of the graph does it.
pub(super) fn allocate(stream: &StreamInner, bytes: usize) -> Result<CUdeviceptr> {
    let mut start = 0;
    // SAFETY: `start` is a valid place for an address, and the stream is live.
    unsafe { call!(stream, cuMemAllocAsync(&raw mut start, bytes, stream.raw)) }
        .map_err(|error| error.with_asked(format!("{bytes} bytes in a graph")))?;
    Ok(start)
}

/// Frees it in the same capture.
pub(super) fn free(context: &ContextInner, stream: CUstream, start: CUdeviceptr) -> Result<()> {
    context.state.usable()?;
    // SAFETY: the memory was allocated in this capture, its owner is gone, and all uses come before.
    unsafe { call!(context, cuMemFreeAsync(start, stream)) }
}

/// Creates a graph without nodes.
pub(super) fn create(context: &ContextInner) -> Result<CUgraph> {
    context.state.usable()?;
    let mut graph = std::ptr::null_mut();
    // SAFETY: `graph` is a valid place for a handle.
    unsafe { call!(context, cuGraphCreate(&raw mut graph, 0)) }?;
    Ok(graph)
}

/// Makes a graph executable. The driver may load code and allocate memory for it.
pub(super) fn instantiate(context: &ContextInner, graph: CUgraph) -> Result<CUgraphExec> {
    let mut exec = std::ptr::null_mut();
    context.with_current(|| {
        // SAFETY: the graph is live, and `exec` is a valid place for a handle.
        unsafe { call!(context, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)) }
    })?;
    Ok(exec)
}

/// Returns all nodes of a graph, in the order in which they were added.
pub(super) fn nodes(context: &ContextInner, graph: CUgraph) -> Result<Vec<RawNode>> {
    context.state.usable()?;
    let mut count = 0;
    // SAFETY: the graph is live, and without a place for nodes only their number is written.
    unsafe { call!(context, cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count)) }?;
    let mut nodes = vec![RawNode::NULL; count];
    if count > 0 {
        let place = nodes.as_mut_ptr().cast();
        // SAFETY: the graph is live, and there is room for that many handles.
        unsafe { call!(context, cuGraphGetNodes(graph, place, &raw mut count)) }?;
        nodes.truncate(count);
    }
    Ok(nodes)
}

/// Returns a copy of a graph.
pub(super) fn clone(context: &ContextInner, graph: CUgraph) -> Result<CUgraph> {
    let mut copy = std::ptr::null_mut();
    context.with_current(|| {
        // SAFETY: the graph is live, and `copy` is a valid place for a handle.
        unsafe { call!(context, cuGraphClone(&raw mut copy, graph)) }
    })?;
    Ok(copy)
}

/// Returns the node of a copy that corresponds to a node of the original.
pub(super) fn find_in_clone(
    context: &ContextInner,
    node: RawNode,
    copy: CUgraph,
) -> Result<RawNode> {
    let mut found = std::ptr::null_mut();
    context.state.usable()?;
    // SAFETY: both are live, and `found` is a valid place for a handle.
    unsafe { call!(context, cuGraphNodeFindInClone(&raw mut found, node.raw(), copy)) }?;
    Ok(RawNode::new(found))
}

/// Updates an executable graph to another graph of the same shape. Returns `false`, without a change, if the shapes
/// differ.
pub(super) fn update(context: &ContextInner, exec: CUgraphExec, graph: CUgraph) -> Result<bool> {
    let mut info = CUgraphExecUpdateResultInfo {
        result: CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
        errorNode: std::ptr::null_mut(),
        errorFromNode: std::ptr::null_mut(),
    };
    context.with_current(|| {
        let sys = context.state.sys;
        // SAFETY: both are live, and `info` is a valid place for the outcome.
        let result = unsafe { sys.cuGraphExecUpdate_v2(exec, graph, &raw mut info) };
        if let Ok(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) = result {
            return Ok(false);
        }
        context.answer("cuGraphExecUpdate", result)?;
        Ok(true)
    })
}

/// Adds a node that runs a copy of another graph, behind `after`.
pub(super) fn add_child(
    context: &ContextInner,
    graph: CUgraph,
    after: &[RawNode],
    child: CUgraph,
) -> Result<RawNode> {
    let mut node = std::ptr::null_mut();
    let (nodes, count) = (RawNode::raws(after), after.len());
    context.with_current(|| {
        // SAFETY: both graphs are live, the nodes are `count` nodes of the graph, and `node` is a
        // valid place for a handle. The driver copies the child.
        unsafe {
            call!(context, cuGraphAddChildGraphNode(&raw mut node, graph, nodes, count, child))
        }
    })?;
    Ok(RawNode::new(node))
}

/// Adds edges from each of `from` to `to`.
pub(super) fn add_edges(
    context: &ContextInner,
    graph: CUgraph,
    from: &[RawNode],
    to: RawNode,
) -> Result<()> {
    context.state.usable()?;
    if from.is_empty() {
        return Ok(());
    }
    let (to, from_at) = (vec![to.raw(); from.len()], RawNode::raws(from));
    let (to, count, none) = (to.as_ptr(), from.len(), std::ptr::null());
    // SAFETY: all are nodes of the graph, and both arrays have that many.
    unsafe {
        call!(
            context,
            cuGraphAddDependencies_v2(graph, from_at, to, none, count),
            else cuGraphAddDependencies(graph, from_at, to, count)
        )
    }
}

/// Writes a graph to a file, in the DOT language.
pub(super) fn write_dot(context: &ContextInner, graph: CUgraph, path: &Path) -> Result<()> {
    context.state.usable()?;
    let text = path
        .to_str()
        .and_then(|path| CString::new(path).ok())
        .ok_or_else(|| Error::invalid(format!("{} is no path for the driver", path.display())))?;
    // SAFETY: the graph is live and the path is a C string.
    unsafe { call!(context, cuGraphDebugDotPrint(graph, text.as_ptr(), 0)) }
        .map_err(|error| error.with_asked(format!("DOT to {}", path.display())))
}

/// Destroys a graph; nothing for null.
pub(super) fn destroy_graph(context: &ContextInner, graph: CUgraph) -> Result<()> {
    if !graph.is_null() && caller::is_host_function() && context.state.may_defer() {
        context.deferred.put(Deferred::Dropped(Dropped::Graph(graph)));
    }
    if graph.is_null() || !context.state.is_usable() {
        return Ok(());
    }
    // SAFETY: the caller owns the graph; executable graphs made from it do not depend on it.
    unsafe { call!(context, cuGraphDestroy(graph)) }
}

/// Destroys an executable graph; nothing for null.
pub(super) fn destroy_exec(context: &ContextInner, exec: CUgraphExec) -> Result<()> {
    if !exec.is_null() && caller::is_host_function() && context.state.may_defer() {
        context.deferred.put(Deferred::Dropped(Dropped::Exec(exec)));
    }
    if exec.is_null() || !context.state.is_usable() {
        return Ok(());
    }
    // SAFETY: the caller owns it. A launch that is still running finishes; the call does not
    // wait for it.
    unsafe { call!(context, cuGraphExecDestroy(exec)) }
}
