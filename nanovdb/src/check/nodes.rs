//! Checks of the nodes: that they are a tree, and what is in it.

use std::collections::HashSet;

use super::Counts;
use crate::ValueType;
use crate::bytes::{Fields, count_bits, set_bits};
use crate::coord::{Coord, IndexBox, entry_origin, leaf_box, origin, root_key, root_origin};
use crate::error::{Flaw, Level, Result};
use crate::layout::{head, node};
use crate::tree::{Tree, packed_counts, relative};

struct Walk<'a> {
    tree: Tree<'a>,
    /// Which leaves, lower and upper nodes have a parent so far.
    seen: [Vec<bool>; 3],
    /// How many they were.
    children: [usize; 3],
    counts: Counts,
    /// How many values indices are for.
    values: u64,
}

/// Follows all offsets.
pub(super) fn check(tree: Tree<'_>) -> Result<Counts> {
    let [leaves, lowers, uppers, _] = tree.shape.count;
    let mut walk = Walk {
        tree,
        seen: [vec![false; leaves], vec![false; lowers], vec![false; uppers]],
        children: [0; 3],
        counts: Counts { tiles: [0; 3], voxels: 0, active: IndexBox::EMPTY },
        values: tree.bytes.u64(head::VALUE_COUNT),
    };
    walk.root()?;
    for level in [Level::Leaf, Level::Lower, Level::Upper] {
        let (children, count) = (walk.children[level as usize], tree.shape.count[level as usize]);
        if children != count {
            let orphan = walk.seen[level as usize].iter().position(|seen| !seen).unwrap_or(count);
            let what = format!("{} of {count} {level}s are nobody's child", count - children);
            return Err(Flaw::new("parent", what).node(level, orphan).into());
        }
    }
    Ok(walk.counts)
}

impl Walk<'_> {
    /// Returns the number of the node of a level at an offset, which must not have been a child before.
    fn child(&mut self, level: Level, at: usize, parent: Flaw) -> Result<usize> {
        let first = self.tree.shape.first[level as usize];
        let size = self.tree.layout.node_size(level);
        let distance = at.checked_sub(first).filter(|distance| distance % size == 0);
        let seen = &mut self.seen[level as usize];
        let place = distance.and_then(|d| seen.get_mut(d / size).map(|seen| (d / size, seen)));
        let Some((n, seen)) = place else {
            let what = format!("a child at byte {at}, where no {level} is");
            return Err(Flaw { check: "child", what, ..parent }.into());
        };
        if *seen {
            let what = format!("{level} {n} is the child of two");
            return Err(Flaw { check: "parent", what, ..parent }.into());
        }
        *seen = true;
        self.children[level as usize] += 1;
        Ok(n)
    }

    fn root(&mut self) -> Result<()> {
        let tree = self.tree;
        let mut keys = HashSet::new();
        self.index(tree.bytes.u64(tree.root() + tree.layout.root_background), || {
            Flaw::new("index", "the background").at(tree.root())
        })?;
        for n in 0..tree.shape.count[3] {
            let at = tree.node(Level::Root, n);
            let here = |check, what: &str| Flaw::new(check, what).at(at).node(Level::Root, n);
            let key = tree.bytes.u64(at);
            let place = root_origin(key);
            if root_key(place) != key {
                return Err(here("root-key", "a key that is no origin's").into());
            }
            if !keys.insert(key) {
                return Err(here("root-key", "a key that another entry has").into());
            }
            if let Some(child) = tree.root_child(at) {
                let n = self.child(Level::Upper, child, here("", ""))?;
                self.inner(Level::Upper, n, child, place)?;
                continue;
            }
            self.index(tree.bytes.u64(at + tree.layout.tile_value), || here("index", "the tile"))?;
            if tree.bytes.u32(at + node::TILE_STATE) != 0 {
                self.tiles(Level::Root, 1);
                self.counts.active.extend(IndexBox::cube(place, 12));
            }
        }
        Ok(())
    }

    /// An upper or lower node and what is below it.
    fn inner(&mut self, level: Level, n: usize, at: usize, place: Coord) -> Result<()> {
        let tree = self.tree;
        let here = |check, what: &str| Flaw::new(check, what).at(at).node(level, n);
        let min = tree.bytes.coord(at);
        // Writers leave the empty box in nodes without active voxels: it has no origin.
        if origin(min, level.size_log2()) != place && min != IndexBox::EMPTY.min {
            let what = format!("a node at {min:?} whose parent has it at {place:?}");
            return Err(here("origin", &what).into());
        }
        let (children, table, entries) = tree.layout.table(level);
        let words = |mask: usize| (0..entries / 64).map(move |w| tree.bytes.u64(at + mask + 8 * w));
        if words(children).zip(words(node::VALUE_MASK)).any(|(child, active)| child & active != 0) {
            return Err(here("mask", "an entry that is a child and an active tile").into());
        }
        self.tiles(level, count_bits(tree.bytes, at + node::VALUE_MASK, entries));
        for entry in set_bits(tree.bytes, at + node::VALUE_MASK, entries) {
            let tile = entry_origin(place, level, entry);
            self.counts.active.extend(IndexBox::cube(tile, level.tile_log2()));
        }
        if tree.value_type.is_index() {
            for entry in 0..entries {
                if !tree.bytes.bit(at + children, entry) {
                    let value = at + table + entry * tree.layout.table_stride;
                    self.index(tree.bytes.u64(value), || here("index", "a tile"))?;
                }
            }
        }
        for entry in set_bits(tree.bytes, at + children, entries) {
            let offset = tree.bytes.i64(at + table + entry * tree.layout.table_stride);
            let child = relative(at, offset);
            let place = entry_origin(place, level, entry);
            if level == Level::Upper {
                let n = self.child(Level::Lower, child, here("", ""))?;
                self.inner(Level::Lower, n, child, place)?;
            } else {
                let n = self.child(Level::Leaf, child, here("", ""))?;
                self.leaf(n, child, place)?;
            }
        }
        Ok(())
    }

    fn leaf(&mut self, n: usize, at: usize, place: Coord) -> Result<()> {
        let tree = self.tree;
        let here = |check, what: &str| Flaw::new(check, what).at(at).node(Level::Leaf, n);
        let min = tree.bytes.coord(at);
        if origin(min, 3) != place {
            let what = format!("a leaf at {min:?} whose parent has it at {place:?}");
            return Err(here("origin", &what).into());
        }
        let extent: [u8; 3] = tree.bytes.array(at + node::LEAF_BOX);
        let has_box = tree.bytes.u8(at + node::LEAF_FLAGS) & node::HAS_BOX != 0;
        if has_box && (0..3).any(|a| (min[a] & 7) + i32::from(extent[a]) > 7) {
            return Err(here("box", "the box of active voxels is not inside the leaf").into());
        }
        let mask = tree.leaf_mask(at);
        let active = mask.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        self.counts.voxels = self.counts.voxels.saturating_add(active);
        if let Some(found) = leaf_box(place, &mask) {
            self.counts.active.extend(found);
        }
        if !tree.value_type.is_index() {
            return Ok(());
        }
        let values = at + tree.layout.leaf_values;
        let statistics = tree.bytes.u8(at + node::LEAF_FLAGS) & node::HAS_INDEXED_STATISTICS != 0;
        let mut indices = if statistics { 4 } else { 0 };
        if tree.value_type == ValueType::OnIndex {
            indices += active;
            if tree.bytes.u64(values + 8) != packed_counts(&mask) {
                return Err(here("index", "counts of voxels that are not the mask's").into());
            }
        } else {
            indices += 512;
        }
        let end = tree.bytes.u64(values).checked_add(indices);
        if end.is_none_or(|end| end > self.values || end > 1 << 63) {
            let what = format!("a leaf with {indices} indices from {} on", tree.bytes.u64(values));
            return Err(here("index", &self.beyond(&what)).into());
        }
        Ok(())
    }

    /// Counts active tiles in nodes of a level.
    fn tiles(&mut self, level: Level, count: u64) {
        let tiles = &mut self.counts.tiles[level as usize - 1];
        *tiles = tiles.saturating_add(count);
        let voxels = count.saturating_mul(level.tile_voxels());
        self.counts.voxels = self.counts.voxels.saturating_add(voxels);
    }

    /// An index outside of leaves. Other values than indices can be anything.
    fn index(&self, index: u64, flaw: impl FnOnce() -> Flaw) -> Result<()> {
        if !self.tree.value_type.is_index() || index < self.values {
            return Ok(());
        }
        let flaw = flaw();
        let what = self.beyond(&format!("{} has index {index}", flaw.what));
        Err(Flaw { what, ..flaw }.into())
    }

    fn beyond(&self, what: &str) -> String {
        format!("{what}, where there are {} values", self.values)
    }
}
