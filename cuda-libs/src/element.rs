//! The types of elements.

use bytemuck::Pod;
use cuda_sys::cublas::cudaDataType;

pub use half::{bf16, f16};
pub use num_complex::Complex;

/// A type of elements: `f16`, `bf16`, `f32`, `f64`, `Complex<f32>` and `Complex<f64>`.
///
/// The trait is sealed.
pub trait Element: Pod + sealed::Sealed {
    /// The type in the libraries' terms.
    const TYPE: DataType;
    /// The type of an absolute value.
    type Real: Element;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The type of elements in the libraries' terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType {
    pub(crate) raw: cudaDataType,
    pub(crate) is_complex: bool,
}

impl DataType {
    /// Returns the value of the header.
    #[must_use]
    pub fn as_raw(self) -> cudaDataType {
        self.raw
    }

    /// Returns whether the elements are complex numbers.
    #[must_use]
    pub fn is_complex(self) -> bool {
        self.is_complex
    }
}

macro_rules! elements {
    ($($ty:ty, $real:ty, $raw:ident, $complex:literal;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const TYPE: DataType = DataType { raw: cudaDataType::$raw, is_complex: $complex };
            type Real = $real;
        }
    )*};
}

elements! {
    f16, f16, CUDA_R_16F, false;
    bf16, bf16, CUDA_R_16BF, false;
    f32, f32, CUDA_R_32F, false;
    f64, f64, CUDA_R_64F, false;
    Complex<f32>, f32, CUDA_C_32F, true;
    Complex<f64>, f64, CUDA_C_64F, true;
}
