//! `libcudart.so.13`: the functions of CUDA 13 whose ABI CUDA 12 had otherwise, or that CUDA 12 lacks. All others are those
//! of the crate `cudart`, which this library exports too.
#![allow(non_snake_case, reason = "the header's names")]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cudart::bindings::runtime::{
    cudaDeviceProp, cudaDriverEntryPointQueryResult, cudaError, cudaGraph_t, cudaGraphEdgeData,
    cudaGraphNode_t, cudaGraphNodeParams, cudaMemAllocationType, cudaMemLocation, cudaMemPool_t,
    cudaMemcpyAttributes, cudaMemoryAdvise, cudaStream_t, cudaStreamCaptureStatus,
};
use cudart::{add_any, entry_point, of_13, own_stream, put};

/// The release whose ABI this library has.
const RELEASE: c_uint = 13000;

cudart::functions! {
    fn cudaRuntimeGetVersion(place: *mut c_int) { put(place, RELEASE.cast_signed()) }
    fn cudaGetDeviceProperties(place: *mut cudaDeviceProp, device: c_int) {
        if place.is_null() {
            return Err(cudaError::cudaErrorInvalidValue);
        }
        put(place, of_13(device)?)
    }
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char, place: *mut *mut c_void, flags: c_ulonglong,
        status: *mut cudaDriverEntryPointQueryResult,
    ) { entry_point(symbol, place, RELEASE, flags, status) }
    fn cudaGetDriverEntryPoint_ptsz(
        symbol: *const c_char, place: *mut *mut c_void, flags: c_ulonglong,
        status: *mut cudaDriverEntryPointQueryResult,
    ) { entry_point(symbol, place, RELEASE, own_stream(flags), status) }
    fn cudaMemAdvise(memory: *const c_void, count: usize, advice: cudaMemoryAdvise, location: cudaMemLocation) = cuMemAdvise_v2;
    fn cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz [stream] (
        memory: *const c_void, count: usize, location: cudaMemLocation, flags: c_uint, stream: cudaStream_t,
    ) = cuMemPrefetchAsync_v2;
    fn cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz [stream] (
        to: *const *mut c_void, from: *const *const c_void, sizes: *const usize, count: usize,
        attributes: *mut cudaMemcpyAttributes, indices: *mut usize, attribute_count: usize,
        stream: cudaStream_t,
    ) = cuMemcpyBatchAsync_v2;
    fn cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz [stream] (
        memory: *mut *mut c_void, sizes: *mut usize, count: usize, locations: *mut cudaMemLocation,
        indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: cudaStream_t,
    ) = cuMemPrefetchBatchAsync;
    fn cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz [stream] (
        memory: *mut *mut c_void, sizes: *mut usize, count: usize, flags: c_ulonglong, stream: cudaStream_t,
    ) = cuMemDiscardBatchAsync;
    fn cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz [stream] (
        memory: *mut *mut c_void, sizes: *mut usize, count: usize, locations: *mut cudaMemLocation,
        indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: cudaStream_t,
    ) = cuMemDiscardAndPrefetchBatchAsync;
    fn cudaMemGetDefaultMemPool(
        pool: *mut cudaMemPool_t, location: *mut cudaMemLocation, kind: cudaMemAllocationType,
    ) = cuMemGetDefaultMemPool;
    fn cudaMemGetMemPool(
        pool: *mut cudaMemPool_t, location: *mut cudaMemLocation, kind: cudaMemAllocationType,
    ) = cuMemGetMemPool;
    fn cudaMemSetMemPool(
        location: *mut cudaMemLocation, kind: cudaMemAllocationType, pool: cudaMemPool_t,
    ) = cuMemSetMemPool;
    fn cudaGraphAddNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData, count: usize, parameters: *mut cudaGraphNodeParams,
    ) { add_any(place, graph, dependencies, edges, count, parameters) }
    fn cudaGraphAddDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData, count: usize,
    ) = cuGraphAddDependencies_v2;
    fn cudaGraphRemoveDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData, count: usize,
    ) = cuGraphRemoveDependencies_v2;
    fn cudaGraphGetEdges(
        graph: cudaGraph_t, from: *mut cudaGraphNode_t, to: *mut cudaGraphNode_t,
        edges: *mut cudaGraphEdgeData, count: *mut usize,
    ) = cuGraphGetEdges_v2;
    fn cudaGraphNodeGetDependencies(
        node: cudaGraphNode_t, nodes: *mut cudaGraphNode_t, edges: *mut cudaGraphEdgeData, count: *mut usize,
    ) = cuGraphNodeGetDependencies_v2;
    fn cudaGraphNodeGetDependentNodes(
        node: cudaGraphNode_t, nodes: *mut cudaGraphNode_t, edges: *mut cudaGraphEdgeData, count: *mut usize,
    ) = cuGraphNodeGetDependentNodes_v2;
    fn cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz [stream] (
        stream: cudaStream_t, status: *mut cudaStreamCaptureStatus, id: *mut c_ulonglong,
        graph: *mut cudaGraph_t, dependencies: *mut *const cudaGraphNode_t,
        edges: *mut *const cudaGraphEdgeData, count: *mut usize,
    ) = cuStreamGetCaptureInfo_v3;
    fn cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz [stream] (
        stream: cudaStream_t, dependencies: *mut cudaGraphNode_t, edges: *const cudaGraphEdgeData, count: usize,
        flags: c_uint,
    ) = cuStreamUpdateCaptureDependencies_v2;
}

/// The functions that return 801.
pub mod unsupported;
