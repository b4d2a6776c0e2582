//! Grids as they are built on the device: nodes in order and without gaps, no active tiles, and boxes and counts
//! that are those of the leaves.

use std::collections::{BTreeMap, HashMap};

use super::{Coord, Decoded, bit, coord_at, place, step, u32_at, u64_at};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

/// A leaf: its mask, and what comes behind its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) mask: [u64; 8],
    pub(crate) values: Vec<u8>,
}

impl Leaf {
    pub(crate) fn is_active(&self, place: usize) -> bool {
        self.mask[place / 64] >> (place % 64) & 1 != 0
    }
}

/// What is in such a grid.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) grid_type: u32,
    /// By origin, and the origins in the order in which leaves are stored.
    pub(crate) leaves: BTreeMap<Coord, Leaf>,
    pub(crate) order: Vec<Coord>,
    /// Values of tiles of lower nodes that are not the background.
    pub(crate) tiles: BTreeMap<Coord, Vec<u8>>,
    /// Origins of lower nodes.
    pub(crate) lowers: Vec<Coord>,
    pub(crate) voxels: u64,
    /// How many values indices are for.
    pub(crate) values: u64,
}

type Box3 = Option<[Coord; 2]>;

fn unite(a: Box3, b: Box3) -> Box3 {
    match (a, b) {
        (Some(a), Some(b)) => {
            let lower = std::array::from_fn(|i| a[0][i].min(b[0][i]));
            Some([lower, std::array::from_fn(|i| a[1][i].max(b[1][i]))])
        }
        (a, b) => a.or(b),
    }
}

/// The box of a node, if it has active voxels.
fn node_box(bytes: &[u8], at: usize) -> Box3 {
    let found = [coord_at(bytes, at), coord_at(bytes, at + 12)];
    (0..3).all(|i| found[0][i] <= found[1][i]).then_some(found)
}

/// Reads a grid, and checks its boxes, counts and order on the way.
pub(crate) fn built(bytes: &[u8]) -> Result<Built, Failure> {
    let read = Decoded::new(bytes);
    let n = read.numbers;
    ensure_eq!(u64_at(bytes, 32) as usize, bytes.len(), "the size");
    ensure_eq!(u64_at(bytes, 640) as usize, bytes.len(), "where blind data would be");
    let levels = [
        (&read.leaves, n.leaf, "leaf"),
        (&read.lowers, n.lower(), "lower"),
        (&read.uppers, n.upper(), "upper"),
    ];
    for (i, (level, size, name)) in levels.into_iter().enumerate() {
        let first = 672 + u64_at(bytes, 672 + 8 * i) as usize;
        ensure_eq!(level.order.len() as u32, u32_at(bytes, 704 + 4 * i), "number of nodes: {name}");
        for (rank, (_, at)) in level.order.iter().enumerate() {
            ensure_eq!(*at, first + rank * size, "{name} {rank}");
        }
    }
    let mut found = Built {
        grid_type: read.grid_type,
        lowers: read.lowers.order.iter().map(|(at, _)| *at).collect(),
        voxels: u64_at(bytes, 728),
        values: u64_at(bytes, 656),
        ..Built::default()
    };

    let mut boxes = HashMap::new();
    for (origin, at) in &read.leaves.order {
        let leaf = leaf(&read, *origin, *at)?;
        let active = leaf_box(&leaf, *origin);
        check_leaf_box(bytes, *at, *origin, active)?;
        let above = boxes.entry(origin.map(|c| c & !127)).or_insert(None);
        *above = unite(*above, active);
        found.order.push(*origin);
        found.leaves.insert(*origin, leaf);
    }
    let mut above = HashMap::new();
    for (origin, at) in &read.lowers.order {
        let active = boxes.get(origin).copied().flatten();
        check_node_box(bytes, *at, *origin, active)?;
        for entry in tiles(bytes, *at, 4096)? {
            let tile = read.stored(at + n.lower_table + entry * n.stride);
            if tile != read.background() {
                found.tiles.insert(step(*origin, entry, 4, 3), tile);
            }
        }
        let above = above.entry(origin.map(|c| c & !4095)).or_insert(None);
        *above = unite(*above, active);
    }
    let mut all = None;
    for (origin, at) in &read.uppers.order {
        let active = above.get(origin).copied().flatten();
        check_node_box(bytes, *at, *origin, active)?;
        for entry in tiles(bytes, *at, 32_768)? {
            let tile = read.stored(at + n.upper_table + entry * n.stride);
            ensure_eq!(tile, read.background(), "entry {entry} of the upper node at {origin:?}");
        }
        all = unite(all, active);
    }
    ensure_eq!(read.entries.order.len(), read.uppers.order.len(), "tiles of the root");
    for (_, at) in &read.entries.order {
        ensure_eq!(u32_at(bytes, at + 16), 0, "the state of an entry of the root");
    }
    let keys: Vec<_> = read.entries.order.iter().map(|(origin, _)| *origin).collect();
    ensure!(keys.is_sorted(), "keys of the root: {keys:?}");
    ensure_eq!(node_box(bytes, read.root), all, "the box of the root");
    let active = found.leaves.values().flat_map(|leaf| leaf.mask);
    let voxels: u64 = active.map(|word| u64::from(word.count_ones())).sum();
    ensure_eq!(found.voxels, voxels, "active voxels");
    ensure_eq!(u32_at(bytes, 20), if voxels == 0 { 32 } else { 34 }, "flags");
    Ok(found)
}

/// The entries of an inner node that are no children, none of which may be active.
fn tiles(bytes: &[u8], node: usize, entries: usize) -> Result<Vec<usize>, Failure> {
    let tiles: Vec<_> = (0..entries).filter(|n| !bit(bytes, node + 32 + entries / 8, *n)).collect();
    let active = (0..entries).find(|n| bit(bytes, node + 32, *n));
    ensure_eq!(active, None, "an active tile");
    Ok(tiles)
}

fn leaf(read: &Decoded, origin: Coord, at: usize) -> Result<Leaf, Failure> {
    ensure_eq!(place(origin, 0, 3), 0);
    let mask = std::array::from_fn(|word| u64_at(&read.bytes, at + 16 + 8 * word));
    let (from, to) = (at + read.numbers.values, at + read.numbers.leaf);
    let values = read.bytes.get(from..to).map(<[u8]>::to_vec);
    let values = values.ok_or_else(|| Failure::new(format!("the leaf at {origin:?}")))?;
    Ok(Leaf { mask, values })
}

fn leaf_box(leaf: &Leaf, origin: Coord) -> Box3 {
    (0..512).filter(|n| leaf.is_active(*n)).fold(None, |all, n| {
        let at = step(origin, n, 3, 0);
        unite(all, Some([at, at]))
    })
}

fn check_leaf_box(bytes: &[u8], leaf: usize, origin: Coord, active: Box3) -> TestResult {
    let min = coord_at(bytes, leaf);
    let extent: [u8; 4] = bytemuck::pod_read_unaligned(&bytes[leaf + 12..leaf + 16]);
    match active {
        Some([lower, upper]) => {
            ensure_eq!(min, lower, "the box of the leaf at {origin:?}");
            let wanted: [u8; 3] = std::array::from_fn(|i| (upper[i] - lower[i]) as u8);
            ensure_eq!(extent, [wanted[0], wanted[1], wanted[2], 2]);
        }
        None => ensure_eq!((min, extent), (origin, [0; 4]), "the box of an empty leaf"),
    }
    Ok(())
}

fn check_node_box(bytes: &[u8], node: usize, origin: Coord, active: Box3) -> TestResult {
    ensure_eq!(node_box(bytes, node), active, "the box of the node at {origin:?}");
    ensure_eq!(u64_at(bytes, node + 24), if active.is_some() { 2 } else { 0 });
    Ok(())
}
