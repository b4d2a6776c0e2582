//! Hierarchies of boxes (bounding volume hierarchies): built on the device, and refitted when boxes move.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::bvh::{BuildMode, Bvh};
//! use geom_kernels::{Aabb, GeometryKernels};
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let boxes = [
//!     Aabb { lower: [0.0f32, 0.0, 0.0], upper: [1.0, 1.0, 1.0] },
//!     Aabb { lower: [2.0, 0.0, 0.0], upper: [3.0, 1.0, 1.0] },
//! ];
//! let boxes = DeviceBuffer::from_slice(&stream, &boxes)?;
//!
//! let bvh = Bvh::build(&stream, &GeometryKernels::new(&context), &boxes, BuildMode::default())?;
//! assert_eq!(bvh.report(&stream)?.items, 2);
//!
//! // Which of them touch which: see `BvhQueries` for spheres and rays.
//! let lists = bvh.overlap_lists(&stream, &boxes)?;
//! assert_eq!(lists.indices.to_vec(&stream)?, [0, 1]);
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! Nodes have up to four children, and leaves up to four items. A box that is empty (its lower bound is
//! greater than the upper one in an axis), or has a coordinate that is not finite or of a magnitude beyond
//! 2^60, is *skipped*: it is in no leaf, and counted. Which items share a leaf, and the order of leaves, are
//! the same on every run and every device; the numbers of nodes are not.
//!
//! # Sources
//! T. Karras, Maximizing Parallelism in the Construction of BVHs, Octrees, and k-d Trees, 2012 (Morton codes);
//! C. Apetrei, Fast and Simple Agglomerative LBVH Construction, 2014 ([`BuildMode::Fast`]); C. Benthin,
//! D. Meister, J. Barczak, R. Mehalwal, J. Tsakok, A. Kensler, H-PLOC: Hierarchical Parallel
//! Locally-Ordered Clustering for Bounding Volume Hierarchy Construction, 2024 ([`BuildMode::Quality`]).

mod build;
pub(crate) mod layout;
mod lists;
mod memory;
mod queries;
mod view;

use cuda_safe::{DeviceSlice, Result, Stream, kernels};

#[cfg(feature = "internals")]
#[doc(hidden)]
pub use layout::BvhNode;
pub use lists::OverlapLists;
pub use queries::BvhQueries;
pub use view::BvhView;

use crate::geometry::{Source, of_source};
use crate::lengths::cover;
use crate::part::{Part, enqueues};
use crate::preparation::Operation;
use crate::{Aabb, GeometryKernels};
pub(crate) use build::Tree;
pub(crate) use lists::overlap_kernels;
pub(crate) use memory::RefittedArg;
pub(crate) use queries::{Kind, Ordered};

/// The most boxes of a hierarchy: 2²⁸ − 1.
pub const MAX_BOXES: usize = (1 << 28) - 1;

/// How a hierarchy is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BuildMode {
    /// Builds in the least time, by the order of the boxes' centres along a Morton curve. For hierarchies that are
    /// rebuilt before few queries.
    Fast,
    /// Merges near items first, so that queries visit fewer nodes. The build takes several times as long.
    #[default]
    Quality,
}

/// A report on a built hierarchy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BvhReport {
    /// The number of boxes in the hierarchy.
    pub items: usize,
    /// The number of skipped boxes: empty, or not finite.
    pub skipped: usize,
    /// The number of nodes, at least one.
    pub nodes: usize,
    /// The largest number of nodes on a path from the root to a leaf.
    pub depth: usize,
    /// The box of all items, if there are any.
    pub bounds: Option<Aabb<f32>>,
}

kernels! {
    #[name = "bvh_{}"]
    struct Boxes;
    // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks.
    unsafe in Source::BVH_BOXES {
        /// Finds the bounds of the boxes.
        ///
        /// # Safety
        /// There is room for `n` items, and the state belongs to a build that has just begun.
        unsafe fn bound_boxes(boxes: &[Aabb<f32>], n: u32, items: Part<'_>, state: Part<'_>)
            where n <= boxes.len();
        /// Reads the boxes of items below `n`, and stays below the capacities of nodes and items.
        ///
        /// # Safety
        /// `launch` comes from [`Tree::refitted`].
        unsafe fn refit_boxes(tree: RefittedArg<'_>, boxes: &[Aabb<f32>], n: u32)
            where n <= boxes.len();
        /// Writes the box of each item in the order of leaves. Each thread below the number of items and the
        /// capacity reads the item's index, its box if that is below `n`, and writes one box.
        ///
        /// # Safety
        /// There are `capacity` items, as many as the header says at least, and room for as many boxes.
        unsafe fn keep_boxes(
            header: Part<'_>,
            items: Part<'_>,
            boxes: &[Aabb<f32>],
            n: u32,
            out: Part<'_>,
            capacity: u32,
        ) where n <= boxes.len();
    }
}
of_source!(Boxes, Source::BVH_BOXES);

/// A hierarchy of boxes of f32.
///
/// It owns its memory, about 72 bytes for each box ([`Bvh::size_bytes`]), in which it can be built again. Builds
/// take scratch memory, about 140 bytes for each box, from the context's pool, in the stream's order.
#[derive(Debug)]
pub struct Bvh {
    tree: Tree,
}

impl Bvh {
    /// Builds a hierarchy of these boxes. Stream-ordered; nothing is waited for.
    ///
    /// # Errors
    /// More than [`MAX_BOXES`]; otherwise an error of loading the kernels, of allocating or of the driver.
    pub fn build<'a>(
        stream: &Stream,
        geometry: &GeometryKernels,
        boxes: impl Into<DeviceSlice<'a, Aabb<f32>>>,
        builder: BuildMode,
    ) -> Result<Self> {
        let boxes = boxes.into();
        let mut bvh = Self::new(stream, geometry, boxes.len(), builder)?;
        bvh.rebuild(stream, boxes)?;
        Ok(bvh)
    }

    /// Returns a hierarchy without items, with room for `capacity` boxes.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        capacity: usize,
        builder: BuildMode,
    ) -> Result<Self> {
        let tree = Tree::new(stream, geometry, capacity, 0, builder, true)?;
        // The kernels are loaded now, because builds may be recorded.
        geometry.prepare_kernels(&[Operation::tree(builder), Operation::BOXES])?;
        Ok(Self { tree })
    }

    /// Rebuilds the hierarchy from these boxes in its memory. The call can be recorded in a graph.
    ///
    /// # Errors
    /// More boxes than the capacity, which leaves the hierarchy unchanged; otherwise if the driver returns an error.
    pub fn rebuild<'a>(
        &mut self,
        stream: &Stream,
        boxes: impl Into<DeviceSlice<'a, Aabb<f32>>>,
    ) -> Result<()> {
        let (boxes, kernels) = (boxes.into(), self.tree.geometry.kernels::<Boxes>()?);
        enqueues(stream, [self.tree.memory.buffer().allocation(), boxes.allocation()]).run(|| {
            // SAFETY: the kernel reads a box for each item, and writes what a build gives it.
            unsafe {
                self.tree.rebuild(stream, boxes.len(), |launch, n, items, state| {
                    kernels.bound_boxes(stream, launch, boxes, n, items, state)
                })?;
            }
            let kept = self.keep(stream, &kernels, boxes);
            if kept.is_err() {
                self.tree.break_up();
            }
            kept
        })
    }

    /// Gives the items new boxes: the hierarchy's structure stays, and all boxes in it are updated. This is far less
    /// work than a build, but queries take longer the more items have moved relative to each other. The call can be
    /// recorded in a graph.
    ///
    /// Items that the build skipped stay skipped. A box that is now empty or not finite adds nothing to its leaf.
    ///
    /// # Errors
    /// Another number of boxes than it was built from; otherwise if the driver returns an error.
    pub fn refit<'a>(
        &mut self,
        stream: &Stream,
        boxes: impl Into<DeviceSlice<'a, Aabb<f32>>>,
    ) -> Result<()> {
        let boxes = boxes.into();
        self.tree.can_refit("boxes", boxes.len())?;
        let kernels = self.tree.geometry.kernels::<Boxes>()?;
        enqueues(stream, [self.tree.memory.buffer().allocation(), boxes.allocation()]).run(|| {
            let (launch, tree, n) = self.tree.refitted();
            // SAFETY: the launch is the hierarchy's.
            unsafe { kernels.refit_boxes(stream, launch, tree, boxes, n)? };
            self.keep(stream, &kernels, boxes)
        })
    }

    /// Keeps the boxes of single items, so that results do not depend on which share a leaf.
    fn keep(
        &self,
        stream: &Stream,
        kernels: &Boxes,
        boxes: DeviceSlice<'_, Aabb<f32>>,
    ) -> Result<()> {
        let memory = &self.tree.memory;
        let (header, items) = (memory.read(&memory.header), memory.read(&memory.items));
        // Both are below 2^28.
        let (n, capacity) = (boxes.len() as u32, memory.capacity as u32);
        let (launch, out) = (cover(memory.capacity), memory.write(&memory.boxes));
        // SAFETY: the memory has as many items and boxes.
        unsafe { kernels.keep_boxes(stream, launch, header, items, boxes, n, out, capacity) }
    }

    /// Returns the report of the last build. Waits for it.
    ///
    /// # Errors
    /// The error that the driver returns; a stream that records.
    pub fn report(&self, stream: &Stream) -> Result<BvhReport> {
        self.tree.report(stream)
    }

    /// Returns the number of boxes that it was built from, including skipped ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.length
    }

    /// Returns whether it was built from no boxes, or was not built.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.length == 0
    }

    /// Returns the capacity in boxes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.tree.memory.capacity
    }

    /// Returns the bytes of device memory that it holds.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.tree.memory.buffer().size_bytes()
    }

    /// Its nodes, and the index of the item at each place in the order of leaves. Waits for them. For this
    /// project's tests.
    ///
    /// # Errors
    /// As [`report`](Self::report).
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn parts(&self, stream: &Stream) -> Result<(Vec<BvhNode>, Vec<u32>)> {
        self.tree.parts(stream)
    }
}
