//! Which types cuBLASLt multiplies.

use cuda_sys::cublas::cublasComputeType_t;

use crate::blas::{Compute, marker};
use crate::element::{DataType, E4m3, E5m2, Element, bf16, f16};

/// A precision of [`blas::marker`](crate::blas::marker) in which matrices of `A` and `B` are multiplied for a result of `D`.
///
/// The trait is sealed. It has the combinations of [`Compute`], and those of 8-bit floats. Another one does not compile:
///
/// ```compile_fail
/// # use cuda_libs::{E5m2, Result, blas::marker::F32, lt::{Lt, Problem}};
/// # fn run(lt: &Lt, problem: &Problem) -> Result<()> {
/// lt.plan::<F32, E5m2, E5m2, f32>(problem)?;
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "cuBLASLt does not multiply `{A}` by `{B}` in the precision `{Self}` for a result of `{D}`"
)]
pub trait Precision<A, B, D>: sealed::Precision<A, B, D> {
    /// The type of alpha and beta.
    type Scale: Element;
    /// The type of a bias.
    type Bias: Element;
}

pub(super) mod sealed {
    use super::{DataType, cublasComputeType_t};

    pub trait Precision<A, B, D> {
        const COMPUTE: cublasComputeType_t;
        /// The type of the matrix that beta multiplies.
        const C: DataType;
    }
}

impl<M: Compute<T, C>, T, C: Element> Precision<T, T, C> for M {
    type Scale = M::Scale;
    type Bias = C;
}

impl<M: Compute<T, C>, T, C: Element> sealed::Precision<T, T, C> for M {
    const COMPUTE: cublasComputeType_t = M::TYPE;
    const C: DataType = C::TYPE;
}

macro_rules! eight_bits {
    ($($a:ty, $b:ty => $([$d:ty, $c:ty, $bias:ty])+;)*) => {$($(
        impl Precision<$a, $b, $d> for marker::F32 {
            type Scale = f32;
            type Bias = $bias;
        }

        impl sealed::Precision<$a, $b, $d> for marker::F32 {
            const COMPUTE: cublasComputeType_t = cublasComputeType_t::CUBLAS_COMPUTE_32F;
            const C: DataType = <$c>::TYPE;
        }
    )+)*};
}

// For each pair of operands: results, with the types of the matrix that beta multiplies and of the bias.
eight_bits! {
    E4m3, E4m3 => [bf16, bf16, bf16] [f16, f16, f16] [f32, f32, bf16] [E4m3, bf16, bf16];
    E4m3, E5m2 => [bf16, bf16, bf16] [f16, f16, f16] [f32, f32, bf16] [E4m3, bf16, bf16] [E5m2, bf16, bf16];
    E5m2, E4m3 => [bf16, bf16, bf16] [f16, f16, f16] [f32, f32, bf16] [E4m3, bf16, bf16] [E5m2, bf16, bf16];
}
