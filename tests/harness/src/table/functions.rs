//! The functions of the recording driver: each tells the thread's recorder, and does what the no-op
//! driver's function of the same name does.

#![allow(non_snake_case, reason = "the driver's names")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::*;

use super::through;

/// An argument as a number.
trait Word {
    fn word(self) -> u64;
}

macro_rules! words {
    ($($ty:ty),*; $($code:ty),*) => {
        $(impl Word for $ty { fn word(self) -> u64 { self as u64 } })*
        $(impl Word for $code { fn word(self) -> u64 { self.0 as u64 } })*
    };
}

words! {
    u8, u16, u32, u64, usize, i32;
    CUdevice_attribute, CUfunction_attribute, CUmemPool_attribute, CUpointer_attribute,
    CUstreamCaptureMode
}

impl<T> Word for *mut T {
    fn word(self) -> u64 {
        self.expose_provenance() as u64
    }
}

impl<T> Word for *const T {
    fn word(self) -> u64 {
        self.expose_provenance() as u64
    }
}

impl Word for CUhostFn {
    fn word(self) -> u64 {
        u64::from(self.is_some())
    }
}

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        $(unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
            let perform = || match noop::driver().fns().$name {
                // SAFETY: the caller's pointers are what the C function asks for, and they are
                // handed on as they are.
                Some(function) => unsafe { function($($arg),*) },
                None => CUresult::CUDA_ERROR_NOT_SUPPORTED,
            };
            // SAFETY: these are the arguments of a call of this function, which is running.
            unsafe { through(stringify!($name), &[$($arg.word()),*], perform) }
        })*

        // The resolver deals in untyped addresses; this makes the compiler compare the types.
        const _: fn(&mut DriverFns) = |fns| {
            $(fns.$name = Some($name);)*
        };

        /// The address of the function with this name; null if there is none.
        pub(super) fn find(name: &str) -> *const c_void {
            match name {
                $(stringify!($name) => $name as *const c_void,)*
                _ => std::ptr::null(),
            }
        }
    };
}

functions! {
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    fn cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, which: CUdevice_attribute, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxPushCurrent_v2(context: CUcontext);
    fn cuCtxPopCurrent_v2(context: *mut CUcontext);
    fn cuCtxGetCurrent(context: *mut CUcontext);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxGetDevice(device: *mut CUdevice);
    fn cuCtxSynchronize();
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong);
    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamQuery(stream: CUstream);
    fn cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus);
    fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong);
    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    fn cuStreamGetCaptureInfo_v3(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut cuuint64_t,
        graph: *mut CUgraph, nodes: *mut *const CUgraphNode, edges: *mut *const CUgraphEdgeData,
        count: *mut usize
    );
    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    fn cuGraphExecUpdate_v2(
        exec: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo
    );
    fn cuGraphClone(copy: *mut CUgraph, graph: CUgraph);
    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    fn cuGraphDestroy(graph: CUgraph);
    fn cuGraphExecDestroy(exec: CUgraphExec);
    fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int);
    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventQuery(event: CUevent);
    fn cuEventSynchronize(event: CUevent);
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps);
    fn cuMemPoolDestroy(pool: CUmemoryPool);
    fn cuMemPoolSetAttribute(pool: CUmemoryPool, which: CUmemPool_attribute, value: *mut c_void);
    fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
    fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream
    );
    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(address: CUdeviceptr);
    fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemHostUnregister(memory: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream
    );
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpy3DAsync_v2(what: *const CUDA_MEMCPY3D, stream: CUstream);
    fn cuMemsetD8Async(at: CUdeviceptr, value: u8, count: usize, stream: CUstream);
    fn cuMemsetD16Async(at: CUdeviceptr, value: u16, count: usize, stream: CUstream);
    fn cuMemsetD32Async(at: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
    fn cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint,
        options: *mut CUjit_option, values: *mut *mut c_void
    );
    fn cuModuleUnload(module: CUmodule);
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char
    );
    fn cuFuncGetAttribute(value: *mut c_int, which: CUfunction_attribute, function: CUfunction);
    fn cuFuncSetAttribute(function: CUfunction, which: CUfunction_attribute, value: c_int);
    fn cuFuncLoad(function: CUfunction);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize
    );
    fn cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint,
        stream: CUstream, arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
    fn cuLaunchCooperativeKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint,
        stream: CUstream, arguments: *mut *mut c_void
    );
    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig, function: CUfunction, arguments: *mut *mut c_void,
        extra: *mut *mut c_void
    );
}
