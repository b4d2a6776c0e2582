//! The tree of a volume: the way from coordinates to values, as `geom/volume/access.cuh` and `directory.cuh` go it.

use nanovdb::Grid;

use super::read::{Found, at};
use crate::volume::TREE;

/// The offsets of masks in nodes: of active entries in leaves and in other nodes, and of children in upper and lower
/// nodes.
pub(super) const LEAF_MASK: usize = 16;
const MASK: usize = 32;
const UPPER_CHILDREN: usize = MASK + 4096;
const LOWER_CHILDREN: usize = MASK + 512;

/// The directory has at most as many bytes as the grid divided by this.
const SHARE: usize = 8;

/// An entry of the root: its key, its offset, and that of its node, 0 without one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Root {
    pub(super) key: u64,
    pub(super) at: usize,
    pub(super) child: usize,
}

/// Where the parts of a grid lie, as offsets from its beginning.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) background: usize,
    tile_value: usize,
    upper_table: usize,
    lower_table: usize,
    stride: usize,
    /// The entries of the root by key.
    pub(super) roots: Vec<Root>,
    pub(super) directory: Directory,
}

/// What is at each leaf position in a box around all leaves: a leaf's offset divided by 32, or [`TILE`] and the offset of
/// a tile's value divided by 4; 0 if it must be found by a descent. Results do not depend on the directory.
#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    first: [i32; 3],
    size: [u32; 3],
    entries: Vec<u32>,
    /// The offset of the value outside of the box, if there is only one.
    outside: Option<usize>,
}

/// The bit of an entry that is a tile.
const TILE: u32 = 1 << 31;

/// An aligned cube of 2^bits voxels per side: a node, or a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pub(super) found: Found,
    pub(super) bits: u32,
}

/// Returns the key of the root's entry for a voxel.
fn root_key(voxel: [i32; 3]) -> u64 {
    let [x, y, z] = voxel.map(|c| u64::from(c.cast_unsigned() >> 12));
    x << 42 | y << 21 | z
}

/// Returns the index of a voxel's entry in an upper node.
pub(crate) fn upper_place([x, y, z]: [i32; 3]) -> usize {
    ((x >> 7 & 31) << 10 | (y >> 7 & 31) << 5 | (z >> 7 & 31)) as usize
}

/// Returns the index of a voxel's entry in a lower node.
pub(crate) fn lower_place([x, y, z]: [i32; 3]) -> usize {
    ((x >> 3 & 15) << 8 | (y >> 3 & 15) << 4 | (z >> 3 & 15)) as usize
}

/// Returns an origin in a node by its distance from the node's.
fn inside(node: [i32; 3], by: [i32; 3]) -> [i32; 3] {
    std::array::from_fn(|axis| node[axis] | by[axis])
}

/// Returns the index of a voxel in its leaf.
#[inline(always)]
pub(super) fn leaf_place([x, y, z]: [i32; 3]) -> usize {
    ((x & 7) << 6 | (y & 7) << 3 | (z & 7)) as usize
}

/// Returns a bit of a mask.
#[inline(always)]
pub(super) fn bit(bytes: &[u8], mask: usize, n: usize) -> bool {
    let word = at::<u64>(bytes, mask.wrapping_add(n / 64 * 8));
    word >> (n % 64) & 1 != 0
}

impl Tree {
    pub(super) fn new(grid: &Grid) -> Self {
        let (bytes, layout) = (grid.bytes(), grid.value_type().layout());
        let root = TREE.wrapping_add(at::<u64>(bytes, TREE + 24) as usize);
        let count = at::<u32>(bytes, root.wrapping_add(24)) as usize;
        let mut roots: Vec<Root> = (0..count)
            .map(|n| {
                let entry = root.wrapping_add(layout.root_size + n * layout.tile_size);
                let distance = at::<i64>(bytes, entry.wrapping_add(8));
                let child = if distance == 0 { 0 } else { root.wrapping_add(distance as usize) };
                Root { key: at(bytes, entry), at: entry, child }
            })
            .collect();
        roots.sort_by_key(|root| root.key);
        let mut tree = Self {
            background: root.wrapping_add(layout.root_background),
            tile_value: layout.tile_value,
            upper_table: layout.upper_table,
            lower_table: layout.lower_table,
            stride: layout.table_stride,
            roots,
            directory: Directory::default(),
        };
        tree.directory = Directory::new(&tree, grid);
        tree
    }

    /// Returns the child of an inner node at an entry, and the offset of the entry.
    fn child(&self, bytes: &[u8], node: usize, upper: bool, n: usize) -> Found {
        let (children, table) = if upper {
            (UPPER_CHILDREN, self.upper_table)
        } else {
            (LOWER_CHILDREN, self.lower_table)
        };
        let entry = node.wrapping_add(table + n * self.stride);
        let distance = at::<i64>(bytes, entry) as usize;
        let has = bit(bytes, node.wrapping_add(children), n);
        Found { node: if has { node.wrapping_add(distance) } else { 0 }, value: entry }
    }

    pub(super) fn root(&self, voxel: [i32; 3]) -> Option<Root> {
        let key = root_key(voxel);
        let n = self.roots.partition_point(|root| root.key < key);
        self.roots.get(n).copied().filter(|root| root.key == key)
    }

    /// Returns the upper node of a voxel, or the tile or background instead.
    pub(super) fn in_root(&self, voxel: [i32; 3]) -> Found {
        match self.root(voxel) {
            None => Found { node: 0, value: self.background },
            Some(root) => Found { node: root.child, value: root.at.wrapping_add(self.tile_value) },
        }
    }

    /// Returns the lower node of a voxel, or the tile or background instead.
    pub(super) fn lower(&self, bytes: &[u8], voxel: [i32; 3]) -> Region {
        let found = self.in_root(voxel);
        if found.node == 0 {
            return Region { found, bits: 12 };
        }
        Region { found: self.child(bytes, found.node, true, upper_place(voxel)), bits: 7 }
    }

    /// Returns the leaf of a voxel, or the tile or background instead.
    pub(super) fn leaf(&self, bytes: &[u8], lower: Region, voxel: [i32; 3]) -> Region {
        if lower.found.node == 0 {
            return lower;
        }
        Region { found: self.child(bytes, lower.found.node, false, lower_place(voxel)), bits: 3 }
    }

    /// Returns the leaf of a voxel, or the value of the tile or background instead.
    #[inline(always)]
    pub(super) fn find(&self, bytes: &[u8], voxel: [i32; 3]) -> Found {
        self.directory.get(voxel).unwrap_or_else(|| self.descend(bytes, voxel))
    }

    #[inline(never)]
    fn descend(&self, bytes: &[u8], voxel: [i32; 3]) -> Found {
        self.leaf(bytes, self.lower(bytes, voxel), voxel).found
    }

    /// Returns whether a voxel is active, itself or as part of a tile.
    pub(super) fn is_active(&self, bytes: &[u8], voxel: [i32; 3]) -> bool {
        if let Some(Found { node, .. }) = self.directory.get(voxel)
            && node != 0
        {
            return bit(bytes, node.wrapping_add(LEAF_MASK), leaf_place(voxel));
        }
        let Some(root) = self.root(voxel) else {
            return false;
        };
        if root.child == 0 {
            return at::<u32>(bytes, root.at.wrapping_add(16)) != 0;
        }
        let n = upper_place(voxel);
        let lower = self.child(bytes, root.child, true, n).node;
        if lower == 0 {
            return bit(bytes, root.child.wrapping_add(MASK), n);
        }
        let n = lower_place(voxel);
        let leaf = self.child(bytes, lower, false, n).node;
        if leaf == 0 {
            return bit(bytes, lower.wrapping_add(MASK), n);
        }
        bit(bytes, leaf.wrapping_add(LEAF_MASK), leaf_place(voxel))
    }
}

impl Directory {
    fn new(tree: &Tree, grid: &Grid) -> Self {
        let (mut low, mut high) = ([i32::MAX; 3], [i32::MIN; 3]);
        for leaf in grid.leaves() {
            for ((low, high), c) in low.iter_mut().zip(&mut high).zip(leaf.origin()) {
                *low = (c >> 3).min(*low);
                *high = (c >> 3).max(*high);
            }
        }
        let mut directory = Self { outside: Some(tree.background), ..Self::default() };
        if low[0] <= high[0] {
            let size = [0, 1, 2].map(|axis: usize| high[axis].abs_diff(low[axis]) + 1);
            let room = size.iter().fold(1usize, |n, size| n.saturating_mul(*size as usize));
            if room > grid.bytes().len() / SHARE / size_of::<u32>() {
                return Self::default();
            }
            (directory.first, directory.size) = (low, size);
            directory.entries = vec![tile(tree.background); room];
        }
        let bytes = grid.bytes();
        let value_size = grid.value_type().layout().value_size;
        let value = |at: usize| bytes.get(at..at.wrapping_add(value_size));
        let mut fill = |origin: [i32; 3], bits: u32, found: Found| {
            // A leaf beyond 64 GB, or a tile beyond 8 GB, has no number.
            let leaf = u32::try_from(found.node / 32).ok().filter(|number| number & TILE == 0);
            let number = if found.node == 0 { tile(found.value) } else { leaf.unwrap_or(0) };
            let whole = directory.fill(origin, bits, number);
            if !whole && value(found.value) != value(tree.background) {
                directory.outside = None;
            }
        };
        for root in &tree.roots {
            let origin = [42, 21, 0].map(|shift| ((root.key >> shift) as i32) << 12);
            if root.child == 0 {
                fill(origin, 12, Found { node: 0, value: root.at.wrapping_add(tree.tile_value) });
                continue;
            }
            for n in 0..1 << 15 {
                let upper = tree.child(bytes, root.child, true, n);
                let origin = inside(origin, [10, 5, 0].map(|shift| (n >> shift & 31) as i32 * 128));
                if upper.node == 0 {
                    fill(origin, 7, upper);
                    continue;
                }
                for n in 0..1 << 12 {
                    let place = [8, 4, 0].map(|shift| (n >> shift & 15) as i32 * 8);
                    fill(inside(origin, place), 3, tree.child(bytes, upper.node, false, n));
                }
            }
        }
        directory
    }

    /// Writes the entries of a cube of 2^bits voxels per side. Returns whether all of it is in the box.
    fn fill(&mut self, origin: [i32; 3], bits: u32, number: u32) -> bool {
        let mut whole = true;
        let ranges = [0, 1, 2].map(|axis: usize| {
            let (from, count) = (i64::from(origin[axis] >> 3), 1i64 << (bits - 3));
            let (first, size) = (i64::from(self.first[axis]), i64::from(self.size[axis]));
            let (low, high) = ((from - first).max(0), (from + count - first).min(size));
            whole &= high - low == count;
            low as usize..high.max(low) as usize
        });
        let [_, ny, nz] = self.size.map(|size| size as usize);
        let [xs, ys, zs] = ranges;
        for (x, y) in xs.flat_map(|x| ys.clone().map(move |y| (x, y))) {
            let row = (x * ny + y) * nz;
            if let Some(entries) = self.entries.get_mut(row + zs.start..row + zs.end) {
                entries.fill(number);
            }
        }
        whole
    }

    /// Returns the index of a voxel's entry; beyond all entries if the box does not contain it.
    #[inline(always)]
    fn place(&self, voxel: [i32; 3]) -> usize {
        let [i, j, k] = [0, 1, 2].map(|a: usize| {
            (voxel[a] >> 3).cast_unsigned().wrapping_sub(self.first[a].cast_unsigned())
        });
        let [nx, ny, nz] = self.size;
        // The product is less than 2^32 where all three are inside.
        let n = i.wrapping_mul(ny).wrapping_add(j).wrapping_mul(nz).wrapping_add(k);
        if (i < nx) & (j < ny) & (k < nz) { n as usize } else { usize::MAX }
    }

    /// Returns what is at a voxel, if that is known.
    #[inline(always)]
    fn get(&self, voxel: [i32; 3]) -> Option<Found> {
        match self.entries.get(self.place(voxel)) {
            Some(number) => found(*number),
            None => self.outside.map(|value| Found { node: 0, value }),
        }
    }

    /// Returns what is at the eight voxels of a cell, x slowest, if that is known and all are in the box.
    #[inline(always)]
    pub(super) fn corners(&self, voxel: [i32; 3]) -> Option<[Found; 8]> {
        let place = self.place(voxel);
        let far = self.place(voxel.map(|c| c.wrapping_add(1)));
        if place.max(far) >= self.entries.len() {
            return None;
        }
        let [dx, dy, dz] = voxel.map(|c| usize::from(c & 7 == 7));
        let (nz, nyz) = (self.size[2] as usize, self.size[1] as usize * self.size[2] as usize);
        let (x, y, z) = (dx * nyz, dy * nz, dz);
        let numbers: [u32; 8] = std::array::from_fn(|k| {
            let n = place + (k >> 2) * x + (k >> 1 & 1) * y + (k & 1) * z;
            self.entries.get(n).copied().unwrap_or(0)
        });
        let nothing = Found { node: 0, value: 0 };
        let all = numbers.iter().fold(true, |all, number| all & (*number != 0));
        all.then(|| numbers.map(|number| found(number).unwrap_or(nothing)))
    }
}

/// Returns the entry of a tile whose value is at an offset.
fn tile(value: usize) -> u32 {
    u32::try_from(value / 4).ok().filter(|number| number & TILE == 0).map_or(0, |n| n | TILE)
}

/// Returns what an entry says.
#[inline(always)]
fn found(number: u32) -> Option<Found> {
    let is_tile = number & TILE != 0;
    let (node, value) = (number as usize * 32, (number & !TILE) as usize * 4);
    let found =
        Found { node: if is_tile { 0 } else { node }, value: if is_tile { value } else { 0 } };
    (number != 0).then_some(found)
}
