//! Streams, events and captures.

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::bindings::runtime::{
    cudaEvent_t, cudaGraph_t, cudaGraphEdgeData, cudaGraphNode_t, cudaLaunchAttributeID,
    cudaLaunchAttributeValue, cudaStream_t, cudaStreamCallback_t, cudaStreamCaptureMode,
    cudaStreamCaptureStatus,
};
use crate::call::{check, given, own, put, ready};
use crate::context;

crate::functions! {
    fn cudaStreamCreate(place: *mut cudaStream_t) {
        check(ready()?.cuStreamCreate(place, 0))
    }
    fn cudaStreamCreateWithFlags(place: *mut cudaStream_t, flags: c_uint) = cuStreamCreate;
    fn cudaStreamCreateWithPriority(place: *mut cudaStream_t, flags: c_uint, priority: c_int) = cuStreamCreateWithPriority;
    fn cudaStreamDestroy(stream: cudaStream_t) = cuStreamDestroy_v2;
    fn cudaStreamSynchronize, cudaStreamSynchronize_ptsz [stream] (stream: cudaStream_t) = cuStreamSynchronize;
    fn cudaStreamQuery, cudaStreamQuery_ptsz [stream] (stream: cudaStream_t) = cuStreamQuery;
    fn cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz [stream] (
        stream: cudaStream_t, event: cudaEvent_t, flags: c_uint,
    ) = cuStreamWaitEvent;
    fn cudaStreamAddCallback, cudaStreamAddCallback_ptsz [stream] (
        stream: cudaStream_t, callback: cudaStreamCallback_t, data: *mut c_void, flags: c_uint,
    ) = cuStreamAddCallback;
    fn cudaStreamGetPriority, cudaStreamGetPriority_ptsz [stream] (
        stream: cudaStream_t, priority: *mut c_int,
    ) = cuStreamGetPriority;
    fn cudaStreamGetFlags, cudaStreamGetFlags_ptsz [stream] (
        stream: cudaStream_t, flags: *mut c_uint,
    ) = cuStreamGetFlags;
    fn cudaStreamGetId, cudaStreamGetId_ptsz [stream] (
        stream: cudaStream_t, id: *mut c_ulonglong,
    ) = cuStreamGetId;
    fn cudaStreamGetDevice, cudaStreamGetDevice_ptsz [stream] (
        stream: cudaStream_t, device: *mut c_int,
    ) {
        let driver = ready()?;
        let mut context = core::ptr::null_mut();
        check(driver.cuStreamGetCtx(stream, &raw mut context))?;
        put(device, context::device_of(driver, context)?)
    }
    fn cudaStreamCopyAttributes(to: cudaStream_t, from: cudaStream_t) = cuStreamCopyAttributes;
    fn cudaStreamCopyAttributes_ptsz(to: cudaStream_t, from: cudaStream_t) {
        check(ready()?.cuStreamCopyAttributes(own(to.cast()), own(from.cast())))
    }
    fn cudaStreamGetAttribute, cudaStreamGetAttribute_ptsz [stream] (
        stream: cudaStream_t, attribute: cudaLaunchAttributeID, value: *mut cudaLaunchAttributeValue,
    ) = cuStreamGetAttribute;
    fn cudaStreamSetAttribute, cudaStreamSetAttribute_ptsz [stream] (
        stream: cudaStream_t, attribute: cudaLaunchAttributeID, value: *const cudaLaunchAttributeValue,
    ) = cuStreamSetAttribute;
    fn cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz [stream] (
        stream: cudaStream_t, mode: cudaStreamCaptureMode,
    ) = cuStreamBeginCapture_v2;
    fn cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz [stream] (
        stream: cudaStream_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t,
        edges: *const cudaGraphEdgeData, count: usize, mode: cudaStreamCaptureMode,
    ) = cuStreamBeginCaptureToGraph;
    fn cudaStreamEndCapture, cudaStreamEndCapture_ptsz [stream] (
        stream: cudaStream_t, graph: *mut cudaGraph_t,
    ) = cuStreamEndCapture;
    fn cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz [stream] (
        stream: cudaStream_t, status: *mut cudaStreamCaptureStatus,
    ) = cuStreamIsCapturing;
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut cudaStreamCaptureMode) = cuThreadExchangeStreamCaptureMode;
    fn cudaEventCreate(place: *mut cudaEvent_t) { check(ready()?.cuEventCreate(place, 0)) }
    fn cudaEventCreateWithFlags(place: *mut cudaEvent_t, flags: c_uint) = cuEventCreate;
    fn cudaEventDestroy(event: cudaEvent_t) = cuEventDestroy_v2;
    fn cudaEventRecord, cudaEventRecord_ptsz [stream] (event: cudaEvent_t, stream: cudaStream_t) = cuEventRecord;
    fn cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz [stream] (
        event: cudaEvent_t, stream: cudaStream_t, flags: c_uint,
    ) = cuEventRecordWithFlags;
    fn cudaEventSynchronize(event: cudaEvent_t) = cuEventSynchronize;
    fn cudaEventQuery(event: cudaEvent_t) = cuEventQuery;
    fn cudaEventElapsedTime(milliseconds: *mut f32, start: cudaEvent_t, end: cudaEvent_t) {
        let driver = ready()?;
        given(milliseconds)?;
        check(driver.cuEventElapsedTime(milliseconds, start.cast(), end.cast()))
    }
}
