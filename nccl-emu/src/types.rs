//! The types of `nccl.h`, as NCCL 2.28 declares them. Of a configuration only `blocking` changes anything here; `size`,
//! `magic` and the values that NCCL checks are checked.

#![allow(non_camel_case_types, reason = "the header's names")]

use core::ffi::{c_int, c_void};

pub use cuda_sys::nccl::*;

/// The version of the API that this crate implements: 2.28.3.
pub const NCCL_VERSION_CODE: c_int = nccl_version(2, 28, 3);

/// A stream of the CUDA runtime, which is a `CUstream` of the driver.
pub type cudaStream_t = cuda_sys::CUstream;

/// Untyped memory that a function reads.
pub type Buffer = *const c_void;

/// Untyped memory that a function writes.
pub type BufferMut = *mut c_void;
