//! Clusters at the level of the driver: sizes, attributes, occupancy, graphs, devices without clusters.

mod common;

use core::ffi::{c_int, c_void};
use std::ptr;

use common::*;
use cuda_emu::{Config, Profile};
use cuda_sys::{CUfunction_attribute as F, CUlaunchAttributeID as Id, *};

/// `sizes(out)`: each block writes its rank and the size of its cluster. The others are the same with directives.
fn text() -> String {
    let kernel = |name: &str, directives: &str| {
        format!(
            ".visible .entry {name}(.param .u64 out) {directives}
{{
    .reg .u32 %r<8>; .reg .u64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x;
    mad.lo.u32 %r1, %r2, %r3, %r1;
    mad.wide.u32 %rd1, %r1, 8, %rd1;
    mov.u32 %r4, %cluster_ctarank; mov.u32 %r5, %cluster_nctarank;
    st.global.v2.u32 [%rd1], {{%r4, %r5}};
    ret;
}}\n"
        )
    };
    [
        ".version 9.0\n.target sm_90\n.address_size 64\n".to_owned(),
        kernel("sizes", ""),
        kernel("in_fours", ".explicitcluster .reqnctapercluster 4"),
        kernel("in_boxes", ".reqnctapercluster 2, 2, 1"),
        kernel("explicit", ".explicitcluster"),
        kernel("at_most_two", ".maxclusterrank 2"),
        kernel("counted", ".reqntid 32 .reqnctapercluster 2, 1, 1 .blocksareclusters"),
    ]
    .concat()
}

fn attribute(size: [u32; 3]) -> CUlaunchAttribute {
    let [x, y, z] = size;
    let size = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    CUlaunchAttribute {
        id: Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        value: CUlaunchAttributeValue { clusterDim: size },
        ..CUlaunchAttribute::default()
    }
}

fn config(grid: [u32; 2], threads: u32, list: &mut [CUlaunchAttribute]) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: ptr::null_mut(),
        attrs: list.as_mut_ptr(),
        numAttrs: list.len() as u32,
    }
}

/// Launches 32 threads a block, and returns the ranks and sizes that the blocks wrote, or the code.
fn launch(
    kernel: CUfunction,
    grid: [u32; 2],
    cluster: Option<[u32; 3]>,
    blocks: usize,
) -> Result<Vec<[u32; 2]>, CUresult> {
    let mut list: Vec<_> = cluster.map(attribute).into_iter().collect();
    let config = config(grid, 32, &mut list);
    let mut out = allocate(8 * blocks);
    ok!(cuMemsetD32_v2(out, u32::MAX, 2 * blocks));
    let mut arguments = [(&raw mut out).cast::<c_void>()];
    let code =
        call!(cuLaunchKernelEx(&raw const config, kernel, arguments.as_mut_ptr(), ptr::null_mut()));
    if code != SUCCESS {
        return Err(code);
    }
    ok!(cuCtxSynchronize());
    let found = words(out, 2 * blocks).chunks(2).map(|pair| [pair[0], pair[1]]).collect();
    ok!(cuMemFree_v2(out));
    Ok(found)
}

fn value(which: F, kernel: CUfunction) -> c_int {
    let mut value = -1;
    ok!(cuFuncGetAttribute(&raw mut value, which, kernel));
    value
}

const MISCONFIGURED: CUresult = CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE;

#[test]
fn launches_have_the_clusters_that_they_name() {
    apart!(launches_have_the_clusters_that_they_name);
    context();
    let kernel = function(load(&text()), "sizes");
    for size in [1, 2, 4, 8] {
        let found = launch(kernel, [16, 2], Some([size, 1, 1]), 32).expect("launched");
        let wanted: Vec<_> = (0..32).map(|block| [block % size, size]).collect();
        assert_eq!(found, wanted, "{size}");
    }
    let found = launch(kernel, [4, 4], Some([2, 4, 1]), 16).expect("launched");
    let wanted: Vec<_> = (0..16).map(|block| [block % 2 + 2 * (block / 4), 8]).collect();
    assert_eq!(found, wanted);
    for (grid, cluster, code) in [
        ([16, 2], [3, 1, 1], MISCONFIGURED),
        ([16, 2], [1, 4, 1], MISCONFIGURED),
        ([16, 2], [1, 1, 2], MISCONFIGURED),
        ([16, 2], [16, 1, 1], MISCONFIGURED),
        ([16, 2], [u32::MAX, u32::MAX, 7], MISCONFIGURED),
        ([16, 2], [0, 1, 1], CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE),
    ] {
        assert_eq!(launch(kernel, grid, Some(cluster), 32), Err(code), "{cluster:?} in {grid:?}");
    }
    // Sizes that other devices may not have.
    let allowed = F::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    ok!(cuFuncSetAttribute(kernel, allowed, 1));
    let found = launch(kernel, [16, 2], Some([16, 1, 1]), 32).expect("launched");
    assert_eq!(found, (0..32).map(|block| [block % 16, 16]).collect::<Vec<_>>());
    assert_eq!(launch(kernel, [16, 2], Some([16, 2, 1]), 32), Err(MISCONFIGURED));
    ok!(cuFuncSetAttribute(kernel, allowed, 0));
    assert_eq!(launch(kernel, [16, 2], Some([16, 1, 1]), 32), Err(MISCONFIGURED));
}

#[test]
fn kernels_have_the_clusters_that_they_are_compiled_for() {
    apart!(kernels_have_the_clusters_that_they_are_compiled_for);
    context();
    let module = load(&text());
    let directions = [
        F::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
        F::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        F::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    ];
    let must = F::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET;
    for (name, required, needs) in [
        ("sizes", [0, 0, 0], 0),
        ("in_fours", [4, 1, 1], 1),
        ("in_boxes", [2, 2, 1], 1),
        ("explicit", [0, 0, 0], 1),
    ] {
        let kernel = function(module, name);
        assert_eq!(directions.map(|which| value(which, kernel)), required, "{name}");
        assert_eq!(value(must, kernel), needs, "{name}");
    }
    let fours = function(module, "in_fours");
    let wanted: Vec<_> = (0..8).map(|block| [block % 4, 4]).collect();
    for asked in [None, Some([4, 1, 1])] {
        assert_eq!(launch(fours, [8, 1], asked, 8), Ok(wanted.clone()));
    }
    assert_eq!(launch(fours, [8, 1], Some([2, 1, 1]), 8), Err(MISCONFIGURED));
    assert_eq!(launch(fours, [6, 1], None, 8), Err(MISCONFIGURED));
    // An ordinary launch takes them, too.
    let mut out = allocate(64);
    let mut arguments = [(&raw mut out).cast::<c_void>()];
    let list = arguments.as_mut_ptr();
    ok!(cuLaunchKernel(fours, 8, 1, 1, 32, 1, 1, 0, ptr::null_mut(), list, ptr::null_mut()));
    assert_eq!(words(out, 16).chunks(2).map(|p| [p[0], p[1]]).collect::<Vec<_>>(), wanted);
    fails!(CUDA_ERROR_NOT_PERMITTED, cuFuncSetAttribute(fours, directions[0], 2));

    let explicit = function(module, "explicit");
    assert_eq!(launch(explicit, [8, 1], None, 8), Err(MISCONFIGURED));
    assert!(launch(explicit, [8, 1], Some([2, 1, 1]), 8).is_ok());
    let two = function(module, "at_most_two");
    assert!(launch(two, [8, 1], Some([2, 1, 1]), 8).is_ok());
    assert_eq!(launch(two, [8, 1], Some([4, 1, 1]), 8), Err(MISCONFIGURED));
    // A grid of 3 clusters of 2 blocks.
    let counted = launch(function(module, "counted"), [3, 1], None, 8).expect("launched");
    let none = [u32::MAX; 2];
    assert_eq!(counted, [[0, 2], [1, 2], [0, 2], [1, 2], [0, 2], [1, 2], none, none]);

    // A cluster that is required at run time, in all directions.
    let kernel = function(module, "sizes");
    fails!(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(kernel, directions[0], -1));
    for direction in directions {
        ok!(cuFuncSetAttribute(kernel, direction, 1));
        assert_eq!(launch(kernel, [8, 1], None, 8), Err(MISCONFIGURED));
        assert_eq!(launch(kernel, [8, 1], Some([1, 1, 1]), 8), Err(MISCONFIGURED));
        ok!(cuFuncSetAttribute(kernel, direction, 0));
    }
    assert!(launch(kernel, [8, 1], None, 8).is_ok());
    // More blocks than an int counts.
    for (which, size) in directions.into_iter().zip([1 << 16, 1 << 15, 1]) {
        ok!(cuFuncSetAttribute(kernel, which, size));
    }
    let (large, mut size) = (config([64, 1], 32, &mut []), 0);
    fails!(
        CUDA_ERROR_INVALID_CLUSTER_SIZE,
        cuOccupancyMaxPotentialClusterSize(&raw mut size, kernel, &raw const large)
    );
    for (which, size) in directions.into_iter().zip([2, 1, 1]) {
        ok!(cuFuncSetAttribute(kernel, which, size));
    }
    assert_eq!(directions.map(|which| value(which, kernel)), [2, 1, 1]);
    let wanted: Vec<_> = (0..8).map(|block| [block % 2, 2]).collect();
    assert_eq!(launch(kernel, [8, 1], None, 8), Ok(wanted));
    assert_eq!(launch(kernel, [8, 1], Some([4, 1, 1]), 8), Err(MISCONFIGURED));
}

#[test]
fn occupancy_counts_clusters_within_groups_of_multiprocessors() {
    apart!(occupancy_counts_clusters_within_groups_of_multiprocessors);
    context();
    let module = load(&text());
    let kernel = function(module, "sizes");
    let active = |kernel, threads, cluster: Option<[u32; 3]>| {
        let mut list: Vec<_> = cluster.map(attribute).into_iter().collect();
        let config = config([64, 1], threads, &mut list);
        let mut clusters = -1;
        let code =
            call!(cuOccupancyMaxActiveClusters(&raw mut clusters, kernel, &raw const config));
        (code == SUCCESS).then_some(clusters).ok_or(code)
    };
    // Two blocks of 1,024 threads fit on a multiprocessor, and 132 of these on the device.
    for (blocks, clusters) in [(1, 264), (2, 132), (4, 66), (8, 32)] {
        assert_eq!(active(kernel, 1024, Some([blocks, 1, 1])), Ok(clusters), "{blocks}");
    }
    assert_eq!(active(kernel, 1024, Some([16, 1, 1])), Err(MISCONFIGURED));
    assert_eq!(active(kernel, 1024, None), Err(MISCONFIGURED));
    assert_eq!(active(kernel, 0, Some([2, 1, 1])), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    let fours = function(module, "in_fours");
    assert_eq!(active(fours, 1024, None), active(fours, 1024, Some([4, 1, 1])));
    assert_eq!(active(fours, 1024, Some([2, 1, 1])), Err(MISCONFIGURED));

    let potential = |kernel| {
        let config = config([64, 1], 1024, &mut []);
        let mut size = -1;
        ok!(cuOccupancyMaxPotentialClusterSize(&raw mut size, kernel, &raw const config));
        size
    };
    assert_eq!((potential(kernel), potential(fours)), (8, 8));
    assert_eq!(potential(function(module, "at_most_two")), 8);
    ok!(cuFuncSetAttribute(kernel, F::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    assert_eq!((potential(kernel), active(kernel, 1024, Some([16, 1, 1]))), (16, Ok(16)));
    // More blocks than any cluster has are no mistake then, but for a launch: so an H200's driver answers.
    assert_eq!(active(kernel, 1024, Some([32, 1, 1])), Ok(0));
    let mut list = [attribute([3, 1, 1])];
    let config_of_threes = config([64, 1], 1024, &mut list);
    let mut size = -1;
    fails!(
        CUDA_ERROR_INVALID_CLUSTER_SIZE,
        cuOccupancyMaxPotentialClusterSize(&raw mut size, kernel, &raw const config_of_threes)
    );
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuOccupancyMaxPotentialClusterSize(ptr::null_mut(), kernel, ptr::null())
    );
    // All blocks of a cooperative launch are resident at once.
    let cooperative = |blocks| {
        let value = CUlaunchAttributeValue { cooperative: 1 };
        let id = Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        let one = CUlaunchAttribute { id, value, ..CUlaunchAttribute::default() };
        let mut list = [attribute([8, 1, 1]), one];
        let config = config([blocks, 1], 1024, &mut list);
        let mut out = allocate(8 * blocks as usize);
        let mut arguments = [(&raw mut out).cast::<c_void>()];
        let list = arguments.as_mut_ptr();
        call!(cuLaunchKernelEx(&raw const config, kernel, list, ptr::null_mut()))
    };
    assert_eq!(cooperative(256), SUCCESS);
    assert_eq!(cooperative(264), CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    ok!(cuCtxSynchronize());
}

#[test]
fn nodes_of_graphs_keep_their_clusters() {
    apart!(nodes_of_graphs_keep_their_clusters);
    context();
    let (kernel, stream) = (function(load(&text()), "sizes"), stream(1));
    let mut out = allocate(64);
    let mut arguments = [(&raw mut out).cast::<c_void>()];
    let mut list = [attribute([4, 1, 1])];
    let launch = CUlaunchConfig { hStream: stream, ..config([8, 1], 32, &mut list) };
    begin(stream);
    let list = arguments.as_mut_ptr();
    ok!(cuLaunchKernelEx(&raw const launch, kernel, list, ptr::null_mut()));
    let graph = end(stream);
    let node = nodes(graph)[0];
    let which = Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    let mut value = CUlaunchAttributeValue::default();
    ok!(cuGraphKernelNodeGetAttribute(node, which, &raw mut value));
    // SAFETY: the attribute was just read.
    let size = unsafe { value.clusterDim };
    assert_eq!([size.x, size.y, size.z], [4, 1, 1]);
    let sizes = || {
        run(instantiate(graph), stream);
        words(out, 16).chunks(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
    };
    assert_eq!(sizes(), (0..8).map(|block| [block % 4, 4]).collect::<Vec<_>>());
    value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x: 2, y: 1, z: 1 };
    ok!(cuGraphKernelNodeSetAttribute(node, which, &raw const value));
    assert_eq!(sizes(), (0..8).map(|block| [block % 2, 2]).collect::<Vec<_>>());
    value.clusterDim.x = 3;
    fails!(
        CUDA_ERROR_INVALID_CLUSTER_SIZE,
        cuGraphKernelNodeSetAttribute(node, which, &raw const value)
    );
}

/// The ranks and sizes that the only node of a graph writes.
fn written(graph: CUgraph, out: u64, blocks: usize, stream: CUstream) -> Vec<[u32; 2]> {
    ok!(cuMemsetD32_v2(out, u32::MAX, 2 * blocks));
    ok!(cuCtxSynchronize());
    run(instantiate(graph), stream);
    words(out, 2 * blocks).chunks(2).map(|pair| [pair[0], pair[1]]).collect()
}

fn in_clusters(size: u32, blocks: u32) -> Vec<[u32; 2]> {
    (0..blocks).map(|block| [block % size, size]).collect()
}

#[test]
fn clusters_of_nodes_are_checked_against_their_grids() {
    apart!(clusters_of_nodes_are_checked_against_their_grids);
    context();
    let (module, stream) = (load(&text()), stream(1));
    let mut out = allocate(128);
    let mut arguments = [(&raw mut out).cast::<c_void>()];
    let list = arguments.as_mut_ptr();
    let params = |name, blocks| CUDA_KERNEL_NODE_PARAMS {
        func: function(module, name),
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: list,
        ..CUDA_KERNEL_NODE_PARAMS::default()
    };
    let add = |params: CUDA_KERNEL_NODE_PARAMS| {
        let (mut graph, mut node) = (ptr::null_mut(), ptr::null_mut());
        ok!(cuGraphCreate(&raw mut graph, 0));
        ok!(cuGraphAddKernelNode_v2(&raw mut node, graph, ptr::null(), 0, &raw const params));
        (graph, node)
    };
    let set = |node, params: CUDA_KERNEL_NODE_PARAMS| {
        call!(cuGraphKernelNodeSetParams_v2(node, &raw const params))
    };
    let which = Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    let give = |node, size| {
        let value = attribute(size).value;
        call!(cuGraphKernelNodeSetAttribute(node, which, &raw const value))
    };

    let (graph, node) = add(params("sizes", 8));
    assert_eq!(give(node, [4, 1, 1]), SUCCESS);
    let mut exec = instantiate(graph);
    for blocks in [6, 1] {
        let params = params("sizes", blocks);
        assert_eq!(set(node, params), MISCONFIGURED);
        let code = call!(cuGraphExecKernelNodeSetParams_v2(exec, node, &raw const params));
        assert_eq!(code, MISCONFIGURED);
        let (_, other) = add(params);
        fails!(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuGraphKernelNodeCopyAttributes(other, node));
    }
    assert_eq!(set(node, params("at_most_two", 8)), MISCONFIGURED);
    assert_eq!(written(graph, out, 8, stream), in_clusters(4, 8));
    assert_eq!(set(node, params("sizes", 4)), SUCCESS);
    assert_eq!(written(graph, out, 4, stream), in_clusters(4, 4));
    let (other_graph, other) = add(params("sizes", 8));
    ok!(cuGraphKernelNodeCopyAttributes(other, node));
    assert_eq!(written(other_graph, out, 8, stream), in_clusters(4, 8));

    // What a kernel requires is the kernel's, not the node's.
    let (graph, node) = add(params("in_fours", 8));
    assert_eq!(set(node, params("sizes", 6)), SUCCESS);
    assert_eq!(written(graph, out, 6, stream), in_clusters(1, 6));

    // A kernel that must have clusters gets them after it was added.
    let (graph, node) = add(params("explicit", 8));
    let none = call!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
    assert_eq!(none, MISCONFIGURED);
    assert_eq!(give(node, [2, 1, 1]), SUCCESS);
    assert_eq!(written(graph, out, 8, stream), in_clusters(2, 8));
    assert_eq!(set(node, params("explicit", 6)), SUCCESS);
    assert_eq!(written(graph, out, 6, stream), in_clusters(2, 6));

    // The grid of this one counts clusters.
    let (graph, node) = add(params("counted", 3));
    for _ in 0..2 {
        let mut told = CUDA_KERNEL_NODE_PARAMS::default();
        ok!(cuGraphKernelNodeGetParams_v2(node, &raw mut told));
        assert_eq!([told.gridDimX, told.gridDimY, told.gridDimZ], [3, 1, 1]);
        assert_eq!(set(node, told), SUCCESS);
    }
    let mut wanted = in_clusters(2, 6);
    wanted.extend([[u32::MAX; 2]; 2]);
    assert_eq!(written(graph, out, 8, stream), wanted);
}

#[test]
fn older_devices_have_no_clusters() {
    apart!(older_devices_have_no_clusters);
    assert!(Config::new().device(Profile::A100).install());
    context();
    let mut has = -1;
    let which = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
    ok!(cuDeviceGetAttribute(&raw mut has, which, 0));
    assert_eq!(has, 0);
    let kernel = function(module(), "nothing");
    let refused = |size| {
        let mut list = [attribute([size, 1, 1])];
        let config = config([4, 1], 32, &mut list);
        call!(cuLaunchKernelEx(&raw const config, kernel, ptr::null_mut(), ptr::null_mut()))
    };
    assert_eq!(refused(2), CUresult::CUDA_ERROR_NOT_SUPPORTED);
    assert_eq!(refused(1), SUCCESS);
    let config = config([4, 1], 32, &mut []);
    let mut size = -1;
    ok!(cuOccupancyMaxPotentialClusterSize(&raw mut size, kernel, &raw const config));
    assert_eq!(size, 1);
}
