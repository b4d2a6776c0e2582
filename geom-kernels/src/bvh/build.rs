//! Building and refitting, whatever the boxes are made from.

use cuda_safe::{Error, Kernel, KernelArg, Result, Stream};

use super::kernels::{Kernels, cover_nodes, cover_small};
#[cfg(feature = "internals")]
use super::layout::BvhNode;
use super::layout::Header;
use super::memory::{Memory, Scratch, digits, most_nodes};
use super::{BuildMode, BvhReport};
use crate::GeometryKernels;
use crate::algorithms::{Algorithms, Layout, Wishes};
use crate::lengths::{cover, cover_many};
use crate::part::enqueues;

/// Values are the places of keys, whose digits are counted.
const COUNTED: Wishes = Wishes { indices: true, counted: true };

/// A hierarchy, and what builds it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) sort: Algorithms<'static>,
    pub(super) kernels: Kernels,
    builder: BuildMode,
    pub(crate) memory: Memory,
    /// How many boxes it was built from; 0 before it is built.
    pub(crate) length: usize,
    /// Whether a part of the last build or refit could not be enqueued: then queries are refused.
    pub(crate) broken: bool,
}

impl Tree {
    /// Without items, and with room for `capacity` boxes and `extra` bytes. What builds need is loaded:
    /// they may be recorded. `keeps_boxes`: with room for the boxes of single items, which the caller
    /// writes.
    pub(crate) fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        capacity: usize,
        extra: usize,
        builder: BuildMode,
        keeps_boxes: bool,
    ) -> Result<Self> {
        let (sort, kernels) = (geometry.algorithms(), Kernels::new(geometry));
        kernels.build()?;
        if builder == BuildMode::Quality {
            kernels.cluster()?;
        }
        sort.kernels().pairs::<u64>()?;
        let memory = Memory::new(stream, capacity, keeps_boxes, extra)?;
        Ok(Self { sort, kernels, builder, memory, length: 0, broken: false })
    }

    /// Builds it from `n` boxes.
    ///
    /// `bound` is a kernel of the parameters (`boxes`, n, `Cluster*`, `BuildState*`) that calls
    /// `geom::bvh::bound`.
    ///
    /// # Errors
    /// More boxes than there is room for; otherwise what the driver answered.
    ///
    /// # Safety
    /// `bound` is such a kernel, and stays inside what `boxes` leads to for items below `n`.
    pub(crate) unsafe fn rebuild(
        &mut self,
        stream: &Stream,
        n: usize,
        bound: &Kernel,
        boxes: impl KernelArg,
    ) -> Result<()> {
        let capacity = self.memory.capacity;
        if n > capacity {
            return Err(Error::invalid(format!("{n} boxes, and room for {capacity}")));
        }
        // Until all is enqueued there is nothing that queries may look at; nor does a graph that builds
        // the same hierarchy come in between.
        self.length = 0;
        self.broken = true;
        enqueues(stream, [self.memory.buffer().allocation()]).run(|| {
            // SAFETY: the caller's promise.
            unsafe { self.enqueue(stream, n, bound, boxes) }
        })?;
        self.length = n;
        self.broken = false;
        Ok(())
    }

    /// # Safety
    /// As [`rebuild`](Self::rebuild), with as many boxes as there is room for at most.
    unsafe fn enqueue(
        &self,
        stream: &Stream,
        n: usize,
        bound: &Kernel,
        boxes: impl KernelArg,
    ) -> Result<()> {
        let (memory, kernels) = (&self.memory, self.kernels.build()?);
        let (digits, most) = (digits(), most_nodes(n));
        // Below 2^28.
        let length = n as u32;
        let layout = Layout::new::<u64>(n, digits)?;
        let mut scratch = Scratch::new(stream, n, &layout, self.builder)?;
        // SAFETY: writes a cluster for each item, and bounds; of the boxes the caller has taken care.
        unsafe {
            let args =
                (boxes, length, scratch.write(&scratch.items), scratch.write(&scratch.state));
            bound.launch(stream, cover_many(n), args)?;
        }
        // SAFETY: reads a cluster and writes a key for each item, counts their digits in the sort's state,
        // which is cleared, and writes the header.
        unsafe {
            let (items, state) = (scratch.read(&scratch.items), scratch.read(&scratch.state));
            let (keys, sort) = (scratch.write(&scratch.keys[0]), scratch.write(&scratch.sort));
            let args = (items, length, state, keys, digits, sort, memory.write(&memory.header));
            kernels.keys.launch(stream, cover_many(n), args)?;
        }
        if n > 0 {
            let sort = self.sort.kernels();
            scratch.with_pairs(|pairs, state| {
                sort.sort_buffers_planned(stream, &layout, pairs, state, COUNTED)
            })?;
        }
        self.link(stream, length, &scratch)?;
        // SAFETY: reads the binary nodes, whose children are nodes or items; writes at most `most` nodes,
        // which are as many as there is room for at most, a task for each, and the items in the order of
        // leaves.
        unsafe {
            let args = (
                scratch.read(&scratch.binary),
                scratch.write(&scratch.state),
                scratch.write(&scratch.tasks),
                most as u32,
                memory.write(&memory.nodes),
                memory.write(&memory.items),
                memory.write(&memory.header),
            );
            kernels.collapse.launch(stream, cover_nodes(most), args)
        }
    }

    /// Makes the binary hierarchy of the sorted items.
    fn link(&self, stream: &Stream, length: u32, scratch: &Scratch) -> Result<()> {
        let [first_keys, second_keys] = scratch.keys.each_ref().map(|keys| scratch.read(keys));
        let [first, second] = scratch.indices.each_ref().map(|places| scratch.read(places));
        let (which, items) = (scratch.which(), scratch.read(&scratch.items));
        let (binary, arrivals) = (scratch.write(&scratch.binary), scratch.write(&scratch.arrivals));
        let (state, n) = (scratch.write(&scratch.state), length as usize);
        // SAFETY: both read a key, an index and a cluster for each item, the indices being those of items,
        // and write binary nodes, fewer than items, a word for each item and, by nearness, a cluster and a
        // head for each.
        unsafe {
            match self.builder {
                BuildMode::Fast => {
                    let args = (
                        which,
                        first_keys,
                        second_keys,
                        first,
                        second,
                        items,
                        length,
                        binary,
                        arrivals,
                        state,
                    );
                    self.kernels.build()?.radix.launch(stream, cover(n), args)
                }
                BuildMode::Quality => {
                    let (clusters, heads) =
                        (scratch.write(&scratch.clusters), scratch.write(&scratch.heads));
                    let args = (
                        which,
                        first_keys,
                        second_keys,
                        first,
                        second,
                        items,
                        length,
                        binary,
                        arrivals,
                        state,
                        clusters,
                        heads,
                    );
                    self.kernels.cluster()?.launch(stream, cover_small(n), args)
                }
            }
        }
    }

    /// Gives the hierarchy new boxes for the items that it has.
    ///
    /// `refit` is a kernel of the parameters (`Refitted`, `boxes`, n) that calls `geom::bvh::refit`; of n it
    /// is told how many boxes the hierarchy was built from.
    ///
    /// # Errors
    /// What the driver answered.
    ///
    /// # Safety
    /// `refit` is such a kernel, and stays inside what `boxes` leads to, whatever items the hierarchy has.
    pub(crate) unsafe fn refit(
        &mut self,
        stream: &Stream,
        refit: &Kernel,
        boxes: impl KernelArg,
    ) -> Result<()> {
        // Four threads for each node that there may be: only the device knows how many there are.
        let launch = cover(4 * most_nodes(self.memory.capacity));
        // SAFETY: stays below the capacities of nodes and items; of the boxes the caller has taken care.
        unsafe { refit.launch(stream, launch, (self.memory.refitted(), boxes, self.length as u32)) }
    }

    /// Refuses what was not built in full.
    pub(crate) fn usable(&self) -> Result<()> {
        if self.broken {
            return Err(Error::invalid("the last build of the hierarchy has failed")
                .with_hint("a build that succeeds makes it usable again"));
        }
        Ok(())
    }

    /// How the last build came out. Waits for it.
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

    /// The nodes, and the items in the order of leaves. Waits for them.
    #[cfg(feature = "internals")]
    pub(crate) fn parts(&self, stream: &Stream) -> Result<(Vec<BvhNode>, Vec<u32>)> {
        let (memory, report) = (&self.memory, self.report(stream)?);
        let nodes = memory.view::<BvhNode>(&memory.nodes)?.slice(..report.nodes)?;
        let items = memory.view::<u32>(&memory.items)?.slice(..report.items)?;
        Ok((nodes.to_vec(stream)?, items.to_vec(stream)?))
    }
}
