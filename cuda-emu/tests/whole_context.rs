//! Events over all work of a context, and queries of the legacy stream beside captures.

use core::ptr;

use cuda_sys::*;

mod common;
use common::*;

/// The legacy stream of the current context.
const LEGACY: CUstream = CU_STREAM_LEGACY;

fn current() -> CUcontext {
    let mut context = ptr::null_mut();
    ok!(cuCtxGetCurrent(&raw mut context));
    context
}

#[test]
fn an_event_of_a_context_covers_all_its_streams() {
    context();
    let (first, second, target, done) = (stream(1), stream(1), allocate(64), event());
    ok!(cuMemsetD32Async(target, 3, 4, first));
    ok!(cuMemsetD32Async(target + 16, 4, 4, second));
    ok!(cuCtxRecordEvent(current(), done));
    ok!(cuEventSynchronize(done));
    assert_eq!(words(target, 8), [3, 3, 3, 3, 4, 4, 4, 4]);
}

#[test]
fn later_work_of_a_context_waits_for_an_event() {
    context();
    let (first, second, target, done) = (stream(1), stream(1), allocate(64), event());
    ok!(cuMemsetD32Async(target, 3, 4, first));
    ok!(cuEventRecord(done, first));
    ok!(cuCtxWaitEvent(current(), done));
    ok!(cuMemcpyDtoDAsync_v2(target + 16, target, 16, second));
    // A stream that is made afterwards waits, too.
    let third = stream(1);
    ok!(cuMemcpyDtoDAsync_v2(target + 32, target, 16, third));
    ok!(cuStreamSynchronize(second));
    ok!(cuStreamSynchronize(third));
    assert_eq!(words(target, 12), [3; 12]);
    // An event that was never recorded is nothing to wait for.
    ok!(cuCtxWaitEvent(current(), event()));
    ok!(cuStreamSynchronize(stream(1)));
}

#[test]
fn a_capture_forbids_events_of_its_context() {
    context();
    for wait in [false, true] {
        let (captured, done) = (stream(1), event());
        begin(captured);
        let code = match wait {
            false => call!(cuCtxRecordEvent(current(), done)),
            true => call!(cuCtxWaitEvent(current(), done)),
        };
        assert_eq!(code, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        let mut graph = ptr::null_mut();
        let ended = call!(cuStreamEndCapture(captured, &raw mut graph));
        assert_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

#[test]
fn queries_of_the_legacy_stream_leave_captures_of_blocking_streams_alone() {
    context();
    let blocking = stream(0);
    begin(blocking);
    let mut status = CUstreamCaptureStatus(9);
    let implicit = CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    assert_eq!(call!(cuStreamIsCapturing(LEGACY, &raw mut status)), implicit);
    let mut id = 0;
    assert_eq!(call!(cuStreamGetCaptureInfo(LEGACY, &raw mut status, &raw mut id)), implicit);
    ok!(cuStreamIsCapturing(blocking, &raw mut status));
    assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    // Work there spoils it.
    assert_eq!(call!(cuMemsetD32Async(allocate(4), 0, 1, LEGACY)), implicit);
    ok!(cuStreamIsCapturing(blocking, &raw mut status));
    assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    let mut graph = ptr::null_mut();
    let ended = call!(cuStreamEndCapture(blocking, &raw mut graph));
    assert_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
