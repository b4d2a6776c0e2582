//! The steps of a build.

use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, DeviceBuffer, DeviceSlice, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
};
use nanovdb::{Map, ValueType};

use super::VolumeOptions;
use super::dense::DenseArg;
use super::head::{constants, head};
use super::kernels::Kernels;
use super::layout::{BuildState, RawBuild, RawNodes, RawWorld};
use super::scratch::{Basics, Entries, Nodes, Shape, node_tiles, order, scan_tiles};
use super::tiles::VoxelList;
use crate::GeometryKernels;
use crate::algorithms::{RESULT_AT, Wishes};
use crate::part::{read, read_part};
use crate::volume::VolumeValue;

/// Threads in a block: `leaf_threads` and `node_threads` in device/geom/volume/.
pub(super) const LEAF_THREADS: u32 = 128;
const NODE_THREADS: u32 = 256;

/// The most blocks that a launch has: each does what others would do.
pub(super) const MOST_BLOCKS: usize = 1 << 16;

/// The greatest number of entries.
const MOST_ENTRIES: usize = (1 << 31) - 1;

/// What leaves are filled with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fill<'a> {
    /// All voxels active, with the background.
    Tiles,
    /// The voxels of the list active, with these values or the background.
    Voxels(Option<DeviceSlice<'a, u8>>),
    /// What an array has.
    Dense(DenseArg<'a>),
}

impl Fill<'_> {
    /// The memory of values.
    pub(super) fn allocation(&self) -> Option<&Arc<Allocation>> {
        match self {
            Self::Voxels(values) => values.as_ref().map(DeviceSlice::allocation),
            Self::Tiles | Self::Dense(_) => None,
        }
    }
}

/// A list of entries and where its points lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) list: VoxelList<'a>,
    pub(super) map: Map,
}

/// Points in the world as an argument: `geom::volume::WorldPoints`.
struct WorldArg<'a>(DeviceSlice<'a, [f32; 3]>, Map);

// SAFETY: the kernels read the points, as many as there are entries.
unsafe impl KernelArg for &WorldArg<'_> {
    type Abi = RawWorld;
    const TYPE: ArgType = ArgType::value::<RawWorld>();

    fn abi(&self) -> RawWorld {
        RawWorld::new(self.0.device_ptr(), &self.1)
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        read(visitor, &self.0)
    }
}

/// Voxels as an argument: `geom::volume::IndexPoints`.
struct IndexArg<'a>(DeviceSlice<'a, [i32; 3]>);

// SAFETY: as above.
unsafe impl KernelArg for &IndexArg<'_> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::value::<u64>();

    fn abi(&self) -> u64 {
        self.0.device_ptr()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        read(visitor, &self.0)
    }
}

/// What a build works with.
#[derive(Debug)]
pub(super) struct Work {
    kernels: Kernels,
    sort: GeometryKernels,
    pub(super) layout: RawNodes,
    basics: Basics,
    entries: Entries,
    nodes: Option<Nodes>,
}

/// All of it as an argument: `geom::volume::Build`.
struct Arg<'a> {
    work: &'a Work,
    grid: Option<&'a DeviceBuffer<u8>>,
    shape: Shape,
    n: usize,
}

// SAFETY: kernels write what entries and nodes there are room for into the ranges of the work's memory that
// are made for them, and the nodes that have room into the grid, which `Shape::memory` is the size of.
unsafe impl KernelArg for &Arg<'_> {
    type Abi = RawBuild;
    const TYPE: ArgType = ArgType::value::<RawBuild>();

    fn abi(&self) -> RawBuild {
        let Work { entries, basics, nodes, layout, .. } = self.work;
        let entry = |part: &std::ops::Range<usize>| entries.memory.device_ptr() + part.start as u64;
        let basic = |part: &std::ops::Range<usize>| basics.memory.device_ptr() + part.start as u64;
        let node = |part: fn(&Nodes) -> &std::ops::Range<usize>| {
            nodes.as_ref().map_or(0, |nodes| nodes.memory.device_ptr() + part(nodes).start as u64)
        };
        let Shape { room: [leaf_room, lower_room, upper_room], .. } = self.shape;
        RawBuild {
            layout: *layout,
            state: entry(&entries.state),
            keys: [entry(&entries.keys[0]), entry(&entries.keys[1])],
            places: [entry(&entries.places[0]), entry(&entries.places[1])],
            which: entry(&entries.sort) + 4 * RESULT_AT as u64,
            asks: if entries.asks.is_empty() { 0 } else { entry(&entries.asks) },
            leaf_keys: node(|nodes| &nodes.leaf_keys),
            leaf_first: node(|nodes| &nodes.leaf_first),
            leaf_active: node(|nodes| &nodes.leaf_active),
            lower_keys: node(|nodes| &nodes.lower_keys),
            lower_first: node(|nodes| &nodes.lower_first),
            lower_entry: node(|nodes| &nodes.lower_entry),
            upper_keys: node(|nodes| &nodes.upper_keys),
            upper_first: node(|nodes| &nodes.upper_first),
            constants: basic(&basics.constants),
            head: basic(&basics.head),
            chains: entry(&entries.chains),
            before: node(|nodes| &nodes.before),
            scan: node(|nodes| &nodes.scan),
            grid: self.grid.map_or(0, DeviceBuffer::device_ptr),
            grid_bytes: self.shape.bytes,
            upper_at: self.shape.upper_at,
            lower_at: self.shape.lower_at,
            leaf_at: self.shape.leaf_at,
            leaf_room,
            lower_room,
            upper_room,
            // `Work::new` has seen that there are less than 2^31.
            n: self.n as u32,
            head_bytes: basics.head.len() as u32,
            unused: 0,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Work { entries, basics, nodes, .. } = self.work;
        read(visitor, &basics.memory.as_slice())?;
        let nodes = nodes.as_ref().map(|nodes| &nodes.memory);
        for memory in [Some(&entries.memory), nodes, self.grid].into_iter().flatten() {
            visitor.visit(memory.allocation(), memory.byte_range(), Access::Write)?;
        }
        Ok(())
    }
}

impl Work {
    /// With room for so many entries, that may ask for something else than leaves if `asks`.
    pub(super) fn new<T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        options: &VolumeOptions<T>,
        room: usize,
        asks: bool,
    ) -> Result<Self> {
        if room > MOST_ENTRIES {
            return Err(Error::invalid(format!("{room} entries; less than 2^31 are possible")));
        }
        Ok(Self {
            kernels: Kernels::new(geometry),
            sort: geometry.clone(),
            layout: RawNodes::of(T::TYPE),
            basics: Basics::new(stream, &constants(options.background), &head(options)?)?,
            entries: Entries::new(stream, room, asks)?,
            nodes: None,
        })
    }

    pub(super) fn room(&self) -> usize {
        self.entries.room
    }

    fn is_numbered(&self) -> bool {
        self.layout == RawNodes::of(ValueType::OnIndex)
    }

    /// Makes room for lists of so many nodes.
    pub(super) fn reserve(&mut self, stream: &Stream, room: [u32; 3]) -> Result<()> {
        let room = room.map(|n| n as usize);
        self.nodes = Some(Nodes::new(stream, room, self.is_numbered())?);
        Ok(())
    }

    /// What was found out. Waits.
    pub(super) fn state(&self, stream: &Stream) -> Result<BuildState> {
        self.entries.state(stream)
    }

    /// The number of the newest write of the state: each build has its own.
    pub(super) fn version(&self) -> u64 {
        self.entries.memory.allocation().version(self.entries.state.clone())
    }

    fn arg<'a>(&'a self, grid: Option<&'a DeviceBuffer<u8>>, shape: Shape, n: usize) -> Arg<'a> {
        Arg { work: self, grid, shape, n }
    }

    /// Forgets the last build.
    pub(super) fn clear(&mut self, stream: &Stream) -> Result<()> {
        self.entries.memory.slice_mut(self.entries.state.clone())?.fill(stream, 0)
    }

    /// Writes the keys of a list.
    pub(super) fn list_keys(&mut self, stream: &Stream, listed: Listed<'_>) -> Result<()> {
        let n = listed.list.len();
        let kernels = self.kernels.build()?;
        let arg = self.arg(None, Shape::new(&self.layout, [0; 3]), n);
        let launch = LaunchConfig::cover(n, 256);
        match listed.list {
            VoxelList::Indices(voxels) => {
                let points = &IndexArg(voxels);
                // SAFETY: reads n voxels, and writes n keys, for which there is room.
                unsafe { kernels.index_keys.launch(stream, launch, (&arg, points)) }
            }
            VoxelList::Points(points) => {
                let points = &WorldArg(points, listed.map);
                // SAFETY: as above.
                unsafe { kernels.world_keys.launch(stream, launch, (&arg, points)) }
            }
        }
    }

    /// Writes the keys of all leaves that an array touches, and what they are to be.
    pub(super) fn dense_keys(&mut self, stream: &Stream, dense: DenseArg<'_>) -> Result<()> {
        let n = dense.lattice_len();
        let kernels = self.kernels.dense()?;
        let arg = self.arg(None, Shape::new(&self.layout, [0; 3]), n);
        let launch = LaunchConfig::new(n.min(MOST_BLOCKS) as u32, LEAF_THREADS);
        // SAFETY: reads the values of the box, and writes a key and a byte for each leaf.
        unsafe { kernels.judge.launch(stream, launch, (&arg, &dense, dense.lattice())) }
    }

    /// Copies what entries ask for.
    pub(super) fn upload_asks(&mut self, stream: &Stream, asks: &[u8]) -> Result<()> {
        self.entries.memory.slice_mut(self.entries.asks.clone())?.upload(stream, asks)
    }

    /// Sorts the first `n` entries.
    pub(super) fn sort(&mut self, stream: &Stream, n: usize) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        let layout = order(n)?;
        let sort = self.sort.clone();
        self.entries.with_pairs(n, |pairs, state| {
            let wishes = Wishes { indices: true, counted: false };
            sort.sort_buffers_planned::<u64>(stream, &layout, pairs, state, wishes)
        })
    }

    /// Counts the nodes of sorted entries, and lists those that have room in `shape`.
    pub(super) fn find_nodes(&mut self, stream: &Stream, n: usize, shape: Shape) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        self.entries.memory.slice_mut(self.entries.chains.clone())?.fill(stream, 0)?;
        let arg = self.arg(None, shape, n);
        let launch = LaunchConfig::new(node_tiles(n) as u32, 256);
        // SAFETY: reads the sorted keys and their places; writes the state, the chains, for which there are
        // words for all tiles, and lists of what has room.
        unsafe { self.kernels.build()?.order.launch(stream, launch, (&arg,)) }
    }

    /// Writes the grid, if all nodes have room.
    pub(super) fn write(
        &mut self,
        stream: &Stream,
        grid: &mut DeviceBuffer<u8>,
        shape: Shape,
        n: usize,
        (listed, fill): (Option<Listed<'_>>, Fill<'_>),
    ) -> Result<()> {
        let kernels = self.kernels.build()?;
        let [leaves, lower, upper] = shape.room.map(|room| (room as usize).min(MOST_BLOCKS) as u32);
        if n != 0 {
            let numbered = self.is_numbered();
            if numbered && let Some(nodes) = &mut self.nodes {
                nodes.memory.slice_mut(nodes.scan.clone())?.fill(stream, 0)?;
            }
            let arg = self.arg(Some(grid), shape, n);
            let launch = LaunchConfig::new(leaves, LEAF_THREADS);
            self.write_leaves(stream, &arg, launch, (listed, fill))?;
            if numbered {
                let room = shape.room[0] as usize;
                let tiles = LaunchConfig::new(scan_tiles(room) as u32, 256);
                // SAFETY: sums over as many leaves as there is room for, with a chain of their tiles; then
                // writes a number into each leaf.
                unsafe {
                    kernels.scan.launch(stream, tiles, (&arg,))?;
                    kernels.number.launch(stream, LaunchConfig::cover(room, 256), (&arg,))?;
                }
            }
            // SAFETY: each writes the nodes of its level, from those of the level below.
            unsafe {
                kernels.lowers.launch(stream, LaunchConfig::new(lower, NODE_THREADS), (&arg,))?;
                let eighths = (8 * upper as usize).min(MOST_BLOCKS) as u32;
                kernels.uppers.launch(stream, LaunchConfig::new(eighths, NODE_THREADS), (&arg,))?;
            }
        }
        let arg = self.arg(Some(grid), shape, n);
        // SAFETY: writes the head, the root and its tiles.
        unsafe { kernels.root.launch(stream, LaunchConfig::new(1, NODE_THREADS), (&arg,)) }
    }

    fn write_leaves(
        &self,
        stream: &Stream,
        arg: &Arg<'_>,
        launch: LaunchConfig,
        (listed, fill): (Option<Listed<'_>>, Fill<'_>),
    ) -> Result<()> {
        let kernels = self.kernels.build()?;
        match (fill, listed) {
            (Fill::Dense(dense), _) => {
                // SAFETY: reads values of the box, or of leaves by the places of their entries.
                unsafe { self.kernels.dense()?.dense_leaves.launch(stream, launch, (arg, &dense)) }
            }
            (Fill::Voxels(values), Some(Listed { list: VoxelList::Indices(voxels), .. })) => {
                let args = (arg, &IndexArg(voxels), read_part(values));
                // SAFETY: reads voxels and values by the places of entries; there are as many of each.
                unsafe { kernels.index_leaves.launch(stream, launch, args) }
            }
            (Fill::Voxels(values), Some(Listed { list: VoxelList::Points(points), map })) => {
                let args = (arg, &WorldArg(points, map), read_part(values));
                // SAFETY: as above.
                unsafe { kernels.world_leaves.launch(stream, launch, args) }
            }
            (Fill::Tiles | Fill::Voxels(_), _) => {
                // SAFETY: writes leaves.
                unsafe { kernels.tile_leaves.launch(stream, launch, (arg,)) }
            }
        }
    }
}
