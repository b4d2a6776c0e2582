//! Functions of headers other than `cuda.h` that this device does not have. Some programs load them with the driver's
//! others, and do not start if one has no address.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint};

use cuda_sys::{CUdevice, CUgraphicsResource};

use crate::driver::call::refused_of_other_headers;

refused_of_other_headers! {
    fn cuGLGetDevices_v2(*mut c_uint, *mut CUdevice, c_uint, c_uint);
    fn cuGraphicsGLRegisterBuffer(*mut CUgraphicsResource, c_uint, c_uint);
    fn cuGraphicsGLRegisterImage(*mut CUgraphicsResource, c_uint, c_uint, c_uint);
    // The ABI before CUDA 3.2: some programs look it up by this name, and call the newer one.
    fn cuGraphicsResourceGetMappedPointer(*mut c_uint, *mut c_uint, CUgraphicsResource);
    // Drivers from CUDA 12.0 on refuse it too.
    fn cuProfilerInitialize(*const c_char, *const c_char, c_int);
}
