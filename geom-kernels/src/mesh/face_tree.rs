//! Hierarchies of the faces of meshes, with their triangles in the order of leaves.

use std::ops::Range;

use cuda_safe::{DeviceSlice, Result, Stream, kernels};

use super::layout::MeshTriangle;
use super::topology::Surface;
use crate::GeometryKernels;
#[cfg(feature = "internals")]
use crate::bvh::BvhNode;
use crate::bvh::{BuildMode, BvhReport, RefittedArg, Tree};
use crate::geometry::{Source, of_source};
use crate::lengths::cover;
use crate::part::{Enqueues, Part, enqueues};
use crate::preparation::Operation;

kernels! {
    #[name = "mesh_{}"]
    struct Build;
    // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks.
    unsafe in Source::MESH_BUILD {
        /// Computes the bounds of faces below `n`, of which it reads points that exist.
        ///
        /// # Safety
        /// The surface has `n` faces, and there is room for as many items.
        unsafe fn bound(surface: Surface<'_>, n: u32, items: Part<'_>, state: Part<'_>);
        /// Reads an item and writes a triangle at indices below `capacity`; of the surface it reads faces that exist,
        /// and their points that exist.
        ///
        /// # Safety
        /// There are `capacity` items, as many as the header says at least, and room for as many triangles.
        unsafe fn triangles(
            header: Part<'_>,
            items: Part<'_>,
            surface: Surface<'_>,
            capacity: u32,
            triangles: Part<'_>,
        );
        /// Reads triangles at indices below the capacity of items.
        ///
        /// # Safety
        /// `launch` comes from [`Tree::refitted`]. `triangles` is the address of as many triangles as the hierarchy has
        /// items, which lie in its memory.
        unsafe fn refit(tree: RefittedArg<'_>, triangles: u64, n: u32);
    }
}
of_source!(Build, Source::MESH_BUILD);

/// A hierarchy of the faces of a mesh.
#[derive(Debug)]
pub struct FaceTree {
    tree: Tree,
    geometry: GeometryKernels,
    triangles: Range<usize>,
}

impl FaceTree {
    /// Creates a tree without faces, with room for `capacity` of them. Loads the kernels of builds, which may be
    /// recorded.
    ///
    /// # Errors
    /// As [`Bvh::new`](crate::bvh::Bvh::new).
    pub fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        capacity: usize,
        builder: BuildMode,
    ) -> Result<Self> {
        let size = capacity.saturating_mul(size_of::<MeshTriangle>());
        geometry.prepare_kernels(&[Operation::tree(builder), Operation::FACES])?;
        let tree = Tree::new(stream, geometry, capacity, size, builder, false)?;
        let start = tree.memory.extra.start;
        Ok(Self { geometry: geometry.clone(), triangles: start..start + size, tree })
    }

    /// Builds it from these faces. The call can be recorded.
    ///
    /// # Errors
    /// More faces than the capacity, which leaves it unchanged; otherwise if the driver returns an error.
    pub fn rebuild(&mut self, stream: &Stream, surface: Surface<'_>) -> Result<()> {
        let kernels = self.geometry.kernels::<Build>()?;
        self.enqueues(stream, surface).run(|| {
            // SAFETY: the kernel reads faces below their number, and those of their points that exist.
            unsafe {
                self.tree.rebuild(stream, surface.faces().len(), |launch, n, items, state| {
                    kernels.bound(stream, launch, surface, n, items, state)
                })?;
            }
            let written = self.write_triangles(stream, &kernels, surface);
            if written.is_err() {
                // The triangles may be incomplete, so queries must not read them.
                self.break_up();
            }
            written
        })
    }

    /// Updates the boxes and the triangles to the surface's points. The faces must be those that it was built from.
    /// The call can be recorded.
    ///
    /// # Errors
    /// Another number of faces than it was built from; otherwise if the driver returns an error.
    pub fn refit(&mut self, stream: &Stream, surface: Surface<'_>) -> Result<()> {
        self.tree.can_refit("faces", surface.faces().len())?;
        let kernels = self.geometry.kernels::<Build>()?;
        self.enqueues(stream, surface).run(|| {
            self.write_triangles(stream, &kernels, surface)?;
            // The address is passed as a number: the memory is reported with the hierarchy.
            let triangles = self.triangles().address();
            let (launch, tree, n) = self.tree.refitted();
            // SAFETY: the launch is the hierarchy's, and all its triangles were written.
            let refitted = unsafe { kernels.refit(stream, launch, tree, triangles, n) };
            if refitted.is_err() {
                // The triangles are new and the boxes old, so queries must not use them.
                self.break_up();
            }
            refitted
        })
    }

    /// Groups enqueues so that no launch of a graph on the same hierarchy or surface comes between them.
    fn enqueues<'s>(&self, stream: &'s Stream, surface: Surface<'_>) -> Enqueues<'s> {
        let (points, faces) = (surface.points(), surface.faces());
        let tree = self.tree.memory.buffer().allocation();
        enqueues(stream, [tree, points.allocation(), faces.allocation()])
    }

    /// Makes queries fail until a build has succeeded: a part of one could not be enqueued.
    pub(crate) fn break_up(&mut self) {
        self.tree.break_up();
    }

    fn write_triangles(
        &self,
        stream: &Stream,
        kernels: &Build,
        surface: Surface<'_>,
    ) -> Result<()> {
        let memory = &self.tree.memory;
        let (header, items) = (memory.read(&memory.header), memory.read(&memory.items));
        // The capacity is below 2^28.
        let (capacity, out) = (memory.capacity as u32, memory.write(&self.triangles));
        let launch = cover(memory.capacity);
        // SAFETY: the memory has as many items and triangles.
        unsafe { kernels.triangles(stream, launch, header, items, surface, capacity, out) }
    }

    /// Returns the hierarchy.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the triangles for reading.
    pub(crate) fn triangles(&self) -> Part<'_> {
        self.tree.memory.read(&self.triangles)
    }

    /// Works like [`Bvh::parts`](crate::bvh::Bvh::parts).
    ///
    /// # Errors
    /// If the driver returns an error.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn parts(&self, stream: &Stream) -> Result<(Vec<BvhNode>, Vec<u32>)> {
        self.tree.parts(stream)
    }

    /// Returns the triangles of the items, in the order of leaves, as words. Waits for them. For this project's tests.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn triangle_words(&self, stream: &Stream) -> Result<Vec<[u32; 16]>> {
        let items = self.report(stream)?.items;
        let triangles: DeviceSlice<'_, [u32; 16]> = self.tree.memory.view(&self.triangles)?;
        triangles.slice(..items)?.to_vec(stream)
    }

    /// Returns the report of the last build. Waits for it.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn report(&self, stream: &Stream) -> Result<BvhReport> {
        self.tree.report(stream)
    }
}
