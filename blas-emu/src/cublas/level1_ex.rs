//! Vectors whose types are arguments.

use core::ffi::{c_int, c_void};

use cuda_sys::cublas::{CublasFns, cublasHandle_t, cublasStatus_t, cudaDataType};

use super::args;
use super::level1::{Vector, elements, index, none, number};
use crate::call::{Result, functions};
use crate::kernels::{Compute, Scalar, each, fold};

/// Returns in which type a kernel computes on vectors of these types, all of which must be the same.
fn compute(types: &[cudaDataType], execution: Option<cudaDataType>) -> Result<Compute> {
    use cudaDataType as D;
    let first = types.first().copied().unwrap_or(D::CUDA_R_32F);
    let (compute, own) = match first {
        D::CUDA_R_16F | D::CUDA_R_16BF | D::CUDA_R_32F => (Compute::F32, D::CUDA_R_32F),
        D::CUDA_R_64F => (Compute::F64, first),
        D::CUDA_C_32F => (Compute::C32, first),
        D::CUDA_C_64F => (Compute::C64, first),
        other => return Err(args::unknown(format!("vectors of type {}", other.0))),
    };
    if let Some(other) = types.iter().find(|ty| **ty != first) {
        return Err(args::unknown(format!("vectors of types {} and {}", first.0, other.0)));
    }
    match execution {
        Some(execution) if execution != own => Err(args::unknown(format!(
            "execution in type {} on vectors of type {}",
            execution.0, first.0
        ))),
        _ => Ok(compute),
    }
}

/// Returns the type of a norm or sum of magnitudes.
fn real(ty: cudaDataType) -> cudaDataType {
    match ty {
        cudaDataType::CUDA_C_32F => cudaDataType::CUDA_R_32F,
        cudaDataType::CUDA_C_64F => cudaDataType::CUDA_R_64F,
        other => other,
    }
}

/// Checks the type of a result or factor: that of the vector, or in which it is computed.
fn same(name: &str, ty: cudaDataType, wanted: [cudaDataType; 2]) -> Result {
    if wanted.contains(&ty) {
        return Ok(());
    }
    Err(args::unknown(format!(
        "{name} of type {}: it must be {} or {}",
        ty.0, wanted[0].0, wanted[1].0
    )))
}

macro_rules! ex {
    ($($int:ty: $dot:ident $dotc:ident $nrm2:ident $asum:ident $axpy:ident $scal:ident $rot:ident $copy:ident $swap:ident;)*) => {
        functions! { cublasStatus_t, CublasFns, LEVEL1_EX;
            $(
            fn $dot(
                handle: cublasHandle_t, n: $int, x: *const c_void, xType: cudaDataType, incx: $int, y: *const c_void,
                yType: cudaDataType, incy: $int, result: *mut c_void, resultType: cudaDataType, executionType: cudaDataType,
            ) {
                let compute = compute(&[xType, yType, resultType], Some(executionType))?;
                let (x, y) = (Vector { at: x, ty: xType, inc: incx.into() }, Vector { at: y, ty: yType, inc: incy.into() });
                number(handle, compute, fold::DOT, n.into(), x, Some((y, false)), result, resultType)
            }
            fn $dotc(
                handle: cublasHandle_t, n: $int, x: *const c_void, xType: cudaDataType, incx: $int, y: *const c_void,
                yType: cudaDataType, incy: $int, result: *mut c_void, resultType: cudaDataType, executionType: cudaDataType,
            ) {
                let compute = compute(&[xType, yType, resultType], Some(executionType))?;
                let (x, y) = (Vector { at: x, ty: xType, inc: incx.into() }, Vector { at: y, ty: yType, inc: incy.into() });
                number(handle, compute, fold::DOT, n.into(), x, Some((y, true)), result, resultType)
            }
            fn $nrm2(
                handle: cublasHandle_t, n: $int, x: *const c_void, xType: cudaDataType, incx: $int, result: *mut c_void,
                resultType: cudaDataType, executionType: cudaDataType,
            ) {
                let compute = compute(&[xType], None)?;
                same("result", resultType, [real(xType); 2])?;
                same("execution", executionType, [real(xType), cudaDataType::CUDA_R_32F])?;
                let x = Vector { at: x, ty: xType, inc: incx.into() };
                number(handle, compute, fold::NORM, n.into(), x, None, result, resultType)
            }
            fn $asum(
                handle: cublasHandle_t, n: $int, x: *const c_void, xType: cudaDataType, incx: $int, result: *mut c_void,
                resultType: cudaDataType, executiontype: cudaDataType,
            ) {
                let compute = compute(&[xType], None)?;
                same("result", resultType, [real(xType); 2])?;
                same("execution", executiontype, [real(xType), cudaDataType::CUDA_R_32F])?;
                let x = Vector { at: x, ty: xType, inc: incx.into() };
                number(handle, compute, fold::ABSOLUTE_SUM, n.into(), x, None, result, resultType)
            }
            fn $axpy(
                handle: cublasHandle_t, n: $int, alpha: *const c_void, alphaType: cudaDataType, x: *const c_void,
                xType: cudaDataType, incx: $int, y: *mut c_void, yType: cudaDataType, incy: $int, executiontype: cudaDataType,
            ) {
                let compute = compute(&[xType, yType], Some(executiontype))?;
                same("alpha", alphaType, [executiontype, xType])?;
                let (x, y) = (Vector { at: x, ty: xType, inc: incx.into() }, Vector { at: y, ty: yType, inc: incy.into() });
                elements(handle, compute, each::AXPY, n.into(), [Some(x), Some(y)], |call| {
                    Ok([call.scalar("alpha", alpha, args::code(alphaType))?, Scalar::default()])
                })
            }
            fn $scal(
                handle: cublasHandle_t, n: $int, alpha: *const c_void, alphaType: cudaDataType, x: *mut c_void,
                xType: cudaDataType, incx: $int, executionType: cudaDataType,
            ) {
                let compute = compute(&[xType], Some(executionType))?;
                same("alpha", alphaType, [executionType, xType])?;
                let x = Vector { at: x, ty: xType, inc: incx.into() };
                elements(handle, compute, each::SCALE, n.into(), [Some(x), None], |call| {
                    Ok([call.scalar("alpha", alpha, args::code(alphaType))?, Scalar::default()])
                })
            }
            fn $rot(
                handle: cublasHandle_t, n: $int, x: *mut c_void, xType: cudaDataType, incx: $int, y: *mut c_void,
                yType: cudaDataType, incy: $int, c: *const c_void, s: *const c_void, csType: cudaDataType,
                executiontype: cudaDataType,
            ) {
                let compute = compute(&[xType, yType], Some(executiontype))?;
                same("c and s", csType, [real(xType), xType])?;
                let (x, y) = (Vector { at: x, ty: xType, inc: incx.into() }, Vector { at: y, ty: yType, inc: incy.into() });
                elements(handle, compute, each::ROTATE, n.into(), [Some(x), Some(y)], |call| {
                    let ty = args::code(csType);
                    // The cosine is real, in the type of both.
                    Ok([call.scalar("c", c, ty)?, call.scalar("s", s, ty)?])
                })
            }
            fn $copy(
                handle: cublasHandle_t, n: $int, x: *const c_void, xType: cudaDataType, incx: $int, y: *mut c_void,
                yType: cudaDataType, incy: $int,
            ) {
                let compute = compute(&[xType, yType], None)?;
                let (x, y) = (Vector { at: x, ty: xType, inc: incx.into() }, Vector { at: y, ty: yType, inc: incy.into() });
                elements(handle, compute, each::COPY, n.into(), [Some(x), Some(y)], none)
            }
            fn $swap(
                handle: cublasHandle_t, n: $int, x: *mut c_void, xType: cudaDataType, incx: $int, y: *mut c_void,
                yType: cudaDataType, incy: $int,
            ) {
                let compute = compute(&[xType, yType], None)?;
                let (x, y) = (Vector { at: x, ty: xType, inc: incx.into() }, Vector { at: y, ty: yType, inc: incy.into() });
                elements(handle, compute, each::SWAP, n.into(), [Some(x), Some(y)], none)
            }
            )*
            fn cublasIamaxEx(
                handle: cublasHandle_t, n: c_int, x: *const c_void, xType: cudaDataType, incx: c_int, result: *mut c_int,
            ) {
                let x = Vector { at: x, ty: xType, inc: incx.into() };
                number(handle, compute(&[xType], None)?, fold::GREATEST, n.into(), x, None, result.cast(), index(4))
            }
            fn cublasIaminEx(
                handle: cublasHandle_t, n: c_int, x: *const c_void, xType: cudaDataType, incx: c_int, result: *mut c_int,
            ) {
                let x = Vector { at: x, ty: xType, inc: incx.into() };
                number(handle, compute(&[xType], None)?, fold::LEAST, n.into(), x, None, result.cast(), index(4))
            }
        }
    };
}

ex! {
    c_int: cublasDotEx cublasDotcEx cublasNrm2Ex cublasAsumEx cublasAxpyEx cublasScalEx cublasRotEx cublasCopyEx cublasSwapEx;
    i64: cublasDotEx_64 cublasDotcEx_64 cublasNrm2Ex_64 cublasAsumEx_64 cublasAxpyEx_64 cublasScalEx_64 cublasRotEx_64
        cublasCopyEx_64 cublasSwapEx_64;
}
