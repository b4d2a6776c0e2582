//! Volumes from dense arrays.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, Error, KernelArg, Result, Stream,
    arg::{ArgType, UseVisitor},
    kernels,
};
use nanovdb::ValueType;

use super::VolumeOptions;
use super::layout::{RawDense, RawLattice, RawNodes, RawTolerance};
use super::run::{Arg, Fill, Work};
use super::tiles::finish;
use crate::GeometryKernels;
use crate::geometry::{Source, of_source};
use crate::part::{Part, read};
use crate::preparation::Operation;
use crate::volume::{Volume, VolumeValue};

kernels! {
    #[name = "volume_{}"]
    pub(super) struct Dense;
    // SAFETY: they read the values of a box, or of leaves by the indices of their entries, and write what a build
    // or an array has room for.
    unsafe in Source::VOLUME_DENSE {
        /// # Safety
        /// The build has as many entries as the lattice has leaves, with a key and a byte for each.
        unsafe fn judge(build: &Arg<'_>, field: &DenseArg<'_>, lattice: RawLattice);
        /// # Safety
        /// The nodes of the build are found, and its entries are leaves of the field.
        unsafe fn dense_leaves(build: &Arg<'_>, field: &DenseArg<'_>);
        /// # Safety
        /// All distances of the tree from `root` on lead to such nodes, the box has this lattice of `leaves` leaves,
        /// and `out` has as many values as the box has voxels.
        unsafe fn to_dense(
            nodes: RawNodes, root: Part<'_>, field: &DenseArg<'_>, lattice: RawLattice, leaves: u32,
            out: &mut [u8],
        );
    }
}
of_source!(Dense, Source::VOLUME_DENSE);

/// Coordinates are from -`LIMIT` to below `LIMIT`: `coordinate_limit` in device/geom/volume/build_keys.cuh.
const LIMIT: i64 = 1 << 23;

/// The voxels of an array that are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Keep {
    /// All voxels; all are active.
    All,
    /// Voxels that differ from the background by more than this, in one of their numbers. The others are inactive and
    /// have the background; a leaf without active voxels is not stored. A NaN differs.
    Tolerance(f64),
    /// Voxels of a narrow band: with an absolute value less than this. The others are inactive and have the
    /// background, negated where they are negative. A leaf whose voxels are all negative and inactive becomes a tile
    /// of its lower node with the negated background, so that the inside is preserved without being stored. A NaN is
    /// neither in the band nor inside: such a voxel is inactive and has the background. With a width of 0 nothing is
    /// active. For `f32` and `f64`.
    NarrowBand(f64),
}

/// How a dense array becomes a volume.
#[derive(Debug, Clone)]
pub struct DenseOptions<T> {
    pub(super) volume: VolumeOptions<T>,
    pub(super) origin: [i32; 3],
    pub(super) keep: Keep,
}

impl<T: VolumeValue> DenseOptions<T> {
    /// Creates options with this background and map. The first value belongs to voxel (0, 0, 0), and values that differ
    /// from the background are kept.
    #[must_use]
    pub fn new(volume: VolumeOptions<T>) -> Self {
        Self { volume, origin: [0; 3], keep: Keep::Tolerance(0.0) }
    }

    /// Sets the voxel of the first value.
    #[must_use]
    pub fn origin(mut self, origin: [i32; 3]) -> Self {
        self.origin = origin;
        self
    }

    /// Sets which voxels are kept.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }
}

impl<T: VolumeValue> Default for DenseOptions<T> {
    /// Returns options that keep values other than zero; index space is world space.
    fn default() -> Self {
        Self::new(VolumeOptions::default())
    }
}

/// A box of voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VoxelBox {
    pub(super) origin: [i32; 3],
    pub(super) size: [u32; 3],
}

impl VoxelBox {
    /// # Errors
    /// The box exceeds the range of coordinates, or has too many voxels.
    pub(super) fn new(origin: [i32; 3], size: [usize; 3]) -> Result<Self> {
        let out = || Error::invalid(format!("a box of {size:?} voxels from {origin:?} on"));
        let mut small = [0; 3];
        for ((small, size), origin) in small.iter_mut().zip(size).zip(origin) {
            let (origin, size) = (i64::from(origin), i64::try_from(size).map_err(|_| out())?);
            let inside =
                origin >= -LIMIT && origin.checked_add(size).is_some_and(|end| end <= LIMIT);
            *small = u32::try_from(size)
                .ok()
                .filter(|_| inside)
                .ok_or_else(|| out().with_hint("coordinates are from -2^23 to below 2^23"))?;
        }
        let found = Self { origin, size: small };
        // Leaves are numbered with 31 bits; each axis has at most 2^21.
        let leaves = found.lattice().count.iter().map(|n| u64::from(*n)).product::<u64>();
        if leaves >= 1 << 31 {
            return Err(out().with_hint("divide it: one call works on less than 2^31 leaves"));
        }
        Ok(found)
    }

    /// Returns the number of voxels.
    pub(super) fn len(&self) -> usize {
        // The product is that of fewer than 2^31 leaves, or 0.
        self.size.iter().map(|n| *n as usize).product()
    }

    /// Returns the leaves that the box touches.
    pub(super) fn lattice(&self) -> RawLattice {
        let first = self.origin.map(|at| at >> 3);
        let mut count = [0; 3];
        if !self.size.contains(&0) {
            for axis in 0..3 {
                let end = i64::from(self.origin[axis]) + i64::from(self.size[axis]);
                // The count is below 2^21, and at least 1.
                count[axis] = ((end - 1).div_euclid(8) - i64::from(first[axis]) + 1) as u32;
            }
        }
        RawLattice { first, count }
    }
}

/// An array as an argument: `geom::volume::DenseField`.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenseArg<'a> {
    values: Option<DeviceSlice<'a, u8>>,
    voxels: VoxelBox,
    by_leaves: bool,
    keep: Keep,
}

impl<'a> DenseArg<'a> {
    /// Creates the field of the values of a box.
    pub(super) fn new(values: DeviceSlice<'a, u8>, voxels: VoxelBox, keep: Keep) -> Self {
        Self { values: Some(values), voxels, by_leaves: false, keep }
    }

    /// Sets the layout of the values: 512 for each stored leaf of the box, in the order of their entries.
    pub(super) fn by_leaves(self) -> Self {
        Self { by_leaves: true, ..self }
    }

    /// Creates the field of a box without values.
    pub(super) fn of_box(voxels: VoxelBox) -> Self {
        Self { values: None, voxels, by_leaves: false, keep: Keep::All }
    }

    pub(super) fn lattice(&self) -> RawLattice {
        self.voxels.lattice()
    }

    /// Returns the number of leaves that the box touches: less than 2^31.
    pub(super) fn lattice_len(&self) -> usize {
        self.lattice().count.iter().map(|n| *n as usize).product()
    }
}

// SAFETY: the kernels read the values of the box, of which there are as many, or those of leaves by the indices of
// their entries.
unsafe impl KernelArg for &DenseArg<'_> {
    type Abi = RawDense;
    const TYPE: ArgType = ArgType::value::<RawDense>();

    fn abi(&self) -> RawDense {
        let (keep, tolerance, width) = match self.keep {
            Keep::All => (0, 0.0, 0.0),
            Keep::Tolerance(tolerance) => (1, tolerance, 0.0),
            Keep::NarrowBand(width) => (2, 0.0, width),
        };
        RawDense {
            values: self.values.map_or(0, |values| values.device_ptr()),
            origin: self.voxels.origin,
            size: self.voxels.size,
            // The cast saturates, as a tolerance should.
            tolerance: RawTolerance { real: tolerance, whole: tolerance as u64 },
            width,
            keep,
            by_leaves: u32::from(self.by_leaves),
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.values.as_ref().map_or(Ok(()), |values| read(visitor, values))
    }
}

/// Fails if the options for kept voxels do not fit the type.
pub(super) fn check<T: VolumeValue>(options: &DenseOptions<T>) -> Result<()> {
    if matches!(T::TYPE, ValueType::Index | ValueType::OnIndex) {
        return Err(Error::invalid(format!("volumes of {} have no values", T::TYPE)));
    }
    if options.volume.capacity.is_some() {
        return Err(Error::invalid(
            "a dense array does not become a volume that is built in place",
        ));
    }
    match options.keep {
        Keep::Tolerance(t) if t.is_nan() || t < 0.0 => {
            Err(Error::invalid(format!("a tolerance of {t}")))
        }
        Keep::NarrowBand(width) if width.is_nan() || width < 0.0 => {
            Err(Error::invalid(format!("a width of {width}")))
        }
        Keep::NarrowBand(_) if !matches!(T::TYPE, ValueType::F32 | ValueType::F64) => {
            Err(Error::invalid(format!("a narrow band of {} values", T::TYPE)))
        }
        _ => Ok(()),
    }
}

impl Volume {
    /// Builds a volume from the values of a box: `dense[(x * ny + y) * nz + z]` is the value of the voxel
    /// `origin + (x, y, z)`, with `dims` = `[nx, ny, nz]`. The options say which voxels are kept; outside of the box
    /// all voxels are inactive and have the background. Waits for the numbers of nodes before it allocates.
    ///
    /// # Errors
    /// Another number of values than the box has, a box that leaves the range of coordinates (-2^23 to below
    /// 2^23) or touches 2^31 leaves or more; options that are not for this type; on a stream that records; otherwise
    /// if the kernels cannot be loaded, or the driver returns an error.
    pub fn from_dense<'a, T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        dims: [usize; 3],
        dense: impl Into<DeviceSlice<'a, T>>,
        options: DenseOptions<T>,
    ) -> Result<Self> {
        let dense = dense.into();
        let voxels = checked_box(dims, dense.len(), &options)?;
        let arg = DenseArg::new(dense.cast()?, voxels, options.keep);
        let n = arg.lattice_len();
        let operations = [Operation::VOLUME_NODES, Operation::DENSE_KEYS, Operation::DENSE_LEAVES];
        geometry.prepare_kernels(&operations)?;
        let mut work = Work::new(stream, geometry, &options.volume, n, true)?;
        work.clear(stream)?;
        if n != 0 {
            work.dense_keys(stream, arg)?;
        }
        finish(stream, geometry, &options.volume, work, n, (None, Fill::Dense(arg)))
    }

    /// Builds a volume as [`from_dense`](Self::from_dense) does, from values in host memory.
    ///
    /// # Errors
    /// As [`from_dense`](Self::from_dense).
    pub fn from_host_dense<T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        dims: [usize; 3],
        dense: &[T],
        options: DenseOptions<T>,
    ) -> Result<Self> {
        checked_box(dims, dense.len(), &options)?;
        let dense = DeviceBuffer::from_slice(stream, dense)?;
        Self::from_dense(stream, geometry, dims, &dense, options)
    }
}

fn checked_box<T: VolumeValue>(
    dims: [usize; 3],
    values: usize,
    options: &DenseOptions<T>,
) -> Result<VoxelBox> {
    check(options)?;
    let voxels = VoxelBox::new(options.origin, dims)?;
    if voxels.len() != values {
        return Err(Error::invalid(format!("{values} values for a box of {dims:?} voxels")));
    }
    Ok(voxels)
}
