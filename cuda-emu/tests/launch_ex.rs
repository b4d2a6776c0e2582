//! Extended launches, and what their attributes may be.

use std::ptr;

use cuda_sys::*;

mod common;
use common::*;

type Value = CUlaunchAttributeValue;
type Id = CUlaunchAttributeID;

fn attribute(id: Id, value: Value) -> CUlaunchAttribute {
    CUlaunchAttribute { id, value, ..CUlaunchAttribute::default() }
}

fn cluster(x: u32) -> CUlaunchAttribute {
    let size = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y: 1, z: 1 };
    attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, Value { clusterDim: size })
}

fn config(stream: CUstream, list: &mut [CUlaunchAttribute]) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: 2,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: stream,
        attrs: list.as_mut_ptr(),
        numAttrs: list.len() as u32,
    }
}

#[test]
fn attributes_are_taken_and_clusters_refused_by_name() {
    context();
    let (one, kernel) = (stream(1), function(module(), "nothing"));
    let mut list = [
        attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, Value { cooperative: 1 }),
        attribute(Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, Value { priority: -2 }),
        attribute(
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            Value { programmaticStreamSerializationAllowed: 1 },
        ),
        cluster(1),
    ];
    let launch = config(one, &mut list);
    begin(one);
    ok!(cuLaunchKernelEx(&raw const launch, kernel, ptr::null_mut(), ptr::null_mut()));
    let graph = end(one);
    let mut value = Value::default();
    let node = nodes(graph)[0];
    ok!(cuGraphKernelNodeGetAttribute(node, Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, &raw mut value));
    // SAFETY: the driver has set this part.
    assert_eq!(unsafe { value.priority }, -2);
    ok!(cuGraphKernelNodeGetAttribute(node, Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &raw mut value));
    // SAFETY: as above.
    assert_eq!(unsafe { value.cooperative }, 1);
    run(instantiate(graph), one);

    let mut clusters = 0;
    ok!(cuOccupancyMaxActiveClusters(&raw mut clusters, kernel, &raw const launch));
    assert!(clusters >= 132, "{clusters}");
    let mut list = [cluster(2)];
    let launch = config(one, &mut list);
    fails!(
        CUDA_ERROR_NOT_SUPPORTED,
        cuLaunchKernelEx(&raw const launch, kernel, ptr::null_mut(), ptr::null_mut())
    );
    fails!(
        CUDA_ERROR_NOT_SUPPORTED,
        cuOccupancyMaxActiveClusters(&raw mut clusters, kernel, &raw const launch)
    );
}
