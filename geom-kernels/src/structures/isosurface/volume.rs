//! Sparse volumes as fields: `geom/isosurface/volume_field.cuh`.

use cuda_safe::{Error, Result};
use rayon::prelude::*;

use super::field::{AllSigns, BLOCK, BlockField, Field, Place, Signs, Source, reserved};
use crate::Real;
use crate::isosurface::Map;
use crate::structures::volume::{Region, Volume, lower_place, upper_place};
use crate::volume::VolumeValue;

/// The most blocks: their values number at most 2^32.
const MOST_BLOCKS: usize = 1 << 23;
/// The leaves whose neighbours are found at once.
const AT_ONCE: usize = 1 << 12;
/// What memory is for.
const WHAT: &str = "a field of blocks";
/// Voxels have coordinates from minus this to below it.
const LIMIT: i32 = 1 << 23;

/// A sparse volume as a field, copied to separate memory: see
/// [`isosurface::VolumeField`](crate::isosurface::VolumeField).
#[derive(Debug, Clone)]
pub struct VolumeField {
    values: Vec<f32>,
    origins: Vec<[i32; 3]>,
    neighbors: Vec<[u32; 27]>,
    map: Map,
    is_complete: bool,
}

impl VolumeField {
    /// Creates the field of a volume, whose values are rounded to f32. The field has the volume's map.
    ///
    /// # Errors
    /// More than 2^23 blocks; 2^31 or more block positions, of which each leaf contributes 27.
    pub fn build<T: Real + VolumeValue>(volume: &Volume<T>) -> Result<Self> {
        let map = volume.grid().map();
        let borders = borders(volume);
        let leaves: Vec<[i32; 3]> = volume.grid().leaves().map(|leaf| leaf.origin()).collect();
        let (of_leaves, of_tiles) = (27 * leaves.len(), 27 * borders.places.len());
        if of_leaves.saturating_add(of_tiles) >= 1 << 31 {
            let message = format!("{of_tiles} and {of_leaves} places of blocks");
            return Err(Error::invalid(message));
        }
        let mut is_complete = !borders.in_root;
        let mut places: Vec<(u64, [i32; 3])> = Vec::new();
        // Leaves that follow each other have most of the places around them in common.
        for some in leaves.chunks(AT_ONCE).chain(borders.places.chunks(AT_ONCE)) {
            let around = some.iter().flat_map(|place| (0..27).map(|i| beside(*place, i, 8)));
            let mut found: Vec<_> = around.map(|place| (leaf_key(place), place)).collect();
            found.sort_unstable();
            found.dedup();
            is_complete &= found.iter().all(|(_, place)| is_voxel(*place));
            found.retain(|(_, place)| is_voxel(*place));
            let bytes = size_of_val(&*found);
            let error = |_| Error::invalid(format!("no memory for {WHAT}: {bytes} bytes more"));
            places.try_reserve(found.len()).map_err(error)?;
            places.append(&mut found);
        }
        places.par_sort_unstable();
        places.dedup();
        let blocks = places.len();
        if blocks > MOST_BLOCKS {
            return Err(Error::invalid(format!("a field of {blocks} blocks of 8^3 numbers")));
        }
        let number = |place: [i32; 3]| {
            let key = leaf_key(place);
            let find = || places.binary_search_by_key(&key, |(key, _)| *key).ok();
            is_voxel(place).then(find).flatten().map_or(u32::MAX, |at| at as u32)
        };
        let link = |(_, at): &(u64, [i32; 3])| std::array::from_fn(|i| number(beside(*at, i, 8)));
        let mut neighbors = reserved(blocks, WHAT)?;
        places.par_iter().map(link).collect_into_vec(&mut neighbors);
        let mut origins = reserved(blocks, WHAT)?;
        origins.extend(places.into_iter().map(|(_, origin)| origin));
        let mut values = reserved(BLOCK * blocks, WHAT)?;
        values.resize(BLOCK * blocks, 0.0);
        let mut field = Self { values, origins, neighbors, map, is_complete };
        field.update(volume);
        Ok(field)
    }

    /// Reads the numbers of a volume again: the volume that the field was built from, or one whose leaves, tiles and
    /// map are the same. Surfaces beyond the blocks would not be found.
    pub fn update<T: Real + VolumeValue>(&mut self, volume: &Volume<T>) {
        let blocks = self.values.par_chunks_mut(BLOCK).zip(&self.origins);
        blocks.for_each(|(values, origin)| {
            volume.for_each_value(*origin, |place, value| {
                if let Some(to) = values.get_mut(place) {
                    *to = value.wide() as f32;
                }
            });
        });
    }

    /// Returns whether the field covers all positions at which the volume's values change: see
    /// [`isosurface::VolumeField::is_complete`](crate::isosurface::VolumeField::is_complete).
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
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the map to the world.
    #[must_use]
    pub fn map(&self) -> Map {
        self.map
    }

    /// Returns the same field, borrowed.
    #[must_use]
    pub fn as_blocks(&self) -> BlockField<'_> {
        BlockField::packed(&self.values, &self.origins, &self.neighbors, self.map)
    }
}

impl Field for VolumeField {}

impl Source for VolumeField {
    fn words(&self) -> usize {
        self.as_blocks().words()
    }

    fn map(&self) -> &Map {
        &self.map
    }

    #[inline(always)]
    fn values_of(&self, word: u32) -> &[f32] {
        self.values.get(word as usize * 32..word as usize * 32 + 32).unwrap_or_default()
    }

    #[inline(always)]
    fn around(&self, signs: &AllSigns, word: u32) -> [Signs; 8] {
        self.as_blocks().around(signs, word)
    }

    #[inline(always)]
    fn corner(&self, cell: Place, corner: u32) -> Place {
        self.as_blocks().corner(cell, corner)
    }

    #[inline(always)]
    fn position(&self, corner: Place) -> [i32; 3] {
        self.as_blocks().position(corner)
    }

    #[inline(always)]
    fn beside(&self, corner: Place, axis: usize, step: i32) -> Option<f32> {
        self.as_blocks().beside(corner, axis, step)
    }
}

fn is_voxel(place: [i32; 3]) -> bool {
    place.iter().all(|c| (-LIMIT..LIMIT).contains(c))
}

/// Returns the position number `i` of 27 around a position; 13 is the position.
fn beside(place: [i32; 3], i: usize, size: i32) -> [i32; 3] {
    let steps = [i / 9, i / 3 % 3, i % 3].map(|step| step as i32 - 1);
    std::array::from_fn(|axis| place[axis].wrapping_add(steps[axis].wrapping_mul(size)))
}

/// Returns a number by which leaves are in breadth-first order: `leaf_key` of `geom/volume/build_keys.cuh`.
fn leaf_key(place: [i32; 3]) -> u64 {
    let [x, y, z] = place.map(|c| ((c >> 12) + 2048) as u64);
    let (upper, lower) = (upper_place(place) as u64, lower_place(place) as u64);
    x << 51 | y << 39 | z << 27 | upper << 12 | lower
}

/// What is found about a volume's tiles.
struct Borders {
    /// The positions of leaves at borders of tiles with different values.
    places: Vec<[i32; 3]>,
    /// Whether tiles of the root differ from what is beside them.
    in_root: bool,
}

/// Returns whether a region beside `place` has another value, or a node if `divided_counts`.
fn has_border<T: VolumeValue>(
    volume: &Volume<T>,
    (place, bits): ([i32; 3], u32),
    value: Region<'_>,
    divided_counts: bool,
) -> bool {
    (0..27).any(|i| match volume.region(beside(place, i, 1 << bits), bits) {
        Region::Node => divided_counts,
        beside => beside != value,
    })
}

/// Finds the borders of tiles.
fn borders<T: VolumeValue>(volume: &Volume<T>) -> Borders {
    let background = volume.background_region();
    let (mut uppers, mut has_tiles, mut in_root) = (Vec::new(), false, false);
    for origin in volume.root_origins() {
        let region = volume.region(origin, 12);
        if region == Region::Node {
            uppers.push(origin);
        } else if region != background {
            // One of two tiles that differ is not the background, so only such tiles are tested.
            has_tiles = true;
            in_root |= has_border(volume, (origin, 12), region, false);
        }
    }
    // Background tiles beside tiles of the root, which have not tested their smaller neighbours, are tested, too.
    let is_tested = |region: Region<'_>| has_tiles || region != background;
    let entries = uppers.par_iter().flat_map_iter(|origin| {
        (0..1 << 15)
            .map(|n| std::array::from_fn(|axis| origin[axis] | (n >> [10, 5, 0][axis] & 31) << 7))
    });
    let places = entries.filter(|entry: &[i32; 3]| match volume.region(*entry, 7) {
        Region::Node => true,
        region => is_tested(region) && has_border(volume, (*entry, 7), region, true),
    });
    let places = places.flat_map_iter(|entry| {
        (0..1 << 12).map(move |n| {
            std::array::from_fn(|axis| entry[axis] | (n >> [8, 4, 0][axis] & 15) << 3)
        })
    });
    let places = places.filter(|place: &[i32; 3]| match volume.region(*place, 3) {
        Region::Node => false,
        region => is_tested(region) && has_border(volume, (*place, 3), region, false),
    });
    Borders { places: places.collect(), in_root }
}
