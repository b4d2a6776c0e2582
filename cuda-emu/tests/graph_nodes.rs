//! Parameters of graph nodes: read and changed, in graphs and in executable graphs.

use core::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_sys::*;

mod common;
use common::*;

fn graph() -> CUgraph {
    let mut graph = ptr::null_mut();
    ok!(cuGraphCreate(&raw mut graph, 0));
    graph
}

fn set(at: u64, value: u32) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS { dst: at, pitch: 0, value, elementSize: 4, width: 4, height: 1 }
}

/// The description of a launch of `fill`, whose arguments are at a place of the caller's.
fn filling(function: CUfunction, list: &mut [*mut c_void; 3]) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: function,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: list.as_mut_ptr(),
        ..CUDA_KERNEL_NODE_PARAMS::default()
    }
}

fn add(graph: CUgraph, before: &[CUgraphNode], params: &mut CUgraphNodeParams) -> CUgraphNode {
    let mut node = ptr::null_mut();
    let (list, count) = (before.as_ptr(), before.len());
    ok!(cuGraphAddNode_v3(&raw mut node, graph, list, ptr::null(), count, params));
    node
}

fn of(kind: CUgraphNodeType) -> CUgraphNodeParams {
    CUgraphNodeParams { type_: kind, ..CUgraphNodeParams::default() }
}

static CALLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn called(by: *mut c_void) {
    CALLED.fetch_add(by.addr(), Ordering::Relaxed);
}

#[test]
fn a_kernels_node_tells_its_arguments_and_attributes() {
    context();
    let one = stream(1);
    let (kernel, target) = (function(module(), "fill"), allocate(16));
    begin(one);
    assert_eq!(fill(kernel, one, target, 4, 3), SUCCESS);
    let graph = end(one);
    let node = nodes(graph)[0];
    let mut params = CUDA_KERNEL_NODE_PARAMS::default();
    ok!(cuGraphKernelNodeGetParams_v2(node, &raw mut params));
    assert_eq!((params.func, params.gridDimX, params.blockDimZ), (kernel, 1, 1));
    // SAFETY: the list has a pointer for each parameter, which are an address and two words.
    let arguments = unsafe {
        let list = params.kernelParams;
        let word = |index: usize| list.add(index).read().cast::<u32>().read();
        (list.read().cast::<u64>().read(), word(1), word(2))
    };
    assert_eq!(arguments, (target, 4, 3));
    let mut old =
        CUDA_KERNEL_NODE_PARAMS_v1 { gridDimX: 7, ..CUDA_KERNEL_NODE_PARAMS_v1::default() };
    ok!(cuGraphKernelNodeGetParams(node, &raw mut old));
    assert_eq!((old.func, old.gridDimX), (kernel, 1));

    let (cooperative, priority) = (
        CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY,
    );
    let mut value = CUkernelNodeAttrValue { cooperative: 1 };
    ok!(cuGraphKernelNodeSetAttribute(node, cooperative, &raw const value));
    value.priority = -3;
    ok!(cuGraphKernelNodeSetAttribute(node, priority, &raw const value));
    let cluster = CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x: 1, y: 1, z: 1 };
    ok!(cuGraphKernelNodeSetAttribute(node, cluster, &raw const value));
    value.clusterDim.x = 2;
    // The grid has one block.
    fails!(
        CUDA_ERROR_INVALID_CLUSTER_SIZE,
        cuGraphKernelNodeSetAttribute(node, cluster, &raw const value)
    );
    // New parameters leave the attributes; another node can have them, too.
    ok!(cuGraphKernelNodeSetParams_v2(node, &raw const params));
    // The earlier values were those of the old node.
    ok!(cuGraphKernelNodeGetParams_v2(node, &raw mut params));
    let (mut clone, mut twin) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphAddKernelNode_v2(&raw mut twin, graph, &raw const node, 1, &raw const params));
    ok!(cuGraphKernelNodeCopyAttributes(twin, node));
    ok!(cuGraphClone(&raw mut clone, graph));
    let mut copied = ptr::null_mut();
    ok!(cuGraphNodeFindInClone(&raw mut copied, node, clone));
    for node in [node, twin, copied] {
        ok!(cuGraphKernelNodeGetAttribute(node, cooperative, &raw mut value));
        // SAFETY: the driver has set this part.
        assert_eq!(unsafe { value.cooperative }, 1);
        ok!(cuGraphKernelNodeGetAttribute(node, priority, &raw mut value));
        // SAFETY: as above.
        assert_eq!(unsafe { value.priority }, -3);
    }
    let nobodys = CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetAttribute(node, nobodys, &raw mut value));
    run(instantiate(clone), one);
    assert_eq!(words(target, 4), [3; 4]);
}

#[test]
fn nodes_of_every_kind_are_added_changed_and_told() {
    use CUgraphNodeType as T;
    context();
    let (one, event) = (stream(1), event());
    let (kernel, target) = (function(module(), "fill"), allocate(64));
    let (whole, inside) = (graph(), graph());
    let (mut address, mut count, mut value) = (target, 4_u32, 1_u32);
    let mut list =
        [(&raw mut address).cast::<c_void>(), (&raw mut count).cast(), (&raw mut value).cast()];
    let launch = filling(kernel, &mut list);

    let mut params = of(T::CU_GRAPH_NODE_TYPE_KERNEL);
    params.__bindgen_anon_1.kernel = CUDA_KERNEL_NODE_PARAMS_v3 {
        func: launch.func,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: launch.kernelParams,
        ..CUDA_KERNEL_NODE_PARAMS_v3::default()
    };
    let first = add(whole, &[], &mut params);
    params = of(T::CU_GRAPH_NODE_TYPE_MEMCPY);
    params.__bindgen_anon_1.memcpy.copyParams = CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: target,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: target + 16,
        WidthInBytes: 16,
        Height: 1,
        Depth: 1,
        ..CUDA_MEMCPY3D::default()
    };
    let copy = add(whole, &[first], &mut params);
    let mut told = CUDA_MEMCPY3D::default();
    ok!(cuGraphMemcpyNodeGetParams(copy, &raw mut told));
    assert_eq!((told.srcDevice, told.dstDevice, told.WidthInBytes), (target, target + 16, 16));
    assert_eq!((told.Height, told.Depth), (1, 1));
    assert_eq!(told.dstMemoryType, CUmemorytype::CU_MEMORYTYPE_DEVICE);
    params = of(T::CU_GRAPH_NODE_TYPE_HOST);
    params.__bindgen_anon_1.host.fn_ = Some(called);
    params.__bindgen_anon_1.host.userData = ptr::without_provenance_mut(1);
    let host = add(whole, &[copy], &mut params);
    params = of(T::CU_GRAPH_NODE_TYPE_MEMSET);
    params.__bindgen_anon_1.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: target + 32,
        value: 5,
        elementSize: 4,
        width: 4,
        height: 1,
        ..CUDA_MEMSET_NODE_PARAMS_v2::default()
    };
    let memset = add(inside, &[], &mut params);
    params = of(T::CU_GRAPH_NODE_TYPE_GRAPH);
    params.__bindgen_anon_1.graph.graph = inside;
    let child = add(whole, &[host], &mut params);
    params = of(T::CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    params.__bindgen_anon_1.eventRecord.event = event;
    let record = add(whole, &[child], &mut params);
    params = of(T::CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    params.__bindgen_anon_1.eventWait.event = event;
    let wait = add(whole, &[record], &mut params);
    let empty = add(whole, &[wait], &mut of(T::CU_GRAPH_NODE_TYPE_EMPTY));
    let all = [first, copy, host, child, record, wait, empty];
    assert_eq!(nodes(whole), all);
    let mut refused = of(T::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    let mut node = ptr::null_mut();
    fails!(
        CUDA_ERROR_NOT_SUPPORTED,
        cuGraphAddNode(&raw mut node, whole, ptr::null(), 0, &raw mut refused)
    );
    let kinds: Vec<u32> = all.iter().map(|&node| kind(node).0).collect();
    assert_eq!(kinds, [0, 1, 3, 4, 7, 6, 5]);
    for (node, kind) in all.iter().zip(kinds) {
        let mut params = CUgraphNodeParams::default();
        ok!(cuGraphNodeGetParams(*node, &raw mut params));
        assert_eq!(params.type_.0, kind);
    }

    let exec = instantiate(whole);
    run(exec, one);
    let quarters = || words(target, 12).chunks(4).map(|four| four[0]).collect::<Vec<_>>();
    assert_eq!((quarters(), CALLED.load(Ordering::Relaxed)), (vec![1, 1, 5], 1));
    ok!(cuEventQuery(event));

    // In the executable graph only.
    // SAFETY: the list's last entry points to the value, which nothing else refers to now.
    unsafe { list[2].cast::<u32>().write(2) };
    params = of(T::CU_GRAPH_NODE_TYPE_KERNEL);
    ok!(cuGraphNodeGetParams(first, &raw mut params));
    params.__bindgen_anon_1.kernel.kernelParams = list.as_mut_ptr();
    ok!(cuGraphExecNodeSetParams(exec, first, &raw mut params));
    told.dstDevice = target + 48;
    ok!(cuGraphExecMemcpyNodeSetParams(exec, copy, &raw const told, ptr::null_mut()));
    let other = graph();
    let mut node = ptr::null_mut();
    let (six, none) = (set(target + 32, 6), ptr::null_mut());
    ok!(cuGraphAddMemsetNode(&raw mut node, other, ptr::null(), 0, &raw const six, none));
    ok!(cuGraphExecChildGraphNodeSetParams(exec, child, other));
    run(exec, one);
    assert_eq!((quarters(), words(target + 48, 1)), (vec![2, 1, 6], vec![2]));
    // The names of the first child's nodes go on.
    let mut copied = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphChildGraphNodeGetGraph(child, &raw mut copied.0));
    ok!(cuGraphNodeFindInClone(&raw mut copied.1, memset, copied.0));
    let seven = set(target + 32, 7);
    ok!(cuGraphExecMemsetNodeSetParams(exec, copied.1, &raw const seven, ptr::null_mut()));
    ok!(cuGraphNodeSetEnabled(exec, first, 0));
    let mut enabled = 9;
    ok!(cuGraphNodeGetEnabled(exec, first, &raw mut enabled));
    assert_eq!(enabled, 0);
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, host, 0));
    ok!(cuMemsetD32_v2(target, 0, 4));
    run(exec, one);
    assert_eq!(quarters(), [0, 1, 7]);
    // Another shape, another kind.
    ok!(cuGraphAddEmptyNode(&raw mut node, other, ptr::null(), 0));
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(exec, child, other));
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(exec, host, inside));
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuGraphExecMemsetNodeSetParams(exec, first, &raw const seven, ptr::null_mut())
    );

    // In the graph, for what is made of it later.
    let mut changed = of(T::CU_GRAPH_NODE_TYPE_HOST);
    changed.__bindgen_anon_1.host.fn_ = Some(called);
    changed.__bindgen_anon_1.host.userData = ptr::without_provenance_mut(10);
    ok!(cuGraphNodeSetParams(host, &raw mut changed));
    run(instantiate(whole), one);
    assert_eq!(CALLED.load(Ordering::Relaxed), 1 + 1 + 1 + 10);
}

#[test]
fn an_update_names_the_node_that_does_not_fit() {
    context();
    let target = allocate(16);
    let chain = |kinds: &[bool]| {
        let (graph, mut before) = (graph(), Vec::new());
        for &memset in kinds {
            let (mut node, params) = (ptr::null_mut(), set(target, 1));
            let (list, count) = (before.as_ptr(), before.len());
            if memset {
                let none = ptr::null_mut();
                ok!(cuGraphAddMemsetNode(
                    &raw mut node,
                    graph,
                    list,
                    count,
                    &raw const params,
                    none
                ));
            } else {
                ok!(cuGraphAddEmptyNode(&raw mut node, graph, list, count));
            }
            before = vec![node];
        }
        graph
    };
    let exec = instantiate(chain(&[true, false, true]));
    let mut info = CUgraphExecUpdateResultInfo::default();
    ok!(cuGraphExecUpdate_v2(exec, chain(&[true, false, true]), &raw mut info));
    assert_eq!(info.result, CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS);
    let other = chain(&[true, true, true]);
    fails!(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, other, &raw mut info));
    let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    assert_eq!((info.result, info.errorNode), (why, nodes(other)[1]));
    let short = chain(&[true, false]);
    fails!(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, short, &raw mut info));
    let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    assert_eq!((info.result, info.errorNode), (why, ptr::null_mut()));
}

#[test]
fn a_moved_child_may_have_memory() {
    context();
    let (one, target) = (stream(1), allocate(16));
    let kernel = function(module(), "fill");
    let mut inside = 0;
    begin(one);
    ok!(cuMemAllocAsync(&raw mut inside, 16, one));
    assert_eq!(fill(kernel, one, inside, 4, 2), SUCCESS);
    ok!(cuMemcpyDtoDAsync_v2(target, inside, 16, one));
    ok!(cuMemFreeAsync(inside, one));
    let child = end(one);
    let whole = graph();
    let mut params = of(CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH);
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS {
        graph: child,
        ownership: CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
    };
    add(whole, &[], &mut params);
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child));
    let exec = instantiate(whole);
    run(exec, one);
    assert_eq!(words(target, 4), [2; 4]);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(whole));
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child));
}

#[test]
fn a_drawing_is_dot() {
    context();
    let (one, target) = (stream(1), allocate(16));
    let kernel = function(module(), "fill");
    begin(one);
    assert_eq!(fill(kernel, one, target, 4, 2), SUCCESS);
    ok!(cuMemsetD32Async(target, 1, 4, one));
    let graph = end(one);
    let path = std::env::temp_dir().join(format!("cuda-emu-{}.dot", std::process::id()));
    let name = std::ffi::CString::new(path.to_str().expect("a name")).expect("no NUL");
    ok!(cuGraphDebugDotPrint(graph, name.as_ptr(), 0));
    let dot = std::fs::read_to_string(&path).expect("it is written");
    std::fs::remove_file(&path).expect("it is there");
    let [first, second] = nodes(graph).try_into().expect("two nodes");
    let [first, second] = [first, second].map(|node: CUgraphNode| node.addr());
    assert!(dot.starts_with("digraph dot {\n") && dot.ends_with("}\n}\n"), "{dot}");
    assert!(
        dot.contains(&format!("\"node_{first}\" [shape=box, label=\"KERNEL\\nfill\"];")),
        "{dot}"
    );
    assert!(dot.contains(&format!("\"node_{second}\" [shape=box, label=\"MEMSET\"];")), "{dot}");
    assert!(dot.contains(&format!("\"node_{first}\" -> \"node_{second}\";")), "{dot}");
}
