//! Products of general matrices.

use core::ffi::{c_int, c_void};

use cuda_sys::cublas::{
    __half_raw, CublasFns, cuComplex, cuDoubleComplex, cublasComputeType_t, cublasGemmAlgo_t,
    cublasHandle_t, cublasOperation_t, cublasStatus_t, cudaDataType,
};

use super::args::{self, Batch, Number, applied, given, leading, matrix, operation, sizes};
use super::handle::{Call, find};
use crate::call::{Result, functions};
use crate::kernels::{Compute, Product, Scalar};

/// A matrix of a call: address, type, leading dimension and batch.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) at: *const c_void,
    pub(super) ty: cudaDataType,
    pub(super) ld: i64,
    pub(super) batch: Batch,
}

/// The types of a product: of A and B, of C, of the factors, and in which it is computed.
#[derive(Clone, Copy)]
pub(super) struct Types {
    pub(super) compute: Compute,
    pub(super) scale: cudaDataType,
}

/// Returns the types of a product, if the documentation has the combination.
pub(super) fn types(
    compute: cublasComputeType_t,
    ab: [cudaDataType; 2],
    c: cudaDataType,
) -> Result<Types> {
    use cublasComputeType_t as C;
    use cudaDataType as D;
    let [a, b] = ab;
    let float = |compute, scale| Ok(Types { compute, scale });
    match compute {
        _ if a != b => {}
        C::CUBLAS_COMPUTE_16F | C::CUBLAS_COMPUTE_16F_PEDANTIC
            if (a, c) == (D::CUDA_R_16F, D::CUDA_R_16F) =>
        {
            return float(Compute::F32, D::CUDA_R_16F);
        }
        C::CUBLAS_COMPUTE_32I | C::CUBLAS_COMPUTE_32I_PEDANTIC
            if (a, c) == (D::CUDA_R_8I, D::CUDA_R_32I) =>
        {
            return float(Compute::I32, D::CUDA_R_32I);
        }
        C::CUBLAS_COMPUTE_32F | C::CUBLAS_COMPUTE_32F_PEDANTIC => match (a, c) {
            (D::CUDA_R_16BF, D::CUDA_R_16BF | D::CUDA_R_32F)
            | (D::CUDA_R_16F, D::CUDA_R_16F | D::CUDA_R_32F)
            | (D::CUDA_R_8I | D::CUDA_R_32F, D::CUDA_R_32F) => {
                return float(Compute::F32, D::CUDA_R_32F);
            }
            (D::CUDA_C_8I | D::CUDA_C_32F, D::CUDA_C_32F) => {
                return float(Compute::C32, D::CUDA_C_32F);
            }
            _ => {}
        },
        C::CUBLAS_COMPUTE_32F_FAST_16F
        | C::CUBLAS_COMPUTE_32F_FAST_16BF
        | C::CUBLAS_COMPUTE_32F_FAST_TF32
        | C::CUBLAS_COMPUTE_32F_EMULATED_16BFX9 => match (a, c) {
            (D::CUDA_R_32F, D::CUDA_R_32F) => return float(Compute::F32, D::CUDA_R_32F),
            (D::CUDA_C_32F, D::CUDA_C_32F) => return float(Compute::C32, D::CUDA_C_32F),
            _ => {}
        },
        C::CUBLAS_COMPUTE_64F
        | C::CUBLAS_COMPUTE_64F_PEDANTIC
        | C::CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT => match (a, c) {
            (D::CUDA_R_64F, D::CUDA_R_64F) => return float(Compute::F64, D::CUDA_R_64F),
            (D::CUDA_C_64F, D::CUDA_C_64F) => return float(Compute::C64, D::CUDA_C_64F),
            _ => {}
        },
        _ => {}
    }
    let (compute, a, b, c) = (compute.0, a.0, b.0, c.0);
    Err(args::unknown(format!("computeType {compute} with A of type {a}, B of {b} and C of {c}")))
}

/// A product of general matrices.
#[derive(Clone, Copy)]
pub(super) struct Gemm {
    pub(super) ops: [cublasOperation_t; 2],
    pub(super) size: [i64; 3],
    pub(super) factors: [*const c_void; 2],
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) c: Matrix,
    pub(super) batches: i64,
}

impl Gemm {
    /// Checks and enqueues a product.
    ///
    /// # Safety
    /// The factors are null or lie where the pointer mode says; matrices live until the work is done.
    pub(super) unsafe fn run(
        &self,
        handle: cublasHandle_t,
        types: impl FnOnce() -> Result<Types>,
    ) -> Result {
        let handle = find(handle)?;
        let call = handle.enter()?;
        let [m, n, k] = self.size;
        sizes(&[("m", m), ("n", n), ("k", k), ("batchCount", self.batches)])?;
        let (a, b) = (operation("transa", self.ops[0])?, operation("transb", self.ops[1])?);
        leading("lda", self.a.ld, if a.0 { k } else { m })?;
        leading("ldb", self.b.ld, if b.0 { n } else { k })?;
        leading("ldc", self.c.ld, m)?;
        let Types { compute, scale } = types()?;
        // SAFETY: the caller's promise.
        let alpha = unsafe { call.scalar("alpha", self.factors[0], args::code(scale)) }?;
        // SAFETY: as above.
        let beta = unsafe { call.scalar("beta", self.factors[1], args::code(scale)) }?;
        if m == 0 || n == 0 || self.batches == 0 {
            return Ok(());
        }
        self.enqueue(&call, compute, [alpha, beta], [a, b])
    }

    fn enqueue(
        &self,
        call: &Call<'_>,
        compute: Compute,
        [alpha, beta]: [Scalar; 2],
        ops: [(bool, bool); 2],
    ) -> Result {
        let [m, n, k] = self.size;
        let of = |all: Matrix| matrix(all.at, all.ty, all.ld, all.batch);
        let (a, b, c) = (of(self.a), of(self.b), of(self.c));
        let read = k > 0 && !alpha.is(0.0);
        given("A", &a, read)?;
        given("B", &b, read)?;
        given("C", &c, true)?;
        let product = Product {
            a: applied(a, ops[0]),
            b: applied(b, ops[1]),
            c,
            d: c,
            alpha,
            beta,
            m,
            n,
            k,
            batches: self.batches,
            ..Product::default()
        };
        call.queue.product(compute, &product)
    }
}

/// Defines `NAME TYPE, WIDTH` each.
macro_rules! gemm {
    ($($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, GEMM; $(
        fn $name(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, k: $int,
            alpha: *const $ty, A: *const $ty, lda: $int, B: *const $ty, ldb: $int, beta: *const $ty, C: *mut $ty, ldc: $int,
        ) {
            let of = |at: *const $ty, ld: $int| Matrix { at: at.cast(), ty: <$ty>::TYPE, ld: ld.into(), batch: Batch::One };
            Gemm {
                ops: [transa, transb], size: [m.into(), n.into(), k.into()], factors: [alpha.cast(), beta.cast()],
                a: of(A, lda), b: of(B, ldb), c: of(C, ldc), batches: 1,
            }
            .run(handle, || Ok(Types { compute: <$ty>::COMPUTE, scale: <$ty>::TYPE }))
        } )* }
    };
}

gemm! {
    cublasSgemm_v2 f32, c_int; cublasSgemm_v2_64 f32, i64;
    cublasDgemm_v2 f64, c_int; cublasDgemm_v2_64 f64, i64;
    cublasCgemm_v2 cuComplex, c_int; cublasCgemm_v2_64 cuComplex, i64;
    cublasZgemm_v2 cuDoubleComplex, c_int; cublasZgemm_v2_64 cuDoubleComplex, i64;
    cublasHgemm __half_raw, c_int; cublasHgemm_64 __half_raw, i64;
    cublasCgemm3m cuComplex, c_int; cublasCgemm3m_64 cuComplex, i64;
    cublasZgemm3m cuDoubleComplex, c_int; cublasZgemm3m_64 cuDoubleComplex, i64;
}

macro_rules! strided {
    ($($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, GEMM_STRIDED; $(
        fn $name(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, k: $int,
            alpha: *const $ty, A: *const $ty, lda: $int, strideA: i64, B: *const $ty, ldb: $int, strideB: i64,
            beta: *const $ty, C: *mut $ty, ldc: $int, strideC: i64, batchCount: $int,
        ) {
            let of = |at: *const $ty, ld: $int, stride| {
                Matrix { at: at.cast(), ty: <$ty>::TYPE, ld: ld.into(), batch: Batch::Strided(stride) }
            };
            Gemm {
                ops: [transa, transb], size: [m.into(), n.into(), k.into()], factors: [alpha.cast(), beta.cast()],
                a: of(A, lda, strideA), b: of(B, ldb, strideB), c: of(C, ldc, strideC), batches: batchCount.into(),
            }
            .run(handle, || Ok(Types { compute: <$ty>::COMPUTE, scale: <$ty>::TYPE }))
        } )* }
    };
}

strided! {
    cublasSgemmStridedBatched f32, c_int; cublasSgemmStridedBatched_64 f32, i64;
    cublasDgemmStridedBatched f64, c_int; cublasDgemmStridedBatched_64 f64, i64;
    cublasCgemmStridedBatched cuComplex, c_int; cublasCgemmStridedBatched_64 cuComplex, i64;
    cublasZgemmStridedBatched cuDoubleComplex, c_int; cublasZgemmStridedBatched_64 cuDoubleComplex, i64;
    cublasHgemmStridedBatched __half_raw, c_int; cublasHgemmStridedBatched_64 __half_raw, i64;
    cublasCgemm3mStridedBatched cuComplex, c_int; cublasCgemm3mStridedBatched_64 cuComplex, i64;
}

macro_rules! listed {
    ($($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, GEMM_LISTED; $(
        fn $name(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, k: $int,
            alpha: *const $ty, Aarray: *const *const $ty, lda: $int, Barray: *const *const $ty, ldb: $int, beta: *const $ty,
            Carray: *const *mut $ty, ldc: $int, batchCount: $int,
        ) {
            let of = |at: *const c_void, ld: $int| {
                Matrix { at, ty: <$ty>::TYPE, ld: ld.into(), batch: Batch::Listed }
            };
            Gemm {
                ops: [transa, transb], size: [m.into(), n.into(), k.into()], factors: [alpha.cast(), beta.cast()],
                a: of(Aarray.cast(), lda), b: of(Barray.cast(), ldb), c: of(Carray.cast(), ldc), batches: batchCount.into(),
            }
            .run(handle, || Ok(Types { compute: <$ty>::COMPUTE, scale: <$ty>::TYPE }))
        } )* }
    };
}

listed! {
    cublasSgemmBatched f32, c_int; cublasSgemmBatched_64 f32, i64;
    cublasDgemmBatched f64, c_int; cublasDgemmBatched_64 f64, i64;
    cublasCgemmBatched cuComplex, c_int; cublasCgemmBatched_64 cuComplex, i64;
    cublasZgemmBatched cuDoubleComplex, c_int; cublasZgemmBatched_64 cuDoubleComplex, i64;
    cublasHgemmBatched __half_raw, c_int; cublasHgemmBatched_64 __half_raw, i64;
    cublasCgemm3mBatched cuComplex, c_int; cublasCgemm3mBatched_64 cuComplex, i64;
}

macro_rules! ex {
    ($($single:ident $strided:ident $listed:ident, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, GEMM_EX; $(
        fn $single(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, k: $int,
            alpha: *const c_void, A: *const c_void, Atype: cudaDataType, lda: $int, B: *const c_void, Btype: cudaDataType,
            ldb: $int, beta: *const c_void, C: *mut c_void, Ctype: cudaDataType, ldc: $int, computeType: cublasComputeType_t,
            _algo: cublasGemmAlgo_t,
        ) {
            let of = |at, ty, ld: $int| Matrix { at, ty, ld: ld.into(), batch: Batch::One };
            Gemm {
                ops: [transa, transb], size: [m.into(), n.into(), k.into()], factors: [alpha, beta],
                a: of(A, Atype, lda), b: of(B, Btype, ldb), c: of(C, Ctype, ldc), batches: 1,
            }
            .run(handle, || types(computeType, [Atype, Btype], Ctype))
        }
        fn $strided(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, k: $int,
            alpha: *const c_void, A: *const c_void, Atype: cudaDataType, lda: $int, strideA: i64, B: *const c_void,
            Btype: cudaDataType, ldb: $int, strideB: i64, beta: *const c_void, C: *mut c_void, Ctype: cudaDataType,
            ldc: $int, strideC: i64, batchCount: $int, computeType: cublasComputeType_t, _algo: cublasGemmAlgo_t,
        ) {
            let of = |at, ty, ld: $int, stride| Matrix { at, ty, ld: ld.into(), batch: Batch::Strided(stride) };
            Gemm {
                ops: [transa, transb], size: [m.into(), n.into(), k.into()], factors: [alpha, beta],
                a: of(A, Atype, lda, strideA), b: of(B, Btype, ldb, strideB), c: of(C, Ctype, ldc, strideC),
                batches: batchCount.into(),
            }
            .run(handle, || types(computeType, [Atype, Btype], Ctype))
        }
        fn $listed(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, k: $int,
            alpha: *const c_void, Aarray: *const *const c_void, Atype: cudaDataType, lda: $int,
            Barray: *const *const c_void, Btype: cudaDataType, ldb: $int, beta: *const c_void, Carray: *const *mut c_void,
            Ctype: cudaDataType, ldc: $int, batchCount: $int, computeType: cublasComputeType_t, _algo: cublasGemmAlgo_t,
        ) {
            let of = |at, ty, ld: $int| Matrix { at, ty, ld: ld.into(), batch: Batch::Listed };
            Gemm {
                ops: [transa, transb], size: [m.into(), n.into(), k.into()], factors: [alpha, beta],
                a: of(Aarray.cast(), Atype, lda), b: of(Barray.cast(), Btype, ldb), c: of(Carray.cast(), Ctype, ldc),
                batches: batchCount.into(),
            }
            .run(handle, || types(computeType, [Atype, Btype], Ctype))
        } )* }
    };
}

ex! {
    cublasGemmEx cublasGemmStridedBatchedEx cublasGemmBatchedEx, c_int;
    cublasGemmEx_64 cublasGemmStridedBatchedEx_64 cublasGemmBatchedEx_64, i64;
}

macro_rules! of_type {
    ($($name:ident $ty:ty, $int:ty, $compute:ident;)*) => { functions! { cublasStatus_t, CublasFns, GEMM_OF_TYPE; $(
        fn $name(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, k: $int,
            alpha: *const $ty, A: *const c_void, Atype: cudaDataType, lda: $int, B: *const c_void, Btype: cudaDataType,
            ldb: $int, beta: *const $ty, C: *mut c_void, Ctype: cudaDataType, ldc: $int,
        ) {
            let of = |at, ty, ld: $int| Matrix { at, ty, ld: ld.into(), batch: Batch::One };
            Gemm {
                ops: [transa, transb], size: [m.into(), n.into(), k.into()], factors: [alpha.cast(), beta.cast()],
                a: of(A, Atype, lda), b: of(B, Btype, ldb), c: of(C, Ctype, ldc), batches: 1,
            }
            .run(handle, || {
                let types = types(cublasComputeType_t::CUBLAS_COMPUTE_32F, [Atype, Btype], Ctype)?;
                if types.compute == Compute::$compute { return Ok(types) }
                Err(args::unknown(format!("C of type {}", Ctype.0)))
            })
        } )* }
    };
}

of_type! {
    cublasSgemmEx f32, c_int, F32; cublasSgemmEx_64 f32, i64, F32;
    cublasCgemmEx cuComplex, c_int, C32; cublasCgemmEx_64 cuComplex, i64, C32;
}
