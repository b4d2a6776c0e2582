//! Builds and refits of a hierarchy, for any source of its boxes.

use cuda_safe::{Error, LaunchConfig, Result, Stream, kernels};

#[cfg(feature = "internals")]
use super::layout::BvhNode;
use super::layout::Header;
use super::memory::{Memory, RefittedArg, Scratch, digits, most_nodes};
use super::{BuildMode, BvhReport};
use crate::GeometryKernels;
use crate::algorithms::{Algorithms, Digits, Layout, Wishes};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, cover_many};
use crate::part::{Part, enqueues};
use crate::preparation::Operation;

/// The block size of kernels whose threads wait for others: small blocks end sooner.
const SMALL_BLOCK: u32 = 128;

/// The most blocks that write nodes. A block without a node to write only waits for one.
const MOST_COLLAPSE_BLOCKS: usize = 528;

/// The values are the indices of the keys, whose digits are counted.
const COUNTED: Wishes = Wishes { indices: true, counted: true };

kernels! {
    #[name = "bvh_{}"]
    struct Build;
    // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks.
    unsafe in Source::BVH_BUILD {
        /// Computes the key of each item, counts their digits in the sort's state, and writes the header.
        ///
        /// # Safety
        /// There are `n` items and room for `n` keys. The build state has bounds, and the sort's state is cleared.
        unsafe fn keys(
            items: Part<'_>,
            n: u32,
            state: Part<'_>,
            keys: Part<'_>,
            digits: Digits,
            sort_state: Part<'_>,
            header: Part<'_>,
        );
        /// Builds the binary hierarchy of the sorted items.
        ///
        /// # Safety
        /// There are `n` keys, items, and indices, which are those of items; `which` says in which of two buffers
        /// keys and indices are. There is room for `n` binary nodes, of which fewer are written, and for `n` words
        /// of arrivals, which are cleared.
        unsafe fn radix(
            which: Part<'_>,
            first_keys: Part<'_>,
            second_keys: Part<'_>,
            first: Part<'_>,
            second: Part<'_>,
            items: Part<'_>,
            n: u32,
            nodes: Part<'_>,
            arrivals: Part<'_>,
            state: Part<'_>,
        );
        /// Writes the nodes, and the items in the order of leaves.
        ///
        /// # Safety
        /// The children of binary nodes are nodes or items. There is room for `capacity` nodes, the most that there
        /// may be, for a task for each, which is cleared, and for all items.
        unsafe fn collapse(
            binary: Part<'_>,
            state: Part<'_>,
            tasks: Part<'_>,
            capacity: u32,
            nodes: Part<'_>,
            items: Part<'_>,
            header: Part<'_>,
        );
    }
}
of_source!(Build, Source::BVH_BUILD);

kernels! {
    #[name = "bvh_{}"]
    struct Clustering;
    // SAFETY: the kernel is unsafe: it names what its launches promise.
    unsafe in Source::BVH_CLUSTER {
        /// Builds the binary hierarchy by nearness.
        ///
        /// # Safety
        /// As `Build::radix`, with room for `n` clusters and heads.
        unsafe fn cluster(
            which: Part<'_>,
            first_keys: Part<'_>,
            second_keys: Part<'_>,
            first: Part<'_>,
            second: Part<'_>,
            items: Part<'_>,
            n: u32,
            nodes: Part<'_>,
            arrivals: Part<'_>,
            state: Part<'_>,
            clusters: Part<'_>,
            heads: Part<'_>,
        );
    }
}
of_source!(Clustering, Source::BVH_CLUSTER);

/// A hierarchy, and the settings of its builds.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) sort: Algorithms<'static>,
    pub(super) geometry: GeometryKernels,
    builder: BuildMode,
    pub(crate) memory: Memory,
    /// The number of boxes it was built from; 0 before it is built.
    pub(crate) length: usize,
    /// Whether a part of the last build or refit could not be enqueued: then queries are refused.
    pub(crate) broken: bool,
}

impl Tree {
    /// Creates a hierarchy without items, with room for `capacity` boxes and `extra` bytes. Loads the kernels of
    /// builds, so that these may be recorded. With `keeps_boxes`, it has room for the boxes of single items, which
    /// the caller writes.
    pub(crate) fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        capacity: usize,
        extra: usize,
        builder: BuildMode,
        keeps_boxes: bool,
    ) -> Result<Self> {
        let (sort, geometry) = (geometry.algorithms(), geometry.clone());
        geometry.prepare_kernels(&[Operation::tree(builder)])?;
        let memory = Memory::new(stream, capacity, keeps_boxes, extra)?;
        Ok(Self { sort, geometry, builder, memory, length: 0, broken: false })
    }

    /// Builds the hierarchy from `n` boxes.
    ///
    /// `bound` launches a kernel that calls `geom::bvh::bound`, with the given launch, `n`, the items (`Cluster*`)
    /// and the state of the build (`BuildState*`).
    ///
    /// # Errors
    /// More boxes than the capacity; otherwise if the driver returns an error.
    ///
    /// # Safety
    /// `bound` launches such a kernel, which stays inside what it reads boxes from for items below `n`.
    pub(crate) unsafe fn rebuild(
        &mut self,
        stream: &Stream,
        n: usize,
        bound: impl FnOnce(LaunchConfig, u32, Part<'_>, Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let capacity = self.memory.capacity;
        if n > capacity {
            return Err(Error::invalid(format!("{n} boxes, and room for {capacity}")));
        }
        // Queries must find no items until the whole build is enqueued. The lock keeps out a graph that builds the
        // same hierarchy.
        self.break_up();
        enqueues(stream, [self.memory.buffer().allocation()])
            .run(|| self.enqueue(stream, n, bound))?;
        self.length = n;
        self.broken = false;
        Ok(())
    }

    /// Enqueues a build as [`rebuild`](Self::rebuild) does, of at most `capacity` boxes.
    fn enqueue(
        &self,
        stream: &Stream,
        n: usize,
        bound: impl FnOnce(LaunchConfig, u32, Part<'_>, Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let (memory, kernels) = (&self.memory, self.geometry.kernels::<Build>()?);
        let (digits, most) = (digits(), most_nodes(n));
        // `n` is below 2^28.
        let length = n as u32;
        let layout = Layout::new::<u64>(n, digits)?;
        let mut scratch = Scratch::new(stream, n, &layout, self.builder)?;
        // The kernel writes a cluster for each item, and the bounds.
        bound(cover_many(n), length, scratch.write(&scratch.items), scratch.write(&scratch.state))?;
        // SAFETY: there are as many items and keys, by `Scratch::new`, which clears the sort's state.
        unsafe {
            let (items, state) = (scratch.read(&scratch.items), scratch.read(&scratch.state));
            let (keys, sort) = (scratch.write(&scratch.keys[0]), scratch.write(&scratch.sort));
            let header = memory.write(&memory.header);
            let launch = cover_many(n);
            kernels.keys(stream, launch, items, length, state, keys, digits, sort, header)?;
        }
        if n > 0 {
            let sort = self.sort.kernels();
            scratch.with_pairs(n, |pairs, state| {
                sort.sort_buffers_planned(stream, &layout, pairs, state, COUNTED)
            })?;
        }
        self.link(stream, &kernels, length, &scratch)?;
        let blocks = most.div_ceil(SMALL_BLOCK as usize).clamp(1, MOST_COLLAPSE_BLOCKS);
        // SAFETY: `link` has written the binary nodes. At most `most` nodes are written, and there is room for as
        // many nodes and tasks.
        unsafe {
            kernels.collapse(
                stream,
                LaunchConfig::new(blocks as u32, SMALL_BLOCK),
                scratch.read(&scratch.binary),
                scratch.write(&scratch.state),
                scratch.write(&scratch.tasks),
                most as u32,
                memory.write(&memory.nodes),
                memory.write(&memory.items),
                memory.write(&memory.header),
            )
        }
    }

    /// Builds the binary hierarchy of the sorted items.
    fn link(&self, stream: &Stream, build: &Build, n: u32, scratch: &Scratch) -> Result<()> {
        let [keys0, keys1] = scratch.keys.each_ref().map(|keys| scratch.read(keys));
        let [first, second] = scratch.indices.each_ref().map(|places| scratch.read(places));
        let (which, items) = (scratch.which(), scratch.read(&scratch.items));
        let (nodes, arrivals) = (scratch.write(&scratch.binary), scratch.write(&scratch.arrivals));
        let state = scratch.write(&scratch.state);
        let (clusters, heads) = (scratch.write(&scratch.clusters), scratch.write(&scratch.heads));
        let launch = LaunchConfig::cover((n as usize).max(1), SMALL_BLOCK);
        // SAFETY: of each there are `n`, by `Scratch::new`, which clears the arrivals; the sort has left the
        // indices of items.
        unsafe {
            match self.builder {
                BuildMode::Fast => build.radix(
                    stream,
                    cover(n as usize),
                    which,
                    keys0,
                    keys1,
                    first,
                    second,
                    items,
                    n,
                    nodes,
                    arrivals,
                    state,
                ),
                BuildMode::Quality => self.geometry.kernels::<Clustering>()?.cluster(
                    stream, launch, which, keys0, keys1, first, second, items, n, nodes, arrivals,
                    state, clusters, heads,
                ),
            }
        }
    }

    /// Fails unless the whole hierarchy was built, from `n` items; `what` names them.
    pub(crate) fn can_refit(&self, what: &str, n: usize) -> Result<()> {
        self.usable()?;
        if n != self.length {
            let length = self.length;
            let message = format!("{n} {what} for a hierarchy that was built from {length}");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Returns the arguments of a kernel that calls `geom::bvh::refit`: a launch of four threads for each node that
    /// fits, as only the device knows how many there are; the hierarchy; and the number of boxes that it was built
    /// from.
    pub(crate) fn refitted(&self) -> (LaunchConfig, RefittedArg<'_>, u32) {
        let launch = cover(4 * most_nodes(self.memory.capacity));
        (launch, self.memory.refitted(), self.length as u32)
    }

    /// Makes queries fail until a build has succeeded: a part of one could not be enqueued.
    pub(crate) fn break_up(&mut self) {
        self.length = 0;
        self.broken = true;
    }

    /// Fails unless the whole hierarchy was built.
    pub(crate) fn usable(&self) -> Result<()> {
        if self.broken {
            return Err(Error::invalid("the last build of the hierarchy has failed")
                .with_hint("a build that succeeds makes it usable again"));
        }
        Ok(())
    }

    /// Returns the report of the last build. Waits for it.
    pub(crate) fn report(&self, stream: &Stream) -> Result<BvhReport> {
        let header = self.memory.view::<Header>(&self.memory.header)?;
        let Some(header) = header.to_vec(stream)?.first().copied() else {
            return Err(Error::invalid("the hierarchy has no header"));
        };
        Ok(BvhReport {
            items: header.items as usize,
            skipped: header.skipped as usize,
            nodes: header.nodes as usize,
            depth: header.depth as usize,
            bounds: (0..3)
                .all(|axis| header.bounds.lower[axis] <= header.bounds.upper[axis])
                .then_some(header.bounds),
        })
    }

    /// Returns the nodes, and the items in the order of leaves. Waits for them.
    #[cfg(feature = "internals")]
    pub(crate) fn parts(&self, stream: &Stream) -> Result<(Vec<BvhNode>, Vec<u32>)> {
        let (memory, report) = (&self.memory, self.report(stream)?);
        let nodes = memory.view::<BvhNode>(&memory.nodes)?.slice(..report.nodes)?;
        let items = memory.view::<u32>(&memory.items)?.slice(..report.items)?;
        Ok((nodes.to_vec(stream)?, items.to_vec(stream)?))
    }
}
