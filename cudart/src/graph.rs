//! Graphs: their nodes, and what runs them.

use core::ffi::{c_char, c_uint, c_ulonglong, c_void};

use crate::bindings::runtime::{
    cudaEvent_t, cudaGraph_t, cudaGraphConditionalHandle, cudaGraphExec_t,
    cudaGraphExecUpdateResultInfo, cudaGraphInstantiateParams, cudaGraphNode_t, cudaGraphNodeType,
    cudaHostFn_t, cudaHostNodeParams, cudaLaunchAttributeID, cudaLaunchAttributeValue,
    cudaMemAllocNodeParams, cudaStream_t, cudaUserObject_t,
};
use crate::call::{CudaResult, check, own, ready};
use crate::context;
use crate::memory::address;

/// Instantiates a graph.
///
/// # Safety
/// `place` is null or valid for the write, the graph is alive.
unsafe fn instantiate(
    place: *mut cudaGraphExec_t,
    graph: cudaGraph_t,
    flags: c_ulonglong,
) -> CudaResult {
    // SAFETY: the caller's promise.
    check(unsafe { ready()?.cuGraphInstantiateWithFlags(place, graph, flags) })
}

crate::functions! {
    fn cudaGraphCreate(place: *mut cudaGraph_t, flags: c_uint) = cuGraphCreate;
    fn cudaGraphDestroy(graph: cudaGraph_t) = cuGraphDestroy;
    fn cudaGraphClone(place: *mut cudaGraph_t, graph: cudaGraph_t) = cuGraphClone;
    fn cudaGraphDestroyNode(node: cudaGraphNode_t) = cuGraphDestroyNode;
    fn cudaGraphNodeFindInClone(place: *mut cudaGraphNode_t, node: cudaGraphNode_t, clone: cudaGraph_t) = cuGraphNodeFindInClone;
    fn cudaGraphNodeGetType(node: cudaGraphNode_t, kind: *mut cudaGraphNodeType) = cuGraphNodeGetType;
    fn cudaGraphGetNodes(graph: cudaGraph_t, nodes: *mut cudaGraphNode_t, count: *mut usize) = cuGraphGetNodes;
    fn cudaGraphGetRootNodes(graph: cudaGraph_t, nodes: *mut cudaGraphNode_t, count: *mut usize) = cuGraphGetRootNodes;
    fn cudaGraphDebugDotPrint(graph: cudaGraph_t, path: *const c_char, flags: c_uint) = cuGraphDebugDotPrint;
    fn cudaGraphAddEmptyNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
    ) = cuGraphAddEmptyNode;
    fn cudaGraphAddChildGraphNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        child: cudaGraph_t,
    ) = cuGraphAddChildGraphNode;
    fn cudaGraphChildGraphNodeGetGraph(node: cudaGraphNode_t, graph: *mut cudaGraph_t) = cuGraphChildGraphNodeGetGraph;
    fn cudaGraphAddHostNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        parameters: *const cudaHostNodeParams,
    ) = cuGraphAddHostNode;
    fn cudaGraphHostNodeGetParams(node: cudaGraphNode_t, parameters: *mut cudaHostNodeParams) = cuGraphHostNodeGetParams;
    fn cudaGraphHostNodeSetParams(node: cudaGraphNode_t, parameters: *const cudaHostNodeParams) = cuGraphHostNodeSetParams;
    fn cudaGraphExecHostNodeSetParams(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, parameters: *const cudaHostNodeParams,
    ) = cuGraphExecHostNodeSetParams;
    fn cudaGraphAddEventRecordNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        event: cudaEvent_t,
    ) = cuGraphAddEventRecordNode;
    fn cudaGraphAddEventWaitNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        event: cudaEvent_t,
    ) = cuGraphAddEventWaitNode;
    fn cudaGraphEventRecordNodeGetEvent(node: cudaGraphNode_t, event: *mut cudaEvent_t) = cuGraphEventRecordNodeGetEvent;
    fn cudaGraphEventRecordNodeSetEvent(node: cudaGraphNode_t, event: cudaEvent_t) = cuGraphEventRecordNodeSetEvent;
    fn cudaGraphEventWaitNodeGetEvent(node: cudaGraphNode_t, event: *mut cudaEvent_t) = cuGraphEventWaitNodeGetEvent;
    fn cudaGraphEventWaitNodeSetEvent(node: cudaGraphNode_t, event: cudaEvent_t) = cuGraphEventWaitNodeSetEvent;
    fn cudaGraphExecEventRecordNodeSetEvent(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, event: cudaEvent_t,
    ) = cuGraphExecEventRecordNodeSetEvent;
    fn cudaGraphExecEventWaitNodeSetEvent(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, event: cudaEvent_t,
    ) = cuGraphExecEventWaitNodeSetEvent;
    fn cudaGraphExecChildGraphNodeSetParams(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, child: cudaGraph_t,
    ) = cuGraphExecChildGraphNodeSetParams;
    fn cudaGraphAddMemAllocNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        parameters: *mut cudaMemAllocNodeParams,
    ) = cuGraphAddMemAllocNode;
    fn cudaGraphMemAllocNodeGetParams(node: cudaGraphNode_t, parameters: *mut cudaMemAllocNodeParams) = cuGraphMemAllocNodeGetParams;
    fn cudaGraphAddMemFreeNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        memory: *mut c_void,
    ) { check(ready()?.cuGraphAddMemFreeNode(place, graph, dependencies, count, address(memory))) }
    fn cudaGraphMemFreeNodeGetParams(node: cudaGraphNode_t, memory: *mut c_void) {
        check(ready()?.cuGraphMemFreeNodeGetParams(node, memory.cast()))
    }
    fn cudaGraphKernelNodeCopyAttributes(to: cudaGraphNode_t, from: cudaGraphNode_t) = cuGraphKernelNodeCopyAttributes;
    fn cudaGraphKernelNodeGetAttribute(
        node: cudaGraphNode_t, attribute: cudaLaunchAttributeID, value: *mut cudaLaunchAttributeValue,
    ) = cuGraphKernelNodeGetAttribute;
    fn cudaGraphKernelNodeSetAttribute(
        node: cudaGraphNode_t, attribute: cudaLaunchAttributeID, value: *const cudaLaunchAttributeValue,
    ) = cuGraphKernelNodeSetAttribute;
    fn cudaGraphInstantiateWithFlags(place: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: c_ulonglong) {
        instantiate(place, graph, flags)
    }
    fn cudaGraphInstantiate(place: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: c_ulonglong) {
        instantiate(place, graph, flags)
    }
    fn cudaGraphInstantiateWithParams(
        place: *mut cudaGraphExec_t, graph: cudaGraph_t, parameters: *mut cudaGraphInstantiateParams,
    ) = cuGraphInstantiateWithParams;
    fn cudaGraphInstantiateWithParams_ptsz(
        place: *mut cudaGraphExec_t, graph: cudaGraph_t, parameters: *mut cudaGraphInstantiateParams,
    ) {
        if let Some(parameters) = parameters.as_mut() {
            parameters.uploadStream = own(parameters.uploadStream);
        }
        check(ready()?.cuGraphInstantiateWithParams(place, graph, parameters.cast()))
    }
    fn cudaGraphExecDestroy(executable: cudaGraphExec_t) = cuGraphExecDestroy;
    fn cudaGraphExecGetFlags(executable: cudaGraphExec_t, flags: *mut c_ulonglong) = cuGraphExecGetFlags;
    fn cudaGraphExecUpdate(
        executable: cudaGraphExec_t, graph: cudaGraph_t, result: *mut cudaGraphExecUpdateResultInfo,
    ) = cuGraphExecUpdate_v2;
    fn cudaGraphLaunch, cudaGraphLaunch_ptsz [stream] (
        executable: cudaGraphExec_t, stream: cudaStream_t,
    ) = cuGraphLaunch;
    fn cudaGraphUpload, cudaGraphUpload_ptsz [stream] (
        executable: cudaGraphExec_t, stream: cudaStream_t,
    ) = cuGraphUpload;
    fn cudaGraphNodeGetEnabled(executable: cudaGraphExec_t, node: cudaGraphNode_t, enabled: *mut c_uint) = cuGraphNodeGetEnabled;
    fn cudaGraphNodeSetEnabled(executable: cudaGraphExec_t, node: cudaGraphNode_t, enabled: c_uint) = cuGraphNodeSetEnabled;
    fn cudaGraphConditionalHandleCreate(
        place: *mut cudaGraphConditionalHandle, graph: cudaGraph_t, default: c_uint, flags: c_uint,
    ) { check(ready()?.cuGraphConditionalHandleCreate(place, graph, context::current()?, default, flags)) }
    fn cudaUserObjectCreate(
        place: *mut cudaUserObject_t, data: *mut c_void, destroy: cudaHostFn_t, count: c_uint, flags: c_uint,
    ) = cuUserObjectCreate;
    fn cudaUserObjectRetain(object: cudaUserObject_t, count: c_uint) = cuUserObjectRetain;
    fn cudaUserObjectRelease(object: cudaUserObject_t, count: c_uint) = cuUserObjectRelease;
    fn cudaGraphRetainUserObject(
        graph: cudaGraph_t, object: cudaUserObject_t, count: c_uint, flags: c_uint,
    ) = cuGraphRetainUserObject;
    fn cudaGraphReleaseUserObject(graph: cudaGraph_t, object: cudaUserObject_t, count: c_uint) = cuGraphReleaseUserObject;
}
