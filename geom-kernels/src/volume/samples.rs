//! Positions that volumes are sampled at.

use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, DeviceRepr, DeviceSlice, KernelArg, LaunchConfig, Result,
    arg::{ArgType, UseVisitor},
};

use crate::lengths::in_parts;
use crate::real::Real;

/// Threads in a block.
pub(crate) const BLOCK: u32 = 128;

/// Positions in device memory, in index space or in the world, of `f32` or `f64`.
///
/// A position that is not finite, or has a coordinate beyond 2^30 in size in index space, has the background
/// and a gradient of zeros. Neighbours in the array are fastest if they are neighbours in space; they are never
/// sorted, as that costs more than it saves.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a, P: Real> {
    points: DeviceSlice<'a, [P; 3]>,
    in_world: bool,
}

impl<'a, P: Real> Samples<'a, P> {
    /// At positions in index space, where voxel (i, j, k) has its value at the point (i, j, k).
    #[must_use]
    pub fn index(points: impl Into<DeviceSlice<'a, [P; 3]>>) -> Self {
        Self { points: points.into(), in_world: false }
    }

    /// At positions in the world, which the volume's map takes to index space: the one of f32 those of `f32`,
    /// unless values are of f64. Gradients are those in the world.
    #[must_use]
    pub fn world(points: impl Into<DeviceSlice<'a, [P; 3]>>) -> Self {
        Self { points: points.into(), in_world: true }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Whether positions are of f64.
    pub(crate) const WIDE: bool = size_of::<P>() == 8;

    /// The positions, and whether they are in the world.
    #[cfg(feature = "tape")]
    pub(crate) fn points(&self) -> (DeviceSlice<'a, [P; 3]>, bool) {
        (self.points, self.in_world)
    }

    /// Calls `run` with parts of them, launches of a thread for each, and where they lie.
    pub(crate) fn in_parts(
        &self,
        mut run: impl FnMut(Part<'a>, LaunchConfig, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        in_parts(self.len(), BLOCK, |range, length, launch| {
            let points = self.points.slice(range.clone())?;
            let raw = RawSamples {
                points: points.device_ptr(),
                length,
                of_f64: Self::WIDE.into(),
                maps: self.in_world.into(),
            };
            run(Part { memory: (points.allocation(), points.byte_range()), raw }, launch, range)
        })
    }
}

/// `geom::volume::Samples`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawSamples {
    pub(crate) points: u64,
    pub(crate) length: u32,
    pub(crate) of_f64: u16,
    pub(crate) maps: u16,
}

// SAFETY: repr(C); LAYOUTS has it as geom::volume::Samples.
unsafe impl DeviceRepr for RawSamples {}

/// Less than 2^32 of them: `geom::volume::Samples` to a kernel.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    memory: (&'a Arc<Allocation>, Range<usize>),
    raw: RawSamples,
}

// SAFETY: the kernels read three numbers of type `P` (`of_f64`) for each index below `length`. All of them are in the
// memory that `uses` reports.
unsafe impl KernelArg for Part<'_> {
    type Abi = RawSamples;
    const TYPE: ArgType = ArgType::value::<RawSamples>();

    fn abi(&self) -> RawSamples {
        self.raw
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        visitor.visit(self.memory.0, self.memory.1.clone(), Access::Read)
    }
}
