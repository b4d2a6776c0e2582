//! Checks of a grid, before anything in it is trusted.
//!
//! A grid that passes can be read by code that follows its offsets without looking, on a device for
//! example. The checks are listed at [`Grid::from_bytes`](crate::Grid::from_bytes).

mod blind;
mod nodes;

use crate::bytes::{ALIGNMENT, Fields};
use crate::coord::IndexBox;
use crate::error::{Flaw, Level, Result};
use crate::layout::{NodeLayout, flags, head, node};
use crate::map::Map;
use crate::tree::{Shape, Tree, stored_counts};
use crate::{GridClass, ValueType, Version};

pub(crate) use blind::{Blind, blind_data, type_size};

/// First bytes of a grid, and of a file before version 32.6.
pub(crate) const MAGIC_OLD: u64 = u64::from_le_bytes(*b"NanoVDB0");
/// First bytes of a grid.
pub(crate) const MAGIC_GRID: u64 = u64::from_le_bytes(*b"NanoVDB1");
/// First bytes of a file.
pub(crate) const MAGIC_FILE: u64 = u64::from_le_bytes(*b"NanoVDB2");

/// The results of the checks.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) value_type: ValueType,
    pub(crate) shape: Shape,
    pub(crate) counts: Counts,
    pub(crate) blind: Vec<Blind>,
}

/// The counts of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Active tiles in lower and upper nodes and the root.
    pub(crate) tiles: [u64; 3],
    /// Active voxels, those of tiles among them.
    pub(crate) voxels: u64,
    /// The box of active voxels.
    pub(crate) active: IndexBox,
}

/// Checks everything but the checksum.
pub(crate) fn check(bytes: &[u8]) -> Result<Facts> {
    let facts = check_uncounted(bytes)?;
    let (claimed, there) = (bytes.u64(head::VOXEL_COUNT), facts.counts.voxels);
    if claimed != there {
        let what = format!("{claimed} active voxels are claimed, {there} are there");
        return Err(Flaw::new("voxel-count", what).at(head::VOXEL_COUNT).into());
    }
    Ok(facts)
}

/// Checks everything but the checksum and the number of active voxels.
pub(crate) fn check_uncounted(bytes: &[u8]) -> Result<Facts> {
    let value_type = check_head(bytes)?;
    let shape = check_shape(bytes, value_type.layout())?;
    let blind = blind::check(bytes, &shape, value_type.layout())?;
    let counts = nodes::check(Tree::new(bytes, value_type, shape))?;
    Ok(Facts { value_type, shape, counts, blind })
}

/// Checks a head as far as needed, and returns the size of the grid.
pub(crate) fn grid_size(bytes: &[u8]) -> Result<usize> {
    if bytes.len() < head::SIZE {
        let what = format!("{} bytes are too few for a grid's head", bytes.len());
        return Err(Flaw::new("size", what).into());
    }
    let magic = bytes.u64(head::MAGIC);
    if magic != MAGIC_OLD && magic != MAGIC_GRID {
        return Err(Flaw::new("magic", "a grid begins with neither NanoVDB0 nor NanoVDB1")
            .at(0)
            .into());
    }
    let version = Version::from_code(bytes.u32(head::VERSION));
    if !version.is_supported() {
        let what = format!("version {version}, where 32 is supported");
        return Err(Flaw::new("version", what).at(head::VERSION).into());
    }
    let size = bytes.u64(head::GRID_SIZE);
    match usize::try_from(size) {
        Ok(size) if (head::SIZE..=bytes.len()).contains(&size) => Ok(size),
        _ => {
            let what = format!("a grid of {size} bytes, where there are {}", bytes.len());
            Err(Flaw::new("size", what).at(head::GRID_SIZE).into())
        }
    }
}

fn check_head(bytes: &[u8]) -> Result<ValueType> {
    let size = grid_size(bytes)?;
    if size != bytes.len() {
        let what = format!("{} bytes behind the grid", bytes.len() - size);
        return Err(Flaw::new("size", what).at(size).into());
    }
    let (index, count) = (bytes.u32(head::GRID_INDEX), bytes.u32(head::GRID_COUNT));
    if index >= count {
        let what = format!("grid {index} of {count}");
        return Err(Flaw::new("grid-index", what).at(head::GRID_INDEX).into());
    }
    let value_type = ValueType::from_code(bytes.u32(head::TYPE))?;
    let version = Version::from_code(bytes.u32(head::VERSION));
    if value_type.is_index() && version < Version::INDEX {
        let what =
            format!("indices in version {version}, which are others since {}", Version::INDEX);
        return Err(Flaw::new("version", what).at(head::VERSION).into());
    }
    let class = bytes.u32(head::CLASS);
    if class >= GridClass::END {
        let what = format!("no class of grids has the number {class}");
        return Err(Flaw::new("class", what).at(head::CLASS).into());
    }
    if !(0..head::NAME_SIZE).any(|n| bytes.u8(head::NAME + n) == 0) {
        return Err(Flaw::new("name", "the name has no end").at(head::NAME).into());
    }
    let map = Map::load(bytes);
    map.check()?;
    map.check_voxel_size(bytes.vector(head::VOXEL_SIZE))?;
    Ok(value_type)
}

/// Where the nodes are: all of them inside the grid, and no two at one place.
fn check_shape(bytes: &[u8], layout: &NodeLayout) -> Result<Shape> {
    let levels = [Level::Leaf, Level::Lower, Level::Upper, Level::Root];
    let counts = stored_counts(bytes);
    let mut shape = Shape::default();
    let mut ranges = Vec::with_capacity(4);
    for level in levels {
        let n = level as usize;
        let at = head::TREE + 8 * n;
        let flaw = |what: String| Flaw::new("offset", format!("{level}s: {what}")).at(at);
        let offset = bytes.u64(at);
        let first = offset.checked_add(head::TREE as u64).and_then(|at| usize::try_from(at).ok());
        let first = first.filter(|first| *first <= bytes.len());
        let count = counts.get(n).map_or(1, |count| *count as usize);
        if count == 0 && offset == 0 {
            continue;
        }
        let Some(first) = first.filter(|first| *first >= head::SIZE) else {
            return Err(flaw(format!("an offset of {offset} bytes is not in the grid")).into());
        };
        if first % ALIGNMENT != 0 {
            let what = format!(
                "an offset of {offset} bytes leads to byte {first}, not to a multiple of {ALIGNMENT}"
            );
            return Err(flaw(what).into());
        }
        shape.first[n] = first;
        let (count, size) = match level {
            Level::Root => {
                let inside =
                    first.checked_add(layout.root_size).is_some_and(|end| end <= bytes.len());
                let entries = bytes.u32(first.saturating_add(node::TABLE_SIZE)) as usize;
                let size = entries.checked_mul(layout.tile_size);
                (entries, size.and_then(|s| s.checked_add(layout.root_size)).filter(|_| inside))
            }
            _ => (count, count.checked_mul(layout.node_size(level))),
        };
        let end = size.and_then(|size| first.checked_add(size)).filter(|end| *end <= bytes.len());
        let Some(end) = end else {
            return Err(flaw(format!("{count} at byte {first} are not in the grid")).into());
        };
        shape.count[n] = count;
        if first < end {
            ranges.push((first, end, level));
        }
    }
    ranges.sort_unstable_by_key(|range| range.0);
    for pair in ranges.windows(2) {
        if let [(_, end, before), (first, _, after)] = pair
            && end > first
        {
            let what = format!("{before}s and {after}s overlap");
            return Err(Flaw::new("offset", what).at(*first).into());
        }
    }
    Ok(shape)
}

/// Returns the name in the head, or in blind data if it is too long for the head.
pub(crate) fn name_bytes<'a>(bytes: &'a [u8], blind: &[Blind]) -> &'a [u8] {
    let long = bytes.u32(head::FLAGS) & flags::LONG_NAME != 0;
    let elsewhere = blind.iter().find(|data| long && data.is_name());
    let (at, len) = elsewhere.map_or((head::NAME, head::NAME_SIZE), |data| (data.at, data.len));
    let name = bytes.get(at..at.saturating_add(len)).unwrap_or_default();
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

pub(crate) fn name(bytes: &[u8], blind: &[Blind]) -> String {
    String::from_utf8_lossy(name_bytes(bytes, blind)).into_owned()
}
