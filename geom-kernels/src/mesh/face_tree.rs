//! Hierarchies of the faces of meshes, with their triangles in the order of leaves.

use std::ops::Range;

use cuda_safe::{DeviceSlice, Error, Kernel, Result, Stream};

use super::layout::MeshTriangle;
use super::topology::Surface;
use crate::GeometryKernels;
#[cfg(feature = "internals")]
use crate::bvh::BvhNode;
use crate::bvh::{BuildMode, BvhReport, Tree};
use crate::geometry::{Group, Source};
use crate::lengths::cover;
use crate::part::{Enqueues, Part, enqueues};

/// A hierarchy of the faces of a mesh.
#[derive(Debug)]
pub struct FaceTree {
    tree: Tree,
    geometry: GeometryKernels,
    kernels: Group<3>,
    triangles: Range<usize>,
}

impl FaceTree {
    /// Without faces, with room for `capacity` of them. What builds and refits need is loaded: they may be
    /// recorded.
    ///
    /// # Errors
    /// As [`Bvh::with_capacity`](crate::bvh::Bvh::with_capacity).
    pub fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        capacity: usize,
        builder: BuildMode,
    ) -> Result<Self> {
        let size = capacity.saturating_mul(size_of::<MeshTriangle>());
        let tree = Tree::new(stream, geometry, capacity, size, builder, false)?;
        let start = tree.memory.extra.start;
        let faces = Self {
            geometry: geometry.clone(),
            kernels: Group::default(),
            triangles: start..start + size,
            tree,
        };
        faces.kernels()?;
        Ok(faces)
    }

    /// What finds the bounds of faces, what writes triangles, and what refits to these.
    fn kernels(&self) -> Result<&[Kernel; 3]> {
        let names = || ["mesh_bound", "mesh_triangles", "mesh_refit"].map(String::from);
        self.kernels.get(&self.geometry, Source::MeshBuild, names)
    }

    /// Builds it from these faces. It can be recorded.
    ///
    /// # Errors
    /// More faces than there is room for, which leaves it as it was; otherwise what the driver answered.
    pub fn rebuild(&mut self, stream: &Stream, surface: Surface<'_>) -> Result<()> {
        let bound = self.kernels()?[0].clone();
        self.enqueues(stream, surface).run(|| {
            let n = surface.faces().len();
            // SAFETY: it reads faces below n, and of them points that there are.
            unsafe { self.tree.rebuild(stream, n, &bound, surface)? };
            let written = self.write_triangles(stream, surface);
            if written.is_err() {
                // Queries must not look at triangles that are not there.
                self.break_up();
            }
            written
        })
    }

    /// Lets the boxes and the triangles follow the points. The faces are those that it was built from. It can
    /// be recorded.
    ///
    /// # Errors
    /// Another number of faces than it was built from; otherwise what the driver answered.
    pub fn refit(&mut self, stream: &Stream, surface: Surface<'_>) -> Result<()> {
        self.tree.usable()?;
        let (n, length) = (surface.faces().len(), self.tree.length);
        if n != length {
            let message = format!("{n} faces for a hierarchy that was built from {length}");
            return Err(Error::invalid(message));
        }
        let refit = self.kernels()?[2].clone();
        self.enqueues(stream, surface).run(|| {
            self.write_triangles(stream, surface)?;
            // As a number: the memory that they are in is reported with the hierarchy.
            let triangles = self.tree.memory.read(&self.triangles).address();
            // SAFETY: it reads triangles at places below the capacity, all of which were written.
            let refitted = unsafe { self.tree.refit(stream, &refit, triangles) };
            if refitted.is_err() {
                // The boxes are of other triangles than those that are there now.
                self.break_up();
            }
            refitted
        })
    }

    /// Enqueues that no launch of a graph on the same hierarchy or surface interrupts.
    fn enqueues<'s>(&self, stream: &'s Stream, surface: Surface<'_>) -> Enqueues<'s> {
        let (points, faces) = (surface.points(), surface.faces());
        let tree = self.tree.memory.buffer().allocation();
        enqueues(stream, [tree, points.allocation(), faces.allocation()])
    }

    /// Refuses queries until a build has succeeded: a part of one could not be enqueued.
    pub(crate) fn break_up(&mut self) {
        self.tree.length = 0;
        self.tree.broken = true;
    }

    fn write_triangles(&self, stream: &Stream, surface: Surface<'_>) -> Result<()> {
        let [_, triangles, _] = self.kernels()?;
        let memory = &self.tree.memory;
        let capacity = memory.capacity;
        let (header, items) = (memory.read(&memory.header), memory.read(&memory.items));
        let out = memory.write(&self.triangles);
        // Below 2^28.
        let args = (header, items, surface, capacity as u32, out);
        // SAFETY: reads an item and writes a triangle at places below the capacity; of the surface it reads
        // faces that there are, and of them points that there are.
        unsafe { triangles.launch(stream, cover(capacity), args) }
    }

    /// The hierarchy.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The triangles, to be read.
    pub(crate) fn triangles(&self) -> Part<'_> {
        self.tree.memory.read(&self.triangles)
    }

    /// As [`Bvh::parts`](crate::bvh::Bvh::parts).
    ///
    /// # Errors
    /// What the driver answered.
    #[cfg(feature = "internals")]
    pub fn parts(&self, stream: &Stream) -> Result<(Vec<BvhNode>, Vec<u32>)> {
        self.tree.parts(stream)
    }

    /// The triangles of the items, in the order of leaves, as words. Waits for them. For this project's tests.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn triangle_words(&self, stream: &Stream) -> Result<Vec<[u32; 16]>> {
        let items = self.report(stream)?.items;
        let triangles: DeviceSlice<'_, [u32; 16]> = self.tree.memory.view(&self.triangles)?;
        triangles.slice(..items)?.to_vec(stream)
    }

    /// How the last build came out. Waits for it.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn report(&self, stream: &Stream) -> Result<BvhReport> {
        self.tree.report(stream)
    }
}
