//! The functions of cuBLAS, `cublas_v2.h`. [`resolve`](crate::resolve) returns their addresses by name.
//!
//! # Safety
//! Each function has the rules of the C function. Handles are checked: an invalid one is an error.

pub(crate) mod args;
mod copies;
mod grouped;
mod handle;
mod level1;
mod level1_ex;
mod level2;
mod level3;
mod products;

pub use copies::*;
pub use grouped::*;
pub use handle::*;
pub use level1::*;
pub use level1_ex::*;
pub use level2::*;
pub use level3::*;
pub use products::*;

use cuda_sys::cublas::cublasStatus_t;

use crate::call::{Code, Kind};

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

/// Defines a function for each of the types `f32`, `f64`, `cuComplex` and `cuDoubleComplex`, by a macro that takes a list of
/// names with a type and the width of sizes. Each name is followed by that with `_64`.
macro_rules! each_type {
    ($define:ident $list:ident: $s:ident $s64:ident $d:ident $d64:ident $c:ident $c64:ident $z:ident $z64:ident) => {
        $define! { $list: $s f32, c_int; $s64 f32, i64; $d f64, c_int; $d64 f64, i64; $c cuComplex, c_int; $c64 cuComplex, i64;
            $z cuDoubleComplex, c_int; $z64 cuDoubleComplex, i64; }
    };
}

/// Defines functions with two types, of elements and of factors or results. Each name is followed by that with `_64`.
macro_rules! mixed {
    ($define:ident $list:ident: $($name:ident $wide:ident $ty:ty, $other:ty;)*) => {
        $define! { $list: $($name $ty, $other, c_int; $wide $ty, $other, i64;)* }
    };
}

pub(crate) use {each_type, mixed};

/// The functions.
pub(crate) const TABLE: &[crate::List] = &[
    HANDLES_AND_STATE,
    TEXTS,
    COPIES,
    GROUPED,
    GEMM,
    GEMM_STRIDED,
    GEMM_LISTED,
    GEMM_EX,
    GEMM_OF_TYPE,
    COPY,
    SWAP,
    SCAL,
    AXPY,
    DOT,
    NRM2,
    ASUM,
    IAMAX,
    ROT,
    ROTM,
    LEVEL1_EX,
    GEMV,
    GEMV_STRIDED,
    GEMV_LISTED,
    GER,
    SYMV,
    HEMV,
    SYR,
    HER,
    SYR2,
    HER2,
    TRSV,
    TRMV,
    SYMM,
    HEMM,
    SYRK,
    HERK,
    SYR2K,
    HER2K,
    SYRKX,
    HERKX,
    TRSM,
    TRSM_LISTED,
    TRMM,
    GEAM,
    DGMM,
];
