//! The nodes of a grid in its bytes: where they are and what is in them.

use crate::bytes::Fields;
use crate::coord::{Coord, entry, root_key};
use crate::element::{Storage, VoxelValue};
use crate::error::Level;
use crate::layout::{NodeLayout, head, node};
use crate::{Value, ValueType};

/// The offsets for a walk over the nodes of a grid, from the grid's beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) value_type: ValueType,
    pub(crate) layout: &'static NodeLayout,
    pub(crate) shape: Shape,
}

/// Where the nodes of a grid are, and how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The first leaf, lower and upper node, and the root.
    pub(crate) first: [usize; 4],
    /// How many leaves, lower and upper nodes, and entries of the root.
    pub(crate) count: [usize; 4],
}

/// Where a voxel's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere.
    Background,
    /// In an entry of the root, which is at this offset.
    Root(usize),
    /// In the table of a node of this level.
    Tile { level: Level, node: usize, entry: usize },
    /// In a leaf.
    Leaf { node: usize, entry: usize },
}

impl NodeLayout {
    pub(crate) fn node_size(&self, level: Level) -> usize {
        match level {
            Level::Leaf => self.leaf_size,
            Level::Lower => self.lower_size,
            Level::Upper => self.upper_size,
            Level::Root => self.tile_size,
        }
    }

    /// Returns where the children's mask is, the table, and how many entries both have. For inner nodes.
    pub(crate) fn table(&self, level: Level) -> (usize, usize, usize) {
        match level {
            Level::Upper => (node::UPPER_CHILDREN, self.upper_table, node::UPPER_ENTRIES),
            _ => (node::LOWER_CHILDREN, self.lower_table, node::LOWER_ENTRIES),
        }
    }
}

impl<'a> Tree<'a> {
    pub(crate) fn new(bytes: &'a [u8], value_type: ValueType, shape: Shape) -> Self {
        Self { bytes, value_type, layout: value_type.layout(), shape }
    }

    pub(crate) fn root(&self) -> usize {
        self.shape.first[3]
    }

    /// Returns where a node of a level is, or an entry of the root.
    pub(crate) fn node(&self, level: Level, n: usize) -> usize {
        let first = self.shape.first[level as usize];
        match level {
            Level::Root => first + self.layout.root_size + n * self.layout.tile_size,
            _ => first + n * self.layout.node_size(level),
        }
    }

    /// Returns where all nodes of a level are.
    pub(crate) fn nodes(self, level: Level) -> impl Iterator<Item = usize> + 'a {
        (0..self.shape.count[level as usize]).map(move |n| self.node(level, n))
    }

    /// Returns the child of an entry of the root, `None` if it is a tile.
    pub(crate) fn root_child(&self, tile: usize) -> Option<usize> {
        let child = self.bytes.i64(tile + node::TILE_CHILD);
        (child != 0).then(|| relative(self.root(), child))
    }

    /// Returns the child at an entry of an inner node, `None` if it is a tile.
    pub(crate) fn child(&self, level: Level, node: usize, n: usize) -> Option<usize> {
        let (children, table, _) = self.layout.table(level);
        self.bytes.bit(node + children, n).then(|| {
            let at = node + table + n * self.layout.table_stride;
            relative(node, self.bytes.i64(at))
        })
    }

    pub(crate) fn find(&self, ijk: Coord) -> Place {
        let key = root_key(ijk);
        let Some(tile) = self.nodes(Level::Root).find(|tile| self.bytes.u64(*tile) == key) else {
            return Place::Background;
        };
        let Some(upper) = self.root_child(tile) else {
            return Place::Root(tile);
        };
        let mut node = upper;
        for level in [Level::Upper, Level::Lower] {
            let entry = entry(ijk, level);
            match self.child(level, node, entry) {
                Some(child) => node = child,
                None => return Place::Tile { level, node, entry },
            }
        }
        Place::Leaf { node, entry: entry(ijk, Level::Leaf) }
    }

    pub(crate) fn is_active(&self, place: Place) -> bool {
        match place {
            Place::Background => false,
            Place::Root(tile) => self.bytes.u32(tile + node::TILE_STATE) != 0,
            Place::Tile { node, entry, .. } => self.bytes.bit(node + node::VALUE_MASK, entry),
            Place::Leaf { node, entry } => self.bytes.bit(node + node::LEAF_MASK, entry),
        }
    }

    /// Returns where the value of a place that is not in a leaf is.
    pub(crate) fn stored(&self, place: Place) -> usize {
        match place {
            Place::Root(tile) => tile + self.layout.tile_value,
            Place::Tile { level, node, entry } => {
                node + self.layout.table(level).1 + entry * self.layout.table_stride
            }
            Place::Background | Place::Leaf { .. } => self.root() + self.layout.root_background,
        }
    }

    /// Returns the value at a place, of a type that the grid has.
    pub(crate) fn load<T: VoxelValue>(&self, place: Place) -> T {
        let values = self.layout.leaf_values;
        match (self.value_type, place) {
            (ValueType::Mask, place) => mask_value(self.is_active(place)),
            (ValueType::OnIndex, Place::Leaf { node, entry }) => {
                index_value(self.on_index(node, entry))
            }
            (_, Place::Leaf { node, entry }) => T::load_in_leaf(self.bytes, node + values, entry),
            (_, place) => T::load(self.bytes, self.stored(place)),
        }
    }

    pub(crate) fn value(&self, place: Place) -> Value {
        crate::element::with_element!(self.value_type, T => {
            Storage::into_value(self.load::<T>(place), self.value_type)
        })
    }

    /// Returns the mask of a leaf.
    pub(crate) fn leaf_mask(&self, leaf: usize) -> [u64; 8] {
        [0, 1, 2, 3, 4, 5, 6, 7].map(|word| self.bytes.u64(leaf + node::LEAF_MASK + 8 * word))
    }

    /// Returns the index of a voxel in a leaf of [`ValueType::OnIndex`]: the leaf's first one, and one for each
    /// active voxel before. Those of whole words before are counted in 9 bits each behind the
    /// first index.
    fn on_index(&self, leaf: usize, n: usize) -> u64 {
        let word = self.bytes.u64(leaf + node::LEAF_MASK + 8 * (n / 64));
        let bit = 1 << (n % 64);
        if word & bit == 0 {
            return 0;
        }
        let first = self.bytes.u64(leaf + self.layout.leaf_values);
        let counts = self.bytes.u64(leaf + self.layout.leaf_values + 8);
        let words = match n / 64 {
            0 => 0,
            n => counts >> (9 * (n - 1)) & 511,
        };
        first.wrapping_add(words).wrapping_add(u64::from((word & (bit - 1)).count_ones()))
    }
}

/// Returns a `bool` as the element that is a `bool`.
fn mask_value<T: VoxelValue>(active: bool) -> T {
    T::load(&[u8::from(active)], 0)
}

/// Returns a `u64` as the element that is a `u64`.
fn index_value<T: VoxelValue>(index: u64) -> T {
    T::load(&index.to_le_bytes(), 0)
}

/// Returns an offset from a node as one from the grid; outside of all grids if it overflows.
pub(crate) fn relative(node: usize, offset: i64) -> usize {
    let at = i64::try_from(node).ok().and_then(|node| node.checked_add(offset));
    at.and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX / 2)
}

/// Returns the counts of active voxels in the first 1 to 7 words of a mask, 9 bits each.
pub(crate) fn packed_counts(mask: &[u64; 8]) -> u64 {
    let mut sum = 0;
    mask.iter().take(7).enumerate().fold(0, |packed, (n, word)| {
        sum += u64::from(word.count_ones());
        packed | sum << (9 * n)
    })
}

/// The versions, sizes and counts in a head are where `head` says; here those of nodes.
pub(crate) fn stored_counts(bytes: &[u8]) -> [u32; 3] {
    [0, 4, 8].map(|i| bytes.u32(head::NODE_COUNTS + i))
}
