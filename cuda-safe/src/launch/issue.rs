//! The one driver call of a launch: plain, cooperative, or with attributes.

use std::ffi::c_void;

use cuda_sys::{
    CUfunction, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig,
    CUresult, CUstream, MissingSymbol,
};

use super::{Dim3, LaunchConfig};

/// How many attributes a launch can have at once.
const MOST: usize = 4;

/// Enqueues a kernel with the driver function that the launch needs. Nothing is allocated: the
/// attributes lie on the stack.
///
/// # Safety
/// Function and stream are live handles of one context. There is one pointer for each parameter
/// of the kernel, each to a value of the parameter's size. The kernel's accesses with these values, in this shape, are
/// sound; for a programmatic launch see [`LaunchConfig::programmatic`].
#[inline]
pub(crate) unsafe fn issue(
    sys: &cuda_sys::Driver,
    function: CUfunction,
    launch: &LaunchConfig,
    stream: CUstream,
    pointers: &mut [*mut c_void],
) -> Result<CUresult, MissingSymbol> {
    if !launch.is_plain() {
        // SAFETY: the caller's promise is passed on.
        return unsafe { issue_special(sys, function, launch, stream, pointers) };
    }
    let (grid, block) = (launch.grid, launch.block);
    let (pointers, extra) = (pointers.as_mut_ptr(), std::ptr::null_mut());
    // SAFETY: the caller's promise; the driver copies the values before it returns.
    unsafe {
        sys.cuLaunchKernel(
            function,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            launch.dynamic_shared_bytes,
            stream,
            pointers,
            extra,
        )
    }
}

/// A launch that is not plain. Apart, so that the code of a plain one stays small at its callers.
///
/// # Safety
/// As [`issue`].
unsafe fn issue_special(
    sys: &cuda_sys::Driver,
    function: CUfunction,
    launch: &LaunchConfig,
    stream: CUstream,
    pointers: &mut [*mut c_void],
) -> Result<CUresult, MissingSymbol> {
    let (grid, block) = (launch.grid, launch.block);
    let pointers = pointers.as_mut_ptr();
    if launch.has_attributes() {
        return with_config(launch, stream, |config| {
            // SAFETY: the caller's promise; configuration and attributes live until the driver
            // has returned, and it copies them and the values before that.
            unsafe { sys.cuLaunchKernelEx(config, function, pointers, std::ptr::null_mut()) }
        });
    }
    // SAFETY: as for a plain launch.
    unsafe {
        sys.cuLaunchCooperativeKernel(
            function,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            launch.dynamic_shared_bytes,
            stream,
            pointers,
        )
    }
}

/// Returns the driver function that [`issue`] calls for this launch.
pub(crate) fn call_name(launch: &LaunchConfig) -> &'static str {
    if launch.has_attributes() {
        "cuLaunchKernelEx"
    } else if launch.cooperative {
        "cuLaunchCooperativeKernel"
    } else {
        "cuLaunchKernel"
    }
}

/// Calls `act` with the launch as the driver wants it described.
pub(crate) fn with_config<R>(
    launch: &LaunchConfig,
    stream: CUstream,
    act: impl FnOnce(&CUlaunchConfig) -> R,
) -> R {
    use CUlaunchAttributeID as Id;
    let nothing = CUlaunchAttribute {
        id: Id::CU_LAUNCH_ATTRIBUTE_IGNORE,
        pad: [0; 4],
        value: CUlaunchAttributeValue { pad: [0; 64] },
    };
    let mut attributes = [nothing; MOST];
    let mut free = attributes.iter_mut();
    let mut used = 0;
    let mut add = |id, set: &dyn Fn(&mut CUlaunchAttributeValue)| {
        if let Some(attribute) = free.next() {
            attribute.id = id;
            set(&mut attribute.value);
            used += 1;
        }
    };
    if launch.cooperative {
        add(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &|value| value.cooperative = 1);
    }
    if let Some(Dim3 { x, y, z }) = launch.cluster {
        add(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &|value| {
            value.clusterDim.x = x;
            value.clusterDim.y = y;
            value.clusterDim.z = z;
        });
    }
    if launch.programmatic {
        add(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &|value| {
            value.programmaticStreamSerializationAllowed = 1;
        });
    }
    if let Some(priority) = launch.priority {
        add(Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, &|value| value.priority = priority);
    }
    let (grid, block) = (launch.grid, launch.block);
    act(&CUlaunchConfig {
        gridDimX: grid.x,
        gridDimY: grid.y,
        gridDimZ: grid.z,
        blockDimX: block.x,
        blockDimY: block.y,
        blockDimZ: block.z,
        sharedMemBytes: launch.dynamic_shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: used,
    })
}
