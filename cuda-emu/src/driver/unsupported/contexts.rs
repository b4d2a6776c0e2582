//! Green contexts, resources of devices, and other functions of contexts and devices that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUasyncCallback, CUasyncCallbackHandle, CUatomicOperation,
    CUcliqueInfo, CUcontext, CUdevResource, CUdevResourceDesc, CUdevResourceType, CUdevice,
    CUevent, CUexecAffinityParam, CUexecAffinityType, CUgreenCtx, CUstream, CUuuid,
};

use crate::driver::call::refused;

refused! {
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
}
