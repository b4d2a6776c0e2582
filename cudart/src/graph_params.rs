//! Nodes of graphs that the driver describes in other structs: kernels, copies, fills, and nodes of any kind.

use core::ffi::{c_uint, c_void};
use core::ptr;

use cuda_sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v3, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS, CUarray, CUgraphNodeParams, CUmemorytype,
};

use crate::bindings::runtime::{
    cudaArray_t, cudaError, cudaExtent, cudaGraph_t, cudaGraphEdgeData, cudaGraphExec_t,
    cudaGraphNode_t, cudaGraphNodeParams, cudaGraphNodeType, cudaKernelFunctionType,
    cudaKernelNodeParams, cudaMemcpy3DParms, cudaMemcpyKind, cudaMemsetParams, cudaPitchedPtr,
    cudaPos, dim3,
};
use crate::call::{CudaResult, check, pass, put, ready};
use crate::copy::{cuboid, part};
use crate::function::function;
use crate::memory::{address, pointer};
use crate::{array, context, registry};

/// Returns the parameters of a kernel's node for the driver.
///
/// # Safety
/// `parameters` is null or valid for reads.
unsafe fn kernel(parameters: *const cudaKernelNodeParams) -> CudaResult<CUDA_KERNEL_NODE_PARAMS> {
    // SAFETY: the caller's promise.
    let p = unsafe { parameters.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    let (_, _, func) = function(p.func)?;
    Ok(CUDA_KERNEL_NODE_PARAMS {
        func,
        gridDimX: p.gridDim.x,
        gridDimY: p.gridDim.y,
        gridDimZ: p.gridDim.z,
        blockDimX: p.blockDim.x,
        blockDimY: p.blockDim.y,
        blockDimZ: p.blockDim.z,
        sharedMemBytes: p.sharedMemBytes,
        kernelParams: p.kernelParams,
        extra: p.extra,
        ..Default::default()
    })
}

/// Returns the parameters of a copy of bytes.
fn line(
    to: *const c_void,
    from: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> CudaResult<CUDA_MEMCPY3D> {
    let side = |pointer: *const c_void| cudaPitchedPtr {
        ptr: pointer.cast_mut(),
        pitch: count,
        xsize: count,
        ysize: 1,
    };
    cuboid(&cudaMemcpy3DParms {
        srcPtr: side(from),
        dstPtr: side(to),
        extent: cudaExtent { width: count, height: 1, depth: 1 },
        kind,
        ..Default::default()
    })
}

/// Returns the parameters of a box.
///
/// # Safety
/// `parameters` is null or valid for reads.
unsafe fn copy(parameters: *const cudaMemcpy3DParms) -> CudaResult<CUDA_MEMCPY3D> {
    // SAFETY: the caller's promise.
    cuboid(unsafe { parameters.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?)
}

/// Returns a copy as the runtime describes it.
fn copy_back(what: &CUDA_MEMCPY3D) -> CudaResult<cudaMemcpy3DParms> {
    use CUmemorytype as Of;
    let array_of = |kind, array: CUarray| -> cudaArray_t {
        match kind {
            Of::CU_MEMORYTYPE_ARRAY => array.cast(),
            _ => ptr::null_mut(),
        }
    };
    let (source, destination) =
        (array_of(what.srcMemoryType, what.srcArray), array_of(what.dstMemoryType, what.dstArray));
    let element = match (source.is_null(), destination.is_null()) {
        (true, true) => 1,
        (false, _) => array::element(source)?,
        (true, false) => array::element(destination)?,
    };
    let memory = |kind, host: *const c_void, device| match kind {
        Of::CU_MEMORYTYPE_HOST => host.cast_mut(),
        Of::CU_MEMORYTYPE_ARRAY => ptr::null_mut(),
        _ => pointer(device),
    };
    let at = |array: bool, bytes: usize| if array { bytes / element } else { bytes };
    let kind = match (what.srcMemoryType, what.dstMemoryType) {
        (Of::CU_MEMORYTYPE_UNIFIED, _) | (_, Of::CU_MEMORYTYPE_UNIFIED) => {
            cudaMemcpyKind::cudaMemcpyDefault
        }
        (Of::CU_MEMORYTYPE_HOST, Of::CU_MEMORYTYPE_HOST) => cudaMemcpyKind::cudaMemcpyHostToHost,
        (Of::CU_MEMORYTYPE_HOST, _) => cudaMemcpyKind::cudaMemcpyHostToDevice,
        (_, Of::CU_MEMORYTYPE_HOST) => cudaMemcpyKind::cudaMemcpyDeviceToHost,
        _ => cudaMemcpyKind::cudaMemcpyDeviceToDevice,
    };
    Ok(cudaMemcpy3DParms {
        srcArray: source,
        srcPos: cudaPos { x: at(!source.is_null(), what.srcXInBytes), y: what.srcY, z: what.srcZ },
        srcPtr: cudaPitchedPtr {
            ptr: memory(what.srcMemoryType, what.srcHost, what.srcDevice),
            pitch: what.srcPitch,
            xsize: what.WidthInBytes,
            ysize: what.srcHeight,
        },
        dstArray: destination,
        dstPos: cudaPos {
            x: at(!destination.is_null(), what.dstXInBytes),
            y: what.dstY,
            z: what.dstZ,
        },
        dstPtr: cudaPitchedPtr {
            ptr: memory(what.dstMemoryType, what.dstHost, what.dstDevice),
            pitch: what.dstPitch,
            xsize: what.WidthInBytes,
            ysize: what.dstHeight,
        },
        extent: cudaExtent {
            width: what.WidthInBytes / element,
            height: what.Height,
            depth: what.Depth,
        },
        kind,
    })
}

/// Returns the parameters of a fill.
///
/// # Safety
/// `parameters` is null or valid for reads.
unsafe fn fill(parameters: *const cudaMemsetParams) -> CudaResult<CUDA_MEMSET_NODE_PARAMS> {
    // SAFETY: the caller's promise.
    let p = unsafe { parameters.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    Ok(CUDA_MEMSET_NODE_PARAMS {
        dst: address(p.dst),
        pitch: p.pitch,
        value: p.value,
        elementSize: p.elementSize,
        width: p.width,
        height: p.height,
    })
}

/// Passes the parameters of a node of any kind to a function of the driver, and takes back what that has written.
///
/// # Safety
/// `parameters` is null or valid for reads and writes.
unsafe fn with_any(
    parameters: *mut cudaGraphNodeParams,
    call: impl FnOnce(*mut CUgraphNodeParams) -> CudaResult,
) -> CudaResult {
    use cudaGraphNodeType as Of;
    // SAFETY: the caller's promise.
    let given = unsafe { parameters.as_mut() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    // SAFETY: both structs have the same layout, but for the members that are replaced here; every bit pattern is valid.
    let mut new: CUgraphNodeParams = unsafe { pass(*given) };
    let any = &given.__bindgen_anon_1;
    match given.type_ {
        Of::cudaGraphNodeTypeKernel => {
            // SAFETY: the type says which member is set.
            let p = unsafe { any.kernel };
            // SAFETY: each member is a pointer.
            let handle = unsafe { p.__bindgen_anon_1.func };
            let func = match p.functionType {
                // A handle of the driver.
                cudaKernelFunctionType::cudaKernelFunctionTypeFunction => handle.cast(),
                _ => function(handle)?.2,
            };
            new.__bindgen_anon_1.kernel = CUDA_KERNEL_NODE_PARAMS_v3 {
                func,
                gridDimX: p.gridDim.x,
                gridDimY: p.gridDim.y,
                gridDimZ: p.gridDim.z,
                blockDimX: p.blockDim.x,
                blockDimY: p.blockDim.y,
                blockDimZ: p.blockDim.z,
                sharedMemBytes: p.sharedMemBytes,
                kernelParams: p.kernelParams,
                extra: p.extra,
                ..Default::default()
            };
        }
        Of::cudaGraphNodeTypeMemcpy => {
            // SAFETY: the type says which member is set.
            let p = unsafe { any.memcpy };
            new.__bindgen_anon_1.memcpy = CUDA_MEMCPY_NODE_PARAMS {
                flags: p.flags,
                copyCtx: context::current()?,
                copyParams: cuboid(&p.copyParams)?,
                ..Default::default()
            };
        }
        Of::cudaGraphNodeTypeMemset => new.__bindgen_anon_1.memset.ctx = context::current()?,
        Of::cudaGraphNodeTypeConditional => {
            new.__bindgen_anon_1.conditional.ctx = context::current()?;
        }
        _ => {}
    }
    call(&raw mut new)?;
    match given.type_ {
        Of::cudaGraphNodeTypeMemAlloc => {
            // SAFETY: the type says which member is set.
            given.__bindgen_anon_1.alloc.dptr = pointer(unsafe { new.__bindgen_anon_1.alloc.dptr });
        }
        Of::cudaGraphNodeTypeConditional => {
            // SAFETY: as above.
            given.__bindgen_anon_1.conditional.phGraph_out =
                unsafe { new.__bindgen_anon_1.conditional.phGraph_out };
        }
        _ => {}
    }
    Ok(())
}

/// Adds a node of any kind.
///
/// # Errors
/// The driver's, and 1 for null parameters.
///
/// # Safety
/// The pointers are null or valid for what the header says.
pub unsafe fn add_any(
    place: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    dependencies: *const cudaGraphNode_t,
    edges: *const cudaGraphEdgeData,
    count: usize,
    parameters: *mut cudaGraphNodeParams,
) -> CudaResult {
    let driver = ready()?;
    // SAFETY: the caller's promise; edges have the driver's layout.
    unsafe {
        with_any(parameters, |new| {
            check(driver.cuGraphAddNode_v2(place, graph, dependencies, edges.cast(), count, new))
        })
    }
}

crate::functions! {
    fn cudaGraphAddKernelNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        parameters: *const cudaKernelNodeParams,
    ) {
        let new = kernel(parameters)?;
        check(ready()?.cuGraphAddKernelNode_v2(place, graph, dependencies, count, &raw const new))
    }
    fn cudaGraphKernelNodeGetParams(node: cudaGraphNode_t, parameters: *mut cudaKernelNodeParams) {
        let mut found = CUDA_KERNEL_NODE_PARAMS::default();
        check(ready()?.cuGraphKernelNodeGetParams_v2(node, &raw mut found))?;
        put(parameters, cudaKernelNodeParams {
            func: registry::function_of(found.kern, found.func).cast_mut(),
            gridDim: dim3 { x: found.gridDimX, y: found.gridDimY, z: found.gridDimZ },
            blockDim: dim3 { x: found.blockDimX, y: found.blockDimY, z: found.blockDimZ },
            sharedMemBytes: found.sharedMemBytes as c_uint,
            kernelParams: found.kernelParams,
            extra: found.extra,
        })
    }
    fn cudaGraphKernelNodeSetParams(node: cudaGraphNode_t, parameters: *const cudaKernelNodeParams) {
        let new = kernel(parameters)?;
        check(ready()?.cuGraphKernelNodeSetParams_v2(node, &raw const new))
    }
    fn cudaGraphExecKernelNodeSetParams(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, parameters: *const cudaKernelNodeParams,
    ) {
        let new = kernel(parameters)?;
        check(ready()?.cuGraphExecKernelNodeSetParams_v2(executable, node, &raw const new))
    }
    fn cudaGraphAddMemcpyNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        parameters: *const cudaMemcpy3DParms,
    ) {
        let new = copy(parameters)?;
        let context = context::current()?;
        check(ready()?.cuGraphAddMemcpyNode(place, graph, dependencies, count, &raw const new, context))
    }
    fn cudaGraphAddMemcpyNode1D(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        to: *mut c_void, from: *const c_void, bytes: usize, kind: cudaMemcpyKind,
    ) {
        let new = line(to, from, bytes, kind)?;
        let context = context::current()?;
        check(ready()?.cuGraphAddMemcpyNode(place, graph, dependencies, count, &raw const new, context))
    }
    fn cudaGraphAddMemcpyNodeToSymbol(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: cudaMemcpyKind,
    ) {
        let new = line(part(symbol, bytes, offset)?, from, bytes, kind)?;
        let context = context::current()?;
        check(ready()?.cuGraphAddMemcpyNode(place, graph, dependencies, count, &raw const new, context))
    }
    fn cudaGraphAddMemcpyNodeFromSymbol(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: cudaMemcpyKind,
    ) {
        let new = line(to, part(symbol, bytes, offset)?, bytes, kind)?;
        let context = context::current()?;
        check(ready()?.cuGraphAddMemcpyNode(place, graph, dependencies, count, &raw const new, context))
    }
    fn cudaGraphMemcpyNodeGetParams(node: cudaGraphNode_t, parameters: *mut cudaMemcpy3DParms) {
        let mut found = CUDA_MEMCPY3D::default();
        check(ready()?.cuGraphMemcpyNodeGetParams(node, &raw mut found))?;
        put(parameters, copy_back(&found)?)
    }
    fn cudaGraphMemcpyNodeSetParams(node: cudaGraphNode_t, parameters: *const cudaMemcpy3DParms) {
        let new = copy(parameters)?;
        check(ready()?.cuGraphMemcpyNodeSetParams(node, &raw const new))
    }
    fn cudaGraphMemcpyNodeSetParams1D(
        node: cudaGraphNode_t, to: *mut c_void, from: *const c_void, bytes: usize, kind: cudaMemcpyKind,
    ) {
        let new = line(to, from, bytes, kind)?;
        check(ready()?.cuGraphMemcpyNodeSetParams(node, &raw const new))
    }
    fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: cudaGraphNode_t, symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize,
        kind: cudaMemcpyKind,
    ) {
        let new = line(part(symbol, bytes, offset)?, from, bytes, kind)?;
        check(ready()?.cuGraphMemcpyNodeSetParams(node, &raw const new))
    }
    fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: cudaGraphNode_t, to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize,
        kind: cudaMemcpyKind,
    ) {
        let new = line(to, part(symbol, bytes, offset)?, bytes, kind)?;
        check(ready()?.cuGraphMemcpyNodeSetParams(node, &raw const new))
    }
    fn cudaGraphExecMemcpyNodeSetParams(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, parameters: *const cudaMemcpy3DParms,
    ) {
        let new = copy(parameters)?;
        check(ready()?.cuGraphExecMemcpyNodeSetParams(executable, node, &raw const new, context::current()?))
    }
    fn cudaGraphExecMemcpyNodeSetParams1D(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, to: *mut c_void, from: *const c_void, bytes: usize,
        kind: cudaMemcpyKind,
    ) {
        let new = line(to, from, bytes, kind)?;
        check(ready()?.cuGraphExecMemcpyNodeSetParams(executable, node, &raw const new, context::current()?))
    }
    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, symbol: *const c_void, from: *const c_void,
        bytes: usize, offset: usize, kind: cudaMemcpyKind,
    ) {
        let new = line(part(symbol, bytes, offset)?, from, bytes, kind)?;
        check(ready()?.cuGraphExecMemcpyNodeSetParams(executable, node, &raw const new, context::current()?))
    }
    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, to: *mut c_void, symbol: *const c_void,
        bytes: usize, offset: usize, kind: cudaMemcpyKind,
    ) {
        let new = line(to, part(symbol, bytes, offset)?, bytes, kind)?;
        check(ready()?.cuGraphExecMemcpyNodeSetParams(executable, node, &raw const new, context::current()?))
    }
    fn cudaGraphAddMemsetNode(
        place: *mut cudaGraphNode_t, graph: cudaGraph_t, dependencies: *const cudaGraphNode_t, count: usize,
        parameters: *const cudaMemsetParams,
    ) {
        let new = fill(parameters)?;
        let context = context::current()?;
        check(ready()?.cuGraphAddMemsetNode(place, graph, dependencies, count, &raw const new, context))
    }
    fn cudaGraphMemsetNodeGetParams(node: cudaGraphNode_t, parameters: *mut cudaMemsetParams) {
        let mut found = CUDA_MEMSET_NODE_PARAMS::default();
        check(ready()?.cuGraphMemsetNodeGetParams(node, &raw mut found))?;
        put(parameters, cudaMemsetParams {
            dst: pointer(found.dst),
            pitch: found.pitch,
            value: found.value,
            elementSize: found.elementSize,
            width: found.width,
            height: found.height,
        })
    }
    fn cudaGraphMemsetNodeSetParams(node: cudaGraphNode_t, parameters: *const cudaMemsetParams) {
        let new = fill(parameters)?;
        check(ready()?.cuGraphMemsetNodeSetParams(node, &raw const new))
    }
    fn cudaGraphExecMemsetNodeSetParams(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, parameters: *const cudaMemsetParams,
    ) {
        let new = fill(parameters)?;
        check(ready()?.cuGraphExecMemsetNodeSetParams(executable, node, &raw const new, context::current()?))
    }
    fn cudaGraphNodeSetParams(node: cudaGraphNode_t, parameters: *mut cudaGraphNodeParams) {
        let driver = ready()?;
        with_any(parameters, |new| check(driver.cuGraphNodeSetParams(node, new)))
    }
    fn cudaGraphExecNodeSetParams(
        executable: cudaGraphExec_t, node: cudaGraphNode_t, parameters: *mut cudaGraphNodeParams,
    ) {
        let driver = ready()?;
        with_any(parameters, |new| check(driver.cuGraphExecNodeSetParams(executable, node, new)))
    }
}
