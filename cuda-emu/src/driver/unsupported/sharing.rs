//! Memory and semaphores of other processes, devices and libraries that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    CUDA_FABRIC_COPY_BATCH_OP, CUarray, CUdevice, CUdeviceptr, CUevent, CUexternalMemory,
    CUexternalSemaphore, CUgraphicsResource, CUipcEventHandle, CUipcMemHandle, CUlogicalEndpointId,
    CUlogicalEndpointIpcHandleType, CUlogicalEndpointProp, CUmemGenericAllocationHandle,
    CUmipmappedArray, CUstream, cuuint32_t, cuuint64_t,
};

use crate::driver::call::refused;

refused! {
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
    fn cuIpcCloseMemHandle(CUdeviceptr);
    fn cuIpcGetEventHandle(*mut CUipcEventHandle, CUevent);
    fn cuIpcGetMemHandle(*mut CUipcMemHandle, CUdeviceptr);
    fn cuIpcOpenEventHandle(*mut CUevent, CUipcEventHandle);
    fn cuIpcOpenMemHandle(*mut CUdeviceptr, CUipcMemHandle, c_uint);
    fn cuIpcOpenMemHandle_v2(*mut CUdeviceptr, CUipcMemHandle, c_uint);
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
