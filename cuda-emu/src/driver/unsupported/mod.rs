//! Functions that this device does not have, the first half: they say so.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_MEMORY_REQUIREMENTS,
    CUDA_ARRAY_SPARSE_PROPERTIES, CUDA_ARRAY3D_DESCRIPTOR, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
    CUDA_FABRIC_COPY_BATCH_OP, CUDA_LAUNCH_PARAMS, CUarray, CUarray_format, CUasyncCallback,
    CUasyncCallbackHandle, CUatomicOperation, CUcheckpointCheckpointArgs, CUcheckpointLockArgs,
    CUcheckpointOperationHandle, CUcheckpointRestoreArgs, CUcheckpointUnlockArgs, CUcliqueInfo,
    CUcontext, CUcoredumpCallbackHandle, CUcoredumpSettings, CUcoredumpStatusCallback,
    CUdevResource, CUdevResourceDesc, CUdevResourceType, CUdevice, CUdeviceptr, CUevent,
    CUexecAffinityParam, CUexecAffinityType, CUexternalMemory, CUexternalSemaphore, CUfunction,
    CUgraph, CUgraphExec, CUgraphNode, CUgraphicsResource, CUgreenCtx, CUipcEventHandle,
    CUipcMemHandle, CUlibrary, CUlogicalEndpointId, CUmemGenericAllocationHandle, CUmipmappedArray,
    CUprocessState, CUstream, CUuuid, cuuint64_t,
};

use super::call::refused;

refused! {
    fn cuArray3DCreate_v2(*mut CUarray, *const CUDA_ARRAY3D_DESCRIPTOR);
    fn cuArray3DGetDescriptor_v2(*mut CUDA_ARRAY3D_DESCRIPTOR, CUarray);
    fn cuArrayCreate_v2(*mut CUarray, *const CUDA_ARRAY_DESCRIPTOR);
    fn cuArrayDestroy(CUarray);
    fn cuArrayGetDescriptor_v2(*mut CUDA_ARRAY_DESCRIPTOR, CUarray);
    fn cuArrayGetMemoryRequirements(*mut CUDA_ARRAY_MEMORY_REQUIREMENTS, CUarray, CUdevice);
    fn cuArrayGetPlane(*mut CUarray, CUarray, c_uint);
    fn cuArrayGetSparseProperties(*mut CUDA_ARRAY_SPARSE_PROPERTIES, CUarray);
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
    fn cuCtxAttach(*mut CUcontext, c_uint);
    fn cuCtxDetach(CUcontext);
    fn cuCtxFromGreenCtx(*mut CUcontext, CUgreenCtx);
    fn cuCtxGetDevResource(CUcontext, *mut CUdevResource, CUdevResourceType);
    fn cuCtxGetExecAffinity(*mut CUexecAffinityParam, CUexecAffinityType);
    fn cuDestroyExternalMemory(CUexternalMemory);
    fn cuDestroyExternalSemaphore(CUexternalSemaphore);
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
    fn cuDeviceGetTexture1DLinearMaxWidth(*mut usize, CUarray_format, c_uint, CUdevice);
    fn cuDeviceRegisterAsyncNotification(CUdevice, CUasyncCallback, *mut c_void, *mut CUasyncCallbackHandle);
    fn cuDeviceUnregisterAsyncNotification(CUdevice, CUasyncCallbackHandle);
    fn cuExternalMemoryGetMappedBuffer(*mut CUdeviceptr, CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    fn cuExternalMemoryGetMappedMipmappedArray(*mut CUmipmappedArray, CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC);
    fn cuFabricCpyBatchAsync(usize, *mut CUDA_FABRIC_COPY_BATCH_OP, c_ulonglong, CUstream);
    fn cuFuncSetBlockShape(CUfunction, c_int, c_int, c_int);
    fn cuFuncSetSharedSize(CUfunction, c_uint);
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
    fn cuGraphicsMapResources(c_uint, *mut CUgraphicsResource, CUstream);
    fn cuGraphicsResourceGetMappedMipmappedArray(*mut CUmipmappedArray, CUgraphicsResource);
    fn cuGraphicsResourceGetMappedPointer_v2(*mut CUdeviceptr, *mut usize, CUgraphicsResource);
    fn cuGraphicsResourceSetMapFlags(CUgraphicsResource, c_uint);
    fn cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource, c_uint);
    fn cuGraphicsSubResourceGetMappedArray(*mut CUarray, CUgraphicsResource, c_uint, c_uint);
    fn cuGraphicsUnmapResources(c_uint, *mut CUgraphicsResource, CUstream);
    fn cuGraphicsUnregisterResource(CUgraphicsResource);
    fn cuGreenCtxCreate(*mut CUgreenCtx, CUdevResourceDesc, CUdevice, c_uint);
    fn cuGreenCtxDestroy(CUgreenCtx);
    fn cuGreenCtxGetDevResource(CUgreenCtx, *mut CUdevResource, CUdevResourceType);
    fn cuGreenCtxGetId(CUgreenCtx, *mut c_ulonglong);
    fn cuGreenCtxRecordEvent(CUgreenCtx, CUevent);
    fn cuGreenCtxStreamCreate(*mut CUstream, CUgreenCtx, c_uint, c_int);
    fn cuGreenCtxWaitEvent(CUgreenCtx, CUevent);
    fn cuImportExternalMemory(*mut CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
    fn cuImportExternalSemaphore(*mut CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC);
    fn cuIpcCloseMemHandle(CUdeviceptr);
    fn cuIpcGetEventHandle(*mut CUipcEventHandle, CUevent);
    fn cuIpcGetMemHandle(*mut CUipcMemHandle, CUdeviceptr);
    fn cuIpcOpenEventHandle(*mut CUevent, CUipcEventHandle);
    fn cuIpcOpenMemHandle(*mut CUdeviceptr, CUipcMemHandle, c_uint);
    fn cuIpcOpenMemHandle_v2(*mut CUdeviceptr, CUipcMemHandle, c_uint);
    fn cuLaunch(CUfunction);
    fn cuLaunchCooperativeKernelMultiDevice(*mut CUDA_LAUNCH_PARAMS, c_uint, c_uint);
    fn cuLaunchGrid(CUfunction, c_int, c_int);
    fn cuLaunchGridAsync(CUfunction, c_int, c_int, CUstream);
    fn cuLibraryGetManaged(*mut CUdeviceptr, *mut usize, CUlibrary, *const c_char);
    fn cuLibraryGetUnifiedFunction(*mut *mut c_void, CUlibrary, *const c_char);
    fn cuLogicalEndpointAddDevice(CUlogicalEndpointId, CUdevice);
    fn cuLogicalEndpointBindAddr(CUlogicalEndpointId, CUdevice, cuuint64_t, *mut c_void, cuuint64_t, c_ulonglong);
    fn cuLogicalEndpointBindMem(CUlogicalEndpointId, CUdevice, cuuint64_t, CUmemGenericAllocationHandle, cuuint64_t, cuuint64_t, c_ulonglong);
}
