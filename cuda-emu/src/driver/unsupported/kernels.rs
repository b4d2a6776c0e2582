//! Old ways to launch kernels, and functions of libraries that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint, c_void};

use cuda_sys::{CUDA_LAUNCH_PARAMS, CUdeviceptr, CUfunction, CUlibrary, CUstream};

use crate::driver::call::refused;

refused! {
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
}
