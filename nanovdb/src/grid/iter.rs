//! Leaves and tiles one after the other.

use crate::bytes::{Fields, set_bits};
use crate::coord::{Coord, entry_origin, origin, root_origin};
use crate::element::{Value, VoxelValue};
use crate::error::{Error, Level, Result};
use crate::tree::{Place, Tree};

/// A leaf: 8^3 voxels.
#[derive(Debug, Clone, Copy)]
pub struct Leaf<'a> {
    tree: Tree<'a>,
    node: usize,
}

impl Leaf<'_> {
    /// Its first voxel.
    #[must_use]
    pub fn origin(&self) -> Coord {
        origin(self.tree.bytes.coord(self.node), 3)
    }

    /// Returns which voxels are active: bit `n % 64` of word `n / 64` is for voxel `n = (x * 8 + y) * 8 + z`, counted
    /// from the origin.
    #[must_use]
    pub fn mask(&self) -> [u64; 8] {
        self.tree.leaf_mask(self.node)
    }

    /// Returns the value of voxel `n % 512`.
    #[must_use]
    pub fn value(&self, n: usize) -> Value {
        self.tree.value(Place::Leaf { node: self.node, entry: n % 512 })
    }

    /// Returns all values.
    ///
    /// # Errors
    /// [`Error::WrongType`]: the grid has values of another type.
    pub fn values<T: VoxelValue>(&self) -> Result<[T; 512]> {
        if !T::TYPES.contains(&self.tree.value_type) {
            return Err(Error::WrongType { found: self.tree.value_type, asked: T::NAME });
        }
        Ok(std::array::from_fn(|entry| self.tree.load(Place::Leaf { node: self.node, entry })))
    }

    /// Returns the coordinates of voxel `n % 512`.
    #[must_use]
    pub fn coord(&self, n: usize) -> Coord {
        entry_origin(self.origin(), Level::Leaf, n % 512)
    }
}

/// A cube of voxels with one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tile {
    /// The kind of the node whose table has it: a lower node has tiles of 8^3 voxels, an upper one of 128^3, the root
    /// of 4096^3.
    pub level: Level,
    /// Its first voxel.
    pub origin: Coord,
    /// The value of its voxels.
    pub value: Value,
    /// Whether they are active.
    pub active: bool,
}

impl Tile {
    /// Its length along an axis, in voxels.
    #[must_use]
    pub fn size(&self) -> u32 {
        1 << self.level.tile_log2()
    }
}

pub(super) fn leaves(tree: Tree<'_>) -> impl ExactSizeIterator<Item = Leaf<'_>> {
    (0..tree.shape.count[0]).map(move |n| Leaf { tree, node: tree.node(Level::Leaf, n) })
}

/// Returns where inner nodes are, by way of their parents: a node without active voxels may not know.
pub(crate) fn inner_nodes(tree: Tree<'_>) -> impl Iterator<Item = (Level, usize, Coord)> + '_ {
    let uppers = move || {
        tree.nodes(Level::Root).filter_map(move |tile| {
            tree.root_child(tile).map(|node| (node, root_origin(tree.bytes.u64(tile))))
        })
    };
    let lowers = uppers().flat_map(move |(upper, place)| {
        let (children, _, entries) = tree.layout.table(Level::Upper);
        set_bits(tree.bytes, upper + children, entries).filter_map(move |entry| {
            let node = tree.child(Level::Upper, upper, entry)?;
            Some((Level::Lower, node, entry_origin(place, Level::Upper, entry)))
        })
    });
    uppers().map(|(node, place)| (Level::Upper, node, place)).chain(lowers)
}

pub(super) fn tiles(tree: Tree<'_>) -> impl Iterator<Item = Tile> + '_ {
    let background = tree.value(Place::Background);
    let in_root = tree.nodes(Level::Root).filter(move |tile| tree.root_child(*tile).is_none());
    let in_root = in_root.map(move |tile| {
        let origin = root_origin(tree.bytes.u64(tile));
        (Level::Root, origin, Place::Root(tile))
    });
    let in_nodes = inner_nodes(tree).flat_map(move |(level, node, place)| {
        let (children, _, entries) = tree.layout.table(level);
        (0..entries).filter(move |n| !tree.bytes.bit(node + children, *n)).map(move |entry| {
            let origin = entry_origin(place, level, entry);
            (level, origin, Place::Tile { level, node, entry })
        })
    });
    in_root.chain(in_nodes).filter_map(move |(level, origin, place)| {
        let (value, active) = (tree.value(place), tree.is_active(place));
        (active || value != background).then_some(Tile { level, origin, value, active })
    })
}
