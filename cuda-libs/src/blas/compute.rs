//! Which types of elements can be multiplied, and in which precision.

use cuda_sys::cublas::cublasComputeType_t;

use crate::element::{Complex, Element, bf16, f16};

/// The precisions, which [`Blas::gemm_in`](super::Blas::gemm_in) takes as a type.
pub mod marker {
    /// Products and sums in `f32`. The default of `f16`, `bf16`, `f32` and `Complex<f32>`.
    #[derive(Debug, Clone, Copy)]
    pub struct F32;
    /// Operands are rounded to TF32, which has 10 bits of mantissa; sums in `f32`.
    #[derive(Debug, Clone, Copy)]
    pub struct Tf32;
    /// Operands are rounded to `bf16`; sums in `f32`.
    #[derive(Debug, Clone, Copy)]
    pub struct FastBf16;
    /// Operands are rounded to `f16`; sums in `f32`.
    #[derive(Debug, Clone, Copy)]
    pub struct FastF16;
    /// Products and sums in `f16`.
    #[derive(Debug, Clone, Copy)]
    pub struct F16;
    /// Products and sums in `f64`. The default of `f64` and `Complex<f64>`.
    #[derive(Debug, Clone, Copy)]
    pub struct F64;
}

/// A precision in which operands of type `T` are multiplied, for a result of type `C`.
///
/// The trait is sealed. It has the combinations that cuBLAS has: another one does not compile.
///
/// ```compile_fail
/// # use cuda_libs::{Blas, Mat, MatMut, Result, blas::marker};
/// # fn run(b: &Blas, s: &cuda_safe::Stream, x: Mat<'_, f64>, y: MatMut<'_, f32>) -> Result<()> {
/// b.gemm(s, 1.0, x, x, 0.0, y)
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "cuBLAS does not multiply `{T}` in the precision `{Self}` for a result of `{C}`"
)]
pub trait Compute<T, C>: sealed::Precision {
    /// The type of alpha and beta.
    type Scale: Element;
    /// The value of the header.
    const TYPE: cublasComputeType_t;
}

/// A type whose matrices can be multiplied for a result of type `C`. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "cuBLAS does not multiply matrices of `{Self}` for a result of `{C}`"
)]
pub trait Multiply<C: Element>: Element {
    /// The default precision.
    type Compute: Compute<Self, C, Scale = Self::Scale>;
    /// The type of alpha and beta in that precision.
    type Scale: Element;
}

mod sealed {
    pub trait Precision {}
}

macro_rules! precisions {
    ($($marker:ident)*) => { $(impl sealed::Precision for marker::$marker {})* };
}
precisions! { F32 Tf32 FastBf16 FastF16 F16 F64 }

macro_rules! combinations {
    ($($marker:ident $raw:ident $scale:ty: $($t:ty => $c:ty),+;)*) => {$($(
        impl Compute<$t, $c> for marker::$marker {
            type Scale = $scale;
            const TYPE: cublasComputeType_t = cublasComputeType_t::$raw;
        }
    )+)*};
}

combinations! {
    F32 CUBLAS_COMPUTE_32F f32: f32 => f32, f16 => f16, f16 => f32, bf16 => bf16, bf16 => f32;
    F32 CUBLAS_COMPUTE_32F Complex<f32>: Complex<f32> => Complex<f32>;
    Tf32 CUBLAS_COMPUTE_32F_FAST_TF32 f32: f32 => f32;
    Tf32 CUBLAS_COMPUTE_32F_FAST_TF32 Complex<f32>: Complex<f32> => Complex<f32>;
    FastBf16 CUBLAS_COMPUTE_32F_FAST_16BF f32: f32 => f32;
    FastBf16 CUBLAS_COMPUTE_32F_FAST_16BF Complex<f32>: Complex<f32> => Complex<f32>;
    FastF16 CUBLAS_COMPUTE_32F_FAST_16F f32: f32 => f32;
    FastF16 CUBLAS_COMPUTE_32F_FAST_16F Complex<f32>: Complex<f32> => Complex<f32>;
    F16 CUBLAS_COMPUTE_16F f16: f16 => f16;
    F64 CUBLAS_COMPUTE_64F f64: f64 => f64;
    F64 CUBLAS_COMPUTE_64F Complex<f64>: Complex<f64> => Complex<f64>;
}

macro_rules! defaults {
    ($($t:ty => $c:ty: $marker:ident $scale:ty;)*) => {$(
        impl Multiply<$c> for $t {
            type Compute = marker::$marker;
            type Scale = $scale;
        }
    )*};
}

defaults! {
    f32 => f32: F32 f32;
    f16 => f16: F32 f32;
    f16 => f32: F32 f32;
    bf16 => bf16: F32 f32;
    bf16 => f32: F32 f32;
    f64 => f64: F64 f64;
    Complex<f32> => Complex<f32>: F32 Complex<f32>;
    Complex<f64> => Complex<f64>: F64 Complex<f64>;
}
