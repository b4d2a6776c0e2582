//! Errors: the last one of each thread, names, and texts.

use core::ffi::{CStr, c_char};
use core::ptr;

use crate::bindings::runtime::{cudaError, cudaError_t};
use crate::{call, context};

/// The functions of this file.
pub const OTHERS: &[&str] =
    &["cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorName", "cudaGetErrorString"];

/// Returns the last error of this thread, and forgets it.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the header's name")]
pub unsafe extern "C" fn cudaGetLastError() -> cudaError_t {
    call::take_last()
}

/// Returns the last error of this thread.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the header's name")]
pub unsafe extern "C" fn cudaPeekAtLastError() -> cudaError_t {
    call::last()
}

/// Returns the name of a code.
///
/// # Safety
/// None: any code may be passed.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the header's name")]
pub unsafe extern "C" fn cudaGetErrorName(code: cudaError_t) -> *const c_char {
    let known = cudaError_t::ALL.iter().find(|(known, _)| *known == code);
    known.map_or(c"unrecognized error code", |(_, name)| name).as_ptr()
}

/// Returns the text of a code.
///
/// # Safety
/// None: any code may be passed.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the header's name")]
pub unsafe extern "C" fn cudaGetErrorString(code: cudaError_t) -> *const c_char {
    if let Some(text) = text(code) {
        return text.as_ptr();
    }
    if !cudaError_t::ALL.iter().any(|(known, _)| *known == code) {
        return c"unrecognized error code".as_ptr();
    }
    // Codes that are the driver's, too.
    let mut found = ptr::null();
    let asked = context::loaded().map(|driver| {
        // SAFETY: the place is valid for the write.
        call::check(unsafe { driver.cuGetErrorString(cuda_sys::CUresult(code.0), &raw mut found) })
    });
    if asked == Some(Ok(())) && !found.is_null() {
        return found;
    }
    // SAFETY: any code may be passed.
    unsafe { cudaGetErrorName(code) }
}

/// Returns the text of a code that the driver lacks, or that is needed where there is no driver.
fn text(code: cudaError_t) -> Option<&'static CStr> {
    use cudaError as Of;
    Some(match code {
        Of::cudaSuccess => c"no error",
        Of::cudaErrorInvalidValue => c"invalid argument",
        Of::cudaErrorMemoryAllocation => c"out of memory",
        Of::cudaErrorInitializationError => c"initialization error",
        Of::cudaErrorCudartUnloading => c"driver shutting down",
        Of::cudaErrorInvalidConfiguration => c"invalid configuration argument",
        Of::cudaErrorInvalidPitchValue => c"invalid pitch argument",
        Of::cudaErrorInvalidSymbol => c"invalid device symbol",
        Of::cudaErrorInvalidChannelDescriptor => c"invalid channel descriptor",
        Of::cudaErrorInvalidMemcpyDirection => c"invalid copy direction for memcpy",
        Of::cudaErrorInsufficientDriver => {
            c"CUDA driver version is insufficient for CUDA runtime version"
        }
        Of::cudaErrorCallRequiresNewerDriver => {
            c"API call is not supported in the installed CUDA driver"
        }
        Of::cudaErrorMissingConfiguration => c"__global__ function call is not configured",
        Of::cudaErrorInvalidDeviceFunction => c"invalid device function",
        Of::cudaErrorNoDevice => c"no CUDA-capable device is detected",
        Of::cudaErrorInvalidDevice => c"invalid device ordinal",
        Of::cudaErrorInvalidKernelImage => c"device kernel image is invalid",
        Of::cudaErrorDeviceUninitialized => c"invalid device context",
        Of::cudaErrorNoKernelImageForDevice => {
            c"no kernel image is available for execution on the device"
        }
        Of::cudaErrorInvalidPtx => c"a PTX JIT compilation failed",
        Of::cudaErrorUnsupportedPtxVersion => {
            c"the provided PTX was compiled with an unsupported toolchain."
        }
        Of::cudaErrorInvalidResourceHandle => c"invalid resource handle",
        Of::cudaErrorSymbolNotFound => c"named symbol not found",
        Of::cudaErrorNotReady => c"device not ready",
        Of::cudaErrorIllegalAddress => c"an illegal memory access was encountered",
        Of::cudaErrorLaunchOutOfResources => c"too many resources requested for launch",
        Of::cudaErrorAssert => c"device-side assert triggered",
        Of::cudaErrorMisalignedAddress => c"misaligned address",
        Of::cudaErrorLaunchFailure => c"unspecified launch failure",
        Of::cudaErrorCooperativeLaunchTooLarge => c"too many blocks in cooperative launch",
        Of::cudaErrorNotPermitted => c"operation not permitted",
        Of::cudaErrorNotSupported => c"operation not supported",
        Of::cudaErrorStreamCaptureUnsupported => {
            c"operation not permitted when stream is capturing"
        }
        Of::cudaErrorStreamCaptureInvalidated => {
            c"operation failed due to a previous error during capture"
        }
        Of::cudaErrorUnknown => c"unknown error",
        _ => return None,
    })
}
