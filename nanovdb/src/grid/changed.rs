//! Grids that were changed elsewhere: counted and packed again.

use std::borrow::Cow;

use super::iter::inner_nodes;
use crate::bytes::{Aligned, Fields, FieldsMut, set_bits};
use crate::check;
use crate::error::{Level, Result};
use crate::grid::Grid;
use crate::layout::{head, node};
use crate::tree::{Place, Shape, Tree};
use crate::{Coord, ValueType};

impl Grid {
    /// Creates a grid from the bytes of a grid in which only voxels were changed, as devices do.
    ///
    /// Computes again all data that depends on voxels: the number of active ones, the statistics
    /// ([`update_statistics`](Self::update_statistics)) and the checksum, of the same kind as before. Nodes are moved
    /// together if there is room between or behind them, as there is where nodes come and go; a grid with blind data
    /// keeps its room.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes), but for the number of active voxels and the checksum.
    pub fn from_changed_bytes(bytes: &[u8]) -> Result<Self> {
        let facts = check::check_uncounted(bytes)?;
        let packed = match facts.blind.is_empty() {
            true => pack(Tree::new(bytes, facts.value_type, facts.shape))?,
            false => None,
        };
        let mut grid = match packed {
            Some((data, shape)) => Self { data, facts: check::Facts { shape, ..facts } },
            None => Self { data: Aligned::copy(bytes)?, facts },
        };
        let voxels = grid.facts.counts.voxels;
        grid.data.as_mut_slice().put_u64(head::VOXEL_COUNT, voxels);
        grid.update_statistics();
        Ok(grid)
    }

    /// Returns the [`bytes`](Self::bytes), with the values of tiles and of the background as [`value`](Self::value)
    /// gives them where these are one bit: 0 or 1. A writer of bools may have left another byte than 1 there,
    /// one of masks another value than the state, which is what counts here.
    #[must_use]
    pub fn normalized_bytes(&self) -> Cow<'_, [u8]> {
        let mut bytes = Cow::Borrowed(self.bytes());
        if !matches!(self.value_type(), ValueType::Mask | ValueType::Bool) {
            return bytes;
        }
        let tree = self.tree();
        let roots = tree.nodes(Level::Root).filter(|tile| tree.root_child(*tile).is_none());
        let tiles = inner_nodes(tree).flat_map(|(level, node, _): (_, _, Coord)| {
            let (children, _, entries) = tree.layout.table(level);
            let tiles = (0..entries).filter(move |n| !tree.bytes.bit(node + children, *n));
            tiles.map(move |entry| Place::Tile { level, node, entry })
        });
        for place in [Place::Background].into_iter().chain(roots.map(Place::Root)).chain(tiles) {
            let (at, value) = (tree.stored(place), u8::from(tree.load::<bool>(place)));
            if bytes.u8(at) != value {
                bytes.to_mut().as_mut_slice().put(at, &[value]);
            }
        }
        bytes
    }
}

/// Root, upper nodes, lower nodes and leaves one behind the other, as they are written here. `None` if there
/// is no room to be saved.
fn pack(tree: Tree<'_>) -> Result<Option<(Aligned, Shape)>> {
    let mut shape = Shape { first: [0; 4], count: tree.shape.count };
    let levels = [Level::Root, Level::Upper, Level::Lower, Level::Leaf];
    // All of them are in the bytes, and no two in one place: nothing overflows.
    let mut end = head::SIZE;
    for level in levels {
        shape.first[level as usize] = end;
        end += size(tree, level);
    }
    if end >= tree.bytes.len() {
        return Ok(None);
    }
    let mut data = Aligned::zeroed(end)?;
    let bytes = data.as_mut_slice();
    bytes.put(0, tree.bytes.get(..head::SIZE).unwrap_or_default());
    for level in levels {
        let (from, to) = (tree.shape.first[level as usize], shape.first[level as usize]);
        bytes.put(to, tree.bytes.get(from..from + size(tree, level)).unwrap_or_default());
        bytes.put_u64(head::TREE + 8 * level as usize, (to - head::TREE) as u64);
    }
    bytes.put_u64(head::GRID_SIZE, end as u64);
    bytes.put_u64(head::BLIND_OFFSET, end as u64);

    // Where something of a level is now.
    let moved = |level: Level, at: usize| {
        (at - tree.shape.first[level as usize]) + shape.first[level as usize]
    };
    let root = shape.first[Level::Root as usize];
    for tile in tree.nodes(Level::Root) {
        if let Some(child) = tree.root_child(tile) {
            let at = moved(Level::Root, tile) + node::TILE_CHILD;
            bytes.put_u64(at, (moved(Level::Upper, child) - root) as u64);
        }
    }
    for (level, below) in [(Level::Upper, Level::Lower), (Level::Lower, Level::Leaf)] {
        let (children, table, entries) = tree.layout.table(level);
        for from in tree.nodes(level) {
            let to = moved(level, from);
            for entry in set_bits(tree.bytes, from + children, entries) {
                if let Some(child) = tree.child(level, from, entry) {
                    let at = to + table + entry * tree.layout.table_stride;
                    bytes.put_u64(at, (moved(below, child) - to) as u64);
                }
            }
        }
    }
    Ok(Some((data, shape)))
}

/// Bytes of all nodes of a level; of the root, with its entries.
fn size(tree: Tree<'_>, level: Level) -> usize {
    let root = if level == Level::Root { tree.layout.root_size } else { 0 };
    root + tree.shape.count[level as usize] * tree.layout.node_size(level)
}
