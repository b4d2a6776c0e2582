//! Functions that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUDA_ARRAY_DESCRIPTOR, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    CUDA_FABRIC_COPY_BATCH_OP, CUDA_LAUNCH_PARAMS, CUDA_MEMCPY3D_BATCH_OP, CUaddress_mode, CUarray,
    CUarray_format, CUarrayMapInfo, CUasyncCallback, CUasyncCallbackHandle, CUatomicOperation,
    CUcheckpointCheckpointArgs, CUcheckpointLockArgs, CUcheckpointOperationHandle,
    CUcheckpointRestoreArgs, CUcheckpointUnlockArgs, CUcliqueInfo, CUcontext,
    CUcoredumpCallbackHandle, CUcoredumpSettings, CUcoredumpStatusCallback, CUdevResource,
    CUdevResourceDesc, CUdevResourceType, CUdevice, CUdeviceptr, CUevent, CUexecAffinityParam,
    CUexecAffinityType, CUexternalMemory, CUexternalSemaphore, CUfilter_mode, CUfunction, CUgraph,
    CUgraphExec, CUgraphNode, CUgraphRecaptureCallback, CUgraphicsResource, CUgreenCtx, CUlibrary,
    CUlogIterator, CUlogicalEndpointId, CUlogicalEndpointIpcHandleType, CUlogicalEndpointProp,
    CUlogsCallback, CUlogsCallbackHandle, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemDecompressParams,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemPoolPtrExportData, CUmemRangeHandleType,
    CUmemcpyAttributes, CUmemoryPool, CUmipmappedArray, CUmodule, CUmulticastGranularity_flags,
    CUmulticastObjectProp, CUprocessState, CUstream, CUstreamCaptureMode, CUstreamCigCaptureParams,
    CUsurfref, CUtensorMap, CUtensorMapAllocClass, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapIm2ColWideMode, CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
    CUtexref, CUuuid, cuuint32_t, cuuint64_t,
};

use crate::driver::call::refused;

refused! {
    // Arrays, textures, surfaces and tensor maps.
    fn cuMemMapArrayAsync(*mut CUarrayMapInfo, c_uint, CUstream);
    fn cuModuleGetSurfRef(*mut CUsurfref, CUmodule, *const c_char);
    fn cuModuleGetTexRef(*mut CUtexref, CUmodule, *const c_char);
    fn cuParamSetTexRef(CUfunction, c_int, CUtexref);
    fn cuSurfRefGetArray(*mut CUarray, CUsurfref);
    fn cuSurfRefSetArray(CUsurfref, CUarray, c_uint);
    fn cuTensorMapEncodeIm2col(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, *const c_int, *const c_int, cuuint32_t, cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapEncodeIm2colWide(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, c_int, c_int, cuuint32_t, cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapEncodeTiled(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, *const cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapReplaceAddress(*mut CUtensorMap, *mut c_void);
    fn cuTensorMapSetAllocationClass(*mut CUtensorMap, CUtensorMapAllocClass, *mut CUtensorMapAllocClass);
    fn cuTexRefCreate(*mut CUtexref);
    fn cuTexRefDestroy(CUtexref);
    fn cuTexRefGetAddressMode(*mut CUaddress_mode, CUtexref, c_int);
    fn cuTexRefGetAddress_v2(*mut CUdeviceptr, CUtexref);
    fn cuTexRefGetArray(*mut CUarray, CUtexref);
    fn cuTexRefGetBorderColor(*mut f32, CUtexref);
    fn cuTexRefGetFilterMode(*mut CUfilter_mode, CUtexref);
    fn cuTexRefGetFlags(*mut c_uint, CUtexref);
    fn cuTexRefGetFormat(*mut CUarray_format, *mut c_int, CUtexref);
    fn cuTexRefGetMaxAnisotropy(*mut c_int, CUtexref);
    fn cuTexRefGetMipmapFilterMode(*mut CUfilter_mode, CUtexref);
    fn cuTexRefGetMipmapLevelBias(*mut f32, CUtexref);
    fn cuTexRefGetMipmapLevelClamp(*mut f32, *mut f32, CUtexref);
    fn cuTexRefGetMipmappedArray(*mut CUmipmappedArray, CUtexref);
    fn cuTexRefSetAddress2D_v2(CUtexref, *const CUDA_ARRAY_DESCRIPTOR, CUdeviceptr, usize);
    fn cuTexRefSetAddress2D_v3(CUtexref, *const CUDA_ARRAY_DESCRIPTOR, CUdeviceptr, usize);
    fn cuTexRefSetAddressMode(CUtexref, c_int, CUaddress_mode);
    fn cuTexRefSetAddress_v2(*mut usize, CUtexref, CUdeviceptr, usize);
    fn cuTexRefSetArray(CUtexref, CUarray, c_uint);
    fn cuTexRefSetBorderColor(CUtexref, *mut f32);
    fn cuTexRefSetFilterMode(CUtexref, CUfilter_mode);
    fn cuTexRefSetFlags(CUtexref, c_uint);
    fn cuTexRefSetFormat(CUtexref, CUarray_format, c_int);
    fn cuTexRefSetMaxAnisotropy(CUtexref, c_uint);
    fn cuTexRefSetMipmapFilterMode(CUtexref, CUfilter_mode);
    fn cuTexRefSetMipmapLevelBias(CUtexref, f32);
    fn cuTexRefSetMipmapLevelClamp(CUtexref, f32, f32);
    fn cuTexRefSetMipmappedArray(CUtexref, CUmipmappedArray, c_uint);

    // Green contexts, resources of devices, and other functions of contexts and devices.
    fn cuCtxAttach(*mut CUcontext, c_uint);
    fn cuCtxDetach(CUcontext);
    fn cuCtxFromGreenCtx(*mut CUcontext, CUgreenCtx);
    fn cuCtxGetDevResource(CUcontext, *mut CUdevResource, CUdevResourceType);
    fn cuCtxGetExecAffinity(*mut CUexecAffinityParam, CUexecAffinityType);
    fn cuDevResourceGenerateDesc(*mut CUdevResourceDesc, *mut CUdevResource, c_uint);
    fn cuDevSmResourceSplit(*mut CUdevResource, c_uint, *const CUdevResource, *mut CUdevResource, c_uint, *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS);
    fn cuDevSmResourceSplitByCount(*mut CUdevResource, *mut c_uint, *const CUdevResource, *mut CUdevResource, c_uint, c_uint);
    fn cuDeviceGetCliqueCount(*mut usize, CUdevice);
    fn cuDeviceGetCliqueInfo(*mut CUcliqueInfo, *mut usize, CUdevice);
    fn cuDeviceGetDevResource(CUdevice, *mut CUdevResource, CUdevResourceType);
    fn cuDeviceGetFabricClusterUuid(*mut CUuuid, CUdevice);
    fn cuDeviceGetHostAtomicCapabilities(*mut c_uint, *const CUatomicOperation, c_uint, CUdevice);
    fn cuDeviceGetNvSciSyncAttributes(*mut c_void, CUdevice, c_int);
    fn cuDeviceGetP2PAtomicCapabilities(*mut c_uint, *const CUatomicOperation, c_uint, CUdevice, CUdevice);
    fn cuDeviceRegisterAsyncNotification(CUdevice, CUasyncCallback, *mut c_void, *mut CUasyncCallbackHandle);
    fn cuDeviceUnregisterAsyncNotification(CUdevice, CUasyncCallbackHandle);
    fn cuGreenCtxCreate(*mut CUgreenCtx, CUdevResourceDesc, CUdevice, c_uint);
    fn cuGreenCtxDestroy(CUgreenCtx);
    fn cuGreenCtxGetDevResource(CUgreenCtx, *mut CUdevResource, CUdevResourceType);
    fn cuGreenCtxGetId(CUgreenCtx, *mut c_ulonglong);
    fn cuGreenCtxRecordEvent(CUgreenCtx, CUevent);
    fn cuGreenCtxStreamCreate(*mut CUstream, CUgreenCtx, c_uint, c_int);
    fn cuGreenCtxWaitEvent(CUgreenCtx, CUevent);
    fn cuStreamGetDevResource(CUstream, *mut CUdevResource, CUdevResourceType);
    fn cuStreamGetGreenCtx(CUstream, *mut CUgreenCtx);

    // Checkpoints, core dumps and logs.
    fn cuCheckpointOperationComplete(CUcheckpointOperationHandle);
    fn cuCheckpointProcessCheckpoint(c_int, *mut CUcheckpointCheckpointArgs);
    fn cuCheckpointProcessGetRestoreThreadId(c_int, *mut c_int);
    fn cuCheckpointProcessGetState(c_int, *mut CUprocessState);
    fn cuCheckpointProcessLock(c_int, *mut CUcheckpointLockArgs);
    fn cuCheckpointProcessRestore(c_int, *mut CUcheckpointRestoreArgs);
    fn cuCheckpointProcessUnlock(c_int, *mut CUcheckpointUnlockArgs);
    fn cuCoredumpDeregisterCompleteCallback(CUcoredumpCallbackHandle);
    fn cuCoredumpDeregisterStartCallback(CUcoredumpCallbackHandle);
    fn cuCoredumpGetAttribute(CUcoredumpSettings, *mut c_void, *mut usize);
    fn cuCoredumpGetAttributeGlobal(CUcoredumpSettings, *mut c_void, *mut usize);
    fn cuCoredumpRegisterCompleteCallback(CUcoredumpStatusCallback, *mut c_void, *mut CUcoredumpCallbackHandle);
    fn cuCoredumpRegisterStartCallback(CUcoredumpStatusCallback, *mut c_void, *mut CUcoredumpCallbackHandle);
    fn cuCoredumpSetAttribute(CUcoredumpSettings, *mut c_void, *mut usize);
    fn cuCoredumpSetAttributeGlobal(CUcoredumpSettings, *mut c_void, *mut usize);
    fn cuLogsCurrent(*mut CUlogIterator, c_uint);
    fn cuLogsDumpToFile(*mut CUlogIterator, *const c_char, c_uint);
    fn cuLogsDumpToMemory(*mut CUlogIterator, *mut c_char, *mut usize, c_uint);
    fn cuLogsRegisterCallback(CUlogsCallback, *mut c_void, *mut CUlogsCallbackHandle);
    fn cuLogsUnregisterCallback(CUlogsCallbackHandle);

    // Nodes of graphs, and kinds of capture.
    fn cuGraphAddBatchMemOpNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphAddExternalSemaphoresSignalNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphAddExternalSemaphoresWaitNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphBatchMemOpNodeGetParams(CUgraphNode, *mut CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphBatchMemOpNodeSetParams(CUgraphNode, *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphExecBatchMemOpNodeSetParams(CUgraphExec, CUgraphNode, *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphExecExternalSemaphoresSignalNodeSetParams(CUgraphExec, CUgraphNode, *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphExecExternalSemaphoresWaitNodeSetParams(CUgraphExec, CUgraphNode, *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphExternalSemaphoresSignalNodeGetParams(CUgraphNode, *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphExternalSemaphoresSignalNodeSetParams(CUgraphNode, *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphExternalSemaphoresWaitNodeGetParams(CUgraphNode, *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphExternalSemaphoresWaitNodeSetParams(CUgraphNode, *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphNodeGetLocalId(CUgraphNode, *mut c_uint);
    fn cuGraphNodeGetToolsId(CUgraphNode, *mut c_ulonglong);
    fn cuStreamBeginCaptureToCig(CUstream, *mut CUstreamCigCaptureParams);
    fn cuStreamBeginRecaptureToGraph(CUstream, CUstreamCaptureMode, CUgraph, CUgraphRecaptureCallback, *mut c_void);
    fn cuStreamEndCaptureToCig(CUstream);

    // Old ways to launch kernels, and functions of libraries.
    fn cuFuncSetBlockShape(CUfunction, c_int, c_int, c_int);
    fn cuFuncSetSharedSize(CUfunction, c_uint);
    fn cuLaunch(CUfunction);
    fn cuLaunchCooperativeKernelMultiDevice(*mut CUDA_LAUNCH_PARAMS, c_uint, c_uint);
    fn cuLaunchGrid(CUfunction, c_int, c_int);
    fn cuLaunchGridAsync(CUfunction, c_int, c_int, CUstream);
    fn cuLibraryGetManaged(*mut CUdeviceptr, *mut usize, CUlibrary, *const c_char);
    fn cuLibraryGetUnifiedFunction(*mut *mut c_void, CUlibrary, *const c_char);
    fn cuParamSetSize(CUfunction, c_uint);
    fn cuParamSetf(CUfunction, c_int, f32);
    fn cuParamSeti(CUfunction, c_int, c_uint);
    fn cuParamSetv(CUfunction, c_int, *mut c_void, c_uint);

    // Virtual memory management, multicast, and hints for batches.
    fn cuMemAddressFree(CUdeviceptr, usize);
    fn cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
    fn cuMemBatchDecompressAsync(*mut CUmemDecompressParams, usize, c_uint, *mut usize, CUstream);
    fn cuMemCreate(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
    fn cuMemExportToShareableHandle(*mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemGetAccess(*mut c_ulonglong, *const CUmemLocation, CUdeviceptr);
    fn cuMemGetAllocationGranularity(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    fn cuMemGetAllocationPropertiesFromHandle(*mut CUmemAllocationProp, CUmemGenericAllocationHandle);
    fn cuMemGetHandleForAddressRange(*mut c_void, CUdeviceptr, usize, CUmemRangeHandleType, c_ulonglong);
    fn cuMemGetLocationInfo(CUdeviceptr, usize, usize, usize, *mut CUmemLocation);
    fn cuMemImportFromShareableHandle(*mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType);
    fn cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    fn cuMemPoolExportPointer(*mut CUmemPoolPtrExportData, CUdeviceptr);
    fn cuMemPoolExportToShareableHandle(*mut c_void, CUmemoryPool, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemPoolImportFromShareableHandle(*mut CUmemoryPool, *mut c_void, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemPoolImportPointer(*mut CUdeviceptr, CUmemoryPool, *mut CUmemPoolPtrExportData);
    fn cuMemRelease(CUmemGenericAllocationHandle);
    fn cuMemRetainAllocationHandle(*mut CUmemGenericAllocationHandle, *mut c_void);
    fn cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    fn cuMemUnmap(CUdeviceptr, usize);
    fn cuMemcpy3DBatchAsync(usize, *mut CUDA_MEMCPY3D_BATCH_OP, *mut usize, c_ulonglong, CUstream);
    fn cuMemcpy3DBatchAsync_v2(usize, *mut CUDA_MEMCPY3D_BATCH_OP, c_ulonglong, CUstream);
    fn cuMemcpy3DWithAttributesAsync(*mut CUDA_MEMCPY3D_BATCH_OP, c_ulonglong, CUstream);
    fn cuMemcpyBatchAsync(*mut CUdeviceptr, *mut CUdeviceptr, *mut usize, usize, *mut CUmemcpyAttributes, *mut usize, usize, *mut usize, CUstream);
    fn cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, usize, *mut CUmemcpyAttributes, CUstream);
    fn cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
    fn cuMulticastBindAddr(CUmemGenericAllocationHandle, usize, CUdeviceptr, usize, c_ulonglong);
    fn cuMulticastBindAddr_v2(CUmemGenericAllocationHandle, CUdevice, usize, CUdeviceptr, usize, c_ulonglong);
    fn cuMulticastBindMem(CUmemGenericAllocationHandle, usize, CUmemGenericAllocationHandle, usize, usize, c_ulonglong);
    fn cuMulticastBindMem_v2(CUmemGenericAllocationHandle, CUdevice, usize, CUmemGenericAllocationHandle, usize, usize, c_ulonglong);
    fn cuMulticastCreate(*mut CUmemGenericAllocationHandle, *const CUmulticastObjectProp);
    fn cuMulticastGetGranularity(*mut usize, *const CUmulticastObjectProp, CUmulticastGranularity_flags);
    fn cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, usize, usize);

    // Memory and semaphores of other processes, devices and libraries.
    fn cuDestroyExternalMemory(CUexternalMemory);
    fn cuDestroyExternalSemaphore(CUexternalSemaphore);
    fn cuExternalMemoryGetMappedBuffer(*mut CUdeviceptr, CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    fn cuExternalMemoryGetMappedMipmappedArray(*mut CUmipmappedArray, CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC);
    fn cuFabricCpyBatchAsync(usize, *mut CUDA_FABRIC_COPY_BATCH_OP, c_ulonglong, CUstream);
    fn cuGraphicsMapResources(c_uint, *mut CUgraphicsResource, CUstream);
    fn cuGraphicsResourceGetMappedMipmappedArray(*mut CUmipmappedArray, CUgraphicsResource);
    fn cuGraphicsResourceGetMappedPointer_v2(*mut CUdeviceptr, *mut usize, CUgraphicsResource);
    fn cuGraphicsResourceSetMapFlags(CUgraphicsResource, c_uint);
    fn cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource, c_uint);
    fn cuGraphicsSubResourceGetMappedArray(*mut CUarray, CUgraphicsResource, c_uint, c_uint);
    fn cuGraphicsUnmapResources(c_uint, *mut CUgraphicsResource, CUstream);
    fn cuGraphicsUnregisterResource(CUgraphicsResource);
    fn cuImportExternalMemory(*mut CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
    fn cuImportExternalSemaphore(*mut CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC);
    fn cuLogicalEndpointAddDevice(CUlogicalEndpointId, CUdevice);
    fn cuLogicalEndpointBindAddr(CUlogicalEndpointId, CUdevice, cuuint64_t, *mut c_void, cuuint64_t, c_ulonglong);
    fn cuLogicalEndpointBindMem(CUlogicalEndpointId, CUdevice, cuuint64_t, CUmemGenericAllocationHandle, cuuint64_t, cuuint64_t, c_ulonglong);
    fn cuLogicalEndpointCreate(CUlogicalEndpointId, *const CUlogicalEndpointProp);
    fn cuLogicalEndpointDestroy(CUlogicalEndpointId);
    fn cuLogicalEndpointExport(*mut c_void, CUlogicalEndpointId, CUlogicalEndpointIpcHandleType);
    fn cuLogicalEndpointGetLimits(*mut cuuint64_t, *mut cuuint64_t, *const CUlogicalEndpointProp);
    fn cuLogicalEndpointIdRelease(CUlogicalEndpointId, cuuint32_t);
    fn cuLogicalEndpointIdReserve(*mut CUlogicalEndpointId, cuuint32_t);
    fn cuLogicalEndpointImport(CUlogicalEndpointId, *const c_void, CUlogicalEndpointIpcHandleType);
    fn cuLogicalEndpointQuery(CUlogicalEndpointId, cuuint32_t, *mut c_int);
    fn cuLogicalEndpointUnbind(CUlogicalEndpointId, CUdevice, cuuint64_t, cuuint64_t);
    fn cuSignalExternalSemaphoresAsync(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, c_uint, CUstream);
    fn cuWaitExternalSemaphoresAsync(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, c_uint, CUstream);
}

/// Functions of headers other than `cuda.h` that this device does not have. Some programs load them with the driver's others, and do not start if one has no address.
pub(super) mod other_headers {
    use core::ffi::{c_char, c_int, c_uint};

    use cuda_sys::{CUdevice, CUgraphicsResource, CUstream};

    use crate::driver::call::refused_of_other_headers;

    refused_of_other_headers! {
        fn cuGLGetDevices_v2(*mut c_uint, *mut CUdevice, c_uint, c_uint);
        fn cuGraphicsGLRegisterBuffer(*mut CUgraphicsResource, c_uint, c_uint);
        fn cuGraphicsGLRegisterImage(*mut CUgraphicsResource, c_uint, c_uint, c_uint);
        // The ABI before CUDA 3.2: some programs look it up by this name, and call the newer one.
        fn cuGraphicsResourceGetMappedPointer(*mut c_uint, *mut c_uint, CUgraphicsResource);
        // The same: `matrixMulDynlinkJIT` of NVIDIA's samples does not start without it.
        fn cuMemcpyDtoDAsync(c_uint, c_uint, c_uint, CUstream);
        // Drivers from CUDA 12.0 on refuse it too.
        fn cuProfilerInitialize(*const c_char, *const c_char, c_int);
    }
}
