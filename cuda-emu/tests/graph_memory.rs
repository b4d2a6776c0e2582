//! Memory in graphs: captured and hand-made allocation and free nodes.

use std::process::Command;
use std::ptr;

use cuda_sys::*;

mod common;
use common::*;

const ALLOC: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC;
const FREE: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE;

fn describe(bytes: usize) -> CUDA_MEM_ALLOC_NODE_PARAMS {
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS::default();
    params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    params
}

/// Memory of a graph that leaves it behind.
fn leaving(stream: CUstream, value: u32) -> (CUgraph, u64) {
    let kernel = function(module(), "fill");
    let mut address = 0;
    begin(stream);
    ok!(cuMemAllocAsync(&raw mut address, 16, stream));
    assert_eq!(fill(kernel, stream, address, 4, value), SUCCESS);
    (end(stream), address)
}

#[test]
fn a_captured_allocation_is_there_during_each_launch() {
    context();
    let one = stream(1);
    let kernel = function(module(), "fill");
    let (target, mut inside, mut params) = (allocate(32), 0, CUDA_MEM_ALLOC_NODE_PARAMS::default());
    begin(one);
    ok!(cuMemAllocAsync(&raw mut inside, 16, one));
    // The earlier contents are lost.
    ok!(cuMemcpyDtoDAsync_v2(target, inside, 16, one));
    assert_eq!(fill(kernel, one, inside, 4, 6), SUCCESS);
    ok!(cuMemcpyDtoDAsync_v2(target + 16, inside, 16, one));
    ok!(cuMemFreeAsync(inside, one));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(inside, one));
    let graph = end(one);
    let nodes = nodes(graph);
    assert_eq!((kind(nodes[0]), kind(nodes[4]), nodes.len()), (ALLOC, FREE, 5));
    ok!(cuGraphMemAllocNodeGetParams(nodes[0], &raw mut params));
    assert_eq!((params.dptr, params.bytesize), (inside, 16));
    let mut freed = 0;
    ok!(cuGraphMemFreeNodeGetParams(nodes[4], &raw mut freed));
    assert_eq!(freed, inside);

    let exec = instantiate(graph);
    for _ in 0..3 {
        run(exec, one);
        assert_eq!(words(target, 4), [0xfdfd_fdfd; 4]);
        assert_eq!(words(target + 16, 4), [6; 4]);
    }
    // Graphs that cannot contain memory nodes.
    let (mut other, mut clone, mut node) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    fails!(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&raw mut other, graph, 0));
    fails!(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&raw mut clone, graph));
    fails!(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(nodes[1]));
    fails!(
        CUDA_ERROR_NOT_SUPPORTED,
        cuGraphRemoveDependencies(graph, &raw const nodes[0], &raw const nodes[1], 1)
    );
    ok!(cuGraphCreate(&raw mut clone, 0));
    fails!(
        CUDA_ERROR_NOT_SUPPORTED,
        cuGraphAddChildGraphNode(&raw mut node, clone, ptr::null(), 0, graph)
    );
    // Its only executable graph is gone: there may be another one, which has the same address.
    ok!(cuGraphExecDestroy(exec));
    let exec = instantiate(graph);
    run(exec, one);
    assert_eq!(words(target + 16, 4), [6; 4]);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
    ok!(cuGraphDestroy(clone));
}

#[test]
fn what_a_graph_leaves_is_freed_before_it_is_launched_again() {
    context();
    let one = stream(1);
    let (graph, left) = leaving(one, 9);
    let exec = instantiate(graph);
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(left, one));
    for _ in 0..3 {
        run(exec, one);
        assert_eq!(words(left, 4), [9; 4], "it outlives the launch");
        fails!(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, one));
        ok!(cuMemFreeAsync(left, one));
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(left, one));
    }
    run(exec, one);
    ok!(cuMemFree_v2(left));
    run(exec, one);

    // Another graph frees it.
    begin(one);
    ok!(cuMemFreeAsync(left, one));
    let freeing = end(one);
    let free = instantiate(freeing);
    run(free, one);
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(free, one));
    run(exec, one);
    ok!(cuGraphExecDestroy(exec));
    assert_eq!(words(left, 4), [9; 4], "it outlives the graph");
    run(free, one);
    for graph in [graph, freeing] {
        ok!(cuGraphDestroy(graph));
    }
    ok!(cuGraphExecDestroy(free));
}

#[test]
fn a_graph_may_free_what_it_has_left_when_it_is_launched_again() {
    context();
    let one = stream(1);
    let (graph, left) = leaving(one, 4);
    let mut exec = ptr::null_mut();
    ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 1));
    for _ in 0..3 {
        run(exec, one);
        assert_eq!(words(left, 4), [4; 4]);
    }
    ok!(cuMemFreeAsync(left, one));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn nodes_of_memory_are_made_by_hand() {
    context();
    let (one, target) = (stream(1), allocate(16));
    let (mut graph, mut nodes) = (ptr::null_mut(), [ptr::null_mut(); 4]);
    ok!(cuGraphCreate(&raw mut graph, 0));
    let mut params = describe(0);
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphAddMemAllocNode(&raw mut nodes[0], graph, ptr::null(), 0, &raw mut params)
    );
    params = describe(16);
    ok!(cuGraphAddMemAllocNode(&raw mut nodes[0], graph, ptr::null(), 0, &raw mut params));
    let inside = params.dptr;
    let set = CUDA_MEMSET_NODE_PARAMS {
        dst: inside,
        pitch: 0,
        value: 8,
        elementSize: 4,
        width: 4,
        height: 1,
    };
    let none = ptr::null_mut();
    ok!(cuGraphAddMemsetNode(
        &raw mut nodes[1],
        graph,
        &raw const nodes[0],
        1,
        &raw const set,
        none
    ));
    let copy = CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: inside,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: target,
        WidthInBytes: 16,
        Height: 1,
        Depth: 1,
        ..CUDA_MEMCPY3D::default()
    };
    ok!(cuGraphAddMemcpyNode(
        &raw mut nodes[2],
        graph,
        &raw const nodes[1],
        1,
        &raw const copy,
        none
    ));
    ok!(cuGraphAddMemFreeNode(&raw mut nodes[3], graph, &raw const nodes[2], 1, inside));
    let mut again = ptr::null_mut();
    for wrong in [inside, inside + 1, target, 0] {
        fails!(
            CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemFreeNode(&raw mut again, graph, &raw const nodes[2], 1, wrong)
        );
    }
    let exec = instantiate(graph);
    run(exec, one);
    assert_eq!(words(target, 4), [8; 4]);

    let attribute = |which| {
        let mut bytes = u64::MAX;
        ok!(cuDeviceGetGraphMemAttribute(0, which, (&raw mut bytes).cast()));
        bytes
    };
    assert!(attribute(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= 16);
    // The memory that the graph has freed stays reserved until it is trimmed, and others may use some meanwhile.
    let reserved = CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
    let reserved_high = CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    assert!(attribute(reserved_high) >= 16);
    let mut wrong = 1_u64;
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuDeviceSetGraphMemAttribute(0, reserved_high, (&raw mut wrong).cast())
    );
    let mut zero = 0_u64;
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuDeviceSetGraphMemAttribute(0, reserved, (&raw mut zero).cast())
    );
    ok!(cuDeviceSetGraphMemAttribute(0, reserved_high, (&raw mut zero).cast()));
    ok!(cuDeviceGraphMemTrim(0));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

/// In a process of its own, where no other test's graphs have memory.
#[test]
fn freed_memory_stays_reserved_until_it_is_trimmed() {
    let mut test = Command::new(std::env::current_exe().expect("a path"));
    test.args(["--exact", "reserved_alone", "--nocapture"]).env("EMU_TEST_RESERVED", "1");
    let output = test.output().expect("the child runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn reserved_alone() {
    if std::env::var_os("EMU_TEST_RESERVED").is_none() {
        return;
    }
    context();
    let one = stream(1);
    let [used, used_high, reserved, reserved_high] = [
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
    ];
    let all = || {
        [used, used_high, reserved, reserved_high].map(|which| {
            let mut bytes = u64::MAX;
            ok!(cuDeviceGetGraphMemAttribute(0, which, (&raw mut bytes).cast()));
            bytes
        })
    };
    assert_eq!(all(), [0; 4]);
    begin(one);
    let mut inside = 0;
    ok!(cuMemAllocAsync(&raw mut inside, 4096, one));
    ok!(cuMemFreeAsync(inside, one));
    let freed = instantiate(end(one));
    assert_eq!(all(), [0; 4]);
    run(freed, one);
    let [now, high, kept, kept_high] = all();
    assert!(now == 0 && high >= 4096 && kept == high && kept_high == high);
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(all(), [0, high, 0, high]);
    let mut zero = 0_u64;
    for which in [used_high, reserved_high] {
        ok!(cuDeviceSetGraphMemAttribute(0, which, (&raw mut zero).cast()));
    }
    assert_eq!(all(), [0; 4]);

    // Memory in use is not trimmed.
    begin(one);
    ok!(cuMemAllocAsync(&raw mut inside, 4096, one));
    let left = instantiate(end(one));
    run(left, one);
    ok!(cuDeviceGraphMemTrim(0));
    assert_eq!(all(), [high; 4]);
}

/// The child process that uses memory behind its free node.
#[test]
fn child() {
    let Some(what) = std::env::var_os("EMU_TEST_CHILD") else { return };
    context();
    let one = stream(1);
    let kernel = function(module(), "fill");
    let mut inside = 0;
    begin(one);
    ok!(cuMemAllocAsync(&raw mut inside, 16, one));
    if what == "inside" {
        ok!(cuMemFreeAsync(inside, one));
    }
    assert_eq!(fill(kernel, one, inside, 4, 1), SUCCESS);
    if what != "inside" {
        ok!(cuMemFreeAsync(inside, one));
    }
    let exec = instantiate(end(one));
    ok!(cuGraphLaunch(exec, one));
    if what == "outside" {
        ok!(cuStreamSynchronize(one));
        assert_eq!(fill(kernel, one, inside, 4, 1), SUCCESS);
    }
    println!("code: {}", call!(cuStreamSynchronize(one)).0);
}

#[test]
fn use_behind_the_free_node_is_a_fault() {
    for (what, code) in [("inside", 700), ("outside", 700), ("not at all", 0)] {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "child", "--nocapture"])
            .env("EMU_TEST_CHILD", what)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("code: {code}\n")), "{what}: {text}");
    }
}
