//! `libcudart.so.12`: the functions of CUDA 12 whose ABI CUDA 13 has otherwise, or that CUDA 13 lacks. All others are those
//! of the crate `cudart`, which this library exports too.
#![allow(non_snake_case, reason = "the header's names")]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use core::ptr;

use cudart::bindings::runtime::{
    cudaDriverEntryPointQueryResult, cudaError, cudaEvent_t, cudaGraph_t, cudaGraphEdgeData,
    cudaGraphNode_t, cudaGraphNodeParams, cudaMemLocation, cudaMemLocationType, cudaMemoryAdvise,
    cudaStream_t, cudaStreamCaptureStatus,
};
use cudart::bindings::runtime_12::cudaDeviceProp;
use cudart::{add_any, check, entry_point, of_12, own_stream, pass, put, ready};

/// The release whose ABI this library has.
const RELEASE: c_uint = 12090;
/// The host as a device: `cudaCpuDeviceId`.
const HOST: c_int = -1;

/// Returns the place that a device's number means.
fn location(device: c_int) -> cudaMemLocation {
    let type_ = match device {
        HOST => cudaMemLocationType::cudaMemLocationTypeHost,
        _ => cudaMemLocationType::cudaMemLocationTypeDevice,
    };
    let mut location = cudaMemLocation { type_, ..Default::default() };
    location.__bindgen_anon_1.id = if device == HOST { 0 } else { device };
    location
}

cudart::functions! {
    fn cudaRuntimeGetVersion(place: *mut c_int) { put(place, RELEASE.cast_signed()) }
    fn cudaGetDeviceProperties_v2(place: *mut cudaDeviceProp, device: c_int) {
        if place.is_null() {
            return Err(cudaError::cudaErrorInvalidValue);
        }
        put(place, of_12(device)?)
    }
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char, place: *mut *mut c_void, flags: c_ulonglong,
        status: *mut cudaDriverEntryPointQueryResult,
    ) { entry_point(symbol, place, RELEASE, flags, status) }
    fn cudaGetDriverEntryPoint_ptsz(
        symbol: *const c_char, place: *mut *mut c_void, flags: c_ulonglong,
        status: *mut cudaDriverEntryPointQueryResult,
    ) { entry_point(symbol, place, RELEASE, own_stream(flags), status) }
    fn cudaThreadSynchronize() { check(ready()?.cuCtxSynchronize()) }
    fn cudaEventElapsedTime_v2(milliseconds: *mut f32, start: cudaEvent_t, end: cudaEvent_t) = cuEventElapsedTime;
    fn cudaMemAdvise(memory: *const c_void, count: usize, advice: cudaMemoryAdvise, device: c_int) {
        check(ready()?.cuMemAdvise_v2(pass(memory), count, pass(advice), pass(location(device))))
    }
    fn cudaMemAdvise_v2(memory: *const c_void, count: usize, advice: cudaMemoryAdvise, location: cudaMemLocation) = cuMemAdvise_v2;
    fn cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz [stream] (
        memory: *const c_void, count: usize, device: c_int, stream: cudaStream_t,
    ) { check(ready()?.cuMemPrefetchAsync_v2(pass(memory), count, pass(location(device)), 0, stream)) }
    fn cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync_v2_ptsz [stream] (
        memory: *const c_void, count: usize, location: cudaMemLocation, flags: c_uint, stream: cudaStream_t,
    ) = cuMemPrefetchAsync_v2;
    fn cudaGraphAddNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        parameters: *mut cudaGraphNodeParams,
    ) { add_any(place, graph, dependencies, ptr::null(), count, parameters) }
    fn cudaGraphAddNode_v2(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData, count: usize, parameters: *mut cudaGraphNodeParams,
    ) { add_any(place, graph, dependencies, edges, count, parameters) }
    fn cudaGraphAddDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t, count: usize,
    ) = cuGraphAddDependencies;
    fn cudaGraphAddDependencies_v2(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData, count: usize,
    ) = cuGraphAddDependencies_v2;
    fn cudaGraphRemoveDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t, count: usize,
    ) = cuGraphRemoveDependencies;
    fn cudaGraphRemoveDependencies_v2(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData, count: usize,
    ) = cuGraphRemoveDependencies_v2;
    fn cudaGraphGetEdges(
        graph: cudaGraph_t, from: *mut cudaGraphNode_t, to: *mut cudaGraphNode_t, count: *mut usize,
    ) = cuGraphGetEdges;
    fn cudaGraphGetEdges_v2(
        graph: cudaGraph_t, from: *mut cudaGraphNode_t, to: *mut cudaGraphNode_t,
        edges: *mut cudaGraphEdgeData, count: *mut usize,
    ) = cuGraphGetEdges_v2;
    fn cudaGraphNodeGetDependencies(node: cudaGraphNode_t, nodes: *mut cudaGraphNode_t, count: *mut usize) = cuGraphNodeGetDependencies;
    fn cudaGraphNodeGetDependencies_v2(
        node: cudaGraphNode_t, nodes: *mut cudaGraphNode_t, edges: *mut cudaGraphEdgeData, count: *mut usize,
    ) = cuGraphNodeGetDependencies_v2;
    fn cudaGraphNodeGetDependentNodes(node: cudaGraphNode_t, nodes: *mut cudaGraphNode_t, count: *mut usize) = cuGraphNodeGetDependentNodes;
    fn cudaGraphNodeGetDependentNodes_v2(
        node: cudaGraphNode_t, nodes: *mut cudaGraphNode_t, edges: *mut cudaGraphEdgeData, count: *mut usize,
    ) = cuGraphNodeGetDependentNodes_v2;
    fn cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz [stream] (
        stream: cudaStream_t, status: *mut cudaStreamCaptureStatus, id: *mut c_ulonglong,
    ) {
        let none = ptr::null_mut();
        check(ready()?.cuStreamGetCaptureInfo_v2(
            stream, status.cast(), pass(id), none, ptr::null_mut(), ptr::null_mut(),
        ))
    }
    fn cudaStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo_v2_ptsz [stream] (
        stream: cudaStream_t, status: *mut cudaStreamCaptureStatus, id: *mut c_ulonglong,
        graph: *mut cudaGraph_t, dependencies: *mut *const cudaGraphNode_t, count: *mut usize,
    ) = cuStreamGetCaptureInfo_v2;
    fn cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3_ptsz [stream] (
        stream: cudaStream_t, status: *mut cudaStreamCaptureStatus, id: *mut c_ulonglong,
        graph: *mut cudaGraph_t, dependencies: *mut *const cudaGraphNode_t,
        edges: *mut *const cudaGraphEdgeData, count: *mut usize,
    ) = cuStreamGetCaptureInfo_v3;
    fn cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz [stream] (
        stream: cudaStream_t, dependencies: *mut cudaGraphNode_t, count: usize, flags: c_uint,
    ) = cuStreamUpdateCaptureDependencies;
    fn cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies_v2_ptsz [stream] (
        stream: cudaStream_t, dependencies: *mut cudaGraphNode_t, edges: *const cudaGraphEdgeData, count: usize,
        flags: c_uint,
    ) = cuStreamUpdateCaptureDependencies_v2;
}

/// The functions that return 801.
pub mod unsupported;
