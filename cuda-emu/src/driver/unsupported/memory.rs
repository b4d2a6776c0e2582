//! Functions that this device does not have, the second half: they say so.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY_SPARSE_PROPERTIES,
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUDA_MEMCPY3D_BATCH_OP, CUDA_RESOURCE_DESC,
    CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUaddress_mode, CUarray, CUarray_format,
    CUarrayMapInfo, CUdevResource, CUdevResourceType, CUdevice, CUdeviceptr, CUexternalSemaphore,
    CUfilter_mode, CUfunction, CUgraph, CUgraphRecaptureCallback, CUgreenCtx, CUlogIterator,
    CUlogicalEndpointId, CUlogicalEndpointIpcHandleType, CUlogicalEndpointProp, CUlogsCallback,
    CUlogsCallbackHandle, CUmem_range_attribute, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemDecompressParams,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemPoolPtrExportData, CUmemRangeHandleType,
    CUmemcpyAttributes, CUmemoryPool, CUmipmappedArray, CUmodule, CUmulticastGranularity_flags,
    CUmulticastObjectProp, CUstream, CUstreamCaptureMode, CUstreamCigCaptureParams, CUsurfObject,
    CUsurfref, CUtensorMap, CUtensorMapAllocClass, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapIm2ColWideMode, CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
    CUtexObject, CUtexref, cuuint32_t, cuuint64_t,
};

use super::call::refused;

refused! {
    fn cuLogicalEndpointCreate(CUlogicalEndpointId, *const CUlogicalEndpointProp);
    fn cuLogicalEndpointDestroy(CUlogicalEndpointId);
    fn cuLogicalEndpointExport(*mut c_void, CUlogicalEndpointId, CUlogicalEndpointIpcHandleType);
    fn cuLogicalEndpointGetLimits(*mut cuuint64_t, *mut cuuint64_t, *const CUlogicalEndpointProp);
    fn cuLogicalEndpointIdRelease(CUlogicalEndpointId, cuuint32_t);
    fn cuLogicalEndpointIdReserve(*mut CUlogicalEndpointId, cuuint32_t);
    fn cuLogicalEndpointImport(CUlogicalEndpointId, *const c_void, CUlogicalEndpointIpcHandleType);
    fn cuLogicalEndpointQuery(CUlogicalEndpointId, cuuint32_t, *mut c_int);
    fn cuLogicalEndpointUnbind(CUlogicalEndpointId, CUdevice, cuuint64_t, cuuint64_t);
    fn cuLogsCurrent(*mut CUlogIterator, c_uint);
    fn cuLogsDumpToFile(*mut CUlogIterator, *const c_char, c_uint);
    fn cuLogsDumpToMemory(*mut CUlogIterator, *mut c_char, *mut usize, c_uint);
    fn cuLogsRegisterCallback(CUlogsCallback, *mut c_void, *mut CUlogsCallbackHandle);
    fn cuLogsUnregisterCallback(CUlogsCallbackHandle);
    fn cuMemAddressFree(CUdeviceptr, usize);
    fn cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
    fn cuMemBatchDecompressAsync(*mut CUmemDecompressParams, usize, c_uint, *mut usize, CUstream);
    fn cuMemCreate(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
    fn cuMemDiscardAndPrefetchBatchAsync(*mut CUdeviceptr, *mut usize, usize, *mut CUmemLocation, *mut usize, usize, c_ulonglong, CUstream);
    fn cuMemDiscardBatchAsync(*mut CUdeviceptr, *mut usize, usize, c_ulonglong, CUstream);
    fn cuMemExportToShareableHandle(*mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemGetAccess(*mut c_ulonglong, *const CUmemLocation, CUdeviceptr);
    fn cuMemGetAllocationGranularity(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    fn cuMemGetAllocationPropertiesFromHandle(*mut CUmemAllocationProp, CUmemGenericAllocationHandle);
    fn cuMemGetHandleForAddressRange(*mut c_void, CUdeviceptr, usize, CUmemRangeHandleType, c_ulonglong);
    fn cuMemGetLocationInfo(CUdeviceptr, usize, usize, usize, *mut CUmemLocation);
    fn cuMemImportFromShareableHandle(*mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType);
    fn cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    fn cuMemMapArrayAsync(*mut CUarrayMapInfo, c_uint, CUstream);
    fn cuMemPoolExportPointer(*mut CUmemPoolPtrExportData, CUdeviceptr);
    fn cuMemPoolExportToShareableHandle(*mut c_void, CUmemoryPool, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemPoolImportFromShareableHandle(*mut CUmemoryPool, *mut c_void, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemPoolImportPointer(*mut CUdeviceptr, CUmemoryPool, *mut CUmemPoolPtrExportData);
    fn cuMemPrefetchBatchAsync(*mut CUdeviceptr, *mut usize, usize, *mut CUmemLocation, *mut usize, usize, c_ulonglong, CUstream);
    fn cuMemRangeGetAttribute(*mut c_void, usize, CUmem_range_attribute, CUdeviceptr, usize);
    fn cuMemRangeGetAttributes(*mut *mut c_void, *mut usize, *mut CUmem_range_attribute, usize, CUdeviceptr, usize);
    fn cuMemRelease(CUmemGenericAllocationHandle);
    fn cuMemRetainAllocationHandle(*mut CUmemGenericAllocationHandle, *mut c_void);
    fn cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    fn cuMemUnmap(CUdeviceptr, usize);
    fn cuMemcpy3DBatchAsync(usize, *mut CUDA_MEMCPY3D_BATCH_OP, *mut usize, c_ulonglong, CUstream);
    fn cuMemcpy3DBatchAsync_v2(usize, *mut CUDA_MEMCPY3D_BATCH_OP, c_ulonglong, CUstream);
    fn cuMemcpy3DWithAttributesAsync(*mut CUDA_MEMCPY3D_BATCH_OP, c_ulonglong, CUstream);
    fn cuMemcpyAtoA_v2(CUarray, usize, CUarray, usize, usize);
    fn cuMemcpyAtoD_v2(CUdeviceptr, CUarray, usize, usize);
    fn cuMemcpyAtoHAsync_v2(*mut c_void, CUarray, usize, usize, CUstream);
    fn cuMemcpyAtoH_v2(*mut c_void, CUarray, usize, usize);
    fn cuMemcpyBatchAsync(*mut CUdeviceptr, *mut CUdeviceptr, *mut usize, usize, *mut CUmemcpyAttributes, *mut usize, usize, *mut usize, CUstream);
    fn cuMemcpyDtoA_v2(CUarray, usize, CUdeviceptr, usize);
    fn cuMemcpyHtoAAsync_v2(CUarray, usize, *const c_void, usize, CUstream);
    fn cuMemcpyHtoA_v2(CUarray, usize, *const c_void, usize);
    fn cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, usize, *mut CUmemcpyAttributes, CUstream);
    fn cuMipmappedArrayCreate(*mut CUmipmappedArray, *const CUDA_ARRAY3D_DESCRIPTOR, c_uint);
    fn cuMipmappedArrayDestroy(CUmipmappedArray);
    fn cuMipmappedArrayGetLevel(*mut CUarray, CUmipmappedArray, c_uint);
    fn cuMipmappedArrayGetMemoryRequirements(*mut CUDA_ARRAY_MEMORY_REQUIREMENTS, CUmipmappedArray, CUdevice);
    fn cuMipmappedArrayGetSparseProperties(*mut CUDA_ARRAY_SPARSE_PROPERTIES, CUmipmappedArray);
    fn cuModuleGetSurfRef(*mut CUsurfref, CUmodule, *const c_char);
    fn cuModuleGetTexRef(*mut CUtexref, CUmodule, *const c_char);
    fn cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
    fn cuMulticastBindAddr(CUmemGenericAllocationHandle, usize, CUdeviceptr, usize, c_ulonglong);
    fn cuMulticastBindAddr_v2(CUmemGenericAllocationHandle, CUdevice, usize, CUdeviceptr, usize, c_ulonglong);
    fn cuMulticastBindMem(CUmemGenericAllocationHandle, usize, CUmemGenericAllocationHandle, usize, usize, c_ulonglong);
    fn cuMulticastBindMem_v2(CUmemGenericAllocationHandle, CUdevice, usize, CUmemGenericAllocationHandle, usize, usize, c_ulonglong);
    fn cuMulticastCreate(*mut CUmemGenericAllocationHandle, *const CUmulticastObjectProp);
    fn cuMulticastGetGranularity(*mut usize, *const CUmulticastObjectProp, CUmulticastGranularity_flags);
    fn cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, usize, usize);
    fn cuParamSetSize(CUfunction, c_uint);
    fn cuParamSetTexRef(CUfunction, c_int, CUtexref);
    fn cuParamSetf(CUfunction, c_int, f32);
    fn cuParamSeti(CUfunction, c_int, c_uint);
    fn cuParamSetv(CUfunction, c_int, *mut c_void, c_uint);
    fn cuSignalExternalSemaphoresAsync(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, c_uint, CUstream);
    fn cuStreamBeginCaptureToCig(CUstream, *mut CUstreamCigCaptureParams);
    fn cuStreamBeginRecaptureToGraph(CUstream, CUstreamCaptureMode, CUgraph, CUgraphRecaptureCallback, *mut c_void);
    fn cuStreamEndCaptureToCig(CUstream);
    fn cuStreamGetDevResource(CUstream, *mut CUdevResource, CUdevResourceType);
    fn cuStreamGetGreenCtx(CUstream, *mut CUgreenCtx);
    fn cuSurfObjectCreate(*mut CUsurfObject, *const CUDA_RESOURCE_DESC);
    fn cuSurfObjectDestroy(CUsurfObject);
    fn cuSurfObjectGetResourceDesc(*mut CUDA_RESOURCE_DESC, CUsurfObject);
    fn cuSurfRefGetArray(*mut CUarray, CUsurfref);
    fn cuSurfRefSetArray(CUsurfref, CUarray, c_uint);
    fn cuTensorMapEncodeIm2col(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, *const c_int, *const c_int, cuuint32_t, cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapEncodeIm2colWide(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, c_int, c_int, cuuint32_t, cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapEncodeTiled(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, *const cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapReplaceAddress(*mut CUtensorMap, *mut c_void);
    fn cuTensorMapSetAllocationClass(*mut CUtensorMap, CUtensorMapAllocClass, *mut CUtensorMapAllocClass);
    fn cuTexObjectCreate(*mut CUtexObject, *const CUDA_RESOURCE_DESC, *const CUDA_TEXTURE_DESC, *const CUDA_RESOURCE_VIEW_DESC);
    fn cuTexObjectDestroy(CUtexObject);
    fn cuTexObjectGetResourceDesc(*mut CUDA_RESOURCE_DESC, CUtexObject);
    fn cuTexObjectGetResourceViewDesc(*mut CUDA_RESOURCE_VIEW_DESC, CUtexObject);
    fn cuTexObjectGetTextureDesc(*mut CUDA_TEXTURE_DESC, CUtexObject);
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
    fn cuWaitExternalSemaphoresAsync(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, c_uint, CUstream);
}
