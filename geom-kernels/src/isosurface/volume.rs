//! Sparse volumes as fields.

use std::sync::Arc;

use cuda_safe::{
    Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, LaunchConfig, Result, Stream,
    kernels,
};
use nanovdb::{Map, ValueType};

use super::blocks::BlockField;
#[cfg(feature = "tape")]
use super::field::Parts;
use super::field::{Field, Source};
use super::layout::{Findings, RawBlockField, RawIndexMap};
use crate::geometry::{self, GeometryKernels, of_source};
use crate::lengths::{self, cover};
use crate::preparation::Operation;
use crate::volume::{Mask, Volume, VolumeOptions, VolumeValue, VolumeView};

kernels! {
    #[name = "isosurface_{}"]
    struct Kernels;
    // SAFETY: the kernels read what the volume's view gives, and write at most as many elements as their capacity
    // parameter says.
    unsafe in geometry::Source::ISOSURFACE_VOLUME {
        /// # Safety
        /// `list` has 27 elements for each leaf.
        unsafe fn beside_leaves(
            leaves: &[[i32; 3]],
            n: u32,
            list: &mut [[i32; 3]],
            findings: &mut [Findings],
        ) where n <= leaves.len(), 1 <= findings.len();
        /// # Safety
        /// The blocks have 256 threads.
        #[name = "isosurface_list_root_{T}"]
        unsafe fn list_root<T: VolumeValue in [f32 = "f32", f64 = "f64"]>(
            volume: VolumeView<'_, T>,
            uppers: &mut [u32],
            room: u32,
            findings: &mut [Findings],
        ) where room <= uppers.len(), 1 <= findings.len();
        /// # Safety
        /// The blocks have 256 threads.
        #[name = "isosurface_tile_borders_{T}"]
        unsafe fn tile_borders<T: VolumeValue in [f32 = "f32", f64 = "f64"]>(
            volume: VolumeView<'_, T>,
            uppers: &[u32],
            n: u32,
            list: &mut [[i32; 3]],
            room: u64,
            findings: &mut [Findings],
        ) where n <= uppers.len(), room <= list.len(), 1 <= findings.len();
        /// # Safety
        /// The volume has `blocks` leaves.
        unsafe fn link_blocks(
            volume: VolumeView<'_, Mask>,
            blocks: u32,
            origins: &mut [[i32; 3]],
            neighbors: &mut [[u32; 27]],
        ) where blocks <= origins.len(), blocks <= neighbors.len();
        #[name = "isosurface_fill_blocks_{T}"]
        safe fn fill_blocks<T: VolumeValue in [f32 = "f32", f64 = "f64"]>(
            volume: VolumeView<'_, T>,
            origins: &[[i32; 3]],
            n: u32,
            values: &mut [f32],
        ) where n <= origins.len(), 512 * n <= values.len();
    }
}
of_source!(Kernels, geometry::Source::ISOSURFACE_VOLUME);

/// The most blocks: their values number at most 2^32.
const MOST_BLOCKS: usize = 1 << 23;

/// The most blocks of a launch; the kernels have grid-stride loops.
pub(crate) const MOST_LAUNCHED: usize = 1 << 16;

/// The blocks of 256 threads that read a root, which has a few entries in most volumes.
const ROOT_BLOCKS: u32 = 128;

/// The blocks of 256 threads for an upper node: each warp reads 32 of its 32^3 entries.
const BLOCKS_OF_UPPER: usize = 128;

/// A sparse volume as a field, copied to separate memory: a [`BlockField`] of the volume's leaves and their
/// neighbours, with the values that lookups return there, including those of tiles and the background.
///
/// So surfaces are closed, also where a leaf of a density field has no neighbour, and where tiles of different values
/// meet. They end only where a value is [not finite](super::Counts::not_finite), or if
/// [`is_complete`](Self::is_complete) returns `false`.
///
/// A block takes 2 KB of values and 120 bytes; level sets need about three blocks for each leaf. While a field is
/// built, each leaf of the volume needs about 1 KB more.
#[derive(Debug)]
pub struct VolumeField {
    geometry: GeometryKernels,
    values: DeviceBuffer<f32>,
    pub(crate) origins: DeviceBuffer<[i32; 3]>,
    neighbors: DeviceBuffer<[u32; 27]>,
    map: Map,
    is_complete: bool,
}

impl VolumeField {
    /// Creates the field of a volume of `f32` or `f64`, whose values are rounded to f32. The field has the volume's
    /// map. Waits for the number of blocks.
    ///
    /// # Errors
    /// A volume of other values; a map without inverse; more than 2^23 blocks; 2^31 or more block positions, of which
    /// each leaf contributes 27; a stream that records; otherwise an error of loading the kernels, of allocating or
    /// of the driver.
    pub fn build(stream: &Stream, geometry: &GeometryKernels, volume: &Volume) -> Result<Self> {
        let wide = is_wide(volume)?;
        let field = if wide { Operation::FIELD_F64 } else { Operation::FIELD_F32 };
        geometry.prepare_kernels(&[
            field,
            Operation::VOLUME_NODES,
            Operation::INDEX_KEYS,
            Operation::TILE_LEAVES,
        ])?;
        let map = Map::from_rows(volume.index_to_world_rows())
            .map_err(|error| Error::invalid(error.to_string()))?;
        let topology = if wide { topology::<f64> } else { topology::<f32> };
        let (topology, is_complete) = topology(stream, geometry, volume)?;
        let blocks = topology.counts(stream)?.leaves as usize;
        if blocks > MOST_BLOCKS {
            return Err(Error::invalid(format!("a field of {blocks} blocks of 8^3 numbers")));
        }
        let mut field = Self {
            geometry: geometry.clone(),
            values: DeviceBuffer::zeroed(stream, 512 * blocks)?,
            origins: DeviceBuffer::zeroed(stream, blocks)?,
            neighbors: DeviceBuffer::zeroed(stream, blocks)?,
            map,
            is_complete,
        };
        if blocks != 0 {
            let (kernels, view) = (geometry.kernels::<Kernels>()?, topology.view::<Mask>()?);
            // The number is at most 27 · 2^23.
            let (launch, n) = (cover(27 * blocks), blocks as u32);
            let (origins, neighbors) = (&mut field.origins, &mut field.neighbors);
            // SAFETY: the volume has as many leaves.
            unsafe { kernels.link_blocks(stream, launch, view, n, origins, neighbors)? };
            field.update(stream, volume)?;
        }
        Ok(field)
    }

    /// Reads the values of all blocks again, after values were stored in the volume, or from another volume. It neither
    /// allocates nor waits, and can be recorded in a graph.
    ///
    /// The blocks and the map stay the same. A volume with leaves or tiles elsewhere needs a new field: surfaces beyond
    /// the blocks would not be found.
    ///
    /// # Errors
    /// A volume of other values than `f32` or `f64`; otherwise an error of loading the kernels or of the driver.
    pub fn update(&mut self, stream: &Stream, volume: &Volume) -> Result<()> {
        let wide = is_wide(volume)?;
        if self.blocks() == 0 {
            return Ok(());
        }
        if wide { self.fill::<f64>(stream, volume) } else { self.fill::<f32>(stream, volume) }
    }

    fn fill<T: VolumeValue>(&mut self, stream: &Stream, volume: &Volume) -> Result<()> {
        let (kernels, n) = (self.geometry.kernels::<Kernels>()?, self.blocks());
        let launch = lengths::blocks(n.min(MOST_LAUNCHED), 128);
        let (view, n) = (volume.view::<T>()?, n as u32);
        kernels.fill_blocks(stream, launch, view, &self.origins, n, &mut self.values)
    }

    /// Returns whether the field covers all positions at which the volume's values change, so that it has all of its
    /// surfaces.
    ///
    /// It does not where two adjacent tiles of the root (4096^3 voxels) have different values, or where such a tile
    /// differs from the background outside of all nodes that is adjacent to it; nor where a block would have
    /// coordinates outside of -2^23 to below 2^23, as the neighbours of a leaf at the end of that range. Surfaces may
    /// be missing or open there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.origins.len()
    }

    /// Returns the numbers of all blocks, as they were last read from a volume.
    #[must_use]
    pub fn values(&self) -> DeviceSlice<'_, f32> {
        self.values.as_slice()
    }

    /// Returns the map to the world.
    #[must_use]
    pub fn map(&self) -> Map {
        self.map
    }

    /// Returns the bytes of device memory that it holds.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.values.size_bytes() + self.origins.size_bytes() + self.neighbors.size_bytes()
    }

    /// Returns the same field, borrowed.
    #[must_use]
    pub fn as_blocks(&self) -> BlockField<'_> {
        let (values, origins) = (self.values.as_slice(), self.origins.as_slice());
        BlockField::packed(values, origins, self.neighbors.as_slice(), self.map)
    }
}

impl Field for VolumeField {}

impl Source for VolumeField {
    type Kind = RawBlockField;
    type Arg<'a> = BlockField<'a>;

    fn arg(&self) -> BlockField<'_> {
        self.as_blocks()
    }

    fn words(&self) -> usize {
        self.as_blocks().words()
    }

    fn map(&self) -> RawIndexMap {
        RawIndexMap::from(&self.map)
    }

    // The device has found the neighbours, in memory of the field.
    const CONSISTENT: bool = true;

    fn allocations(&self) -> [Arc<Allocation>; 3] {
        self.as_blocks().allocations()
    }

    #[cfg(feature = "tape")]
    fn parts(&self) -> Parts<'_> {
        Parts::Blocks(self.as_blocks())
    }
}

/// Returns whether values are f64.
pub(crate) fn is_wide(volume: &Volume) -> Result<bool> {
    match volume.value_type() {
        ValueType::F32 => Ok(false),
        ValueType::F64 => Ok(true),
        other => Err(Error::invalid(format!("surfaces in a volume of {other}"))
            .with_hint("a field has values of f32 or f64")),
    }
}

/// Returns a volume with a leaf for each block, and whether these are all the blocks that are needed.
fn topology<T: VolumeValue>(
    stream: &Stream,
    geometry: &GeometryKernels,
    volume: &Volume,
) -> Result<(Volume, bool)> {
    let kernels = geometry.kernels::<Kernels>()?;
    let leaves = volume.leaf_origins(stream)?;
    let of_leaves = 27 * leaves.len();
    let mut tiles = Tiles::new(stream, &kernels, volume.view::<T>()?, volume)?;
    let of_tiles = tiles.list_borders(stream, None)?.places;

    let places = usize::try_from(of_tiles).ok().and_then(|n| n.checked_add(of_leaves));
    let too_many = || Error::invalid(format!("{of_tiles} and {of_leaves} places of blocks"));
    let places = places.filter(|n| *n < 1 << 31).ok_or_else(too_many)?;
    // The list is zeroed, because a graph that changes the volume at the same time may leave elements unwritten; 0 is
    // a valid position.
    let mut list = DeviceBuffer::<[i32; 3]>::zeroed(stream, places)?;
    if of_tiles != 0 {
        tiles.list_borders(stream, Some(list.slice_mut(of_leaves..)?))?;
    }
    if of_leaves != 0 {
        let (launch, n, findings) = (cover(of_leaves), leaves.len() as u32, &mut tiles.findings);
        // SAFETY: the list has room for 27 times as many.
        unsafe { kernels.beside_leaves(stream, launch, &leaves, n, &mut list, findings)? };
    }
    let topology = Volume::from_leaves::<Mask>(stream, geometry, &list, VolumeOptions::default())?;
    let is_complete = tiles.found(stream)?.status == 0;
    Ok((topology, is_complete))
}

/// The tiles of a volume, of its root and of nodes.
struct Tiles<'a, T> {
    volume: VolumeView<'a, T>,
    kernels: &'a Kernels,
    /// The entries of the root that have nodes.
    uppers: DeviceBuffer<u32>,
    /// One element.
    findings: DeviceBuffer<Findings>,
}

impl<'a, T: VolumeValue> Tiles<'a, T> {
    /// Scans the entries of the root.
    fn new(
        stream: &Stream,
        kernels: &'a Kernels,
        view: VolumeView<'a, T>,
        volume: &Volume,
    ) -> Result<Self> {
        let n = volume.counts(stream)?.upper;
        let mut uppers = DeviceBuffer::zeroed(stream, n as usize)?;
        let mut findings = DeviceBuffer::zeroed(stream, 1)?;
        let launch = LaunchConfig::new(ROOT_BLOCKS, 256);
        // SAFETY: blocks of 256 threads.
        unsafe { kernels.list_root(stream, launch, view, &mut uppers, n, &mut findings)? };
        Ok(Self { volume: view, kernels, uppers, findings })
    }

    fn found(&self, stream: &Stream) -> Result<Findings> {
        Ok(self.findings.to_vec(stream)?.first().copied().unwrap_or_default())
    }

    /// Lists the leaf positions at borders of differing tiles, or counts them.
    fn list_borders(
        &mut self,
        stream: &Stream,
        list: Option<DeviceSliceMut<'_, [i32; 3]>>,
    ) -> Result<Findings> {
        let mut found = self.found(stream)?;
        if self.uppers.is_empty() {
            return Ok(found);
        }
        found.places = 0;
        self.findings.upload(stream, &[found])?;
        let n = self.uppers.len();
        let blocks = n.saturating_mul(BLOCKS_OF_UPPER).min(MOST_LAUNCHED);
        let (launch, n) = (lengths::blocks(blocks, 256), n as u32);
        let mut none = DeviceBuffer::zeroed(stream, 0)?;
        let list = list.unwrap_or_else(|| none.as_slice_mut());
        let (room, volume) = (list.len() as u64, self.volume);
        let (uppers, findings) = (&self.uppers, &mut self.findings);
        // SAFETY: blocks of 256 threads; `list_root` has written the entries.
        unsafe {
            self.kernels.tile_borders(stream, launch, volume, uppers, n, list, room, findings)?;
        }
        self.found(stream)
    }
}
