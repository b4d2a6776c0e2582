//! cuBLAS's functions whose names say the type.

use std::ffi::c_void;

use cuda_sys::cublas::{
    Cublas, cublasDiagType_t, cublasFillMode_t, cublasHandle_t, cublasOperation_t,
    cublasSideMode_t, cudaDataType,
};

use super::call::Status;
use crate::element::{Complex, Element, bf16, f16};

/// Returns whether the sizes fit the 32-bit interface.
#[inline]
pub(super) fn narrow(sizes: &[i64]) -> bool {
    sizes.iter().all(|size| *size <= i64::from(i32::MAX))
}

/// A type with all operations on vectors and matrices: `f32`, `f64`, `Complex<f32>` and `Complex<f64>`. The trait is
/// sealed.
pub trait Float: Element + sealed::Matrices + Numeric<Factor = Self> {}

/// A type with the operations on vectors: that of [`Float`], `f16` and `bf16`. The trait is sealed.
pub trait Numeric: Element + sealed::Vectors {
    /// The type of factors: `f32` for `f16` and `bf16`, else the type of the elements.
    type Factor: Element;
}

/// A vector as cuBLAS takes it.
#[derive(Debug, Clone, Copy)]
pub struct Strided {
    pub(super) address: *mut c_void,
    pub(super) step: i64,
}

/// A matrix as cuBLAS takes it.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    pub(super) address: *mut c_void,
    pub(super) leading: i64,
}

pub(super) mod sealed {
    use super::{
        Cublas, Status, Stored, Strided, c_void, cublasDiagType_t, cublasFillMode_t,
        cublasHandle_t, cublasOperation_t, cublasSideMode_t,
    };

    type At = *const c_void;

    /// # Safety
    /// Of each function: the rules of cuBLAS's function of that name.
    #[allow(clippy::missing_safety_doc, reason = "the trait's documentation has it")]
    pub trait Vectors {
        unsafe fn dot(
            blas: &Cublas,
            handle: cublasHandle_t,
            conjugate: bool,
            n: i64,
            x: Strided,
            y: Strided,
            result: *mut c_void,
        ) -> Status;
        unsafe fn nrm2(
            blas: &Cublas,
            handle: cublasHandle_t,
            n: i64,
            x: Strided,
            result: *mut c_void,
        ) -> Status;
        unsafe fn axpy(
            blas: &Cublas,
            handle: cublasHandle_t,
            n: i64,
            alpha: At,
            x: Strided,
            y: Strided,
        ) -> Status;
        unsafe fn scal(
            blas: &Cublas,
            handle: cublasHandle_t,
            n: i64,
            alpha: At,
            x: Strided,
        ) -> Status;
    }

    /// # Safety
    /// As [`Vectors`].
    #[allow(
        clippy::missing_safety_doc,
        clippy::too_many_arguments,
        reason = "the trait's documentation has it; BLAS's arguments"
    )]
    pub trait Matrices {
        unsafe fn gemv(
            blas: &Cublas,
            handle: cublasHandle_t,
            op: cublasOperation_t,
            m: i64,
            n: i64,
            alpha: At,
            a: Stored,
            x: Strided,
            beta: At,
            y: Strided,
        ) -> Status;
        unsafe fn ger(
            blas: &Cublas,
            handle: cublasHandle_t,
            m: i64,
            n: i64,
            alpha: At,
            x: Strided,
            y: Strided,
            a: Stored,
        ) -> Status;
        unsafe fn syrk(
            blas: &Cublas,
            handle: cublasHandle_t,
            uplo: cublasFillMode_t,
            op: cublasOperation_t,
            n: i64,
            k: i64,
            alpha: At,
            a: Stored,
            beta: At,
            c: Stored,
        ) -> Status;
        unsafe fn trsm(
            blas: &Cublas,
            handle: cublasHandle_t,
            how: (cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t),
            m: i64,
            n: i64,
            alpha: At,
            a: Stored,
            b: Stored,
        ) -> Status;
    }
}

macro_rules! vectors {
    ($($ty:ty: $dot:ident $dot_64:ident $dotc:ident $dotc_64:ident $nrm2:ident $nrm2_64:ident
        $axpy:ident $axpy_64:ident $scal:ident $scal_64:ident;)*) => {$(
        impl Numeric for $ty {
            type Factor = Self;
        }

        impl sealed::Vectors for $ty {
            unsafe fn dot(
                blas: &Cublas, handle: cublasHandle_t, conjugate: bool, n: i64, x: Strided, y: Strided, result: *mut c_void,
            ) -> Status {
                let (px, py, result) = (x.address.cast(), y.address.cast(), result.cast());
                let (sx, sy) = (x.step, y.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match (narrow(&[n, sx, sy]), conjugate) {
                        (true, false) => blas.$dot(handle, n as i32, px, sx as i32, py, sy as i32, result),
                        (true, true) => blas.$dotc(handle, n as i32, px, sx as i32, py, sy as i32, result),
                        (false, false) => blas.$dot_64(handle, n, px, sx, py, sy, result),
                        (false, true) => blas.$dotc_64(handle, n, px, sx, py, sy, result),
                    }
                }
            }

            unsafe fn nrm2(blas: &Cublas, handle: cublasHandle_t, n: i64, x: Strided, result: *mut c_void) -> Status {
                let (px, sx) = (x.address.cast(), x.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, sx]) {
                        true => blas.$nrm2(handle, n as i32, px, sx as i32, result.cast()),
                        false => blas.$nrm2_64(handle, n, px, sx, result.cast()),
                    }
                }
            }

            unsafe fn axpy(
                blas: &Cublas, handle: cublasHandle_t, n: i64, alpha: *const c_void, x: Strided, y: Strided,
            ) -> Status {
                let (px, py, sx, sy) = (x.address.cast(), y.address.cast(), x.step, y.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, sx, sy]) {
                        true => blas.$axpy(handle, n as i32, alpha.cast(), px, sx as i32, py, sy as i32),
                        false => blas.$axpy_64(handle, n, alpha.cast(), px, sx, py, sy),
                    }
                }
            }

            unsafe fn scal(blas: &Cublas, handle: cublasHandle_t, n: i64, alpha: *const c_void, x: Strided) -> Status {
                let (px, sx) = (x.address.cast(), x.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, sx]) {
                        true => blas.$scal(handle, n as i32, alpha.cast(), px, sx as i32),
                        false => blas.$scal_64(handle, n, alpha.cast(), px, sx),
                    }
                }
            }
        }
    )*};
}

vectors! {
    f32: cublasSdot_v2 cublasSdot_v2_64 cublasSdot_v2 cublasSdot_v2_64 cublasSnrm2_v2 cublasSnrm2_v2_64
        cublasSaxpy_v2 cublasSaxpy_v2_64 cublasSscal_v2 cublasSscal_v2_64;
    f64: cublasDdot_v2 cublasDdot_v2_64 cublasDdot_v2 cublasDdot_v2_64 cublasDnrm2_v2 cublasDnrm2_v2_64
        cublasDaxpy_v2 cublasDaxpy_v2_64 cublasDscal_v2 cublasDscal_v2_64;
    Complex<f32>: cublasCdotu_v2 cublasCdotu_v2_64 cublasCdotc_v2 cublasCdotc_v2_64 cublasScnrm2_v2 cublasScnrm2_v2_64
        cublasCaxpy_v2 cublasCaxpy_v2_64 cublasCscal_v2 cublasCscal_v2_64;
    Complex<f64>: cublasZdotu_v2 cublasZdotu_v2_64 cublasZdotc_v2 cublasZdotc_v2_64 cublasDznrm2_v2 cublasDznrm2_v2_64
        cublasZaxpy_v2 cublasZaxpy_v2_64 cublasZscal_v2 cublasZscal_v2_64;
}

/// 16-bit floats, which are computed with in `f32`.
macro_rules! halves {
    ($($ty:ty),*) => {$(
        impl Numeric for $ty {
            type Factor = f32;
        }

        impl sealed::Vectors for $ty {
            unsafe fn dot(
                blas: &Cublas, handle: cublasHandle_t, _: bool, n: i64, x: Strided, y: Strided, result: *mut c_void,
            ) -> Status {
                let (ty, exec) = (<$ty>::TYPE.raw, cudaDataType::CUDA_R_32F);
                let (px, py, sx, sy) = (x.address, y.address, x.step, y.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, sx, sy]) {
                        true => blas.cublasDotEx(
                            handle, n as i32, px, ty, sx as i32, py, ty, sy as i32, result, ty, exec,
                        ),
                        false => blas.cublasDotEx_64(handle, n, px, ty, sx, py, ty, sy, result, ty, exec),
                    }
                }
            }

            unsafe fn nrm2(blas: &Cublas, handle: cublasHandle_t, n: i64, x: Strided, result: *mut c_void) -> Status {
                let (ty, exec) = (<$ty>::TYPE.raw, cudaDataType::CUDA_R_32F);
                let (px, sx) = (x.address, x.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, sx]) {
                        true => blas.cublasNrm2Ex(handle, n as i32, px, ty, sx as i32, result, ty, exec),
                        false => blas.cublasNrm2Ex_64(handle, n, px, ty, sx, result, ty, exec),
                    }
                }
            }

            unsafe fn axpy(
                blas: &Cublas, handle: cublasHandle_t, n: i64, alpha: *const c_void, x: Strided, y: Strided,
            ) -> Status {
                let (ty, exec) = (<$ty>::TYPE.raw, cudaDataType::CUDA_R_32F);
                let (px, py, sx, sy) = (x.address, y.address, x.step, y.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, sx, sy]) {
                        true => blas.cublasAxpyEx(
                            handle, n as i32, alpha, exec, px, ty, sx as i32, py, ty, sy as i32, exec,
                        ),
                        false => blas.cublasAxpyEx_64(handle, n, alpha, exec, px, ty, sx, py, ty, sy, exec),
                    }
                }
            }

            unsafe fn scal(blas: &Cublas, handle: cublasHandle_t, n: i64, alpha: *const c_void, x: Strided) -> Status {
                let (ty, exec) = (<$ty>::TYPE.raw, cudaDataType::CUDA_R_32F);
                let (px, sx) = (x.address, x.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, sx]) {
                        true => blas.cublasScalEx(handle, n as i32, alpha, exec, px, ty, sx as i32, exec),
                        false => blas.cublasScalEx_64(handle, n, alpha, exec, px, ty, sx, exec),
                    }
                }
            }
        }
    )*};
}

halves! { f16, bf16 }

macro_rules! matrices {
    ($($ty:ty: $gemv:ident $gemv_64:ident $ger:ident $ger_64:ident $syrk:ident $syrk_64:ident $trsm:ident $trsm_64:ident;)*) => {$(
        impl Float for $ty {}

        impl sealed::Matrices for $ty {
            unsafe fn gemv(
                blas: &Cublas, handle: cublasHandle_t, op: cublasOperation_t, m: i64, n: i64, alpha: *const c_void, a: Stored,
                x: Strided, beta: *const c_void, y: Strided,
            ) -> Status {
                let (pa, px, py) = (a.address.cast(), x.address.cast(), y.address.cast());
                let (alpha, beta, lda, sx, sy) = (alpha.cast(), beta.cast(), a.leading, x.step, y.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[m, n, lda, sx, sy]) {
                        true => blas.$gemv(
                            handle, op, m as i32, n as i32, alpha, pa, lda as i32, px, sx as i32, beta, py, sy as i32,
                        ),
                        false => blas.$gemv_64(handle, op, m, n, alpha, pa, lda, px, sx, beta, py, sy),
                    }
                }
            }

            unsafe fn ger(
                blas: &Cublas, handle: cublasHandle_t, m: i64, n: i64, alpha: *const c_void, x: Strided, y: Strided, a: Stored,
            ) -> Status {
                let (pa, px, py) = (a.address.cast(), x.address.cast(), y.address.cast());
                let (alpha, lda, sx, sy) = (alpha.cast(), a.leading, x.step, y.step);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[m, n, lda, sx, sy]) {
                        true => blas.$ger(
                            handle, m as i32, n as i32, alpha, px, sx as i32, py, sy as i32, pa, lda as i32,
                        ),
                        false => blas.$ger_64(handle, m, n, alpha, px, sx, py, sy, pa, lda),
                    }
                }
            }

            unsafe fn syrk(
                blas: &Cublas, handle: cublasHandle_t, uplo: cublasFillMode_t, op: cublasOperation_t, n: i64, k: i64,
                alpha: *const c_void, a: Stored, beta: *const c_void, c: Stored,
            ) -> Status {
                let (pa, pc, alpha, beta) = (a.address.cast(), c.address.cast(), alpha.cast(), beta.cast());
                let (lda, ldc) = (a.leading, c.leading);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[n, k, lda, ldc]) {
                        true => blas.$syrk(
                            handle, uplo, op, n as i32, k as i32, alpha, pa, lda as i32, beta, pc, ldc as i32,
                        ),
                        false => blas.$syrk_64(handle, uplo, op, n, k, alpha, pa, lda, beta, pc, ldc),
                    }
                }
            }

            unsafe fn trsm(
                blas: &Cublas, handle: cublasHandle_t,
                (side, uplo, op, diag): (cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t),
                m: i64, n: i64, alpha: *const c_void, a: Stored, b: Stored,
            ) -> Status {
                let (pa, pb, alpha) = (a.address.cast(), b.address.cast(), alpha.cast());
                let (lda, ldb) = (a.leading, b.leading);
                // SAFETY: the caller's promise.
                unsafe {
                    match narrow(&[m, n, lda, ldb]) {
                        true => blas.$trsm(
                            handle, side, uplo, op, diag, m as i32, n as i32, alpha, pa, lda as i32, pb, ldb as i32,
                        ),
                        false => blas.$trsm_64(handle, side, uplo, op, diag, m, n, alpha, pa, lda, pb, ldb),
                    }
                }
            }
        }
    )*};
}

matrices! {
    f32: cublasSgemv_v2 cublasSgemv_v2_64 cublasSger_v2 cublasSger_v2_64 cublasSsyrk_v2 cublasSsyrk_v2_64
        cublasStrsm_v2 cublasStrsm_v2_64;
    f64: cublasDgemv_v2 cublasDgemv_v2_64 cublasDger_v2 cublasDger_v2_64 cublasDsyrk_v2 cublasDsyrk_v2_64
        cublasDtrsm_v2 cublasDtrsm_v2_64;
    Complex<f32>: cublasCgemv_v2 cublasCgemv_v2_64 cublasCgeru_v2 cublasCgeru_v2_64 cublasCsyrk_v2 cublasCsyrk_v2_64
        cublasCtrsm_v2 cublasCtrsm_v2_64;
    Complex<f64>: cublasZgemv_v2 cublasZgemv_v2_64 cublasZgeru_v2 cublasZgeru_v2_64 cublasZsyrk_v2 cublasZsyrk_v2_64
        cublasZtrsm_v2 cublasZtrsm_v2_64;
}
