//! The number types that points may have.

use bytemuck::Pod;
use cuda_safe::DeviceRepr;

use crate::geometry::Source;
use crate::hash_grid::layout::{GridPoint32, GridPoint64};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Where the kernels for one type of coordinates are.
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    pub(crate) build: Source,
    pub(crate) unbounded: Source,
    pub(crate) order: Source,
    pub(crate) query: Source,
    pub(crate) nearest: Source,
}

/// A coordinate: `f32` or `f64`.
pub trait Real: Pod + DeviceRepr + PartialOrd + std::fmt::Debug + sealed::Sealed {
    /// How the names of its kernels end.
    #[doc(hidden)]
    const SUFFIX: &'static str;
    /// The sources of its kernels.
    #[doc(hidden)]
    const SOURCES: Sources;
    /// Its name in CUDA C++.
    #[doc(hidden)]
    const CUDA: &'static str;
    /// By how much of the extent of a box a point may lie outside its cell by rounding.
    #[doc(hidden)]
    const MARGIN: f64;

    /// The size of a point as grids keep it.
    #[doc(hidden)]
    const POINT_SIZE: usize;

    #[doc(hidden)]
    fn wide(self) -> f64;
    /// To nearest.
    #[doc(hidden)]
    fn narrow(value: f64) -> Self;
}

impl Real for f32 {
    const SUFFIX: &'static str = "f32";
    const SOURCES: Sources = Sources {
        build: Source::GridBuild32,
        unbounded: Source::GridUnbounded32,
        order: Source::GridOrder32,
        query: Source::GridQuery32,
        nearest: Source::GridNearest32,
    };
    const CUDA: &'static str = "float";
    // 8 units in the last place, twice: see `Gap::squared` in device/geom/hash_grid/dense_runs.cuh.
    const MARGIN: f64 = 1.0 / 1_048_576.0;
    const POINT_SIZE: usize = size_of::<GridPoint32>();

    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn narrow(value: f64) -> Self {
        value as Self
    }
}

impl Real for f64 {
    const SUFFIX: &'static str = "f64";
    const SOURCES: Sources = Sources {
        build: Source::GridBuild64,
        unbounded: Source::GridUnbounded64,
        order: Source::GridOrder64,
        query: Source::GridQuery64,
        nearest: Source::GridNearest64,
    };
    const CUDA: &'static str = "double";
    // 2^-49
    const MARGIN: f64 = 1.0 / 562_949_953_421_312.0;
    const POINT_SIZE: usize = size_of::<GridPoint64>();

    fn wide(self) -> f64 {
        self
    }

    fn narrow(value: f64) -> Self {
        value
    }
}
