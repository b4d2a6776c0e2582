//! Positions at which volumes are sampled.

use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "tape")]
use cuda_safe::DeviceSlice;
use cuda_safe::{
    Access, Allocation, DeviceRepr, KernelArg, LaunchConfig, Result,
    arg::{ArgType, UseVisitor},
};

use crate::lengths::{MOST_IN_PART, in_parts_of};
use crate::points::Points;
use crate::real::Real;

/// Threads in a block.
pub(crate) const BLOCK: u32 = 128;

/// Positions in device memory, in index space or in the world, of `f32` or `f64`.
///
/// The positions may have every layout of [`Points`]: packed, with a stride, or in separate arrays of coordinates.
/// The layout does not affect the bits of a result.
///
/// A position that is not finite, or has a coordinate beyond 2^30 in index space, has the background and a gradient
/// of zeros. Sampling is fastest if neighbours in the array are neighbours in space; positions are never sorted, as
/// that costs more than it saves.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a, P: Real> {
    points: Points<'a, P>,
    in_world: bool,
}

impl<'a, P: Real> Samples<'a, P> {
    /// Creates samples at positions in index space, where voxel (i, j, k) has its value at the point (i, j, k).
    #[must_use]
    pub fn index(points: impl Into<Points<'a, P>>) -> Self {
        Self { points: points.into(), in_world: false }
    }

    /// Creates samples at positions in the world, which the volume's map transforms to index space: in f32 if
    /// positions are `f32` and values are not f64, else in f64. Gradients are with respect to the world's
    /// coordinates.
    #[must_use]
    pub fn world(points: impl Into<Points<'a, P>>) -> Self {
        Self { points: points.into(), in_world: true }
    }

    /// Returns the number of positions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Returns whether there are no positions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Whether positions are of f64.
    pub(crate) const WIDE: bool = size_of::<P>() == 8;

    /// Returns the positions, which must be packed, and whether they are in the world.
    #[cfg(feature = "tape")]
    pub(crate) fn recorded(&self) -> Result<(DeviceSlice<'a, [P; 3]>, bool)> {
        Ok((self.points.recorded()?, self.in_world))
    }

    /// Calls `run` with parts of the positions, their launches and their ranges.
    pub(crate) fn in_parts(
        &self,
        mut run: impl FnMut(Part<'a>, LaunchConfig, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let (stride, component) = self.points.strides();
        let bytes = |numbers: u64| numbers.saturating_mul(size_of::<P>() as u64);
        let (stride, most) = device_stride(bytes(stride));
        in_parts_of(self.len(), most, BLOCK, |range, length, launch| {
            let part = self.points.part(range.clone());
            // The address does not wrap: it is that of a coordinate in memory.
            let axis = |c: u64| part.address().wrapping_add(c.wrapping_mul(bytes(component)));
            let raw = RawSamples {
                x: axis(0),
                y: axis(1),
                z: axis(2),
                length,
                stride,
                of_f64: Self::WIDE.into(),
                maps: self.in_world.into(),
            };
            run(Part { memory: part.memory(), raw }, launch, range)
        })
    }
}

/// Returns the stride in bytes as kernels take it, and the most positions of a launch. Kernels multiply 32-bit
/// numbers. Positions with a larger distance, of which memory can't have many, are launched one at a time, without a
/// stride.
fn device_stride(bytes: u64) -> (u32, usize) {
    u32::try_from(bytes).map_or((0, 1), |stride| (stride, MOST_IN_PART))
}

/// `geom::volume::Samples`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawSamples {
    pub(crate) x: u64,
    pub(crate) y: u64,
    pub(crate) z: u64,
    pub(crate) length: u32,
    pub(crate) stride: u32,
    pub(crate) of_f64: u32,
    pub(crate) maps: u32,
}

// SAFETY: repr(C); LAYOUTS has it as geom::volume::Samples.
unsafe impl DeviceRepr for RawSamples {}

/// Less than 2^32 positions: `geom::volume::Samples` to a kernel.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    memory: (&'a Arc<Allocation>, Range<usize>),
    raw: RawSamples,
}

// SAFETY: for each index below `length` the kernels read three numbers of type `P` (`of_f64`), each `stride` bytes
// after those of the index before. `Points` has checked that all of them are in the memory that `uses` reports.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_beyond_32_bits_are_launched_one_by_one() {
        assert_eq!(device_stride(12), (12, MOST_IN_PART));
        assert_eq!(device_stride(u32::MAX.into()), (u32::MAX, MOST_IN_PART));
        assert_eq!(device_stride(1 << 32), (0, 1));
        assert_eq!(device_stride(u64::MAX), (0, 1));
    }
}
