//! The nodes of a grid that is being made.

use std::collections::BTreeMap;

use super::StoredValue;
use crate::coord::{Coord, entry, origin};
use crate::error::Level;

/// The kind of an entry of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot<V> {
    Tile(V, bool),
    /// A node of the level below, by its number.
    Child(usize),
}

/// An upper or lower node: the kind of all entries, and the exceptions.
#[derive(Debug, Clone)]
pub(super) struct Inner<V> {
    pub(super) fill: (V, bool),
    pub(super) slots: BTreeMap<usize, Slot<V>>,
}

#[derive(Debug, Clone)]
pub(super) struct Leaf<V> {
    pub(super) mask: [u64; 8],
    /// 512 of them.
    pub(super) values: Vec<V>,
}

/// The tree. Nodes are never removed from the lists: a node that a tile replaced just has no parent.
#[derive(Debug, Clone)]
pub(super) struct Nodes<V> {
    pub(super) background: V,
    /// By origin.
    pub(super) root: BTreeMap<Coord, Slot<V>>,
    pub(super) uppers: Vec<Inner<V>>,
    pub(super) lowers: Vec<Inner<V>>,
    pub(super) leaves: Vec<Leaf<V>>,
    /// The leaf of the last voxel: voxels come in flocks.
    last: Option<(Coord, usize)>,
}

/// Makes a tile a node of tiles like it, if it is not a node yet.
fn descend<V: Copy>(slot: &mut Slot<V>, nodes: &mut Vec<Inner<V>>) -> usize {
    match *slot {
        Slot::Child(n) => n,
        Slot::Tile(value, active) => {
            nodes.push(Inner { fill: (value, active), slots: BTreeMap::new() });
            *slot = Slot::Child(nodes.len() - 1);
            nodes.len() - 1
        }
    }
}

impl<V: StoredValue> Nodes<V> {
    pub(super) fn new(background: V) -> Self {
        Self {
            background,
            root: BTreeMap::new(),
            uppers: Vec::new(),
            lowers: Vec::new(),
            leaves: Vec::new(),
            last: None,
        }
    }

    fn root_slot(&mut self, ijk: Coord) -> &mut Slot<V> {
        let tile = Slot::Tile(self.background, false);
        self.root.entry(origin(ijk, Level::Upper.size_log2())).or_insert(tile)
    }

    /// Returns the entry of an upper node that a voxel is in.
    fn upper_slot(&mut self, ijk: Coord) -> Option<&mut Slot<V>> {
        let mut slot = *self.root_slot(ijk);
        let n = descend(&mut slot, &mut self.uppers);
        *self.root_slot(ijk) = slot;
        Some(self.uppers.get_mut(n)?.slot(entry(ijk, Level::Upper)))
    }

    /// Returns the entry of a lower node that a voxel is in.
    fn lower_slot(&mut self, ijk: Coord) -> Option<&mut Slot<V>> {
        let mut slot = *self.upper_slot(ijk)?;
        let n = descend(&mut slot, &mut self.lowers);
        *self.upper_slot(ijk)? = slot;
        Some(self.lowers.get_mut(n)?.slot(entry(ijk, Level::Lower)))
    }

    /// Returns the leaf that a voxel is in.
    fn leaf(&mut self, ijk: Coord) -> Option<&mut Leaf<V>> {
        let place = origin(ijk, Level::Leaf.size_log2());
        let n = match self.last {
            Some((last, n)) if last == place => n,
            _ => {
                let leaves = self.leaves.len();
                let slot = self.lower_slot(ijk)?;
                match *slot {
                    Slot::Child(n) => n,
                    Slot::Tile(value, active) => {
                        *slot = Slot::Child(leaves);
                        let mask = if active { [u64::MAX; 8] } else { [0; 8] };
                        self.leaves.push(Leaf { mask, values: vec![value; 512] });
                        leaves
                    }
                }
            }
        };
        self.last = Some((place, n));
        self.leaves.get_mut(n)
    }

    pub(super) fn set(&mut self, ijk: Coord, value: V, active: bool) {
        if let Some(leaf) = self.leaf(ijk) {
            leaf.set(entry(ijk, Level::Leaf), value, active);
        }
    }

    /// Level 1 to 3: a tile of a lower node, an upper node, the root.
    pub(super) fn fill(&mut self, level: u32, ijk: Coord, value: V, active: bool) {
        self.last = None;
        let slot = match level {
            1 => self.lower_slot(ijk),
            2 => self.upper_slot(ijk),
            _ => Some(self.root_slot(ijk)),
        };
        if let Some(slot) = slot {
            *slot = Slot::Tile(value, active);
        }
    }

    /// Leaf by leaf, in each a row of voxels after the other. The box is inside the coordinates and has as
    /// many values.
    pub(super) fn dense(&mut self, dims: [usize; 3], values: &[V], first: Coord, tolerance: f64) {
        let background = self.background;
        let [_, ny, nz] = dims;
        let parts = |axis: usize| parts(first[axis], dims[axis]);
        for (x0, x1) in parts(0) {
            for (y0, y1) in parts(1) {
                for (z0, z1) in parts(2) {
                    for x in x0..x1 {
                        for y in y0..y1 {
                            let row = (x * ny + y) * nz;
                            let row = values.get(row + z0..row + z1).unwrap_or_default();
                            for (z, value) in (z0..).zip(row) {
                                if value.distance(background) > tolerance {
                                    let ijk = [x, y, z];
                                    let ijk = [0, 1, 2].map(|a: usize| {
                                        (i64::from(first[a]) + ijk[a] as i64) as i32
                                    });
                                    self.set(ijk, *value, true);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a stretch of `len` voxels cut where leaves begin.
fn parts(first: i32, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let offset = (first & 7) as usize;
    (0..(offset + len).div_ceil(8))
        .map(move |n| ((8 * n).saturating_sub(offset), (8 * (n + 1) - offset).min(len)))
}

impl<V: Copy> Inner<V> {
    fn slot(&mut self, n: usize) -> &mut Slot<V> {
        let (value, active) = self.fill;
        self.slots.entry(n).or_insert(Slot::Tile(value, active))
    }

    /// Returns the kind of an entry.
    pub(super) fn get(&self, n: usize) -> Slot<V> {
        self.slots.get(&n).copied().unwrap_or(Slot::Tile(self.fill.0, self.fill.1))
    }
}

impl<V> Leaf<V> {
    fn set(&mut self, n: usize, value: V, active: bool) {
        if let (Some(there), Some(word)) = (self.values.get_mut(n), self.mask.get_mut(n / 64)) {
            *there = value;
            let bit = 1 << (n % 64);
            *word = if active { *word | bit } else { *word & !bit };
        }
    }
}
