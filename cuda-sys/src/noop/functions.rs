//! The functions of the no-op driver.

#![allow(non_snake_case, non_upper_case_globals, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use super::state::{
    PRIMARY, RETAINED, TOTAL_MEMORY, allocate, allocate_host, contexts, current, free_host, fresh,
    put, put_text,
};
use crate::*;

/// Defines functions of the driver. Each counts itself and returns its body's result.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {
        /// Calls of each function.
        mod count {
            $(pub(super) static $name: super::AtomicU64 = super::AtomicU64::new(0);)*
        }

        /// The counts of all functions.
        pub(super) static COUNTERS: &[&AtomicU64] = &[$(&count::$name),*];

        mod implementation {
            use super::*;
            $(pub(super) unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
                count::$name.fetch_add(1, Ordering::Relaxed);
                let body = || -> Result<(), CUresult> {
                    #[allow(unused_unsafe, reason = "some bodies touch no pointer")]
                    // SAFETY: the caller keeps the rules of the C function: its pointers are null
                    // or valid for what it asks to be read and written.
                    unsafe { $body }
                };
                body().err().unwrap_or(CUresult::CUDA_SUCCESS)
            })*
        }

        // The resolver deals in untyped addresses; this makes the compiler compare the types.
        const _: fn(&mut DriverFns) = |fns| {
            $(fns.$name = Some(implementation::$name);)*
        };

        /// Returns a function's count and address.
        pub(super) fn find(name: &str) -> Option<(&'static AtomicU64, *const c_void)> {
            match name {
                $(stringify!($name) => {
                    Some((&count::$name, implementation::$name as *const c_void))
                })*
                _ => None,
            }
        }
    };
}

/// The device exists.
fn known(device: CUdevice) -> Result<(), CUresult> {
    if device == 0 { Ok(()) } else { Err(CUresult::CUDA_ERROR_INVALID_DEVICE) }
}

functions! {
    fn cuInit(_flags: c_uint) { Ok(()) }
    fn cuDriverGetVersion(version: *mut c_int) { put(version, 13000) }

    fn cuDeviceGetCount(count: *mut c_int) { put(count, 1) }
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) { known(ordinal)?; put(device, 0) }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) {
        known(device)?;
        put_text(name, len, "no-op device")
    }
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) {
        known(device)?;
        put(uuid, CUuuid { bytes: [0x5a; 16] })
    }
    fn cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: CUdevice) {
        known(device)?;
        put_text(text, len, "0000:00:00.0")
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        known(device)?;
        put(bytes, TOTAL_MEMORY)
    }
    fn cuDeviceGetAttribute(value: *mut c_int, which: CUdevice_attribute, device: CUdevice) {
        known(device)?;
        put(value, attribute(which))
    }

    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) {
        known(device)?;
        put(context, PRIMARY)?;
        RETAINED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) {
        known(device)?;
        let less = |count: usize| count.checked_sub(1);
        match RETAINED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Ok(()),
            Err(_) => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
        }
    }
    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        known(device)?;
        put(flags, 0)?;
        put(active, c_int::from(RETAINED.load(Ordering::Relaxed) > 0))
    }
    fn cuCtxPushCurrent_v2(context: CUcontext) {
        if context.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        contexts(|stack| { stack.push(context); Ok(()) })
    }
    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        contexts(|stack| {
            let top = stack.pop().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
            if context.is_null() { Ok(()) } else { put(context, top) }
        })
    }
    fn cuCtxGetCurrent(context: *mut CUcontext) {
        contexts(|stack| put(context, stack.last().copied().unwrap_or(core::ptr::null_mut())))
    }
    fn cuCtxSetCurrent(context: CUcontext) {
        contexts(|stack| {
            stack.pop();
            if !context.is_null() { stack.push(context); }
            Ok(())
        })
    }
    fn cuCtxGetDevice(device: *mut CUdevice) { current()?; put(device, 0) }
    fn cuCtxSynchronize() { current().map(drop) }
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        current()?;
        put(least, 0)?;
        put(greatest, -5)
    }
    fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong) {
        let context = if context.is_null() { current()? } else { context };
        put(id, context.addr() as c_ulonglong)
    }

    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        current()?;
        let priority = priority.clamp(-5, 0).unsigned_abs();
        put(stream, fresh::<CUstream_st>().map_addr(|a| a | pack_stream(flags, priority)))
    }
    fn cuStreamDestroy_v2(_stream: CUstream) { Ok(()) }
    fn cuStreamSynchronize(_stream: CUstream) { Ok(()) }
    fn cuStreamQuery(_stream: CUstream) { Ok(()) }
    fn cuStreamWaitEvent(_stream: CUstream, _event: CUevent, _flags: c_uint) { Ok(()) }
    fn cuStreamGetCtx(_stream: CUstream, context: *mut CUcontext) { put(context, PRIMARY) }
    fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong) {
        put(id, stream.addr() as c_ulonglong)
    }
    fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) {
        put(priority, -((stream.addr() >> 1 & 7) as c_int))
    }
    fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) {
        put(flags, (stream.addr() & 1) as c_uint)
    }
    fn cuStreamIsCapturing(_stream: CUstream, status: *mut CUstreamCaptureStatus) {
        put(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }
    fn cuStreamBeginCapture_v2(_stream: CUstream, _mode: CUstreamCaptureMode) { Ok(()) }
    fn cuStreamEndCapture(_stream: CUstream, graph: *mut CUgraph) { put(graph, fresh()) }
    fn cuStreamGetCaptureInfo_v3(
        _stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut cuuint64_t,
        _graph: *mut CUgraph, _nodes: *mut *const CUgraphNode, _edges: *mut *const CUgraphEdgeData,
        count: *mut usize
    ) {
        put(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE)?;
        put(id, 1)?;
        put(count, 0)
    }
    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, _graph: CUgraph, _flags: c_ulonglong) {
        current()?;
        put(exec, fresh())
    }
    fn cuGraphExecUpdate_v2(
        _exec: CUgraphExec, _graph: CUgraph, _info: *mut CUgraphExecUpdateResultInfo
    ) { Ok(()) }
    fn cuGraphClone(copy: *mut CUgraph, _graph: CUgraph) { put(copy, fresh()) }
    fn cuGraphLaunch(_exec: CUgraphExec, _stream: CUstream) { Ok(()) }
    fn cuGraphDestroy(_graph: CUgraph) { Ok(()) }
    fn cuGraphExecDestroy(_exec: CUgraphExec) { Ok(()) }
    fn cuLaunchHostFunc(_stream: CUstream, function: CUhostFn, data: *mut c_void) {
        match function {
            Some(function) => { function(data); Ok(()) }
            None => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuEventCreate(event: *mut CUevent, _flags: c_uint) { current()?; put(event, fresh()) }
    fn cuEventDestroy_v2(_event: CUevent) { Ok(()) }
    fn cuEventRecord(_event: CUevent, _stream: CUstream) { Ok(()) }
    fn cuEventQuery(_event: CUevent) { Ok(()) }
    fn cuEventSynchronize(_event: CUevent) { Ok(()) }
    fn cuEventElapsedTime(milliseconds: *mut f32, _start: CUevent, _end: CUevent) {
        put(milliseconds, 0.0)
    }
    fn cuEventElapsedTime_v2(milliseconds: *mut f32, _start: CUevent, _end: CUevent) {
        put(milliseconds, 0.0)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        current()?;
        put(free, TOTAL_MEMORY)?;
        put(total, TOTAL_MEMORY)
    }
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, _properties: *const CUmemPoolProps) {
        put(pool, fresh())
    }
    fn cuMemPoolDestroy(_pool: CUmemoryPool) { Ok(()) }
    fn cuMemPoolSetAttribute(_pool: CUmemoryPool, _which: CUmemPool_attribute, _value: *mut c_void) {
        Ok(())
    }
    fn cuMemPoolGetAttribute(_pool: CUmemoryPool, which: CUmemPool_attribute, value: *mut c_void) {
        match which {
            CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
            | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
            | CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                put(value.cast::<c_int>(), 1)
            }
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
            | CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
            | CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
            | CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT
            | CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => {
                put(value.cast::<cuuint64_t>(), 0)
            }
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    fn cuMemPoolTrimTo(_pool: CUmemoryPool, _keep: usize) { Ok(()) }
    fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr, bytes: usize, _pool: CUmemoryPool, _stream: CUstream
    ) { put(address, allocate(bytes)?) }
    fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, _stream: CUstream) {
        put(address, allocate(bytes)?)
    }
    fn cuMemFreeAsync(_address: CUdeviceptr, _stream: CUstream) { Ok(()) }
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) {
        current()?;
        put(address, allocate(bytes)?)
    }
    fn cuMemFree_v2(_address: CUdeviceptr) { current().map(drop) }
    fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        current()?;
        put(memory, allocate_host(bytes)?)
    }
    fn cuMemFreeHost(memory: *mut c_void) {
        if memory.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        free_host(memory)
    }
    fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, _flags: c_uint) {
        current()?;
        if memory.is_null() || bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(())
    }
    fn cuMemHostUnregister(memory: *mut c_void) {
        if memory.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(())
    }
    fn cuMemHostGetDevicePointer_v2(
        address: *mut CUdeviceptr, memory: *mut c_void, _flags: c_uint
    ) {
        current()?;
        put(address, memory.addr() as CUdeviceptr)
    }
    fn cuMemcpyHtoDAsync_v2(
        _to: CUdeviceptr, _from: *const c_void, _bytes: usize, _stream: CUstream
    ) { Ok(()) }
    fn cuMemcpyDtoHAsync_v2(
        to: *mut c_void, _from: CUdeviceptr, bytes: usize, _stream: CUstream
    ) {
        // The caller may read what it asked for, so it must be initialised.
        if bytes > 0 { to.write_bytes(0, bytes); }
        Ok(())
    }
    fn cuMemcpyDtoDAsync_v2(
        _to: CUdeviceptr, _from: CUdeviceptr, _bytes: usize, _stream: CUstream
    ) { Ok(()) }
    fn cuMemcpy3DAsync_v2(what: *const CUDA_MEMCPY3D, _stream: CUstream) {
        if what.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let what = what.read();
        if what.dstMemoryType == CUmemorytype::CU_MEMORYTYPE_HOST {
            // As above.
            for row in 0..what.Height * what.Depth {
                let row = row / what.Height * what.dstHeight + row % what.Height;
                what.dstHost.byte_add(row * what.dstPitch).write_bytes(0, what.WidthInBytes);
            }
        }
        Ok(())
    }
    fn cuMemsetD8Async(_at: CUdeviceptr, _value: u8, _count: usize, _stream: CUstream) { Ok(()) }
    fn cuMemsetD16Async(_at: CUdeviceptr, _value: u16, _count: usize, _stream: CUstream) { Ok(()) }
    fn cuMemsetD32Async(_at: CUdeviceptr, _value: c_uint, _count: usize, _stream: CUstream) {
        Ok(())
    }
    fn cuPointerGetAttribute(data: *mut c_void, which: CUpointer_attribute, address: CUdeviceptr) {
        match which {
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT => put(data.cast(), PRIMARY),
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => {
                put(data.cast(), CUmemorytype::CU_MEMORYTYPE_DEVICE)
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => put(data.cast(), address),
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
                put(data.cast::<c_int>(), 0)
            }
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, _count: c_uint,
        _options: *mut CUjit_option, _values: *mut *mut c_void
    ) {
        current()?;
        if image.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(module, fresh())
    }
    fn cuModuleUnload(_module: CUmodule) { current().map(drop) }
    fn cuModuleGetFunction(function: *mut CUfunction, _module: CUmodule, _name: *const c_char) {
        put(function, fresh())
    }
    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr, bytes: *mut usize, _module: CUmodule, _name: *const c_char
    ) {
        // Either may be null when the caller wants only the other.
        if !address.is_null() { put(address, allocate(256)?)?; }
        if !bytes.is_null() { put(bytes, 256)?; }
        Ok(())
    }
    fn cuFuncGetAttribute(value: *mut c_int, which: CUfunction_attribute, _function: CUfunction) {
        put(value, match which {
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS => 32,
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION
            | CUfunction_attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION => 90,
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => 49152,
            _ => 0,
        })
    }
    fn cuFuncSetAttribute(_function: CUfunction, _which: CUfunction_attribute, _value: c_int) {
        Ok(())
    }
    fn cuFuncLoad(_function: CUfunction) { Ok(()) }
    fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, _function: CUfunction) {
        put(state, CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, _function: CUfunction, threads: c_int, _shared: usize
    ) {
        current()?;
        match threads {
            1..=1024 => put(blocks, (2048 / threads).min(32)),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuLaunchKernel(
        _function: CUfunction, _grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint,
        _block_x: c_uint, _block_y: c_uint, _block_z: c_uint, _shared: c_uint,
        _stream: CUstream, _arguments: *mut *mut c_void, _extra: *mut *mut c_void
    ) { Ok(()) }
    fn cuLaunchCooperativeKernel(
        _function: CUfunction, _grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint,
        _block_x: c_uint, _block_y: c_uint, _block_z: c_uint, _shared: c_uint,
        _stream: CUstream, _arguments: *mut *mut c_void
    ) { Ok(()) }
    fn cuLaunchKernelEx(
        _config: *const CUlaunchConfig, _function: CUfunction,
        _arguments: *mut *mut c_void, _extra: *mut *mut c_void
    ) { Ok(()) }
}

/// A stream's handle carries what its creator asked for in the low bits.
fn pack_stream(flags: c_uint, priority: u32) -> usize {
    ((flags & 1) | priority << 1) as usize
}

/// Returns an attribute of the device: the limits of an H100 that matter to a caller, 0 for the rest.
fn attribute(which: CUdevice_attribute) -> c_int {
    use CUdevice_attribute as A;
    match which {
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => 9,
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => 0,
        A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => 132,
        A::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
        | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => 1024,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => i32::MAX,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y | A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65535,
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => 2048,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => 32,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => 49152,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => 232448,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => 233472,
        A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK => 1024,
        A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
        | A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR
        | A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY => 65536,
        A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 3,
        A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE => 1_980_000,
        A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => 2_619_000,
        A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => 5120,
        A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => 50 << 20,
        A::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT => 512,
        A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY
        | A::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS
        | A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
        | A::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
        | A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING => 1,
        _ => 0,
    }
}
