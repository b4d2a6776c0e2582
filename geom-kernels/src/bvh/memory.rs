//! The memory of a hierarchy, and the scratch memory of a build: one allocation each.

use std::ops::Range;

use bytemuck::Pod;
use cuda_safe::{
    Access, DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, KernelArg, Result, Stream,
    arg::{ArgType, UseVisitor},
};

use super::layout::{BinaryNode, BuildState, BvhNode, Cluster, Header, Refitted, Task};
use super::{BuildMode, MAX_BOXES};
use crate::Aabb;
use crate::algorithms::{Buffers, Digits, Layout, RESULT_AT, with_pairs};
use crate::part::{Part, Parts, scratch};

/// Returns the digits of all 64 bits of a key: 63 bits of the Morton curve, and one that is set only for skipped
/// boxes.
pub(super) fn digits() -> Digits {
    Digits::new(0, u64::BITS)
}

/// Returns the most nodes of a hierarchy of `items` items: `device/geom/bvh/build_collapse.cuh` has the proof.
pub(super) fn most_nodes(items: usize) -> usize {
    items / 3 + 1
}

/// The memory of a hierarchy and the ranges of its parts.
#[derive(Debug)]
pub(crate) struct Memory {
    buffer: DeviceBuffer<u8>,
    pub(crate) capacity: usize,
    pub(crate) header: Range<usize>,
    pub(crate) nodes: Range<usize>,
    pub(crate) items: Range<usize>,
    arrivals: Range<usize>,
    /// The box of each item, in the order of leaves; empty unless they are kept.
    pub(crate) boxes: Range<usize>,
    /// A part for the structure that owns the hierarchy.
    pub(crate) extra: Range<usize>,
}

impl Memory {
    /// Allocates the memory on `stream`, with `extra` uninitialised bytes, and writes a hierarchy without items. With
    /// `keeps_boxes`, it has room for the boxes of single items.
    pub(crate) fn new(
        stream: &Stream,
        capacity: usize,
        keeps_boxes: bool,
        extra: usize,
    ) -> Result<Self> {
        if capacity > MAX_BOXES {
            let message = format!("{capacity} boxes; less than 2^28 are possible");
            return Err(Error::invalid(message));
        }
        let mut parts = Parts::default();
        let header = parts.take::<Header>(1);
        let nodes = parts.take::<BvhNode>(most_nodes(capacity));
        let items = parts.take::<u32>(capacity);
        let arrivals = parts.take::<u32>(most_nodes(capacity));
        let boxes = parts.take::<Aabb<f32>>(if keeps_boxes { capacity } else { 0 });
        let extra = parts.take::<u8>(extra);
        // SAFETY: kernels and the host read only bytes of it that were written before.
        let mut buffer = unsafe { scratch::<u8>(stream, parts.end)? };
        let start = nodes.start;
        let mut write =
            |range: Range<usize>, bytes: &[u8]| buffer.slice_mut(range)?.upload(stream, bytes);
        write(header.clone(), bytemuck::bytes_of(&Header::EMPTY))?;
        write(start..start + size_of::<BvhNode>(), bytemuck::bytes_of(&BvhNode::EMPTY))?;
        buffer.slice_mut(arrivals.clone())?.fill(stream, 0)?;
        Ok(Self { buffer, capacity, header, nodes, items, arrivals, boxes, extra })
    }

    /// Returns a part for reading.
    pub(crate) fn read(&self, range: &Range<usize>) -> Part<'_> {
        Part::of(&self.buffer, range.clone(), Access::Read)
    }

    /// Returns a part for writing.
    pub(crate) fn write(&self, range: &Range<usize>) -> Part<'_> {
        Part::of(&self.buffer, range.clone(), Access::Write)
    }

    /// Returns a part as elements.
    pub(crate) fn view<T: Pod>(&self, range: &Range<usize>) -> Result<DeviceSlice<'_, T>> {
        self.buffer.slice(range.clone())?.cast()
    }

    /// Returns the parts that refits change.
    pub(super) fn refitted(&self) -> RefittedArg<'_> {
        RefittedArg { memory: self }
    }

    pub(crate) fn buffer(&self) -> &DeviceBuffer<u8> {
        &self.buffer
    }
}

/// `geom::bvh::Refitted`.
#[derive(Debug)]
pub(crate) struct RefittedArg<'a> {
    memory: &'a Memory,
}

// SAFETY: the pointers lead into the memory, all of which is reported as written. Kernels stay below the
// capacities, whatever the header says.
unsafe impl KernelArg for RefittedArg<'_> {
    type Abi = Refitted;
    const TYPE: ArgType = ArgType::value::<Refitted>();

    fn abi(&self) -> Refitted {
        let memory = self.memory;
        let address = |part| memory.write(part).address();
        Refitted {
            header: address(&memory.header),
            nodes: address(&memory.nodes),
            items: address(&memory.items),
            arrivals: address(&memory.arrivals),
            // The number is below 2^28.
            nodes_capacity: most_nodes(memory.capacity) as u32,
            items_capacity: memory.capacity as u32,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let buffer = &self.memory.buffer;
        visitor.visit(buffer.allocation(), buffer.byte_range(), Access::Write)
    }
}

/// The scratch memory of a build.
#[derive(Debug)]
pub(super) struct Scratch {
    buffer: DeviceBuffer<u8>,
    // Keys, and indices of items, before and after each pass of the sort; the sort's state follows, as `with_pairs`
    // needs.
    pub(super) keys: [Range<usize>; 2],
    pub(super) indices: [Range<usize>; 2],
    // The parts from here to the tasks must all be zero.
    pub(super) sort: Range<usize>,
    pub(super) state: Range<usize>,
    pub(super) arrivals: Range<usize>,
    pub(super) tasks: Range<usize>,
    pub(super) items: Range<usize>,
    pub(super) binary: Range<usize>,
    // Lists of clusters and their heads, for a build by nearness.
    pub(super) clusters: Range<usize>,
    pub(super) heads: Range<usize>,
}

impl Scratch {
    /// Allocates the scratch memory of a build of `n` boxes, and clears the parts that must be zero.
    pub(super) fn new(
        stream: &Stream,
        n: usize,
        layout: &Layout,
        builder: BuildMode,
    ) -> Result<Self> {
        let mut parts = Parts::default();
        let keys = [parts.take::<u64>(n), parts.take::<u64>(n)];
        let indices = [parts.take::<u32>(n), parts.take::<u32>(n)];
        let sort = parts.take::<u32>(layout.words());
        let state = parts.take::<BuildState>(1);
        let arrivals = parts.take::<u32>(n);
        let tasks = parts.take::<Task>(most_nodes(n));
        let items = parts.take::<Cluster>(n);
        let binary = parts.take::<BinaryNode>(n);
        let listed = if builder == BuildMode::Quality { n } else { 0 };
        let (clusters, heads) = (parts.take::<Cluster>(listed), parts.take::<u32>(listed));
        // SAFETY: kernels read only bytes of it that were written before.
        let mut buffer = unsafe { scratch::<u8>(stream, parts.end)? };
        buffer.slice_mut(sort.start..tasks.end)?.fill(stream, 0)?;
        Ok(Self {
            buffer,
            keys,
            indices,
            sort,
            state,
            arrivals,
            tasks,
            items,
            binary,
            clusters,
            heads,
        })
    }

    /// Returns a part for reading.
    pub(super) fn read(&self, range: &Range<usize>) -> Part<'_> {
        Part::of(&self.buffer, range.clone(), Access::Read)
    }

    /// Returns a part for writing.
    pub(super) fn write(&self, range: &Range<usize>) -> Part<'_> {
        Part::of(&self.buffer, range.clone(), Access::Write)
    }

    /// Returns the word in which a sort stores which of two buffers has its result.
    pub(super) fn which(&self) -> Part<'_> {
        let at = self.sort.start + 4 * RESULT_AT;
        self.read(&(at..at + 4))
    }

    /// Calls `sort` with the keys and indices of `n` items, two buffers of each, and the sort's state.
    pub(super) fn with_pairs(
        &mut self,
        n: usize,
        sort: impl FnOnce(&mut Buffers<'_, u64>, &mut DeviceSliceMut<'_, u32>) -> Result<()>,
    ) -> Result<()> {
        with_pairs(&mut self.buffer, (&self.keys, &self.indices, &self.sort), n, sort)
    }
}
