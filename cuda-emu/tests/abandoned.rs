//! Captures that are never ended, and the remains of failed captures.

use core::ptr;

use cuda_emu::ledger;
use cuda_sys::*;

mod common;
use common::*;

/// One test: the ledger is the process's.
#[test]
fn a_capture_goes_with_its_stream_and_leaves_the_users_graph() {
    context();
    let (kept, lost, target) = (stream(1), stream(1), allocate(64));
    let before = ledger();
    begin(lost);
    ok!(cuMemsetD32Async(target, 4, 4, lost));
    assert_eq!(ledger().graphs, before.graphs + 1);
    ok!(cuStreamDestroy_v2(lost));
    assert_eq!(ledger().graphs, before.graphs);
    assert_eq!(ledger().streams, before.streams - 1);

    let (mut graph, mut ended) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphCreate(&raw mut graph, 0));
    let mode = CUstreamCaptureMode(2);
    ok!(cuStreamBeginCaptureToGraph(kept, graph, ptr::null(), ptr::null(), 0, mode));
    fails!(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(kept));
    fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(kept, &raw mut ended));
    assert!(ended.is_null());
    assert_eq!(ledger().graphs, before.graphs + 1);
    ok!(cuGraphDestroy(graph));
    assert_eq!(ledger().graphs, before.graphs);
}
