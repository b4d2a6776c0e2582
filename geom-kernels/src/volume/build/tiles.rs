//! Volumes from lists of leaves and of voxels.

use std::sync::Arc;

use cuda_safe::{Allocation, DeviceBuffer, DeviceSlice, Error, Result, Stream};
use nanovdb::ValueType;

use super::VolumeOptions;
use super::rebuild::Rebuild;
use super::run::{Fill, Listed, Work};
use super::scratch::Shape;
use crate::GeometryKernels;
use crate::part::scratch;
use crate::preparation::Operation;
use crate::volume::directory::Directory;
use crate::volume::{Volume, VolumeValue};

/// A list of voxels on the device, in any order; a voxel may occur more than once.
///
/// Coordinates are from -2^23 to below 2^23. Other voxels, and points that are not finite, are left out.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum VoxelList<'a> {
    /// Voxels by their index coordinates.
    Indices(DeviceSlice<'a, [i32; 3]>),
    /// Voxels by points in the world: for each, the voxel that is nearest in index space. Halfway between two it is
    /// the one with the greater coordinate.
    Points(DeviceSlice<'a, [f32; 3]>),
}

impl VoxelList<'_> {
    /// Returns the number of voxels.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Indices(voxels) => voxels.len(),
            Self::Points(points) => points.len(),
        }
    }

    /// Returns whether there are no voxels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of the list.
    pub(super) fn allocation(&self) -> &Arc<Allocation> {
        match self {
            Self::Indices(voxels) => voxels.allocation(),
            Self::Points(points) => points.allocation(),
        }
    }
}

/// Implements conversions from views and buffers of each kind.
macro_rules! from_elements {
    ($($element:ty: $kind:ident;)+) => {$(
        impl<'a> From<DeviceSlice<'a, $element>> for VoxelList<'a> {
            fn from(list: DeviceSlice<'a, $element>) -> Self {
                Self::$kind(list)
            }
        }

        impl<'a> From<&'a DeviceBuffer<$element>> for VoxelList<'a> {
            fn from(list: &'a DeviceBuffer<$element>) -> Self {
                Self::$kind(list.as_slice())
            }
        }
    )+};
}

from_elements! {
    [i32; 3]: Indices;
    [f32; 3]: Points;
}

impl Volume {
    /// Builds a volume with the leaves, of 8^3 voxels, that contain these voxels. All voxels of these leaves are active
    /// and have the background, so that your kernel can store values (`geom/volume/iterate.cuh`,
    /// [`view_mut`](Self::view_mut)).
    ///
    /// Waits for the numbers of nodes before it allocates; with a [capacity](VolumeOptions::capacity) it does not
    /// wait, and [`build_status`](Self::build_status) returns whether the capacity was enough.
    ///
    /// # Errors
    /// An invalid name or class; 2^31 voxels or more; more than the capacity's entries; on a stream that records;
    /// otherwise if the kernels cannot be loaded, or the driver returns an error.
    pub fn from_leaves<'a, T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        tiles: impl Into<VoxelList<'a>>,
        options: VolumeOptions<T>,
    ) -> Result<Self> {
        from_list(stream, geometry, tiles.into(), &options, Fill::Tiles)
    }

    /// Builds a volume with exactly these voxels active. Their values are the background; volumes of
    /// [`OnIndex`](crate::volume::OnIndex) number them from 1 on, leaf by leaf.
    ///
    /// # Errors
    /// As [`from_leaves`](Self::from_leaves).
    pub fn from_voxels<'a, T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        voxels: impl Into<VoxelList<'a>>,
        options: VolumeOptions<T>,
    ) -> Result<Self> {
        from_list(stream, geometry, voxels.into(), &options, Fill::Voxels(None))
    }

    /// Builds a volume as [`from_voxels`](Self::from_voxels) does, with a value for each voxel of the list. If a voxel
    /// is listed several times, its first value counts.
    ///
    /// # Errors
    /// As [`from_leaves`](Self::from_leaves); another number of values than of voxels; a type without values.
    pub fn from_voxels_with<'a, T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        voxels: impl Into<VoxelList<'a>>,
        values: impl Into<DeviceSlice<'a, T>>,
        options: VolumeOptions<T>,
    ) -> Result<Self> {
        let voxels = voxels.into();
        let values = checked_values(voxels, values.into())?;
        from_list(stream, geometry, voxels, &options, Fill::Voxels(Some(values)))
    }
}

/// Returns the values of a list as bytes, after checking their type and number.
pub(super) fn checked_values<'a, T: VolumeValue>(
    voxels: VoxelList<'_>,
    values: DeviceSlice<'a, T>,
) -> Result<DeviceSlice<'a, u8>> {
    if matches!(T::TYPE, ValueType::Mask | ValueType::Index | ValueType::OnIndex) {
        return Err(Error::invalid(format!("volumes of {} have no values", T::TYPE)));
    }
    let (n, wanted) = (values.len(), voxels.len());
    if n != wanted {
        return Err(Error::invalid(format!("{n} values for {wanted} voxels")));
    }
    values.cast()
}

/// Returns the operations of a build from a list.
fn operations(list: VoxelList<'_>, fill: Fill<'_>) -> [Operation; 3] {
    let (keys, leaves) = match list {
        VoxelList::Indices(_) => (Operation::INDEX_KEYS, Operation::INDEX_LEAVES),
        VoxelList::Points(_) => (Operation::WORLD_KEYS, Operation::WORLD_LEAVES),
    };
    let leaves = match fill {
        Fill::Tiles => Operation::TILE_LEAVES,
        Fill::Voxels(_) => leaves,
        Fill::Dense(_) => Operation::DENSE_LEAVES,
    };
    [Operation::VOLUME_NODES, keys, leaves]
}

fn from_list<T: VolumeValue>(
    stream: &Stream,
    geometry: &GeometryKernels,
    list: VoxelList<'_>,
    options: &VolumeOptions<T>,
    fill: Fill<'_>,
) -> Result<Volume> {
    geometry.prepare_kernels(&operations(list, fill))?;
    if let Some(capacity) = options.capacity {
        let mut volume = Rebuild::volume(stream, geometry, options, capacity)?;
        volume.rebuild(stream, list, fill)?;
        return Ok(volume);
    }
    let n = list.len();
    let mut work = Work::new(stream, geometry, options, n, false)?;
    let listed = Listed { list, map: options.map };
    work.clear(stream)?;
    if n != 0 {
        work.list_keys(stream, listed)?;
    }
    finish(stream, geometry, options, work, n, (Some(listed), fill))
}

/// Builds a volume from entries whose keys are written: sorts them, waits for the numbers of nodes, allocates and
/// builds.
pub(super) fn finish<T: VolumeValue>(
    stream: &Stream,
    geometry: &GeometryKernels,
    options: &VolumeOptions<T>,
    mut work: Work,
    n: usize,
    what: (Option<Listed<'_>>, Fill<'_>),
) -> Result<Volume> {
    work.sort(stream, n)?;
    work.find_nodes(stream, n, Shape::new(&work.layout, [0; 3]))?;
    let room = match n {
        0 => [0; 3],
        _ => {
            let state = work.state(stream)?;
            [state.leaves, state.lower, state.upper]
        }
    };
    let shape = Shape::new(&work.layout, room);
    let bytes = shape.memory(&work.layout)?;
    // All entries may have been left out.
    let n = if room[2] == 0 { 0 } else { n };
    let leaves = match what.1 {
        Fill::Dense(dense) => dense.lattice_len(),
        Fill::Tiles | Fill::Voxels(_) => usize::MAX,
    };
    let directory = Directory::behind(bytes, leaves)?;
    let mut grid = match n {
        0 => DeviceBuffer::zeroed(stream, directory.memory())?,
        // SAFETY: the kernels write every byte of every node, of which there are as many as have room.
        _ => unsafe { scratch::<u8>(stream, directory.memory())? },
    };
    if n != 0 {
        work.reserve(stream, room)?;
        work.find_nodes(stream, n, shape)?;
    }
    work.write(stream, &mut grid, shape, n, what)?;
    // `Shape::memory` has checked that the size fits.
    Volume::built(stream, geometry, (grid, shape.bytes as usize, directory), options)
}
