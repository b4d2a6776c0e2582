//! The functions of cuBLAS, `cublas_v2.h`. [`resolve`](crate::resolve) returns their addresses by name.
//!
//! # Safety
//! Each function has the rules of the C function. Handles are checked: an invalid one is an error.

mod args;
mod handle;
mod products;

pub use handle::*;
pub use products::*;

use cuda_sys::cublas::cublasStatus_t;

use crate::call::{Code, Kind, names};

impl Code for cublasStatus_t {
    const SUCCESS: Self = Self::CUBLAS_STATUS_SUCCESS;

    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Handle | Kind::Start => Self::CUBLAS_STATUS_NOT_INITIALIZED,
            Kind::Value | Kind::Size => Self::CUBLAS_STATUS_INVALID_VALUE,
            Kind::Unsupported | Kind::Type => Self::CUBLAS_STATUS_NOT_SUPPORTED,
            Kind::Memory => Self::CUBLAS_STATUS_ALLOC_FAILED,
            Kind::Launch => Self::CUBLAS_STATUS_EXECUTION_FAILED,
            Kind::Internal => Self::CUBLAS_STATUS_INTERNAL_ERROR,
        }
    }
}

names! {
    handle: cublasCreate_v2 cublasDestroy_v2 cublasGetVersion_v2 cublasGetProperty cublasSetStream_v2 cublasGetStream_v2
        cublasSetWorkspace_v2 cublasSetPointerMode_v2 cublasGetPointerMode_v2 cublasSetAtomicsMode cublasGetAtomicsMode
        cublasSetMathMode cublasGetMathMode cublasSetSmCountTarget cublasGetSmCountTarget cublasGetStatusName
        cublasGetStatusString;
    products: cublasSgemm_v2 cublasSgemm_v2_64 cublasDgemm_v2 cublasDgemm_v2_64 cublasCgemm_v2 cublasCgemm_v2_64 cublasZgemm_v2
        cublasZgemm_v2_64 cublasHgemm cublasHgemm_64 cublasCgemm3m cublasCgemm3m_64 cublasZgemm3m cublasZgemm3m_64
        cublasSgemmStridedBatched cublasSgemmStridedBatched_64 cublasDgemmStridedBatched cublasDgemmStridedBatched_64
        cublasCgemmStridedBatched cublasCgemmStridedBatched_64 cublasZgemmStridedBatched cublasZgemmStridedBatched_64
        cublasHgemmStridedBatched cublasHgemmStridedBatched_64 cublasCgemm3mStridedBatched cublasCgemm3mStridedBatched_64
        cublasSgemmBatched cublasSgemmBatched_64 cublasDgemmBatched cublasDgemmBatched_64 cublasCgemmBatched
        cublasCgemmBatched_64 cublasZgemmBatched cublasZgemmBatched_64 cublasHgemmBatched cublasHgemmBatched_64
        cublasCgemm3mBatched cublasCgemm3mBatched_64 cublasGemmEx cublasGemmEx_64 cublasGemmStridedBatchedEx
        cublasGemmStridedBatchedEx_64 cublasGemmBatchedEx cublasGemmBatchedEx_64 cublasSgemmEx cublasSgemmEx_64 cublasCgemmEx
        cublasCgemmEx_64;
}
