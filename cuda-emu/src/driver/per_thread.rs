//! The variants of functions for which NULL means the calling thread's own stream: C programs compiled with
//! `CUDA_API_PER_THREAD_DEFAULT_STREAM` call them.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use cuda_sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray,
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphEdgeData, CUgraphExec,
    CUgraphNode, CUgreenCtx, CUhostFn, CUlaunchConfig, CUmemLocation, CUmemcpyAttributes,
    CUmemoryPool, CUstream, CUstreamAttrID, CUstreamAttrValue, CUstreamBatchMemOpParams,
    CUstreamCallback, CUstreamCaptureMode, CUstreamCaptureStatus, cuuint32_t, cuuint64_t,
};

use super::call::{Entry, with_per_thread};
use super::graph::{capture, exec as graph_exec};
use super::memory::{advice, copy, copy_shaped, fill, pool};
use super::module::launch;
use super::stream::{self, event};
use super::texture::copy as array_copy;

/// Defines variants: `file { variant as function(types); }`.
macro_rules! variants {
    ($($file:ident { $($name:ident as $base:ident($($ty:ty),* $(,)?);)* })*) => {
        mod implementation {
            use super::*;
            $($(variants!(@define pub(super) $name, $file::implementation::$base,
                ($($ty),*) () (a b c d e f g h i j k l m n));)*)*
        }

        /// The symbols; see `functions`.
        mod exports {
            use super::*;
            $($(variants!(@export $name, ($($ty),*) () (a b c d e f g h i j k l m n));)*)*
        }

        /// The functions of this file.
        pub(super) static TABLE: &[Entry] = &[$($(Entry {
            name: stringify!($name),
            address: implementation::$name as *const core::ffi::c_void,
            supported: true,
        }),*),*];
    };
    // Gives each parameter a name, to pass it on.
    (@define $vis:vis $name:ident, $base:path, ($ty:ty $(, $rest:ty)*) ($($arg:ident: $of:ty),*)
        ($next:ident $($names:ident)*)) => {
        variants!(@define $vis $name, $base, ($($rest),*) ($($arg: $of,)* $next: $ty) ($($names)*));
    };
    (@define $vis:vis $name:ident, $base:path, () ($($arg:ident: $of:ty),*) ($($names:ident)*)) => {
        $vis unsafe extern "C" fn $name($($arg: $of),*) -> cuda_sys::CUresult {
            // SAFETY: the caller's promise is the same.
            with_per_thread(|| unsafe { $base($($arg),*) })
        }
    };
    (@export $name:ident, ($ty:ty $(, $rest:ty)*) ($($arg:ident: $of:ty),*)
        ($next:ident $($names:ident)*)) => {
        variants!(@export $name, ($($rest),*) ($($arg: $of,)* $next: $ty) ($($names)*));
    };
    (@export $name:ident, () ($($arg:ident: $of:ty),*) ($($names:ident)*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $of),*) -> cuda_sys::CUresult {
            // SAFETY: the caller's promise is the same.
            unsafe { implementation::$name($($arg),*) }
        }
    };
}

variants! {
    event {
        cuEventRecordWithFlags_ptsz as cuEventRecordWithFlags(CUevent, CUstream, c_uint);
        cuEventRecord_ptsz as cuEventRecord(CUevent, CUstream);
    }
    graph_exec {
        cuGraphInstantiateWithParams_ptsz as cuGraphInstantiateWithParams(*mut CUgraphExec, CUgraph, *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
        cuGraphLaunch_ptsz as cuGraphLaunch(CUgraphExec, CUstream);
        cuGraphUpload_ptsz as cuGraphUpload(CUgraphExec, CUstream);
    }
    launch {
        cuLaunchCooperativeKernel_ptsz as cuLaunchCooperativeKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void);
        cuLaunchKernelEx_ptsz as cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
        cuLaunchKernel_ptsz as cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    }
    stream {
        cuLaunchHostFunc_ptsz as cuLaunchHostFunc(CUstream, CUhostFn, *mut c_void);
        cuLaunchHostFunc_v2_ptsz as cuLaunchHostFunc_v2(CUstream, CUhostFn, *mut c_void, c_uint);
        cuStreamAddCallback_ptsz as cuStreamAddCallback(CUstream, CUstreamCallback, *mut c_void, c_uint);
        cuStreamAttachMemAsync_ptsz as cuStreamAttachMemAsync(CUstream, CUdeviceptr, usize, c_uint);
        cuStreamCopyAttributes_ptsz as cuStreamCopyAttributes(CUstream, CUstream);
        cuStreamGetAttribute_ptsz as cuStreamGetAttribute(CUstream, CUstreamAttrID, *mut CUstreamAttrValue);
        cuStreamGetCtx_ptsz as cuStreamGetCtx(CUstream, *mut CUcontext);
        cuStreamGetCtx_v2_ptsz as cuStreamGetCtx_v2(CUstream, *mut CUcontext, *mut CUgreenCtx);
        cuStreamGetDevice_ptsz as cuStreamGetDevice(CUstream, *mut CUdevice);
        cuStreamGetFlags_ptsz as cuStreamGetFlags(CUstream, *mut c_uint);
        cuStreamGetId_ptsz as cuStreamGetId(CUstream, *mut c_ulonglong);
        cuStreamGetPriority_ptsz as cuStreamGetPriority(CUstream, *mut c_int);
        cuStreamQuery_ptsz as cuStreamQuery(CUstream);
        cuStreamSetAttribute_ptsz as cuStreamSetAttribute(CUstream, CUstreamAttrID, *const CUstreamAttrValue);
        cuStreamSynchronize_ptsz as cuStreamSynchronize(CUstream);
        cuStreamWaitEvent_ptsz as cuStreamWaitEvent(CUstream, CUevent, c_uint);
    }
    pool {
        cuMemAllocAsync_ptsz as cuMemAllocAsync(*mut CUdeviceptr, usize, CUstream);
        cuMemAllocFromPoolAsync_ptsz as cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
        cuMemFreeAsync_ptsz as cuMemFreeAsync(CUdeviceptr, CUstream);
    }
    advice {
        cuMemDiscardAndPrefetchBatchAsync_ptsz as cuMemDiscardAndPrefetchBatchAsync(*mut CUdeviceptr, *mut usize, usize, *mut CUmemLocation, *mut usize, usize, c_ulonglong, CUstream);
        cuMemDiscardBatchAsync_ptsz as cuMemDiscardBatchAsync(*mut CUdeviceptr, *mut usize, usize, c_ulonglong, CUstream);
        cuMemPrefetchBatchAsync_ptsz as cuMemPrefetchBatchAsync(*mut CUdeviceptr, *mut usize, usize, *mut CUmemLocation, *mut usize, usize, c_ulonglong, CUstream);
        cuMemPrefetchAsync_ptsz as cuMemPrefetchAsync(CUdeviceptr, usize, CUdevice, CUstream);
        cuMemPrefetchAsync_v2_ptsz as cuMemPrefetchAsync_v2(CUdeviceptr, usize, CUmemLocation, c_uint, CUstream);
    }
    copy_shaped {
        cuMemcpy2DAsync_v2_ptsz as cuMemcpy2DAsync_v2(*const CUDA_MEMCPY2D, CUstream);
        cuMemcpy2DUnaligned_v2_ptds as cuMemcpy2DUnaligned_v2(*const CUDA_MEMCPY2D);
        cuMemcpy2D_v2_ptds as cuMemcpy2D_v2(*const CUDA_MEMCPY2D);
        cuMemcpy3DAsync_v2_ptsz as cuMemcpy3DAsync_v2(*const CUDA_MEMCPY3D, CUstream);
        cuMemcpy3DPeerAsync_ptsz as cuMemcpy3DPeerAsync(*const CUDA_MEMCPY3D_PEER, CUstream);
        cuMemcpy3DPeer_ptds as cuMemcpy3DPeer(*const CUDA_MEMCPY3D_PEER);
        cuMemcpy3D_v2_ptds as cuMemcpy3D_v2(*const CUDA_MEMCPY3D);
    }
    array_copy {
        cuMemcpyAtoA_v2_ptds as cuMemcpyAtoA_v2(CUarray, usize, CUarray, usize, usize);
        cuMemcpyAtoD_v2_ptds as cuMemcpyAtoD_v2(CUdeviceptr, CUarray, usize, usize);
        cuMemcpyAtoHAsync_v2_ptsz as cuMemcpyAtoHAsync_v2(*mut c_void, CUarray, usize, usize, CUstream);
        cuMemcpyAtoH_v2_ptds as cuMemcpyAtoH_v2(*mut c_void, CUarray, usize, usize);
        cuMemcpyDtoA_v2_ptds as cuMemcpyDtoA_v2(CUarray, usize, CUdeviceptr, usize);
        cuMemcpyHtoAAsync_v2_ptsz as cuMemcpyHtoAAsync_v2(CUarray, usize, *const c_void, usize, CUstream);
        cuMemcpyHtoA_v2_ptds as cuMemcpyHtoA_v2(CUarray, usize, *const c_void, usize);
    }
    copy {
        cuMemcpyAsync_ptsz as cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
        cuMemcpyBatchAsync_v2_ptsz as cuMemcpyBatchAsync_v2(*mut CUdeviceptr, *mut CUdeviceptr, *mut usize, usize, *mut CUmemcpyAttributes, *mut usize, usize, CUstream);
        cuMemcpyDtoDAsync_v2_ptsz as cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
        cuMemcpyDtoD_v2_ptds as cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, usize);
        cuMemcpyDtoHAsync_v2_ptsz as cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
        cuMemcpyDtoH_v2_ptds as cuMemcpyDtoH_v2(*mut c_void, CUdeviceptr, usize);
        cuMemcpyHtoDAsync_v2_ptsz as cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
        cuMemcpyHtoD_v2_ptds as cuMemcpyHtoD_v2(CUdeviceptr, *const c_void, usize);
        cuMemcpyPeerAsync_ptsz as cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
        cuMemcpyPeer_ptds as cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize);
        cuMemcpy_ptds as cuMemcpy(CUdeviceptr, CUdeviceptr, usize);
    }
    fill {
        cuMemsetD16Async_ptsz as cuMemsetD16Async(CUdeviceptr, c_ushort, usize, CUstream);
        cuMemsetD16_v2_ptds as cuMemsetD16_v2(CUdeviceptr, c_ushort, usize);
        cuMemsetD2D16Async_ptsz as cuMemsetD2D16Async(CUdeviceptr, usize, c_ushort, usize, usize, CUstream);
        cuMemsetD2D16_v2_ptds as cuMemsetD2D16_v2(CUdeviceptr, usize, c_ushort, usize, usize);
        cuMemsetD2D32Async_ptsz as cuMemsetD2D32Async(CUdeviceptr, usize, c_uint, usize, usize, CUstream);
        cuMemsetD2D32_v2_ptds as cuMemsetD2D32_v2(CUdeviceptr, usize, c_uint, usize, usize);
        cuMemsetD2D8Async_ptsz as cuMemsetD2D8Async(CUdeviceptr, usize, c_uchar, usize, usize, CUstream);
        cuMemsetD2D8_v2_ptds as cuMemsetD2D8_v2(CUdeviceptr, usize, c_uchar, usize, usize);
        cuMemsetD32Async_ptsz as cuMemsetD32Async(CUdeviceptr, c_uint, usize, CUstream);
        cuMemsetD32_v2_ptds as cuMemsetD32_v2(CUdeviceptr, c_uint, usize);
        cuMemsetD8Async_ptsz as cuMemsetD8Async(CUdeviceptr, c_uchar, usize, CUstream);
        cuMemsetD8_v2_ptds as cuMemsetD8_v2(CUdeviceptr, c_uchar, usize);
        cuStreamBatchMemOp_ptsz as cuStreamBatchMemOp(CUstream, c_uint, *mut CUstreamBatchMemOpParams, c_uint);
        cuStreamBatchMemOp_v2_ptsz as cuStreamBatchMemOp_v2(CUstream, c_uint, *mut CUstreamBatchMemOpParams, c_uint);
        cuStreamWaitValue32_ptsz as cuStreamWaitValue32(CUstream, CUdeviceptr, cuuint32_t, c_uint);
        cuStreamWaitValue32_v2_ptsz as cuStreamWaitValue32_v2(CUstream, CUdeviceptr, cuuint32_t, c_uint);
        cuStreamWaitValue64_ptsz as cuStreamWaitValue64(CUstream, CUdeviceptr, cuuint64_t, c_uint);
        cuStreamWaitValue64_v2_ptsz as cuStreamWaitValue64_v2(CUstream, CUdeviceptr, cuuint64_t, c_uint);
        cuStreamWriteValue32_ptsz as cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, c_uint);
        cuStreamWriteValue32_v2_ptsz as cuStreamWriteValue32_v2(CUstream, CUdeviceptr, cuuint32_t, c_uint);
        cuStreamWriteValue64_ptsz as cuStreamWriteValue64(CUstream, CUdeviceptr, cuuint64_t, c_uint);
        cuStreamWriteValue64_v2_ptsz as cuStreamWriteValue64_v2(CUstream, CUdeviceptr, cuuint64_t, c_uint);
    }
    capture {
        cuStreamBeginCaptureToGraph_ptsz as cuStreamBeginCaptureToGraph(CUstream, CUgraph, *const CUgraphNode, *const CUgraphEdgeData, usize, CUstreamCaptureMode);
        cuStreamBeginCapture_ptsz as cuStreamBeginCapture(CUstream);
        cuStreamBeginCapture_v2_ptsz as cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
        cuStreamEndCapture_ptsz as cuStreamEndCapture(CUstream, *mut CUgraph);
        cuStreamGetCaptureInfo_ptsz as cuStreamGetCaptureInfo(CUstream, *mut CUstreamCaptureStatus, *mut cuuint64_t);
        cuStreamGetCaptureInfo_v2_ptsz as cuStreamGetCaptureInfo_v2(CUstream, *mut CUstreamCaptureStatus, *mut cuuint64_t, *mut CUgraph, *mut *const CUgraphNode, *mut usize);
        cuStreamGetCaptureInfo_v3_ptsz as cuStreamGetCaptureInfo_v3(CUstream, *mut CUstreamCaptureStatus, *mut cuuint64_t, *mut CUgraph, *mut *const CUgraphNode, *mut *const CUgraphEdgeData, *mut usize);
        cuStreamIsCapturing_ptsz as cuStreamIsCapturing(CUstream, *mut CUstreamCaptureStatus);
        cuStreamUpdateCaptureDependencies_ptsz as cuStreamUpdateCaptureDependencies(CUstream, *mut CUgraphNode, usize, c_uint);
        cuStreamUpdateCaptureDependencies_v2_ptsz as cuStreamUpdateCaptureDependencies_v2(CUstream, *mut CUgraphNode, *const CUgraphEdgeData, usize, c_uint);
    }
}
