//! The arguments of cuBLAS: their checks, and what kernels get for them.

use core::ffi::{c_int, c_void};

use cuda_sys::cublas::{
    __half_raw, cuComplex, cuDoubleComplex, cublasDiagType_t, cublasFillMode_t, cublasOperation_t,
    cublasSideMode_t, cudaDataType,
};
use half::{bf16, f16};

use crate::call::{Error, Kind, Result};
use crate::kernels::{Compute, Operand, shape};

/// A type of elements, of which the names of functions speak.
pub(crate) trait Number: Copy {
    const TYPE: cudaDataType;
    const COMPUTE: Compute;
}

macro_rules! numbers {
    ($($ty:ty: $name:ident $compute:ident;)*) => {
        $(impl Number for $ty {
            const TYPE: cudaDataType = cudaDataType::$name;
            const COMPUTE: Compute = Compute::$compute;
        })*
    };
}

numbers! {
    f32: CUDA_R_32F F32;
    f64: CUDA_R_64F F64;
    cuComplex: CUDA_C_32F C32;
    cuDoubleComplex: CUDA_C_64F C64;
    __half_raw: CUDA_R_16F F32;
}

/// Returns the number of a type as the kernels take it.
pub(crate) fn code(ty: cudaDataType) -> c_int {
    ty.0.cast_signed()
}

/// Reads a number of the host: its real and imaginary part.
///
/// # Safety
/// `at` is the address of a value of this type.
pub(crate) unsafe fn read(at: *const c_void, ty: c_int) -> Result<(f64, f64)> {
    // SAFETY: the caller's promise; a caller in C need not align the value.
    unsafe {
        let float = |number: usize| f64::from(at.cast::<f32>().add(number).read_unaligned());
        let double = |number: usize| at.cast::<f64>().add(number).read_unaligned();
        Ok(match cudaDataType(ty.cast_unsigned()) {
            cudaDataType::CUDA_R_16F => {
                (f16::from_bits(at.cast::<u16>().read_unaligned()).into(), 0.0)
            }
            cudaDataType::CUDA_R_16BF => {
                (bf16::from_bits(at.cast::<u16>().read_unaligned()).into(), 0.0)
            }
            cudaDataType::CUDA_R_32F => (float(0), 0.0),
            cudaDataType::CUDA_R_64F => (double(0), 0.0),
            cudaDataType::CUDA_C_32F => (float(0), float(1)),
            cudaDataType::CUDA_C_64F => (double(0), double(1)),
            cudaDataType::CUDA_R_32I => (f64::from(at.cast::<i32>().read_unaligned()), 0.0),
            _ => return Err(Error::unsupported(format!("factors of type {ty}"))),
        })
    }
}

/// Checks that sizes are not negative.
pub(crate) fn sizes(all: &[(&str, i64)]) -> Result {
    match all.iter().find(|(_, size)| *size < 0) {
        Some((name, size)) => Err(Error::value(format!("{name} {size} must not be negative"))),
        None => Ok(()),
    }
}

/// Checks a leading dimension.
pub(crate) fn leading(name: &str, ld: i64, rows: i64) -> Result {
    if ld >= rows.max(1) {
        return Ok(());
    }
    Err(Error::value(format!("{name} {ld} is less than the {} rows of the matrix", rows.max(1))))
}

/// Checks an increment of a vector.
pub(crate) fn increment(name: &str, value: i64) -> Result {
    if value != 0 { Ok(()) } else { Err(Error::value(format!("{name} must not be 0"))) }
}

/// Returns whether an operation transposes, and whether it conjugates.
pub(crate) fn operation(name: &str, op: cublasOperation_t) -> Result<(bool, bool)> {
    match op {
        cublasOperation_t::CUBLAS_OP_N => Ok((false, false)),
        cublasOperation_t::CUBLAS_OP_T => Ok((true, false)),
        cublasOperation_t::CUBLAS_OP_C => Ok((true, true)),
        other => Err(Error::value(format!("{name} {}: pass N, T or C, which are 0 to 2", other.0))),
    }
}

/// Returns whether the upper triangle is stored.
pub(crate) fn upper(fill: cublasFillMode_t) -> Result<bool> {
    match fill {
        cublasFillMode_t::CUBLAS_FILL_MODE_LOWER => Ok(false),
        cublasFillMode_t::CUBLAS_FILL_MODE_UPPER => Ok(true),
        other => {
            Err(Error::value(format!("uplo {}: pass LOWER or UPPER, which are 0 and 1", other.0)))
        }
    }
}

/// Returns whether a matrix stands at the right.
pub(crate) fn right(side: cublasSideMode_t) -> Result<bool> {
    match side {
        cublasSideMode_t::CUBLAS_SIDE_LEFT => Ok(false),
        cublasSideMode_t::CUBLAS_SIDE_RIGHT => Ok(true),
        other => {
            Err(Error::value(format!("side {}: pass LEFT or RIGHT, which are 0 and 1", other.0)))
        }
    }
}

/// Returns the shape of a triangular matrix.
pub(crate) fn diagonal(diag: cublasDiagType_t) -> Result<i16> {
    match diag {
        cublasDiagType_t::CUBLAS_DIAG_NON_UNIT => Ok(shape::TRIANGULAR),
        cublasDiagType_t::CUBLAS_DIAG_UNIT => Ok(shape::UNIT_TRIANGULAR),
        other => {
            Err(Error::value(format!("diag {}: pass NON_UNIT or UNIT, which are 0 and 1", other.0)))
        }
    }
}

/// How the matrices of a batch lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Batch {
    /// There is one.
    One,
    /// At this distance in elements.
    Strided(i64),
    /// At addresses in a list on the device.
    Listed,
}

/// A matrix in columns.
pub(crate) fn matrix<T>(at: *const T, ty: cudaDataType, ld: i64, batch: Batch) -> Operand {
    let (batch, arrays) = match batch {
        Batch::One => (0, 0),
        Batch::Strided(distance) => (distance, 0),
        Batch::Listed => (0, 1),
    };
    let at = at.expose_provenance() as u64;
    Operand { at, row: 1, col: ld, batch, ty: code(ty), arrays, ..Operand::default() }
}

/// A vector as a column. With a negative increment its first element is the last one in memory.
pub(crate) fn vector<T>(at: *const T, ty: cudaDataType, n: i64, inc: i64, batch: Batch) -> Operand {
    let mut vector = matrix(at, ty, 0, batch);
    vector.row = inc;
    if inc < 0 {
        let first = (1 - n).min(0).wrapping_mul(inc);
        if vector.arrays != 0 {
            vector.batch = first;
        } else if vector.at != 0 {
            vector.at = vector.at.wrapping_add(first.wrapping_mul(width(ty)).cast_unsigned());
        }
    }
    vector
}

/// Applies an operation to a matrix.
pub(crate) fn applied(operand: Operand, (transposed, conjugated): (bool, bool)) -> Operand {
    let operand = Operand { conj: c_int::from(conjugated), ..operand };
    if transposed { operand.transposed() } else { operand }
}

/// Returns the bytes of an element.
pub(crate) fn width(ty: cudaDataType) -> i64 {
    match ty {
        cudaDataType::CUDA_R_64F | cudaDataType::CUDA_C_32F => 8,
        cudaDataType::CUDA_C_64F => 16,
        cudaDataType::CUDA_R_16F | cudaDataType::CUDA_R_16BF | cudaDataType::CUDA_C_8I => 2,
        cudaDataType::CUDA_R_8I
        | cudaDataType::CUDA_R_8U
        | cudaDataType::CUDA_R_8F_E4M3
        | cudaDataType::CUDA_R_8F_E5M2 => 1,
        _ => 4,
    }
}

/// Checks that a matrix that is read or written has an address.
pub(crate) fn given(name: &str, operand: &Operand, needed: bool) -> Result {
    if needed && operand.at == 0 {
        return Err(Error::value(format!("{name} is null: pass the address of the matrix")));
    }
    Ok(())
}

/// The error of a combination of types.
pub(crate) fn unknown(text: String) -> Error {
    Error::new(Kind::Unsupported, text)
}
