//! Checkpoints, core dumps and logs that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint, c_void};

use cuda_sys::{
    CUcheckpointCheckpointArgs, CUcheckpointLockArgs, CUcheckpointOperationHandle,
    CUcheckpointRestoreArgs, CUcheckpointUnlockArgs, CUcoredumpCallbackHandle, CUcoredumpSettings,
    CUcoredumpStatusCallback, CUlogIterator, CUlogsCallback, CUlogsCallbackHandle, CUprocessState,
};

use crate::driver::call::refused;

refused! {
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
}
