//! The steps of a build.

use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, DeviceBuffer, DeviceSlice, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
    kernels,
};
use nanovdb::{Map, ValueType};

use super::VolumeOptions;
use super::dense::{Dense, DenseArg};
use super::head::{constants, head};
use super::layout::{BuildState, RawBuild, RawNodes, RawWorld};
use super::scratch::{Basics, Entries, Nodes, Shape, node_tiles, order, scan_tiles};
use super::tiles::VoxelList;
use crate::GeometryKernels;
use crate::algorithms::{RESULT_AT, Wishes};
use crate::geometry::{Source, of_source};
use crate::lengths::{blocks, cover};
use crate::part::{Maybe, read};
use crate::volume::VolumeValue;

kernels! {
    #[name = "volume_{}"]
    pub(super) struct Build;
    // SAFETY: they write what entries and nodes there are room for into the memory of a build, and the nodes that
    // have room into the grid (`Arg`).
    unsafe in Source::VOLUME_BUILD {
        /// # Safety
        /// There is a voxel for each entry, for whose keys there is room.
        unsafe fn index_keys(build: &Arg<'_>, voxels: &[[i32; 3]]);
        /// # Safety
        /// As for `index_keys`, with points.
        unsafe fn world_keys(build: &Arg<'_>, points: &WorldArg<'_>);
        /// # Safety
        /// The keys of all entries are sorted, the chains zero, with words for all tiles.
        unsafe fn order(build: &Arg<'_>);
        /// # Safety
        /// The nodes of all entries are found.
        unsafe fn tile_leaves(build: &Arg<'_>);
        /// # Safety
        /// The nodes of all entries are found, and there is a voxel for each; `values`, if they are there, has a
        /// value for each.
        unsafe fn index_leaves(build: &Arg<'_>, voxels: &[[i32; 3]], values: Maybe<'_, u8>);
        /// # Safety
        /// As for `index_leaves`, with points.
        unsafe fn world_leaves(build: &Arg<'_>, points: &WorldArg<'_>, values: Maybe<'_, u8>);
        /// # Safety
        /// There is a block for each tile of leaves that have room, and a chain of their tiles, which is zero.
        unsafe fn scan(build: &Arg<'_>);
        /// # Safety
        /// The leaves are written, and `scan` has run.
        unsafe fn number(build: &Arg<'_>);
        /// # Safety
        /// The leaves are written.
        unsafe fn lowers(build: &Arg<'_>);
        /// # Safety
        /// The lower nodes are written.
        unsafe fn uppers(build: &Arg<'_>);
        /// # Safety
        /// The upper nodes are written, if there are any.
        unsafe fn root(build: &Arg<'_>);
    }
}
of_source!(Build, Source::VOLUME_BUILD);

/// Threads in a block: `leaf_threads` and `node_threads` in device/geom/volume/.
const LEAF_THREADS: u32 = 128;
const NODE_THREADS: u32 = 256;

/// The most blocks of a launch; the kernels have grid-stride loops.
const MOST_BLOCKS: usize = 1 << 16;

/// Returns a launch with one block per leaf, up to the limit.
pub(super) fn leaf_blocks(n: usize) -> LaunchConfig {
    blocks(n.min(MOST_BLOCKS), LEAF_THREADS)
}

/// Returns a launch with one block per inner node, up to the limit.
fn node_blocks(n: usize) -> LaunchConfig {
    blocks(n.min(MOST_BLOCKS), NODE_THREADS)
}

/// The greatest number of entries.
const MOST_ENTRIES: usize = (1 << 31) - 1;

/// The values with which leaves are filled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fill<'a> {
    /// All voxels are active, with the background.
    Tiles,
    /// The listed voxels are active, with these values or the background.
    Voxels(Option<DeviceSlice<'a, u8>>),
    /// A dense array.
    Dense(DenseArg<'a>),
}

impl Fill<'_> {
    /// Returns the memory of the values.
    pub(super) fn allocation(&self) -> Option<&Arc<Allocation>> {
        match self {
            Self::Voxels(values) => values.as_ref().map(DeviceSlice::allocation),
            Self::Tiles | Self::Dense(_) => None,
        }
    }
}

/// A list of entries, as voxels or as points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) list: VoxelList<'a>,
    pub(super) map: Map,
}

/// Points in the world as an argument: `geom::volume::WorldPoints`.
pub(super) struct WorldArg<'a>(DeviceSlice<'a, [f32; 3]>, Map);

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

/// The memory and arguments of a build.
#[derive(Debug)]
pub(super) struct Work {
    geometry: GeometryKernels,
    pub(super) layout: RawNodes,
    basics: Basics,
    entries: Entries,
    nodes: Option<Nodes>,
}

/// The work as an argument: `geom::volume::Build`.
pub(super) struct Arg<'a> {
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
    /// Creates a build with room for `room` entries. With `asks`, entries may ask for something other than leaves.
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
            geometry: geometry.clone(),
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

    /// Reserves memory for lists of `room` nodes.
    pub(super) fn reserve(&mut self, stream: &Stream, room: [u32; 3]) -> Result<()> {
        let room = room.map(|n| n as usize);
        self.nodes = Some(Nodes::new(stream, room, self.is_numbered())?);
        Ok(())
    }

    /// Returns the results of the build. Waits.
    pub(super) fn state(&self, stream: &Stream) -> Result<BuildState> {
        self.entries.state(stream)
    }

    /// Returns the version of the state's last write, which differs for each build.
    pub(super) fn version(&self) -> u64 {
        self.entries.memory.allocation().version(self.entries.state.clone())
    }

    fn arg<'a>(&'a self, grid: Option<&'a DeviceBuffer<u8>>, shape: Shape, n: usize) -> Arg<'a> {
        Arg { work: self, grid, shape, n }
    }

    /// Resets the state.
    pub(super) fn clear(&mut self, stream: &Stream) -> Result<()> {
        self.entries.memory.slice_mut(self.entries.state.clone())?.fill(stream, 0)
    }

    /// Writes the keys of a list's entries.
    pub(super) fn list_keys(&mut self, stream: &Stream, listed: Listed<'_>) -> Result<()> {
        let n = listed.list.len();
        let (kernels, launch) = (self.geometry.kernels::<Build>()?, cover(n));
        let arg = self.arg(None, Shape::new(&self.layout, [0; 3]), n);
        // SAFETY: reads n voxels or points, and writes n keys, for which there is room.
        unsafe {
            match listed.list {
                VoxelList::Indices(voxels) => kernels.index_keys(stream, launch, &arg, voxels),
                VoxelList::Points(points) => {
                    kernels.world_keys(stream, launch, &arg, &WorldArg(points, listed.map))
                }
            }
        }
    }

    /// Writes the keys of all leaves that an array touches, and what each of them becomes.
    pub(super) fn dense_keys(&mut self, stream: &Stream, dense: DenseArg<'_>) -> Result<()> {
        let n = dense.lattice_len();
        let kernels = self.geometry.kernels::<Dense>()?;
        let arg = self.arg(None, Shape::new(&self.layout, [0; 3]), n);
        // SAFETY: reads the values of the box, and writes a key and a byte for each leaf.
        unsafe { kernels.judge(stream, leaf_blocks(n), &arg, &dense, dense.lattice()) }
    }

    /// Uploads what each entry asks for.
    pub(super) fn upload_asks(&mut self, stream: &Stream, asks: &[u8]) -> Result<()> {
        self.entries.memory.slice_mut(self.entries.asks.clone())?.upload(stream, asks)
    }

    /// Sorts the first `n` entries.
    pub(super) fn sort(&mut self, stream: &Stream, n: usize) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        let layout = order(n)?;
        let sort = &self.geometry;
        self.entries.with_pairs(n, |pairs, state| {
            let wishes = Wishes { indices: true, counted: false };
            sort.sort_buffers_planned::<u64>(stream, &layout, pairs, state, wishes)
        })
    }

    /// Counts the nodes of sorted entries, and lists those that fit in `shape`.
    pub(super) fn find_nodes(&mut self, stream: &Stream, n: usize, shape: Shape) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        self.entries.memory.slice_mut(self.entries.chains.clone())?.fill(stream, 0)?;
        let arg = self.arg(None, shape, n);
        let launch = blocks(node_tiles(n), 256);
        // SAFETY: reads the sorted keys and their places; writes the state, the chains, for which there are
        // words for all tiles, and lists of what has room.
        unsafe { self.geometry.kernels::<Build>()?.order(stream, launch, &arg) }
    }

    /// Writes the grid, if all nodes fit.
    pub(super) fn write(
        &mut self,
        stream: &Stream,
        grid: &mut DeviceBuffer<u8>,
        shape: Shape,
        n: usize,
        (listed, fill): (Option<Listed<'_>>, Fill<'_>),
    ) -> Result<()> {
        let kernels = self.geometry.kernels::<Build>()?;
        let [leaves, lower, upper] = shape.room.map(|room| room as usize);
        if n != 0 {
            let numbered = self.is_numbered();
            if numbered && let Some(nodes) = &mut self.nodes {
                nodes.memory.slice_mut(nodes.scan.clone())?.fill(stream, 0)?;
            }
            let arg = self.arg(Some(grid), shape, n);
            self.write_leaves(stream, &arg, leaf_blocks(leaves), (listed, fill))?;
            if numbered {
                let tiles = blocks(scan_tiles(leaves), 256);
                // SAFETY: the kernels sum over as many leaves as there is room for, with a chain of their tiles; then
                // they write a number into each leaf.
                unsafe {
                    kernels.scan(stream, tiles, &arg)?;
                    kernels.number(stream, LaunchConfig::cover(leaves, 256), &arg)?;
                }
            }
            // SAFETY: each kernel writes the nodes of its level, from those of the level below.
            unsafe {
                kernels.lowers(stream, node_blocks(lower), &arg)?;
                kernels.uppers(stream, node_blocks(8 * upper), &arg)?;
            }
        }
        let arg = self.arg(Some(grid), shape, n);
        // SAFETY: the kernel writes the head, the root and its tiles.
        unsafe { kernels.root(stream, node_blocks(1), &arg) }
    }

    fn write_leaves(
        &self,
        stream: &Stream,
        arg: &Arg<'_>,
        launch: LaunchConfig,
        (listed, fill): (Option<Listed<'_>>, Fill<'_>),
    ) -> Result<()> {
        let kernels = self.geometry.kernels::<Build>()?;
        // SAFETY: writes leaves, whose nodes the caller has found; reads values of the box, or of leaves, voxels and
        // values by the indices of entries, of which there are as many of each.
        unsafe {
            match (fill, listed) {
                (Fill::Dense(dense), _) => {
                    self.geometry.kernels::<Dense>()?.dense_leaves(stream, launch, arg, &dense)
                }
                (Fill::Voxels(values), Some(Listed { list: VoxelList::Indices(voxels), .. })) => {
                    kernels.index_leaves(stream, launch, arg, voxels, Maybe(values))
                }
                (Fill::Voxels(values), Some(Listed { list: VoxelList::Points(points), map })) => {
                    let points = &WorldArg(points, map);
                    kernels.world_leaves(stream, launch, arg, points, Maybe(values))
                }
                (Fill::Tiles | Fill::Voxels(_), _) => kernels.tile_leaves(stream, launch, arg),
            }
        }
    }
}
