//! Errors: the last one of each thread, names, and texts.

use core::ffi::{CStr, c_char};

use crate::bindings::runtime::{cudaError, cudaError_t};
use crate::call;

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
    let shared = || cuda_sys::CUresult(code.0).driver_text();
    if let Some(text) = text(code).or_else(shared) {
        return text.as_ptr();
    }
    // SAFETY: any code may be passed.
    unsafe { cudaGetErrorName(code) }
}

/// Returns the text of a code that the driver lacks.
fn text(code: cudaError_t) -> Option<&'static CStr> {
    use cudaError as Of;
    Some(match code {
        Of::cudaErrorInvalidConfiguration => c"invalid configuration argument",
        Of::cudaErrorVersionTranslation => c"Driver is newer than runtime and returned parameters the runtime cannot process",
        Of::cudaErrorInvalidPitchValue => c"invalid pitch argument",
        Of::cudaErrorInvalidSymbol => c"invalid device symbol",
        Of::cudaErrorInvalidHostPointer => c"invalid host pointer",
        Of::cudaErrorInvalidDevicePointer => c"invalid device pointer",
        Of::cudaErrorInvalidTexture => c"invalid texture reference",
        Of::cudaErrorInvalidTextureBinding => c"texture is not bound to a pointer",
        Of::cudaErrorInvalidChannelDescriptor => c"invalid channel descriptor",
        Of::cudaErrorInvalidMemcpyDirection => c"invalid copy direction for memcpy",
        Of::cudaErrorAddressOfConstant => c"invalid address of constant",
        Of::cudaErrorTextureFetchFailed => c"fetch from texture failed",
        Of::cudaErrorTextureNotBound => c"cannot fetch from a texture that is not bound",
        Of::cudaErrorSynchronizationError => c"incorrect use of __syncthreads()",
        Of::cudaErrorInvalidFilterSetting => c"linear filtering not supported for non-float type",
        Of::cudaErrorInvalidNormSetting => c"read as normalized float not supported for data type",
        Of::cudaErrorMixedDeviceExecution => c"device emulation mode and device execution mode cannot be mixed",
        Of::cudaErrorNotYetImplemented => c"feature not yet implemented",
        Of::cudaErrorMemoryValueTooLarge => c"memory size or pointer value too large to fit in 32 bit",
        Of::cudaErrorInsufficientDriver => c"CUDA driver version is insufficient for CUDA runtime version",
        Of::cudaErrorInvalidSurface => c"invalid surface reference",
        Of::cudaErrorDuplicateVariableName => c"duplicate global variable looked up by string name",
        Of::cudaErrorDuplicateTextureName => c"duplicate texture looked up by string name",
        Of::cudaErrorDuplicateSurfaceName => c"duplicate surface looked up by string name",
        Of::cudaErrorIncompatibleDriverContext => c"incompatible driver context",
        Of::cudaErrorMissingConfiguration => c"__global__ function call is not configured",
        Of::cudaErrorPriorLaunchFailure => c"unspecified launch failure in prior launch",
        Of::cudaErrorLaunchMaxDepthExceeded => c"launch would exceed maximum depth of nested launches",
        Of::cudaErrorLaunchFileScopedTex => c"launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)",
        Of::cudaErrorLaunchFileScopedSurf => c"launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)",
        Of::cudaErrorSyncDepthExceeded => c"cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth",
        Of::cudaErrorLaunchPendingCountExceeded => c"launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount",
        Of::cudaErrorInvalidDeviceFunction => c"invalid device function",
        Of::cudaErrorSoftwareValidityNotEstablished => c"integrity checks failed",
        Of::cudaErrorStartupFailure => c"startup failure in cuda runtime",
        _ => return None,
    })
}
