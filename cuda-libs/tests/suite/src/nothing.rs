//! A cuBLAS that does nothing, to count and measure what this crate does beside it.

use std::ffi::{CStr, c_void};

use cuda_libs::{CublasLibrary, Result};
use cuda_safe::sys::cublas::{cublasHandle_t, cublasStatus_t, libraryPropertyType};

const OK: cublasStatus_t = cublasStatus_t::CUBLAS_STATUS_SUCCESS;

extern "C" fn property(which: libraryPropertyType, value: *mut i32) -> cublasStatus_t {
    // SAFETY: valid for one write.
    unsafe { *value = if which == libraryPropertyType::MAJOR_VERSION { 13 } else { 0 } };
    OK
}

extern "C" fn create(handle: *mut cublasHandle_t) -> cublasStatus_t {
    // SAFETY: valid for one write.
    unsafe { *handle = std::ptr::dangling_mut() };
    OK
}

/// Ignores its arguments, which the C ABI of the supported systems allows.
extern "C" fn nothing() -> cublasStatus_t {
    OK
}

/// Returns the library.
///
/// # Errors
/// None is expected.
pub fn library() -> Result<CublasLibrary> {
    // SAFETY: no function is another one.
    unsafe { library_with(|_| None) }
}

/// Returns the library with some other functions.
///
/// # Safety
/// The functions have the C ABI of their names, or no arguments.
pub(crate) unsafe fn library_with(
    others: impl Fn(&CStr) -> Option<extern "C" fn() -> cublasStatus_t>,
) -> Result<CublasLibrary> {
    let resolve = |name: &CStr| match name.to_bytes() {
        b"cublasGetProperty" => property as *const c_void,
        b"cublasCreate_v2" => create as *const c_void,
        _ => others(name).unwrap_or(nothing) as *const c_void,
    };
    // SAFETY: the functions are called with the arguments of the header, which they ignore or write as it says; those of
    // the caller by its promise.
    unsafe { CublasLibrary::from_resolver(&resolve) }
}
