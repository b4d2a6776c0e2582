//! Tangents through the driver, for programs that get this device at run time and do not link it: functions beside
//! those of `cuda.h`, which `cuGetProcAddress` finds. The crate's [`Tangents`] documents what they do.

use core::ffi::{c_char, c_int, c_uint};

use cuda_sys::{CUdeviceptr, CUresult};

use super::call::{Answer, functions_of_other_headers, put, put_text, text};
use crate::config::Config;
use crate::tangents::{Real, TangentError, Tangents};

/// Returns the type of numbers with this index.
fn real(index: c_uint) -> Answer<Real> {
    [Real::F16, Real::Bf16, Real::F32, Real::F64]
        .get(index as usize)
        .copied()
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

fn tracked() -> Answer<Tangents<'static>> {
    tangents().map_err(code)
}

fn code(error: TangentError) -> CUresult {
    match error {
        TangentError::Off => CUresult::CUDA_ERROR_NOT_SUPPORTED,
        TangentError::Misaligned { .. } => CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        _ => CUresult::CUDA_ERROR_INVALID_VALUE,
    }
}

/// Checks that a place is not null, unless it is for nothing.
fn given<T>(place: *const T, count: usize) -> Answer {
    if count != 0 && place.is_null() { Err(CUresult::CUDA_ERROR_INVALID_VALUE) } else { Ok(()) }
}

/// Returns the tangents of the process's devices.
///
/// # Errors
/// [`TangentError::Off`] if they are not tracked, or `cuInit` was not called.
pub fn tangents() -> Result<Tangents<'static>, TangentError> {
    // Marks of taint lie in the same place.
    let space = super::space().filter(|_| Config::active().tangents);
    space.and_then(Tangents::of).ok_or(TangentError::Off)
}

functions_of_other_headers! {
    // Sets the tangents of `count` numbers from an address on.
    Device fn cuEmuTangentsSet(
        address: CUdeviceptr, of: c_uint, count: usize, values: *const f64
    ) {
        let tangents = tracked()?;
        given(values, count)?;
        let values = match count {
            0 => &[],
            // SAFETY: not null, and the caller's promise.
            _ => unsafe { core::slice::from_raw_parts(values, count) },
        };
        tangents.set(address, real(of)?, values).map_err(code)
    }
    // Returns the tangents of `count` numbers from an address on. With a count of 0 it says whether they are tracked.
    Device fn cuEmuTangentsGet(
        address: CUdeviceptr, of: c_uint, count: usize, values: *mut f64
    ) {
        let tangents = tracked()?;
        given(values.cast_const(), count)?;
        for (at, value) in tangents.get(address, real(of)?, count).map_err(code)?.iter().enumerate() {
            // SAFETY: the place has room for `count` numbers, by the caller's promise.
            put(unsafe { values.add(at) }, *value)?;
        }
        Ok(())
    }
    // Sets the tangent of a number in an argument of all launches of the kernels of a name.
    Device fn cuEmuTangentsSetArgument(
        kernel: *const c_char, offset: usize, of: c_uint, value: f64
    ) {
        tracked()?.set_argument(text(kernel)?, offset, real(of)?, value).map_err(code)
    }
    // Makes the arguments of the kernels of a name constants again.
    Device fn cuEmuTangentsClearArguments(kernel: *const c_char) {
        tracked()?.clear_arguments_of(text(kernel)?);
        Ok(())
    }
    // Takes the instructions at which tangents were lost: how many, and the first as a text, cut to `bytes`.
    Device fn cuEmuTangentsLost(count: *mut usize, first: *mut c_char, bytes: c_int) {
        let lost = tracked()?.lost();
        put(count, lost.len())?;
        let first_lost = lost.first().map(ToString::to_string).unwrap_or_default();
        put_text(first, bytes, &first_lost)
    }
}
