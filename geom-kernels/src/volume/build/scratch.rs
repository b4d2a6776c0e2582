//! The working memory of a build.

use std::ops::Range;

use cuda_safe::{DeviceBuffer, DeviceSliceMut, Error, Result, Stream};

use super::layout::{BuildState, RawNodes};
use crate::algorithms::{Buffers, Digits, Layout, with_pairs};
use crate::part::{Parts, scratch};
use crate::volume::layout::TREE_END;

/// The entries per tile in the search for nodes: `NodeTile` in device/geom/volume/build_order.cuh.
const NODE_TILE: usize = 256 * 8;
/// The leaves per tile of sums: `volume_scan` in device/kernels/volume_build.cu.
const SCAN_TILE: usize = 256 * 16;

/// The memory of a list of entries: keys, their order, and the results of the search.
#[derive(Debug)]
pub(super) struct Entries {
    pub(super) memory: DeviceBuffer<u8>,
    /// The capacity in entries.
    pub(super) room: usize,
    pub(super) state: Range<usize>,
    pub(super) chains: Range<usize>,
    pub(super) asks: Range<usize>,
    pub(super) keys: [Range<usize>; 2],
    pub(super) places: [Range<usize>; 2],
    pub(super) sort: Range<usize>,
}

/// Returns the layout of the sort of entries by all bits; passes over digits that all keys share are skipped.
pub(super) fn order(n: usize) -> Result<Layout> {
    Layout::new::<u64>(n, Digits::new(0, u64::BITS))
}

/// Returns the number of tiles of `n` entries.
pub(super) fn node_tiles(n: usize) -> usize {
    n.div_ceil(NODE_TILE)
}

/// Returns the number of tiles of `n` leaves.
pub(super) fn scan_tiles(n: usize) -> usize {
    n.div_ceil(SCAN_TILE)
}

impl Entries {
    /// # Errors
    /// 2^31 entries or more; an error of the allocation.
    pub(super) fn new(stream: &Stream, room: usize, asks: bool) -> Result<Self> {
        let mut parts = Parts::default();
        let state = parts.next(size_of::<BuildState>());
        let chains = parts.next(3 * 8 * (1 + node_tiles(room)));
        let asks = parts.next(if asks { room } else { 0 });
        let keys = [parts.next(8 * room), parts.next(8 * room)];
        let places = [parts.next(4 * room), parts.next(4 * room)];
        let sort = parts.next(4 * order(room)?.words());
        // SAFETY: a build clears the state and the chains, writes keys and asks, and sorts, before it
        // reads them.
        let memory = unsafe { scratch::<u8>(stream, parts.end)? };
        Ok(Self { memory, room, state, chains, asks, keys, places, sort })
    }

    /// Calls `sort` with the keys and places of `n` entries, two buffers of each, and the sort's state.
    pub(super) fn with_pairs<R>(
        &mut self,
        n: usize,
        sort: impl FnOnce(&mut Buffers<'_, u64>, &mut DeviceSliceMut<'_, u32>) -> Result<R>,
    ) -> Result<R> {
        with_pairs(&mut self.memory, (&self.keys, &self.places, &self.sort), n, sort)
    }

    /// Returns the state. Waits.
    pub(super) fn state(&self, stream: &Stream) -> Result<BuildState> {
        let bytes = self.memory.slice(self.state.clone())?.to_vec(stream)?;
        Ok(bytemuck::pod_read_unaligned(&bytes))
    }
}

/// The initial data of builds of one kind of volume: constants, and a head.
#[derive(Debug)]
pub(super) struct Basics {
    pub(super) memory: DeviceBuffer<u8>,
    pub(super) constants: Range<usize>,
    pub(super) head: Range<usize>,
}

impl Basics {
    pub(super) fn new(stream: &Stream, constants: &[u8], head: &[u8]) -> Result<Self> {
        let mut parts = Parts::default();
        let (constants_part, head_part) = (parts.next(constants.len()), parts.next(head.len()));
        let mut bytes = constants.to_vec();
        bytes.resize(head_part.start, 0);
        bytes.extend_from_slice(head);
        let memory = DeviceBuffer::from_slice(stream, &bytes)?;
        Ok(Self { memory, constants: constants_part, head: head_part })
    }
}

/// The memory of lists of nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) memory: DeviceBuffer<u8>,
    pub(super) leaf_keys: Range<usize>,
    pub(super) leaf_first: Range<usize>,
    pub(super) leaf_active: Range<usize>,
    pub(super) lower_keys: Range<usize>,
    pub(super) lower_first: Range<usize>,
    pub(super) lower_entry: Range<usize>,
    pub(super) upper_keys: Range<usize>,
    pub(super) upper_first: Range<usize>,
    pub(super) before: Range<usize>,
    pub(super) scan: Range<usize>,
}

impl Nodes {
    /// Creates a layout with room for these numbers of leaves, lower and upper nodes; with sums over leaves if
    /// `numbered`.
    pub(super) fn new(
        stream: &Stream,
        [leaves, lower, upper]: [usize; 3],
        numbered: bool,
    ) -> Result<Self> {
        let mut parts = Parts::default();
        let leaf_keys = parts.next(8 * leaves);
        let leaf_first = parts.next(4 * leaves);
        let leaf_active = parts.next(4 * leaves);
        let lower_keys = parts.next(8 * lower);
        let lower_first = parts.next(4 * lower);
        let lower_entry = parts.next(4 * lower);
        let upper_keys = parts.next(8 * upper);
        let upper_first = parts.next(4 * upper);
        let before = parts.next(if numbered { 8 * leaves } else { 0 });
        let scan = parts.next(if numbered { 8 * (1 + 2 * scan_tiles(leaves)) } else { 0 });
        // SAFETY: a build writes all of it before it reads it, except the active voxels of leaves that do not exist,
        // which are cleared.
        let mut memory = unsafe { scratch::<u8>(stream, parts.end)? };
        memory.slice_mut(leaf_active.clone())?.fill(stream, 0)?;
        Ok(Self {
            memory,
            leaf_keys,
            leaf_first,
            leaf_active,
            lower_keys,
            lower_first,
            lower_entry,
            upper_keys,
            upper_first,
            before,
            scan,
        })
    }
}

/// The offsets of a grid's nodes in bytes, with these capacities.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The capacities in leaves, lower and upper nodes.
    pub(super) room: [u32; 3],
    pub(super) leaf_at: u64,
    pub(super) lower_at: u64,
    pub(super) upper_at: u64,
    pub(super) bytes: u64,
}

impl Shape {
    pub(super) fn new(layout: &RawNodes, room: [u32; 3]) -> Self {
        let [leaves, lower, upper] = room.map(u64::from);
        let root = TREE_END as u64 + u64::from(layout.root_bytes);
        // The products do not overflow: 2^32 nodes of less than 2^21 bytes.
        let upper_at = root + upper * u64::from(layout.tile_bytes);
        let lower_at = upper_at + upper * u64::from(layout.upper_bytes);
        let leaf_at = lower_at + lower * u64::from(layout.lower_bytes);
        let bytes = leaf_at + leaves * u64::from(layout.leaf_bytes);
        Self { room, leaf_at, lower_at, upper_at, bytes }
    }

    /// Returns the size of a grid's memory in bytes. It includes one tile even if the root has none, because readers
    /// may read one.
    pub(super) fn memory(&self, layout: &RawNodes) -> Result<usize> {
        let tile = TREE_END as u64 + u64::from(layout.root_bytes + layout.tile_bytes);
        let bytes = self.bytes.max(tile);
        usize::try_from(bytes).map_err(|_| Error::invalid(format!("a grid of {bytes} bytes")))
    }
}
