//! The number types that points may have.

use bytemuck::Pod;
use cuda_safe::DeviceRepr;

use crate::geometry::Source;
use crate::structures::volume::MapOf;

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
pub trait Real:
    Pod + DeviceRepr + PartialOrd + std::fmt::Debug + Send + Sync + sealed::Sealed
{
    /// The type's name in CUDA C++.
    #[doc(hidden)]
    const CUDA: &'static str;
    #[doc(hidden)]
    fn wide(self) -> f64;
    /// Rounds to nearest.
    #[doc(hidden)]
    fn narrow(value: f64) -> Self;
    /// The same type, with the arithmetic of queries on the CPU. Its trait is not a supertrait, because its functions
    /// would hide those of users' traits.
    #[doc(hidden)]
    type Cpu: MapOf;
    #[doc(hidden)]
    fn to_cpu(self) -> Self::Cpu;
    #[doc(hidden)]
    fn of_cpu(number: Self::Cpu) -> Self;
}

macro_rules! on_the_cpu {
    () => {
        type Cpu = Self;

        #[inline(always)]
        fn to_cpu(self) -> Self {
            self
        }
        #[inline(always)]
        fn of_cpu(number: Self) -> Self {
            number
        }
    };
}

impl Real for f32 {
    const CUDA: &'static str = "float";
    on_the_cpu!();

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as Self
    }
}

impl Real for f64 {
    const CUDA: &'static str = "double";
    on_the_cpu!();

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }
}
