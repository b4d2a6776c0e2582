//! Capture and graphs.

use core::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cuda_sys::*;

mod common;
use common::*;

fn count(graph: CUgraph) -> usize {
    let mut count = 0;
    ok!(cuGraphGetNodes(graph, ptr::null_mut(), &raw mut count));
    count
}

#[test]
fn captured_work_is_done_by_each_launch() {
    context();
    let (one, other, joined, forked) = (stream(1), stream(1), event(), event());
    let kernel = function(module(), "fill");
    let target = allocate(64);
    ok!(cuMemsetD8_v2(target, 0, 64));
    ok!(cuCtxSynchronize());
    begin(one);
    assert_eq!(fill(kernel, one, target, 16, 3), SUCCESS);
    ok!(cuEventRecord(forked, one));
    ok!(cuStreamWaitEvent(other, forked, 0));
    ok!(cuMemsetD32Async(target, 4, 4, other));
    ok!(cuMemsetD32Async(target + 16, 5, 4, one));
    ok!(cuEventRecord(joined, other));
    ok!(cuStreamWaitEvent(one, joined, 0));
    ok!(cuMemcpyDtoDAsync_v2(target + 32, target, 32, one));
    fails!(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(joined));
    let graph = end(one);
    assert_eq!(count(graph), 4);
    assert_eq!(words(target, 16), [0; 16], "captured, not done");
    let exec = instantiate(graph);
    for _ in 0..3 {
        ok!(cuMemsetD8Async(target, 0, 64, one));
        ok!(cuGraphLaunch(exec, one));
        ok!(cuStreamSynchronize(one));
        let wanted = [4, 4, 4, 4, 5, 5, 5, 5, 4, 4, 4, 4, 5, 5, 5, 5];
        assert_eq!(words(target, 16), wanted);
    }
    let (mut edges, mut roots) = (0, 0);
    ok!(cuGraphGetEdges(graph, ptr::null_mut(), ptr::null_mut(), &raw mut edges));
    ok!(cuGraphGetRootNodes(graph, ptr::null_mut(), &raw mut roots));
    assert_eq!((edges, roots), (4, 1));
    ok!(cuGraphDestroy(graph));
    ok!(cuGraphLaunch(exec, one));
    ok!(cuGraphExecDestroy(exec));
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, one));
    ok!(cuStreamSynchronize(one));
}

#[test]
fn what_spoils_a_capture() {
    context();
    let (one, outside, event) = (stream(1), stream(1), event());
    let mut graph = ptr::null_mut();
    ok!(cuEventRecord(event, outside));
    begin(one);
    fails!(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(one, event, 0));
    fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &raw mut graph));
    assert!(graph.is_null());

    // Memory from outside is not freed, and the capture lives.
    let mut address = 0;
    ok!(cuMemAllocAsync(&raw mut address, 64, outside));
    begin(one);
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(address, one));
    let graph_1 = end(one);
    ok!(cuGraphDestroy(graph_1));
    ok!(cuMemFreeAsync(address, outside));

    begin(one);
    let (mut owner, mut status) = (ptr::null_mut(), CUstreamCaptureStatus(0));
    ok!(cuStreamGetCtx(one, &raw mut owner));
    fails!(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(one));
    // Until the capture ends, its status is all that the stream returns: as an H200 does, driver 580.
    fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamGetCtx(one, &raw mut owner));
    ok!(cuStreamIsCapturing(one, &raw mut status));
    assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &raw mut graph));
    ok!(cuStreamGetCtx(one, &raw mut owner));

    begin(one);
    ok!(cuEventRecord(event, one));
    ok!(cuStreamWaitEvent(outside, event, 0));
    ok!(cuLaunchHostFunc(outside, Some(nothing), ptr::null_mut()));
    fails!(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(one, &raw mut graph));
    fails!(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(one, &raw mut graph));
    ok!(cuStreamSynchronize(outside));
}

extern "C" fn nothing(_: *mut c_void) {}

#[test]
fn thread_local_captures_forbid_their_own_thread() {
    context();
    let (one, event) = (stream(1), event());
    let mut graph = ptr::null_mut();
    ok!(cuStreamBeginCapture_v2(one, CUstreamCaptureMode(1)));
    fails!(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(event));
    fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &raw mut graph));
    // Of an event that is part of the capture that is said first.
    ok!(cuStreamBeginCapture_v2(one, CUstreamCaptureMode(1)));
    ok!(cuEventRecord(event, one));
    fails!(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
    fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &raw mut graph));
    ok!(cuStreamBeginCapture_v2(one, CUstreamCaptureMode(1)));
    let mut mode = CUstreamCaptureMode(2);
    ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, 8));
    ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
    assert_eq!(mode, CUstreamCaptureMode(2));
    ok!(cuStreamEndCapture(one, &raw mut graph));
    assert_eq!(count(graph), 0);
}

#[test]
fn flags_that_exclude_each_other_are_refused() {
    context();
    let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphCreate(&raw mut graph, 0));
    let (free, device) = (1, 4);
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphInstantiateWithFlags(&raw mut exec, graph, free | device)
    );
    fails!(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&raw mut exec, graph, device));
    ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, free));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn graphs_are_built_cloned_and_updated() {
    context();
    let (target, one) = (allocate(16), stream(1));
    let set = |value| CUDA_MEMSET_NODE_PARAMS {
        dst: target,
        pitch: 0,
        value,
        elementSize: 4,
        width: 4,
        height: 1,
    };
    let build = |value: u32| {
        let (mut graph, mut first, mut second) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        ok!(cuGraphCreate(&raw mut graph, 0));
        let params = set(value);
        ok!(cuGraphAddMemsetNode(
            &raw mut first,
            graph,
            ptr::null(),
            0,
            &raw const params,
            ptr::null_mut()
        ));
        ok!(cuGraphAddEmptyNode(&raw mut second, graph, &raw const first, 1));
        (graph, first, second)
    };
    let (graph, first, second) = build(1);
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphAddDependencies(graph, &raw const second, &raw const first, 1)
    );
    let exec = instantiate(graph);
    let run = || {
        ok!(cuGraphLaunch(exec, one));
        ok!(cuStreamSynchronize(one));
        words(target, 4)
    };
    assert_eq!(run(), [1; 4]);
    let (newer, ..) = build(2);
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(cuGraphExecUpdate_v2(exec, newer, &raw mut info));
    assert_eq!(run(), [2; 4]);
    let params = set(7);
    ok!(cuGraphExecMemsetNodeSetParams(exec, first, &raw const params, ptr::null_mut()));
    assert_eq!(run(), [7; 4]);
    ok!(cuGraphNodeSetEnabled(exec, first, 0));
    ok!(cuMemsetD32_v2(target, 0, 4));
    assert_eq!(run(), [0; 4]);
    let mut third = ptr::null_mut();
    ok!(cuGraphAddEmptyNode(&raw mut third, newer, ptr::null(), 0));
    fails!(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, newer, &raw mut info));
    let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    assert_eq!(info.result, why);

    let (mut clone, mut twin) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphClone(&raw mut clone, graph));
    ok!(cuGraphNodeFindInClone(&raw mut twin, first, clone));
    assert_ne!(twin, first);
    let (mut parent, mut child) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphCreate(&raw mut parent, 0));
    ok!(cuGraphAddChildGraphNode(&raw mut child, parent, ptr::null(), 0, clone));
    ok!(cuGraphDestroy(clone));
    let whole = instantiate(parent);
    ok!(cuGraphLaunch(whole, one));
    ok!(cuStreamSynchronize(one));
    assert_eq!(words(target, 4), [1; 4]);
    for graph in [graph, newer, parent] {
        ok!(cuGraphDestroy(graph));
    }
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(second));
}

#[test]
fn memory_of_a_graph_lives_as_long_as_it() {
    context();
    let one = stream(1);
    let kernel = function(module(), "fill");
    let (target, mut inside) = (allocate(16), 0);
    begin(one);
    ok!(cuMemAllocAsync(&raw mut inside, 16, one));
    assert_eq!(fill(kernel, one, inside, 4, 6), SUCCESS);
    ok!(cuMemcpyDtoDAsync_v2(target, inside, 16, one));
    ok!(cuMemFreeAsync(inside, one));
    let graph = end(one);
    let exec = instantiate(graph);
    ok!(cuGraphDestroy(graph));
    for _ in 0..2 {
        ok!(cuMemsetD8Async(target, 0, 16, one));
        ok!(cuGraphLaunch(exec, one));
        ok!(cuStreamSynchronize(one));
        assert_eq!(words(target, 4), [6; 4]);
    }
    ok!(cuGraphExecDestroy(exec));
    let mut owner: CUcontext = ptr::null_mut();
    let which = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
    fails!(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute((&raw mut owner).cast(), which, inside));
}

#[test]
fn a_graph_of_a_thousand_kernels_costs_little_to_launch() {
    context();
    let (one, target) = (stream(1), allocate(4));
    let kernel = function(module(), "fill");
    begin(one);
    for value in 0..1000 {
        assert_eq!(fill(kernel, one, target, 1, value), SUCCESS);
    }
    let exec = instantiate(end(one));
    run(exec, one);
    let begun = Instant::now();
    for _ in 0..10 {
        run(exec, one);
    }
    let each = begun.elapsed() / 10;
    println!("{each:?} a launch");
    assert_eq!(words(target, 1), [999]);
    // A bound for a busy machine without optimisation; it is some tens of milliseconds.
    assert!(each.as_secs() < 2, "{each:?}");
}

/// Bits of the user objects that were destroyed.
static GONE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn gone(data: *mut c_void) {
    GONE.fetch_or(data.addr(), Ordering::SeqCst);
}

/// Returns a graph that alone has a user object, whose destructor sets the bit.
fn with_user(bit: usize) -> CUgraph {
    let (mut graph, mut user) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphCreate(&raw mut graph, 0));
    let data = ptr::without_provenance_mut(bit);
    ok!(cuUserObjectCreate(&raw mut user, data, Some(gone), 1, 1));
    ok!(cuGraphRetainUserObject(graph, user, 1, 1));
    graph
}

#[test]
fn user_objects_live_as_long_as_what_uses_them() {
    context();
    let until = |wanted: usize| {
        let begun = Instant::now();
        while GONE.load(Ordering::SeqCst) != wanted {
            assert!(begun.elapsed() < Duration::from_secs(20), "{wanted}");
            std::thread::yield_now();
        }
    };
    let around = |inner: CUgraph| {
        let (mut whole, mut node) = (ptr::null_mut(), ptr::null_mut());
        ok!(cuGraphCreate(&raw mut whole, 0));
        ok!(cuGraphAddChildGraphNode(&raw mut node, whole, ptr::null(), 0, inner));
        ok!(cuGraphDestroy(inner));
        (whole, node)
    };
    // A node that is destroyed lets go of the graph inside.
    let (whole, node) = around(with_user(1));
    ok!(cuGraphDestroyNode(node));
    until(1);
    ok!(cuGraphDestroy(whole));
    // An executable graph has those of the graphs inside, until an update replaces them.
    let (first, _) = around(with_user(2));
    let exec = instantiate(first);
    ok!(cuGraphDestroy(first));
    let (second, _) = around(with_user(4));
    ok!(cuCtxSynchronize());
    std::thread::sleep(Duration::from_millis(20));
    until(1);
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(cuGraphExecUpdate_v2(exec, second, &raw mut info));
    until(3);
    ok!(cuGraphDestroy(second));
    std::thread::sleep(Duration::from_millis(20));
    until(3);
    ok!(cuGraphExecDestroy(exec));
    until(7);
}
