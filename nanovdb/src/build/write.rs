//! From the nodes of a builder to the bytes of a grid, breadth first.

use super::nodes::{Inner, Leaf, Slot};
use super::{Build, BuildValue, Builder, StoredValue};
use crate::bytes::{ALIGNMENT, Aligned, FieldsMut};
use crate::check::{MAGIC_GRID, MAGIC_OLD};
use crate::checksum::ChecksumMode;
use crate::coord::{Coord, entry_origin, root_key};
use crate::error::{Level, Result, input};
use crate::grid::Grid;
use crate::layout::{flags, head, node};
use crate::tree::packed_counts;
use crate::{GridClass, ValueType, Version};

/// A grid's nodes in the order in which they are written, with their origins.
struct Order<'a, V> {
    root: Vec<(Coord, Slot<V>)>,
    uppers: Vec<(Coord, &'a Inner<V>)>,
    lowers: Vec<(Coord, &'a Inner<V>)>,
    leaves: Vec<(Coord, &'a Leaf<V>)>,
}

fn order<T: Build>(builder: &Builder<T>) -> Order<'_, T::Value> {
    let nodes = &builder.nodes;
    let root: Vec<_> = nodes.root.iter().map(|(place, slot)| (*place, *slot)).collect();
    let child = |slot: &Slot<T::Value>| match slot {
        Slot::Child(n) => Some(*n),
        Slot::Tile(..) => None,
    };
    let uppers =
        root.iter().filter_map(|(place, slot)| Some((*place, nodes.uppers.get(child(slot)?)?)));
    let uppers: Vec<_> = uppers.collect();
    let mut lowers = Vec::new();
    for (place, upper) in &uppers {
        for (entry, slot) in &upper.slots {
            if let Some(lower) = child(slot).and_then(|n| nodes.lowers.get(n)) {
                lowers.push((entry_origin(*place, Level::Upper, *entry), lower));
            }
        }
    }
    let mut leaves = Vec::new();
    for (place, lower) in &lowers {
        for (entry, slot) in &lower.slots {
            if let Some(leaf) = child(slot).and_then(|n| nodes.leaves.get(n)) {
                leaves.push((entry_origin(*place, Level::Lower, *entry), leaf));
            }
        }
    }
    Order { root, uppers, lowers, leaves }
}

/// The bytes so far, and what is counted while they are written.
struct Writer {
    data: Aligned,
    value_type: ValueType,
    tiles: [u64; 3],
    voxels: u64,
    /// The next unused index.
    next_index: u64,
}

pub(super) fn grid<T: Build>(builder: &Builder<T>, class: GridClass) -> Result<Grid> {
    let layout = T::TYPE.layout();
    let order = order(builder);
    let counts = [order.leaves.len(), order.lowers.len(), order.uppers.len(), order.root.len()];
    // As many bytes as there are nodes for; blind data behind them.
    let too_large = || input("size", "a grid that is too large");
    let mut end = head::SIZE;
    let mut place = |count: usize, size: usize, extra: usize| {
        let first = end;
        let size = count.checked_mul(size).and_then(|size| size.checked_add(extra));
        let size = size.and_then(|size| size.checked_next_multiple_of(ALIGNMENT));
        end = size.and_then(|size| end.checked_add(size)).ok_or_else(too_large)?;
        Ok::<usize, crate::Error>(first)
    };
    let root = place(counts[3], layout.tile_size, layout.root_size)?;
    let uppers = place(counts[2], layout.upper_size, 0)?;
    let lowers = place(counts[1], layout.lower_size, 0)?;
    let leaves = place(counts[0], layout.leaf_size, 0)?;
    let metas = place(builder.blind.len(), head::BLIND_SIZE, 0)?;
    let arrays = builder.blind.iter().map(|array| place(1, array.bytes.len(), 0));
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let mut stored = [0u32; 4];
    for (stored, count) in stored.iter_mut().zip(counts) {
        *stored = u32::try_from(count).map_err(|_| too_large())?;
    }

    let mut writer = Writer {
        data: Aligned::zeroed(end)?,
        value_type: T::TYPE,
        tiles: [0; 3],
        voxels: 0,
        next_index: 1,
    };
    writer.root(&order, builder.nodes.background, root, uppers);
    writer.inner(Level::Upper, &order.uppers, uppers, lowers);
    writer.inner(Level::Lower, &order.lowers, lowers, leaves);
    writer.leaves(&order.leaves, leaves);
    for (n, (array, at)) in builder.blind.iter().zip(arrays).enumerate() {
        writer.array(array, metas + n * head::BLIND_SIZE, at)?;
    }

    let old = T::TYPE.is_in_version_3();
    let version = if old { Version::COMPATIBLE } else { Version::CURRENT };
    let (voxels, tiles, values) = (writer.voxels, writer.tiles, writer.next_index);
    let bytes = writer.data.as_mut_slice();
    bytes.put_u64(head::MAGIC, if old { MAGIC_OLD } else { MAGIC_GRID });
    bytes.put_u32(head::VERSION, version.code());
    bytes.put_u32(head::FLAGS, flags::BREADTH_FIRST);
    bytes.put_u32(head::GRID_COUNT, 1);
    bytes.put_u64(head::GRID_SIZE, end as u64);
    bytes.put(head::NAME, builder.name.as_bytes());
    builder.map.store(bytes);
    bytes.put_vector(head::VOXEL_SIZE, builder.map.voxel_size());
    bytes.put_u32(head::CLASS, class.code());
    bytes.put_u32(head::TYPE, T::TYPE.code());
    bytes.put_u64(head::BLIND_OFFSET, metas as u64);
    bytes.put_u32(head::BLIND_COUNT, u32::try_from(builder.blind.len()).map_err(|_| too_large())?);
    if T::TYPE.is_index() {
        bytes.put_u64(head::VALUE_COUNT, values);
    }
    for (n, first) in [leaves, lowers, uppers, root].into_iter().enumerate() {
        bytes.put_u64(head::TREE + 8 * n, (first - head::TREE) as u64);
    }
    for n in 0..3 {
        bytes.put_u32(head::NODE_COUNTS + 4 * n, stored[n]);
        let count = u32::try_from(tiles[n]).map_err(|_| too_large())?;
        bytes.put_u32(head::TILE_COUNTS + 4 * n, count);
    }
    bytes.put_u32(root + node::TABLE_SIZE, stored[3]);
    bytes.put_u64(head::VOXEL_COUNT, voxels);

    let mut grid = Grid::from_aligned(writer.data)?;
    grid.update_statistics();
    grid.update_checksum(ChecksumMode::Head);
    Ok(grid)
}

impl Writer {
    /// Stores the value of a tile, or its index.
    fn tile<V: StoredValue>(&mut self, level: Level, at: usize, value: V, active: bool) {
        if active {
            let n = level as usize - 1;
            self.tiles[n] = self.tiles[n].saturating_add(1);
            self.voxels = self.voxels.saturating_add(level.tile_voxels());
        }
        if !self.value_type.is_index() {
            value.store(active, self.data.as_mut_slice(), at);
        } else if active {
            self.data.as_mut_slice().put_u64(at, self.next_index);
            self.next_index += 1;
        }
    }

    fn root<V: BuildValue>(
        &mut self,
        order: &Order<'_, V>,
        background: V,
        at: usize,
        uppers: usize,
    ) {
        let layout = self.value_type.layout();
        background.store(false, self.data.as_mut_slice(), at + layout.root_background);
        let mut child = uppers;
        for (n, (place, slot)) in order.root.iter().enumerate() {
            let tile = at + layout.root_size + n * layout.tile_size;
            self.data.as_mut_slice().put_u64(tile, root_key(*place));
            match slot {
                Slot::Child(_) => {
                    let offset = (child - at) as u64;
                    self.data.as_mut_slice().put_u64(tile + node::TILE_CHILD, offset);
                    child += layout.upper_size;
                }
                Slot::Tile(value, active) => {
                    let bytes = self.data.as_mut_slice();
                    bytes.put_u32(tile + node::TILE_STATE, u32::from(*active));
                    self.tile(Level::Root, tile + layout.tile_value, *value, *active);
                }
            }
        }
    }

    /// The nodes of a level from `at` on, whose children lie from `child` on.
    fn inner<V: BuildValue>(
        &mut self,
        level: Level,
        nodes: &[(Coord, &Inner<V>)],
        mut at: usize,
        mut child: usize,
    ) {
        let layout = self.value_type.layout();
        let (children, table, entries) = layout.table(level);
        let (size, child_size) = match level {
            Level::Upper => (layout.upper_size, layout.lower_size),
            _ => (layout.lower_size, layout.leaf_size),
        };
        for (place, inner) in nodes {
            self.data.as_mut_slice().put_coord(at, *place);
            for n in 0..entries {
                let entry = at + table + n * layout.table_stride;
                match inner.get(n) {
                    Slot::Child(_) => {
                        let bytes = self.data.as_mut_slice();
                        bytes.set_bit(at + children, n);
                        bytes.put_u64(entry, (child - at) as u64);
                        child += child_size;
                    }
                    Slot::Tile(value, active) => {
                        if active {
                            self.data.as_mut_slice().set_bit(at + node::VALUE_MASK, n);
                        }
                        self.tile(level, entry, value, active);
                    }
                }
            }
            at += size;
        }
    }

    fn leaves<V: BuildValue>(&mut self, leaves: &[(Coord, &Leaf<V>)], first: usize) {
        let layout = self.value_type.layout();
        for (n, (place, leaf)) in leaves.iter().enumerate() {
            let at = first + n * layout.leaf_size;
            let values = at + layout.leaf_values;
            let bytes = self.data.as_mut_slice();
            bytes.put_coord(at, *place);
            bytes.put(at + node::LEAF_MASK, bytemuck::bytes_of(&leaf.mask));
            let active = leaf.mask.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            self.voxels = self.voxels.saturating_add(active);
            match self.value_type {
                ValueType::Index => {
                    bytes.put_u64(values, self.next_index);
                    self.next_index += 512;
                }
                ValueType::OnIndex => {
                    bytes.put_u64(values, self.next_index);
                    bytes.put_u64(values + 8, packed_counts(&leaf.mask));
                    self.next_index += active;
                }
                _ => {
                    for (n, value) in leaf.values.iter().enumerate() {
                        value.store_in_leaf(bytes, values, n);
                    }
                }
            }
        }
    }

    fn array(&mut self, array: &super::Array, meta: usize, at: usize) -> Result<()> {
        let (code, size) = match array.value_type {
            None => (0, 1),
            Some(value_type) => (value_type.code(), value_type.layout().value_size),
        };
        if !array.bytes.len().is_multiple_of(size) {
            let what = format!("blind data of {} bytes, values have {size}", array.bytes.len());
            return Err(input("blind", what));
        }
        let bytes = self.data.as_mut_slice();
        bytes.put_u64(meta, (at - meta) as u64);
        bytes.put_u64(meta + 8, (array.bytes.len() / size) as u64);
        if !self.value_type.is_in_version_3() {
            bytes.put_u32(meta + 16, size as u32);
        }
        // Class 4 is a channel: a value for each of something.
        bytes.put_u32(meta + 24, 4);
        bytes.put_u32(meta + 28, code);
        bytes.put(meta + 32, array.name.as_bytes());
        bytes.put(at, &array.bytes);
        Ok(())
    }
}
