//! The metadata of a grid.

use crate::bytes::Fields;
use crate::checksum::ChecksumMode;
use crate::coord::IndexBox;
use crate::error::Level;
use crate::grid::Grid;
use crate::layout::head;
use crate::map::Map;
use crate::{GridClass, ValueType, Version};

/// Everything about a grid but its voxels.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GridInfo {
    /// The name. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The purpose of the grid.
    pub class: GridClass,
    /// The type of its values.
    pub value_type: ValueType,
    /// From index space to world space.
    pub map: Map,
    /// The lengths of a voxel's edges in world space, from the map.
    pub voxel_size: [f64; 3],
    /// The box of active voxels, counted. `None` without active voxels.
    pub index_box: Option<IndexBox>,
    /// Its box in world space.
    pub world_box: Option<[[f64; 3]; 2]>,
    /// How many voxels are active, those of active tiles among them.
    pub active_voxels: u64,
    /// How many leaves, lower and upper nodes there are.
    pub nodes: [u32; 3],
    /// How many active tiles there are in lower nodes, upper nodes and the root, counted.
    pub tiles: [u64; 3],
    /// How many entries the root has: upper nodes and tiles, active or not.
    pub root_entries: u32,
    /// How many values the indices of an index grid are for; 0 for other grids.
    pub value_count: u64,
    /// Arrays that the grid carries along.
    pub blind: Vec<BlindInfo>,
    /// The version of the format.
    pub version: Version,
    /// The checksum as it is stored.
    pub checksum: u64,
    /// The bytes that it covers.
    pub checksum_mode: ChecksumMode,
    /// The size of the grid in bytes.
    pub size: u64,
}

/// The meaning of blind data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlindInfo {
    /// Its name.
    pub name: String,
    /// Number of its class in the format: 1 indices, 2 attributes, 3 a name, 4 channels.
    pub class: u32,
    /// Number of its meaning in the format: 1 positions, 2 colours, 3 normals and so on.
    pub semantic: u32,
    /// Number of its values' type; 0 is unknown, other than that as [`ValueType::code`] with types
    /// that grids of this crate do not have.
    pub type_code: u32,
    /// How many values there are.
    pub count: u64,
    /// Bytes of each.
    pub value_size: usize,
}

pub(super) fn info(grid: &Grid) -> GridInfo {
    let bytes = grid.bytes();
    let map = grid.map();
    let blind = grid.facts().blind.iter().map(|blind| {
        let name = bytes.get(blind.meta + 32..blind.meta + head::BLIND_SIZE).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        BlindInfo {
            name: String::from_utf8_lossy(name).into_owned(),
            class: blind.class,
            semantic: bytes.u32(blind.meta + 20),
            type_code: bytes.u32(blind.meta + 28),
            count: bytes.u64(blind.meta + 8),
            value_size: blind.value_size,
        }
    });
    let shape = grid.facts().shape;
    let [leaves, lowers, uppers, entries] =
        shape.count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    GridInfo {
        name: grid.name(),
        class: GridClass(grid.class_code()),
        value_type: grid.value_type(),
        map,
        voxel_size: map.voxel_size(),
        index_box: grid.index_box(),
        world_box: grid.world_box(),
        active_voxels: grid.active_voxels(),
        nodes: [leaves, lowers, uppers],
        tiles: grid.counts().tiles,
        root_entries: entries,
        value_count: grid.value_count(),
        blind: blind.collect(),
        version: grid.version(),
        checksum: bytes.u64(head::CHECKSUM),
        checksum_mode: grid.checksum_mode(),
        size: bytes.len() as u64,
    }
}

impl GridInfo {
    /// Returns how many nodes of a level there are; of [`Level::Root`] the entries.
    #[must_use]
    pub fn node_count(&self, level: Level) -> u32 {
        match level {
            Level::Leaf => self.nodes[0],
            Level::Lower => self.nodes[1],
            Level::Upper => self.nodes[2],
            Level::Root => self.root_entries,
        }
    }
}
