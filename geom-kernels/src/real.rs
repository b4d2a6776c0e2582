//! The number types that points may have.

use bytemuck::Pod;
use cuda_safe::DeviceRepr;

use crate::geometry::Source;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Returns the source whose kernels are for coordinates of type `T`.
pub(crate) const fn source_of<T: Real>(of_f32: Source, of_f64: Source) -> Source {
    if size_of::<T>() == size_of::<f32>() { of_f32 } else { of_f64 }
}

/// A coordinate: `f32` or `f64`.
pub trait Real: Pod + DeviceRepr + PartialOrd + std::fmt::Debug + sealed::Sealed {
    /// The type's name in CUDA C++.
    #[doc(hidden)]
    const CUDA: &'static str;
    #[doc(hidden)]
    fn wide(self) -> f64;
    /// Rounds to nearest.
    #[doc(hidden)]
    fn narrow(value: f64) -> Self;
}

impl Real for f32 {
    const CUDA: &'static str = "float";

    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn narrow(value: f64) -> Self {
        value as Self
    }
}

impl Real for f64 {
    const CUDA: &'static str = "double";

    fn wide(self) -> f64 {
        self
    }

    fn narrow(value: f64) -> Self {
        value
    }
}
