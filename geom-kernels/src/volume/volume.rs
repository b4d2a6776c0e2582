//! A volume on the device: uploads, downloads and properties.

use std::path::Path;

use cuda_safe::{Access, DeviceBuffer, Error, Result, Stream};
use nanovdb::{Grid, IndexBox, ValueType};

use super::build::{Rebuild, VolumeOptions};
use super::directory::Directory;
use super::layout::{TREE, TREE_END};
use super::{RawMap, RawVolume, VolumeValue};
use crate::GeometryKernels;
use crate::part::Part;

/// The bytes of the root's distance in the part that describes the tree.
const ROOT: std::ops::Range<usize> = TREE + 24..TREE + 32;

/// The bytes of the map in a grid.
const MAP: std::ops::Range<usize> = 296..296 + size_of::<RawMap>();

/// Returns the number of leaves that the box of active voxels touches.
fn leaves_of(active: IndexBox) -> usize {
    let sizes =
        active.min.into_iter().zip(active.max).map(|(a, b)| (b >> 3).abs_diff(a >> 3) as usize + 1);
    sizes.fold(1, usize::saturating_mul)
}

/// A sparse volume on the device: a NanoVDB grid. See the [module](super).
#[derive(Debug)]
pub struct Volume {
    geometry: GeometryKernels,
    memory: DeviceBuffer<u8>,
    /// The size of the grid in this memory, in bytes.
    length: usize,
    directory: Directory,
    value_type: ValueType,
    /// The distance from a grid's beginning to its root.
    root: usize,
    map: RawMap,
    name: String,
    /// The value count of an index grid that came from the host.
    value_count: Option<u64>,
    /// The state of a volume that is built in place.
    rebuild: Option<Box<Rebuild>>,
    /// Whether the last build has failed half way.
    broken: bool,
}

/// Why a volume could not be read from a file, or written to one.
#[non_exhaustive]
pub enum VolumeError {
    /// The error in the file or the grid.
    Format(nanovdb::Error),
    /// The error of the device or the driver.
    Device(Error),
}

impl std::fmt::Debug for VolumeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for VolumeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for VolumeError {}

impl From<nanovdb::Error> for VolumeError {
    fn from(error: nanovdb::Error) -> Self {
        Self::Format(error)
    }
}

impl From<Error> for VolumeError {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

impl Volume {
    /// Uploads a grid that was read or built on the host.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn upload(stream: &Stream, geometry: &GeometryKernels, grid: &Grid) -> Result<Self> {
        // Kernels read tiles of one bit in their stored form, so the bytes are normalized.
        let (bytes, info) = (grid.normalized_bytes(), grid.info());
        let (Some(map), Some(root)) = (bytes.get(MAP), bytes.get(ROOT)) else {
            return Err(Error::invalid("a grid without a head"));
        };
        let root = TREE + bytemuck::pod_read_unaligned::<u64>(root) as usize;
        let layout = info.value_type.layout();
        // Kernels read one tile even if the root has none.
        let tiles = root + layout.root_size + layout.tile_size;
        let leaves = info.index_box.map_or(0, leaves_of);
        let directory = Directory::behind(bytes.len().max(tiles), leaves)?;
        let mut memory = DeviceBuffer::zeroed(stream, directory.memory())?;
        memory.slice_mut(..bytes.len())?.upload(stream, &bytes)?;
        directory.write(stream, geometry, info.value_type, &memory, root)?;
        Ok(Self {
            geometry: geometry.clone(),
            memory,
            length: bytes.len(),
            directory,
            value_type: info.value_type,
            root,
            map: bytemuck::pod_read_unaligned(map),
            name: info.name,
            value_count: info.value_type.is_index().then(|| grid.value_count()),
            rebuild: None,
            broken: false,
        })
    }

    /// Reads the grids of a `.nvdb` file, in its order, and uploads them.
    ///
    /// # Errors
    /// An error in the file; an error of the driver.
    pub fn read_file(
        stream: &Stream,
        geometry: &GeometryKernels,
        path: impl AsRef<Path>,
    ) -> std::result::Result<Vec<Self>, VolumeError> {
        let grids = nanovdb::read_file(path)?;
        grids.iter().map(|grid| Ok(Self::upload(stream, geometry, grid)?)).collect()
    }

    /// Uploads the grids of a `.nvdb` file that is in memory, or a grid as it lies in memory.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub fn read(
        stream: &Stream,
        geometry: &GeometryKernels,
        bytes: &[u8],
    ) -> std::result::Result<Vec<Self>, VolumeError> {
        let grids = nanovdb::read(bytes)?;
        grids.iter().map(|grid| Ok(Self::upload(stream, geometry, grid)?)).collect()
    }

    /// Downloads the grid to host memory, to read or save it ([`nanovdb::write_file`]). Waits.
    ///
    /// The number of active voxels, the statistics and the checksum are recomputed, since values may have been
    /// [stored](Self::store). The checksum is of the kind that the grid had, even if that one was wrong. Reserved
    /// memory for more nodes ([`VolumeOptions::capacity`](super::VolumeOptions::capacity)) is left out. See
    /// [`Grid::from_changed_bytes`].
    ///
    /// # Errors
    /// As [`counts`](Self::counts); also if memory runs out.
    pub fn download(&self, stream: &Stream) -> std::result::Result<Grid, VolumeError> {
        Ok(Grid::from_changed_bytes(&self.download_bytes(stream)?)?)
    }

    /// Returns the type of its values.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Returns the grid's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of values for the indices of an index grid, including the background's (0). `None` for other
    /// grids, and for volumes built on the device: only the device has their number ([`counts`](Self::counts)).
    #[must_use]
    pub fn value_count(&self) -> Option<u64> {
        self.value_count
    }

    /// Returns the rows of the grid's map to the world: voxel (i, j, k) is at rows · (i, j, k, 1).
    #[must_use]
    pub fn index_to_world_rows(&self) -> [[f64; 4]; 3] {
        let RawMap { m64: [a, b, c, d, e, f, g, h, i], v64: [x, y, z], .. } = self.map;
        [[a, b, c, x], [d, e, f, y], [g, h, i, z]]
    }

    /// Returns the bytes of device memory that it holds.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.memory.size_bytes()
    }

    /// Creates a volume from a grid built on the device: the first `length` bytes of `memory`, with the root after
    /// the head. Writes the directory, for which there is room.
    pub(super) fn built<T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        (memory, length, directory): (DeviceBuffer<u8>, usize, Directory),
        options: &VolumeOptions<T>,
    ) -> Result<Self> {
        directory.write(stream, geometry, T::TYPE, &memory, TREE_END)?;
        Ok(Self {
            geometry: geometry.clone(),
            memory,
            length,
            directory,
            value_type: T::TYPE,
            root: TREE_END,
            map: RawMap::from(&options.map),
            name: options.name.clone(),
            value_count: None,
            rebuild: None,
            broken: false,
        })
    }

    pub(super) fn set_rebuild(&mut self, rebuild: Rebuild) {
        self.rebuild = Some(Box::new(rebuild));
    }

    pub(super) fn rebuild_state(&self) -> Option<&Rebuild> {
        self.rebuild.as_deref()
    }

    /// Writes the directory of leaves for the current tree.
    pub(super) fn write_directory(&self, stream: &Stream) -> Result<()> {
        self.directory.write(stream, &self.geometry, self.value_type, &self.memory, self.root)
    }

    pub(super) fn memory_and_rebuild(&mut self) -> (&mut DeviceBuffer<u8>, Option<&mut Rebuild>) {
        (&mut self.memory, self.rebuild.as_deref_mut())
    }

    /// Returns the size of the grid in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Returns the grid from its root on, for reading.
    pub(super) fn root_part(&self) -> Result<Part<'_>> {
        let memory = self.memory()?;
        Ok(Part::of(memory, self.root..memory.len(), Access::Read))
    }

    /// Returns the memory. Fails if the last build has failed, because the tree is then inconsistent.
    pub(crate) fn memory(&self) -> Result<&DeviceBuffer<u8>> {
        if self.broken {
            return Err(Error::invalid("the last build of the volume has failed")
                .with_hint("a build that succeeds makes it usable again"));
        }
        Ok(&self.memory)
    }

    /// Notes whether a build succeeded.
    pub(super) fn set_built(&mut self, built: Result<()>) -> Result<()> {
        self.broken = built.is_err();
        built
    }

    pub(crate) fn geometry(&self) -> &GeometryKernels {
        &self.geometry
    }

    pub(super) fn raw(&self) -> RawVolume {
        self.raw_at(self.memory.device_ptr())
    }

    /// Returns the argument for kernels with the grid's memory, or a copy of it, at this address: the grid itself
    /// contains no addresses.
    pub(crate) fn raw_at(&self, grid: u64) -> RawVolume {
        let at = |offset: usize| grid + offset as u64;
        RawVolume { grid, root: at(self.root), directory: at(self.directory.at), map: self.map }
    }
}
