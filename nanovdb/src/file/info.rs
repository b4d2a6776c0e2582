//! The metadata of a grid in a file.

use crate::bytes::{Fields, FieldsMut};
use crate::check;
use crate::codec::Codec;
use crate::coord::IndexBox;
use crate::error::Result;
use crate::file::META_SIZE;
use crate::grid::Grid;
use crate::layout::head;
use crate::tree::stored_counts;
use crate::{GridClass, ValueType, Version};

/// The description of a grid in its file, besides the grid itself. It is not checked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FileInfo {
    /// The grid's name.
    pub name: String,
    /// The number of its values' type, which this crate may not support.
    pub type_code: u32,
    /// The purpose of the grid.
    pub class: GridClass,
    /// The version of the format.
    pub version: Version,
    /// How it is compressed.
    pub codec: Codec,
    /// Bytes of the grid in memory.
    pub size: u64,
    /// Bytes of the grid in the file.
    pub stored_size: u64,
    /// The lengths of a voxel's edges in world space.
    pub voxel_size: [f64; 3],
    /// The box of active voxels.
    pub index_box: IndexBox,
    /// Its box in world space.
    pub world_box: [[f64; 3]; 2],
    /// How many voxels are active.
    pub active_voxels: u64,
    /// How many leaves, lower and upper nodes there are.
    pub nodes: [u32; 3],
    /// How many active tiles there are in lower nodes, upper nodes and the root.
    pub tiles: [u32; 3],
}

// In the 176 bytes that describe a grid.
const SIZE: usize = 0;
const STORED_SIZE: usize = 8;
const NAME_HASH: usize = 16;
const VOXELS: usize = 24;
const TYPE: usize = 32;
const CLASS: usize = 36;
const WORLD_BOX: usize = 40;
const INDEX_BOX: usize = 88;
const VOXEL_SIZE: usize = 112;
const NAME_SIZE: usize = 136;
const NODES: usize = 140;
const TILES: usize = 156;
const CODEC: usize = 168;
const VERSION: usize = 172;

impl FileInfo {
    /// Returns the values' type.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`](crate::Error::UnsupportedType).
    pub fn value_type(&self) -> Result<ValueType> {
        ValueType::from_code(self.type_code)
    }

    pub(super) fn name_size(meta: &[u8]) -> u32 {
        meta.u32(NAME_SIZE)
    }

    pub(super) fn of_meta(meta: &[u8], name: &[u8], version: Version, codec: Codec) -> Self {
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Self {
            name: String::from_utf8_lossy(name).into_owned(),
            type_code: meta.u32(TYPE),
            class: GridClass(meta.u32(CLASS)),
            version,
            codec,
            size: meta.u64(SIZE),
            stored_size: meta.u64(STORED_SIZE),
            voxel_size: meta.vector(VOXEL_SIZE),
            index_box: IndexBox { min: meta.coord(INDEX_BOX), max: meta.coord(INDEX_BOX + 12) },
            world_box: [meta.vector(WORLD_BOX), meta.vector(WORLD_BOX + 24)],
            active_voxels: meta.u64(VOXELS),
            nodes: [0, 4, 8].map(|i| meta.u32(NODES + i)),
            tiles: [0, 4, 8].map(|i| meta.u32(TILES + i)),
        }
    }

    /// Reads the metadata from the head of a grid that lies in a file as in memory.
    pub(super) fn of_head(bytes: &[u8]) -> Self {
        let root = head::TREE.saturating_add(bytes.u64(head::TREE + 24) as usize);
        let name = bytes.get(head::NAME..head::MAP).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let size = bytes.u64(head::GRID_SIZE);
        Self {
            name: String::from_utf8_lossy(name).into_owned(),
            type_code: bytes.u32(head::TYPE),
            class: GridClass(bytes.u32(head::CLASS)),
            version: Version::from_code(bytes.u32(head::VERSION)),
            codec: Codec::None,
            size,
            stored_size: size,
            voxel_size: bytes.vector(head::VOXEL_SIZE),
            index_box: IndexBox {
                min: bytes.coord(root),
                max: bytes.coord(root.saturating_add(12)),
            },
            world_box: [bytes.vector(head::WORLD_BOX), bytes.vector(head::WORLD_BOX + 24)],
            active_voxels: bytes.u64(head::VOXEL_COUNT),
            nodes: stored_counts(bytes),
            tiles: [0, 4, 8].map(|i| bytes.u32(head::TILE_COUNTS + i)),
        }
    }
}

/// Returns the description of a grid that takes `stored` bytes in the file, and its name with a zero behind it.
pub(super) fn describe(grid: &Grid, stored: usize, version: Version, codec: Codec) -> Vec<u8> {
    let bytes = grid.bytes();
    let field = |at: usize, len: usize| bytes.get(at..at + len).unwrap_or_default();
    let name = check::name_bytes(bytes, &grid.facts().blind);
    let mut meta = vec![0; META_SIZE];
    meta.put_u64(SIZE, bytes.len() as u64);
    meta.put_u64(STORED_SIZE, stored as u64);
    meta.put_u64(NAME_HASH, name_hash(name));
    meta.put_u64(VOXELS, bytes.u64(head::VOXEL_COUNT));
    meta.put_u32(TYPE, grid.value_type().code());
    meta.put_u32(CLASS, bytes.u32(head::CLASS));
    meta.put(WORLD_BOX, field(head::WORLD_BOX, 48));
    meta.put(INDEX_BOX, field(grid.tree().root(), 24));
    meta.put(VOXEL_SIZE, field(head::VOXEL_SIZE, 24));
    meta.put_u32(NAME_SIZE, u32::try_from(name.len() + 1).unwrap_or(u32::MAX));
    meta.put(NODES, field(head::NODE_COUNTS, 12));
    meta.put_u32(NODES + 12, 1);
    meta.put(TILES, field(head::TILE_COUNTS, 12));
    meta.put(CODEC, &codec.code().to_le_bytes());
    meta.put_u32(VERSION, version.code());
    meta.extend_from_slice(name);
    meta.push(0);
    meta
}

/// Returns the hash by which libraries look for names.
fn name_hash(name: &[u8]) -> u64 {
    name.iter().fold(0u64, |hash, byte| {
        hash.wrapping_mul(67).wrapping_add(u64::from(*byte) + (hash >> 56))
    })
}

#[cfg(test)]
mod tests {
    /// The values of files by the C++ library.
    #[test]
    fn hash_of_a_name() {
        assert_eq!(super::name_hash(b"surface"), 0x0000_099b_6446_aed5);
        assert_eq!(super::name_hash(b""), 0);
        assert_eq!(super::name_hash(b"grid-0"), 0x0000_0020_eba0_ede5);
    }
}
