//! Sparse volumes as fields.

use std::sync::Arc;

use cuda_safe::{
    Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, Kernel, LaunchConfig, Module,
    Result, Stream,
};
use nanovdb::ValueType;

use super::blocks::BlockField;
#[cfg(feature = "tape")]
use super::field::Parts;
use super::field::{Field, IndexToWorld, Source};
use super::layout::{Findings, RawIndexMap};
use super::passes::{Kernels, Passes};
use crate::geometry::{self, GeometryKernels, Group};
use crate::volume::{Mask, Volume, VolumeOptions};

/// The most blocks: their values are at most 2^32.
const MOST_BLOCKS: usize = 1 << 23;

/// The most blocks of threads that a launch has: each does what others would do.
pub(crate) const MOST_LAUNCHED: usize = 1 << 16;

/// Blocks of 256 threads that go through a root, of a few entries in most volumes.
const ROOT_BLOCKS: u32 = 128;

/// Blocks of 256 threads whose warps look at 32 of the 32^3 entries of an upper node each.
const BLOCKS_OF_UPPER: usize = 128;

/// A sparse volume as a field, in memory of its own: a [`BlockField`] of the volume's leaves and of the places
/// beside them, with the values that lookups give there, those of tiles and the background among them.
///
/// So surfaces are closed, also where a leaf ends beside none, as fog does, and where tiles of different values
/// meet. They end only where a number is [not finite](super::Counts::not_finite), and where
/// [`is_complete`](Self::is_complete) says so.
///
/// A block has 2 KB of values, and 120 bytes; level sets need about three blocks for each leaf. While one is made
/// each leaf of the volume needs about 1 KB more.
#[derive(Debug)]
pub struct VolumeField {
    geometry: GeometryKernels,
    fills: Group<2>,
    values: DeviceBuffer<f32>,
    pub(crate) origins: DeviceBuffer<[i32; 3]>,
    neighbors: DeviceBuffer<[u32; 27]>,
    map: IndexToWorld,
    is_complete: bool,
}

impl VolumeField {
    /// The field of a volume of `f32` or `f64`, whose numbers are rounded to f32; it lies in the world where the
    /// volume's map says. Waits for numbers of blocks.
    ///
    /// # Errors
    /// A volume of other values; a map without inverse; more than 2^23 blocks; lists of 2^31 places or more, of
    /// which each leaf makes 27; a stream that records; otherwise what loading the kernels, allocating and the
    /// driver answered.
    pub fn new(stream: &Stream, geometry: &GeometryKernels, volume: &Volume) -> Result<Self> {
        let wide = is_wide(volume)?;
        let map = IndexToWorld::affine(volume.index_to_world_rows())?;
        let (topology, is_complete) = topology(stream, geometry, volume, wide)?;
        let blocks = topology.counts(stream)?.leaves as usize;
        if blocks > MOST_BLOCKS {
            return Err(Error::invalid(format!("a field of {blocks} blocks of 8^3 numbers")));
        }
        let mut field = Self {
            geometry: geometry.clone(),
            fills: Group::default(),
            values: DeviceBuffer::zeroed(stream, 512 * blocks)?,
            origins: DeviceBuffer::zeroed(stream, blocks)?,
            neighbors: DeviceBuffer::zeroed(stream, blocks)?,
            map,
            is_complete,
        };
        if blocks != 0 {
            let kernel = geometry.module(geometry::Source::IsosurfaceVolume)?;
            let kernel = kernel.kernel("isosurface_link_blocks")?;
            // 27 times 2^23 at most.
            let launch = LaunchConfig::cover(27 * blocks, 256);
            let (origins, neighbors) = (&mut field.origins, &mut field.neighbors);
            let args = (topology.view::<Mask>()?, blocks as u32, origins, neighbors);
            // SAFETY: reads the volume and as many leaves as it has; writes an origin and 27 neighbours for each.
            unsafe { kernel.launch(stream, launch, args)? };
            field.update(stream, volume)?;
        }
        Ok(field)
    }

    /// Reads the values of all blocks again: after values were stored in the volume, or from another one. Nothing
    /// is allocated or waited for, and it can be recorded in a graph.
    ///
    /// Blocks stay where they are, and so does the map. A volume with leaves or tiles elsewhere needs a new field:
    /// of surfaces beyond the blocks nothing would be found.
    ///
    /// # Errors
    /// A volume of other values than `f32` or `f64`; otherwise what loading the kernels and the driver answered.
    pub fn update(&mut self, stream: &Stream, volume: &Volume) -> Result<()> {
        let wide = is_wide(volume)?;
        let n = self.blocks();
        if n == 0 {
            return Ok(());
        }
        let names = || ["f32", "f64"].map(|end| format!("isosurface_fill_blocks_{end}"));
        let source = geometry::Source::IsosurfaceVolume;
        let [narrow_fill, wide_fill] = self.fills.get(&self.geometry, source, names)?;
        let launch = LaunchConfig::new(n.min(MOST_LAUNCHED) as u32, 128);
        let (origins, values) = (&self.origins, &mut self.values);
        // SAFETY: both read the volume and n origins, and write 512 values for each.
        unsafe {
            if wide {
                let args = (volume.view::<f64>()?, origins, n as u32, values);
                wide_fill.launch(stream, launch, args)
            } else {
                let args = (volume.view::<f32>()?, origins, n as u32, values);
                narrow_fill.launch(stream, launch, args)
            }
        }
    }

    /// Whether all places where the volume's values change are in the field, which so has all of its surfaces.
    ///
    /// It is not where two tiles of the root (4096^3 voxels) with different values are beside each other, or one
    /// of them and the background outside of all nodes; and where a block would have coordinates that are not from
    /// -2^23 to below 2^23, as those have beside a leaf at the end of that range. There surfaces may be missing or
    /// open.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.origins.len()
    }

    /// The numbers of all blocks, as they were last read from a volume.
    #[must_use]
    pub fn values(&self) -> DeviceSlice<'_, f32> {
        self.values.as_slice()
    }

    /// Where it lies in the world.
    #[must_use]
    pub fn map(&self) -> IndexToWorld {
        self.map
    }

    /// The bytes of device memory that it holds.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.values.size_bytes() + self.origins.size_bytes() + self.neighbors.size_bytes()
    }

    /// The same field, as one that is borrowed.
    #[must_use]
    pub fn as_blocks(&self) -> BlockField<'_> {
        let (values, origins) = (self.values.as_slice(), self.origins.as_slice());
        BlockField::packed(values, origins, self.neighbors.as_slice(), self.map)
    }
}

impl Field for VolumeField {}

impl Source for VolumeField {
    type Arg<'a> = BlockField<'a>;

    fn arg(&self) -> BlockField<'_> {
        self.as_blocks()
    }

    fn words(&self) -> usize {
        self.as_blocks().words()
    }

    fn map(&self) -> RawIndexMap {
        self.map.raw
    }

    // Neighbours were found on the device, in memory of the field's own.
    const CONSISTENT: bool = true;

    fn allocations(&self) -> [Arc<Allocation>; 3] {
        self.as_blocks().allocations()
    }

    #[cfg(feature = "tape")]
    fn parts(&self) -> Parts<'_> {
        Parts::Blocks(self.as_blocks())
    }

    fn passes<'k>(&self, kernels: &'k Kernels) -> Result<Passes<'k>> {
        kernels.blocks()
    }
}

/// Whether values are f64.
pub(crate) fn is_wide(volume: &Volume) -> Result<bool> {
    match volume.value_type() {
        ValueType::F32 => Ok(false),
        ValueType::F64 => Ok(true),
        other => Err(Error::invalid(format!("surfaces in a volume of {other}"))
            .with_hint("a field has values of f32 or f64")),
    }
}

/// A volume with a leaf for each block, and whether these are all that are needed.
fn topology(
    stream: &Stream,
    geometry: &GeometryKernels,
    volume: &Volume,
    wide: bool,
) -> Result<(Volume, bool)> {
    let module = geometry.module(geometry::Source::IsosurfaceVolume)?;
    let leaves = volume.leaf_origins(stream)?;
    let of_leaves = 27 * leaves.len();
    let mut tiles = Tiles::new(stream, &module, volume, wide)?;
    let of_tiles = tiles.list_borders(stream, None)?.places;

    let places = usize::try_from(of_tiles).ok().and_then(|n| n.checked_add(of_leaves));
    let too_many = || Error::invalid(format!("{of_tiles} and {of_leaves} places of blocks"));
    let places = places.filter(|n| *n < 1 << 31).ok_or_else(too_many)?;
    // What nobody writes, if a graph changes the volume at the same time, is a place as any other.
    let mut list = DeviceBuffer::<[i32; 3]>::zeroed(stream, places)?;
    if of_tiles != 0 {
        tiles.list_borders(stream, Some(list.slice_mut(of_leaves..)?))?;
    }
    if of_leaves != 0 {
        let kernel = module.kernel("isosurface_beside_leaves")?;
        let launch = LaunchConfig::cover(of_leaves, 256);
        let args = (&leaves, leaves.len() as u32, &mut list, &mut tiles.findings);
        // SAFETY: reads the places of leaves, and writes 27 for each, for which the list has room, and the findings.
        unsafe { kernel.launch(stream, launch, args)? };
    }
    let topology = Volume::from_leaves::<Mask>(stream, geometry, &list, &VolumeOptions::default())?;
    let is_complete = tiles.found(stream)?.status == 0;
    Ok((topology, is_complete))
}

/// The tiles of a volume, of its root and of nodes.
struct Tiles<'a> {
    volume: &'a Volume,
    wide: bool,
    borders: Kernel,
    /// Which entries of the root have nodes.
    uppers: DeviceBuffer<u32>,
    /// One.
    findings: DeviceBuffer<Findings>,
}

impl<'a> Tiles<'a> {
    /// Looks at those of the root.
    fn new(stream: &Stream, module: &Module, volume: &'a Volume, wide: bool) -> Result<Self> {
        let end = if wide { "f64" } else { "f32" };
        let root = module.kernel(&format!("isosurface_list_root_{end}"))?;
        let borders = module.kernel(&format!("isosurface_tile_borders_{end}"))?;
        let n = volume.counts(stream)?.upper;
        let mut uppers = DeviceBuffer::zeroed(stream, n as usize)?;
        let mut findings = DeviceBuffer::zeroed(stream, 1)?;
        let launch = LaunchConfig::new(ROOT_BLOCKS, 256);
        // SAFETY: reads the volume; writes at most n entries, and the findings.
        unsafe {
            if wide {
                let args = (volume.view::<f64>()?, &mut uppers, n, &mut findings);
                root.launch(stream, launch, args)?;
            } else {
                let args = (volume.view::<f32>()?, &mut uppers, n, &mut findings);
                root.launch(stream, launch, args)?;
            }
        }
        Ok(Self { volume, wide, borders, uppers, findings })
    }

    fn found(&self, stream: &Stream) -> Result<Findings> {
        Ok(self.findings.to_vec(stream)?.first().copied().unwrap_or_default())
    }

    /// Lists the places of leaves where tiles of nodes differ, or counts them.
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
        let launch = LaunchConfig::new(blocks as u32, 256);
        let mut none = DeviceBuffer::zeroed(stream, 0)?;
        let list = list.unwrap_or_else(|| none.as_slice_mut());
        let room = list.len() as u64;
        let (uppers, n, findings) = (&self.uppers, n as u32, &mut self.findings);
        // SAFETY: reads the volume and n entries; writes so many places as the list has room for, and the findings.
        unsafe {
            if self.wide {
                let args = (self.volume.view::<f64>()?, uppers, n, list, room, findings);
                self.borders.launch(stream, launch, args)?;
            } else {
                let args = (self.volume.view::<f32>()?, uppers, n, list, room, findings);
                self.borders.launch(stream, launch, args)?;
            }
        }
        self.found(stream)
    }
}
