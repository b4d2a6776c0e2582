//! Conditional nodes.

use core::ffi::c_void;
use std::process::Command;
use std::ptr;

use cuda_sys::*;

mod common;
use common::*;

/// `set(handle, value)` sets a condition; `down(handle, counter)` takes one from a counter, and
/// sets the condition to what is left; `up(counter)` adds one.
const KERNELS: &str = r"
.version 8.3
.target sm_75
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);

.visible .entry set(.param .u64 p0, .param .u32 p1)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p0];
	ld.param.u32 %r1, [p1];
	{
	.param .b64 param0;
	.param .b32 param1;
	st.param.b64 [param0], %rd1;
	st.param.b32 [param1], %r1;
	call.uni cudaGraphSetConditional, (param0, param1);
	}
	ret;
}

.visible .entry down(.param .u64 p0, .param .u64 p1)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p0];
	ld.param.u64 %rd2, [p1];
	ld.global.u32 %r1, [%rd2];
	sub.u32 %r1, %r1, 1;
	st.global.u32 [%rd2], %r1;
	{
	.param .b64 param0;
	.param .b32 param1;
	st.param.b64 [param0], %rd1;
	st.param.b32 [param1], %r1;
	call.uni cudaGraphSetConditional, (param0, param1);
	}
	ret;
}

.visible .entry up(.param .u64 p0)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p0];
	ld.global.u32 %r1, [%rd1];
	add.u32 %r1, %r1, 1;
	st.global.u32 [%rd1], %r1;
	ret;
}
";

const IF: CUgraphConditionalNodeType = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
const WHILE: CUgraphConditionalNodeType = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
const SWITCH: CUgraphConditionalNodeType = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH;

struct Kernels {
    set: CUfunction,
    down: CUfunction,
    up: CUfunction,
}

fn kernels() -> Kernels {
    let module = load(KERNELS);
    let get = |name| function(module, name);
    Kernels { set: get("set"), down: get("down"), up: get("up") }
}

impl Kernels {
    fn set(&self, stream: CUstream, mut condition: u64, mut value: u32) {
        let mut list = [(&raw mut condition).cast::<c_void>(), (&raw mut value).cast()];
        assert_eq!(launch(self.set, stream, &mut list), SUCCESS);
    }

    fn down(&self, stream: CUstream, mut condition: u64, mut counter: u64) {
        let mut list = [(&raw mut condition).cast::<c_void>(), (&raw mut counter).cast()];
        assert_eq!(launch(self.down, stream, &mut list), SUCCESS);
    }

    fn up(&self, stream: CUstream, mut counter: u64) {
        assert_eq!(launch(self.up, stream, &mut [(&raw mut counter).cast()]), SUCCESS);
    }
}

fn graph() -> CUgraph {
    let mut graph = ptr::null_mut();
    ok!(cuGraphCreate(&raw mut graph, 0));
    graph
}

fn condition(graph: CUgraph, default: Option<u32>) -> u64 {
    let mut handle = 0;
    let (value, flags) = (default.unwrap_or(0), u32::from(default.is_some()));
    ok!(cuGraphConditionalHandleCreate(&raw mut handle, graph, ptr::null_mut(), value, flags));
    handle
}

fn describe(handle: u64, kind: CUgraphConditionalNodeType, size: u32) -> CUgraphNodeParams {
    let kind_of_node = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
    let mut params = CUgraphNodeParams { type_: kind_of_node, ..CUgraphNodeParams::default() };
    params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: kind,
        size,
        phGraph_out: ptr::null_mut(),
        ctx: ptr::null_mut(),
    };
    params
}

/// Adds a conditional node behind others, and returns it and its bodies.
fn add(
    graph: CUgraph,
    before: &[CUgraphNode],
    handle: u64,
    kind: CUgraphConditionalNodeType,
    size: u32,
) -> (CUgraphNode, Vec<CUgraph>) {
    let (mut node, mut params) = (ptr::null_mut(), describe(handle, kind, size));
    let (list, count) = (before.as_ptr(), before.len());
    ok!(cuGraphAddNode_v2(&raw mut node, graph, list, ptr::null(), count, &raw mut params));
    // SAFETY: the driver has filled in this part, an array of as many graphs as were asked for.
    let bodies = unsafe {
        let array = params.__bindgen_anon_1.conditional.phGraph_out;
        core::slice::from_raw_parts(array, size as usize).to_vec()
    };
    (node, bodies)
}

/// Captures into a graph that is there.
fn into(stream: CUstream, graph: CUgraph, enqueue: impl FnOnce()) {
    let relaxed = CUstreamCaptureMode(2);
    ok!(cuStreamBeginCaptureToGraph(stream, graph, ptr::null(), ptr::null(), 0, relaxed));
    enqueue();
    assert_eq!(end(stream), graph);
}

fn counter(value: u32) -> u64 {
    let address = allocate(4);
    ok!(cuMemsetD32_v2(address, value, 1));
    ok!(cuCtxSynchronize());
    address
}

#[test]
fn if_takes_one_of_two_bodies() {
    context();
    let (kernels, one) = (kernels(), stream(1));
    let (then, other) = (counter(0), counter(0));
    let graph = graph();
    let handle = condition(graph, Some(1));
    let (_, bodies) = add(graph, &[], handle, IF, 2);
    into(one, bodies[0], || kernels.up(one, then));
    into(one, bodies[1], || kernels.up(one, other));
    let exec = instantiate(graph);
    run(exec, one);
    assert_eq!((words(then, 1), words(other, 1)), (vec![1], vec![0]));

    // A kernel in front of it decides, in each launch anew.
    let captured = common_graph(&kernels, one, 0, then, other);
    let second = instantiate(captured);
    run(second, one);
    run(exec, one);
    run(second, one);
    assert_eq!((words(then, 1), words(other, 1)), (vec![2], vec![2]));
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(bodies[0]));
    for graph in [graph, captured] {
        ok!(cuGraphDestroy(graph));
    }
    run(exec, one);
    assert_eq!(words(then, 1), [3]);
    for exec in [exec, second] {
        ok!(cuGraphExecDestroy(exec));
    }
}

/// A captured graph in which a kernel sets the condition of an IF node with two bodies.
fn common_graph(kernels: &Kernels, one: CUstream, value: u32, then: u64, other: u64) -> CUgraph {
    begin(one);
    let (mut status, mut graph) = (CUstreamCaptureStatus(9), ptr::null_mut());
    let (mut nodes, mut count) = (ptr::null(), 0);
    let info = |graph: *mut CUgraph, nodes: *mut *const CUgraphNode, count: *mut usize| {
        let none = ptr::null_mut();
        ok!(cuStreamGetCaptureInfo_v2(one, &raw mut status, none, graph, nodes, count));
    };
    let mut info = info;
    info(&raw mut graph, ptr::null_mut(), ptr::null_mut());
    let handle = condition(graph, None);
    kernels.set(one, handle, value);
    info(ptr::null_mut(), &raw mut nodes, &raw mut count);
    // SAFETY: the driver returns so many nodes, valid until the next call that is captured.
    let before = unsafe { core::slice::from_raw_parts(nodes, count) }.to_vec();
    let (mut node, bodies) = add(graph, &before, handle, IF, 2);
    ok!(cuStreamUpdateCaptureDependencies(one, &raw mut node, 1, 1));
    assert_eq!(end(one), graph);
    into(one, bodies[0], || kernels.up(one, then));
    into(one, bodies[1], || kernels.up(one, other));
    graph
}

#[test]
fn while_repeats_and_nests() {
    context();
    let (kernels, one) = (kernels(), stream(1));
    let (outer, inner, count, after) = (counter(0), counter(0), counter(0), counter(0));
    let whole = graph();
    let (first, second) = (condition(whole, Some(1)), condition(whole, Some(1)));
    let (node, bodies) = add(whole, &[], first, WHILE, 1);
    // The outer body: an inner loop of three rounds, and then one less to go.
    let body = bodies[0];
    into(one, body, || {
        ok!(cuMemsetD32Async(inner, 3, 1, one));
        kernels.set(one, second, 1);
    });
    let last = *nodes(body).last().expect("two nodes");
    let (nested, inside) = add(body, &[last], second, WHILE, 1);
    into(one, inside[0], || {
        kernels.up(one, count);
        kernels.down(one, second, inner);
    });
    let relaxed = CUstreamCaptureMode(2);
    ok!(cuStreamBeginCaptureToGraph(one, body, &raw const nested, ptr::null(), 1, relaxed));
    kernels.down(one, first, outer);
    // NVIDIA's sample graphConditionalNodes wants no result: it has the graph.
    ok!(cuStreamEndCapture(one, ptr::null_mut()));
    ok!(cuStreamBeginCaptureToGraph(one, whole, &raw const node, ptr::null(), 1, relaxed));
    kernels.up(one, after);
    ok!(cuMemcpyDtoDAsync_v2(outer, count, 4, one));
    assert_eq!(end(one), whole);

    let exec = instantiate(whole);
    for launch in 1..=3 {
        ok!(cuMemsetD32Async(outer, 5, 1, one));
        run(exec, one);
        assert_eq!((words(count, 1), words(after, 1)), (vec![launch * 15], vec![launch]));
        assert_eq!(words(outer, 1), [launch * 15], "the rest comes behind the loop");
    }
    // A clone has bodies of its own.
    let mut clone = ptr::null_mut();
    ok!(cuGraphClone(&raw mut clone, whole));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(whole));
    let exec = instantiate(clone);
    ok!(cuMemsetD32Async(outer, 2, 1, one));
    run(exec, one);
    assert_eq!(words(count, 1), [45 + 6]);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(clone));
}

#[test]
fn switch_takes_the_body_of_the_value() {
    context();
    let (kernels, one) = (kernels(), stream(1));
    let counters: Vec<u64> = (0..3).map(|_| counter(0)).collect();
    let graph = graph();
    let handle = condition(graph, Some(0));
    into(one, graph, || kernels.set(one, handle, 0));
    let (_, bodies) = add(graph, &nodes(graph), handle, SWITCH, 3);
    for (&body, &counter) in bodies.iter().zip(&counters) {
        into(one, body, || kernels.up(one, counter));
    }
    let first = nodes(graph)[0];
    let exec = instantiate(graph);
    // No body has the value 3.
    for value in [2, 0, 2, 3, 1] {
        let (mut handle, mut value) = (handle, value);
        let mut list = [(&raw mut handle).cast::<c_void>(), (&raw mut value).cast::<c_void>()];
        let params = CUDA_KERNEL_NODE_PARAMS {
            func: kernels.set,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            kernelParams: list.as_mut_ptr(),
            ..CUDA_KERNEL_NODE_PARAMS::default()
        };
        ok!(cuGraphExecKernelNodeSetParams_v2(exec, first, &raw const params));
        run(exec, one);
    }
    let all: Vec<u32> = counters.iter().flat_map(|&counter| words(counter, 1)).collect();
    assert_eq!(all, [1, 1, 2]);

    // Nodes in bodies can be changed and switched off, too.
    let node = nodes(bodies[1])[0];
    ok!(cuGraphNodeSetEnabled(exec, node, 0));
    run(exec, one);
    assert_eq!(words(counters[1], 1), [1]);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn an_update_takes_the_other_graphs_conditions() {
    context();
    let (kernels, one) = (kernels(), stream(1));
    let (then, other) = (counter(0), counter(0));
    let old = common_graph(&kernels, one, 1, then, other);
    let new = common_graph(&kernels, one, 0, other, then);
    let exec = instantiate(old);
    run(exec, one);
    assert_eq!((words(then, 1), words(other, 1)), (vec![1], vec![0]));
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(cuGraphExecUpdate_v2(exec, new, &raw mut info));
    run(exec, one);
    assert_eq!((words(then, 1), words(other, 1)), (vec![2], vec![0]));
    // A body that has changed its shape.
    let more = common_graph(&kernels, one, 0, other, then);
    let mut params = CUgraphNodeParams::default();
    ok!(cuGraphNodeGetParams(nodes(more)[1], &raw mut params));
    // SAFETY: the node is a conditional one, with two bodies.
    let body = unsafe { params.__bindgen_anon_1.conditional.phGraph_out.read() };
    let mut empty = ptr::null_mut();
    ok!(cuGraphAddEmptyNode(&raw mut empty, body, ptr::null(), 0));
    fails!(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, more, &raw mut info));
    let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    assert_eq!(info.result, why);
}

#[test]
fn an_update_takes_the_other_graphs_default_values() {
    context();
    let (kernels, one) = (kernels(), stream(1));
    let (then, other) = (counter(0), counter(0));
    let by_default = |value| {
        let graph = graph();
        let handle = condition(graph, value);
        let (_, bodies) = add(graph, &[], handle, IF, 2);
        into(one, bodies[0], || kernels.up(one, then));
        into(one, bodies[1], || kernels.up(one, other));
        graph
    };
    let exec = instantiate(by_default(Some(1)));
    run(exec, one);
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(cuGraphExecUpdate_v2(exec, by_default(Some(0)), &raw mut info));
    run(exec, one);
    run(exec, one);
    assert_eq!((words(then, 1), words(other, 1)), (vec![1], vec![2]));
    ok!(cuGraphExecUpdate_v2(exec, by_default(Some(1)), &raw mut info));
    run(exec, one);
    assert_eq!((words(then, 1), words(other, 1)), (vec![2], vec![2]));
}

#[test]
fn what_is_wrong_is_refused() {
    context();
    let (whole, mut node, mut handle) = (graph(), ptr::null_mut(), 0);
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphConditionalHandleCreate(&raw mut handle, whole, ptr::null_mut(), 0, 2)
    );
    let handle = condition(whole, Some(0));
    let mut refused = |handle, kind, size| {
        let mut params = describe(handle, kind, size);
        let (place, none) = (&raw mut node, ptr::null());
        call!(cuGraphAddNode(place, whole, none, 0, &raw mut params))
    };
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    for (kind, size) in [(IF, 0), (IF, 3), (WHILE, 2), (SWITCH, 0)] {
        assert_eq!(refused(handle, kind, size), invalid, "{kind:?} {size}");
    }
    assert_eq!(refused(7, IF, 1), invalid, "a handle of nobody's");
    let other = condition(graph(), Some(0));
    assert_eq!(refused(other, IF, 1), invalid, "another graph's");
    // A condition that no node reads.
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
    let mut exec = ptr::null_mut();
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphInstantiateWithParams(&raw mut exec, whole, &raw mut params)
    );
    let why = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    assert_eq!(params.result_out, why);
    let (_, bodies) = add(whole, &[], handle, IF, 1);
    assert_eq!(refused(handle, IF, 1), invalid, "a handle has one node");
    // Bodies take no host functions.
    let host = CUDA_HOST_NODE_PARAMS { fn_: Some(nothing), userData: ptr::null_mut() };
    let mut inside = ptr::null_mut();
    ok!(cuGraphAddHostNode(&raw mut inside, bodies[0], ptr::null(), 0, &raw const host));
    fails!(
        CUDA_ERROR_NOT_SUPPORTED,
        cuGraphInstantiateWithParams(&raw mut exec, whole, &raw mut params)
    );
    let why = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
    assert_eq!((params.result_out, params.hErrNode_out), (why, inside));
    // Nor memory.
    let mut address = 0;
    let one = stream(1);
    let relaxed = CUstreamCaptureMode(2);
    ok!(cuStreamBeginCaptureToGraph(one, bodies[0], ptr::null(), ptr::null(), 0, relaxed));
    fails!(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocAsync(&raw mut address, 16, one));
    assert_eq!(end(one), bodies[0]);
    ok!(cuGraphDestroy(whole));
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(inside));
}

extern "C" fn nothing(_: *mut c_void) {}

/// The child process that loses the device.
#[test]
fn child() {
    let Some(what) = std::env::var_os("EMU_TEST_CHILD") else { return };
    context();
    let (kernels, one) = (kernels(), stream(1));
    let whole = graph();
    let handle = condition(whole, (what != "unset").then_some(1));
    let (_, bodies) = add(whole, &[], handle, WHILE, 1);
    if what == "kernels" {
        let counter = counter(0);
        into(one, bodies[0], || kernels.up(one, counter));
    }
    if what == "alone" {
        kernels.set(one, handle, 1);
    } else {
        ok!(cuGraphLaunch(instantiate(whole), one));
    }
    println!("code: {}", call!(cuStreamSynchronize(one)).0);
}

#[test]
fn endless_loops_and_wrong_conditions_are_faults() {
    let cases = [("kernels", 702), ("empty", 702), ("unset", 719), ("alone", 719)];
    for ((what, code), seed) in cases.into_iter().flat_map(|case| [(case, ""), (case, "3")]) {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "child", "--nocapture"])
            .env("EMU_TEST_CHILD", what)
            .env("CUDA_EMU_TIMEOUT_MS", "100")
            .env("CUDA_EMU_SEED", seed)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("code: {code}\n")), "{what}: {text}");
    }
}
