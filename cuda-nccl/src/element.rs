//! The types of elements and the operations of reductions.

use std::fmt;

use bytemuck::Pod;

use crate::raw::{ncclDataType_t, ncclRedOp_t};

/// A type of elements that NCCL moves and reduces: `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, `f32`, `f64`, and with the
/// feature `half` also `f16` and `bf16`.
///
/// The trait is sealed: Rust has no other types that NCCL has.
pub trait NcclElement: Pod + sealed::Sealed {
    /// The type in NCCL's terms.
    const TYPE: DataType;
}

mod sealed {
    pub trait Sealed {}
}

/// The type of elements in NCCL's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType {
    pub(crate) raw: ncclDataType_t,
    pub(crate) name: &'static str,
    pub(crate) bytes: usize,
}

impl DataType {
    /// Returns the name of the type in Rust.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the value of the header.
    #[must_use]
    pub fn as_raw(self) -> ncclDataType_t {
        self.raw
    }

    /// Returns the size of an element in bytes.
    #[must_use]
    pub fn size_bytes(self) -> usize {
        self.bytes
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! elements {
    ($($ty:ty, $name:literal, $raw:ident;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl NcclElement for $ty {
            const TYPE: DataType =
                DataType { raw: ncclDataType_t::$raw, name: $name, bytes: size_of::<$ty>() };
        }
    )*};
}

elements! {
    i8, "i8", ncclInt8;
    u8, "u8", ncclUint8;
    i32, "i32", ncclInt32;
    u32, "u32", ncclUint32;
    i64, "i64", ncclInt64;
    u64, "u64", ncclUint64;
    f32, "f32", ncclFloat32;
    f64, "f64", ncclFloat64;
}

#[cfg(feature = "half")]
elements! {
    half::f16, "f16", ncclFloat16;
    half::bf16, "bf16", ncclBfloat16;
}

/// The operation by which a reduction combines the elements of all ranks.
///
/// Integers wrap. The order in which floats are combined is NCCL's, and may differ between calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The least element.
    Min,
    /// The greatest element.
    Max,
    /// The sum divided by the number of ranks. Of integers, the quotient is rounded towards zero; of floats, NCCL
    /// multiplies each element by the reciprocal before it adds.
    Avg,
}

impl ReduceOp {
    /// All operations.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Avg];

    /// Returns the value of the header.
    #[must_use]
    pub fn as_raw(self) -> ncclRedOp_t {
        match self {
            Self::Sum => ncclRedOp_t::ncclSum,
            Self::Prod => ncclRedOp_t::ncclProd,
            Self::Min => ncclRedOp_t::ncclMin,
            Self::Max => ncclRedOp_t::ncclMax,
            Self::Avg => ncclRedOp_t::ncclAvg,
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        })
    }
}
