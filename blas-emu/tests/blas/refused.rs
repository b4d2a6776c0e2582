//! Arguments that the documentation refuses: nothing is enqueued, and the status is `CUBLAS_STATUS_INVALID_VALUE`.

use std::ptr::{null, null_mut};

use blas_emu::cublas::*;
use cuda_sys::cublas::*;

use crate::lab::*;

const INVALID: cublasStatus_t = cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE;
const LEFT: cublasSideMode_t = cublasSideMode_t::CUBLAS_SIDE_LEFT;
const UPPER: cublasFillMode_t = cublasFillMode_t::CUBLAS_FILL_MODE_UPPER;
/// A mode of cuBLAS, but not one for these functions.
const FULL: cublasFillMode_t = cublasFillMode_t(2);
const UNIT: cublasDiagType_t = cublasDiagType_t::CUBLAS_DIAG_UNIT;
const WRONG: cublasOperation_t = cublasOperation_t(3);

#[test]
fn of_matrices_with_vectors() {
    let (blas, n) = (Blas::new(), OPS[0]);
    let (memory, one) = (Memory::new(&[7.0f32; 64]), 1.0f32);
    let (h, p, one) = (blas.raw, memory.at(), &raw const one);
    fails!(INVALID, "trans 3", cublasSgemv_v2(h, WRONG, 2, 2, one, p, 2, p, 1, one, p, 1));
    fails!(INVALID, "m -1", cublasSgemv_v2(h, n, -1, 2, one, p, 2, p, 1, one, p, 1));
    fails!(INVALID, "lda 1", cublasSgemv_v2(h, n, 2, 2, one, p, 1, p, 1, one, p, 1));
    fails!(INVALID, "incx", cublasSgemv_v2(h, n, 2, 2, one, p, 2, p, 0, one, p, 1));
    fails!(INVALID, "incy", cublasSgemv_v2(h, n, 2, 2, one, p, 2, p, 1, one, p, 0));
    fails!(INVALID, "alpha", cublasSgemv_v2(h, n, 2, 2, null(), p, 2, p, 1, one, p, 1));
    fails!(INVALID, "A is null", cublasSgemv_v2(h, n, 2, 2, one, null(), 2, p, 1, one, p, 1));
    fails!(INVALID, "x is null", cublasSgemv_v2(h, n, 2, 2, one, p, 2, null(), 1, one, p, 1));
    fails!(INVALID, "y is null", cublasSgemv_v2(h, n, 2, 2, one, p, 2, p, 1, one, null_mut(), 1));
    fails!(INVALID, "n -1", cublasSger_v2(h, 2, -1, one, p, 1, p, 1, p, 2));
    fails!(INVALID, "lda 1", cublasSger_v2(h, 2, 2, one, p, 1, p, 1, p, 1));
    fails!(INVALID, "incx", cublasSger_v2(h, 2, 2, one, p, 0, p, 1, p, 2));
    fails!(INVALID, "A is null", cublasSger_v2(h, 2, 2, one, p, 1, p, 1, null_mut(), 2));
    fails!(INVALID, "uplo 2", cublasSsymv_v2(h, FULL, 2, one, p, 2, p, 1, one, p, 1));
    fails!(INVALID, "lda 1", cublasSsymv_v2(h, UPPER, 2, one, p, 1, p, 1, one, p, 1));
    fails!(INVALID, "uplo 2", cublasSsyr_v2(h, FULL, 2, one, p, 1, p, 2));
    fails!(INVALID, "incy", cublasSsyr2_v2(h, UPPER, 2, one, p, 1, p, 0, p, 2));
    fails!(INVALID, "uplo 2", cublasStrsv_v2(h, FULL, n, UNIT, 2, p, 2, p, 1));
    fails!(INVALID, "trans 3", cublasStrsv_v2(h, UPPER, WRONG, UNIT, 2, p, 2, p, 1));
    fails!(INVALID, "diag 2", cublasStrmv_v2(h, UPPER, n, cublasDiagType_t(2), 2, p, 2, p, 1));
    fails!(INVALID, "lda 1", cublasStrmv_v2(h, UPPER, n, UNIT, 2, p, 1, p, 1));
    fails!(INVALID, "incx", cublasStrmv_v2(h, UPPER, n, UNIT, 2, p, 2, p, 0));
    fails!(INVALID, "x is null", cublasSaxpy_v2(h, 2, one, null(), 1, p, 1));
    fails!(INVALID, "alpha", cublasSscal_v2(h, 2, null(), p, 1));
    fails!(INVALID, "null", cublasSdot_v2(h, 2, p, 1, p, 1, null_mut()));
    assert_eq!(memory.get(), [7.0; 64]);
}

#[test]
fn of_matrices_with_matrices() {
    let (blas, n, t) = (Blas::new(), OPS[0], OPS[1]);
    let (memory, one) = (Memory::new(&[7.0f32; 64]), 1.0f32);
    let (h, p, one) = (blas.raw, memory.at(), &raw const one);
    let side = cublasSideMode_t(2);
    fails!(INVALID, "side 2", cublasSsymm_v2(h, side, UPPER, 2, 3, one, p, 2, p, 2, one, p, 2));
    fails!(INVALID, "uplo 2", cublasSsymm_v2(h, LEFT, FULL, 2, 3, one, p, 2, p, 2, one, p, 2));
    fails!(INVALID, "lda 1", cublasSsymm_v2(h, LEFT, UPPER, 2, 3, one, p, 1, p, 2, one, p, 2));
    fails!(INVALID, "ldb 1", cublasSsymm_v2(h, LEFT, UPPER, 2, 3, one, p, 2, p, 1, one, p, 2));
    fails!(INVALID, "ldc 1", cublasSsymm_v2(h, LEFT, UPPER, 2, 3, one, p, 2, p, 2, one, p, 1));
    fails!(INVALID, "k -1", cublasSsyrk_v2(h, UPPER, n, 2, -1, one, p, 2, one, p, 2));
    fails!(INVALID, "lda 2", cublasSsyrk_v2(h, UPPER, t, 2, 3, one, p, 2, one, p, 2));
    fails!(INVALID, "C is null", cublasSsyrk_v2(h, UPPER, n, 2, 3, one, p, 2, one, null_mut(), 2));
    fails!(INVALID, "ldb 1", cublasSsyr2k_v2(h, UPPER, n, 2, 3, one, p, 2, p, 1, one, p, 2));
    fails!(INVALID, "side 2", cublasStrsm_v2(h, side, UPPER, n, UNIT, 2, 3, one, p, 2, p, 2));
    fails!(INVALID, "ldb 1", cublasStrsm_v2(h, LEFT, UPPER, n, UNIT, 2, 3, one, p, 2, p, 1));
    fails!(INVALID, "alpha", cublasStrsm_v2(h, LEFT, UPPER, n, UNIT, 2, 3, null(), p, 2, p, 2));
    fails!(INVALID, "C is A", cublasSgeam(h, t, n, 2, 2, one, p, 2, one, p, 2, p, 2));
    fails!(INVALID, "side 2", cublasSdgmm(h, side, 2, 2, p, 2, p, 1, p, 2));
    fails!(INVALID, "x is null", cublasSdgmm(h, LEFT, 2, 2, p, 2, null(), 1, p, 2));
    assert_eq!(memory.get(), [7.0; 64]);
    let (memory, real) = (Memory::new(&[float2 { x: 7.0, y: 7.0 }; 16]), 1.0f32);
    let (p, real) = (memory.at(), &raw const real);
    fails!(
        INVALID,
        "trans 1: pass N or C",
        cublasCherk_v2(h, UPPER, t, 2, 2, real, p, 2, real, p, 2)
    );
    assert!(memory.get().iter().all(|z| (z.x, z.y) == (7.0, 7.0)));
}
