//! A mesh on the device: how it is built and changed.

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, Result, Stream};

use super::arrays::Array;
use super::face_tree::FaceTree;
use super::topology::{Surface, Topology};
use super::winding::Moments;
use super::{MeshReport, TriangleMesh};
use crate::GeometryKernels;
use crate::bvh::{BuildMode, BvhReport};
use crate::part::{Enqueues, enqueues};
use crate::preparation::Operation;

/// Options of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshOptions {
    pub(crate) build_mode: BuildMode,
    pub(crate) topology: bool,
    pub(crate) winding: bool,
    pub(crate) check: bool,
}

impl Default for MeshOptions {
    /// Returns options for queries: without topology and winding numbers, and with the check of indices.
    fn default() -> Self {
        Self { build_mode: BuildMode::Quality, topology: false, winding: false, check: true }
    }
}

impl MeshOptions {
    /// Sets how the hierarchy is built. Results do not depend on it.
    #[must_use]
    pub fn build_mode(mut self, build_mode: BuildMode) -> Self {
        self.build_mode = build_mode;
        self
    }

    /// Computes the faces across edges and the normals of vertices too. Signs by [`Sign::Normal`](super::Sign) need
    /// them where the mesh is not closed.
    #[must_use]
    pub fn topology(mut self) -> Self {
        self.topology = true;
        self
    }

    /// Computes the moments that [winding numbers](Mesh::winding_numbers) need, also those of
    /// [`Sign::Winding`](super::Sign): 108 bytes more for each face.
    #[must_use]
    pub fn winding(mut self) -> Self {
        self.winding = true;
        self
    }

    /// Skips the check of indices, for which a build waits. Faces with an index out of range are then skipped, as
    /// those with a vertex that is not finite always are.
    #[must_use]
    pub fn skip_validation(mut self) -> Self {
        self.check = false;
        self
    }
}

/// The data of a mesh with topology.
#[derive(Debug)]
pub(super) struct TopologyMemory {
    pub(super) neighbors: DeviceBuffer<u32>,
    pub(super) vertex_normals: DeviceBuffer<[f32; 3]>,
    pub(super) closed: DeviceBuffer<u32>,
}

/// A change of the hierarchy that a graph has recorded: until its first launch the hierarchy is unchanged.
#[cfg(any(feature = "rust-kernels", feature = "tape"))]
#[derive(Debug, Clone, Copy)]
struct Recorded {
    before: u64,
    version: u64,
}

/// A triangle mesh on the device, with a hierarchy over its faces for queries. See the
/// [module](super).
///
/// Besides points and faces, which it owns or borrows, it needs about 120 bytes for each face ([`Mesh::size_bytes`]).
#[derive(Debug)]
pub struct Mesh<'a> {
    pub(super) tree: FaceTree,
    pub(super) topology_kernels: Topology,
    pub(super) points: Array<'a, [f32; 3]>,
    pub(super) faces: Array<'a, [u32; 3]>,
    pub(super) topology: Option<TopologyMemory>,
    pub(super) winding: Option<Moments>,
    options: MeshOptions,
    #[cfg(any(feature = "rust-kernels", feature = "tape"))]
    recorded: Option<Recorded>,
}

impl Mesh<'static> {
    /// Creates a mesh of points and faces in host memory.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn upload(
        stream: &Stream,
        geometry: &GeometryKernels,
        mesh: &TriangleMesh,
        options: MeshOptions,
    ) -> Result<Self> {
        let points = DeviceBuffer::from_slice(stream, &mesh.points)?;
        let faces = DeviceBuffer::from_slice(stream, &mesh.faces)?;
        Mesh::build(stream, geometry, points, faces, options)
    }
}

impl<'a> Mesh<'a> {
    /// Creates a mesh of these points, and of faces that name three of them each, counter-clockwise seen from
    /// outside.
    ///
    /// Waits for a check of the indices, unless the options say otherwise. Faces with a vertex that is not
    /// finite, or has a coordinate beyond 2^60, are skipped: no query finds them
    /// ([`MeshReport::skipped_faces`]). There may be no faces at all.
    ///
    /// # Errors
    /// A face with an index that is out of range: the first one is named. More than 2^31 - 1 points or
    /// 2^28 - 1 faces; otherwise an error of loading the kernels, of allocating or of the driver.
    pub fn build(
        stream: &Stream,
        geometry: &GeometryKernels,
        points: impl Into<Array<'a, [f32; 3]>>,
        faces: impl Into<Array<'a, [u32; 3]>>,
        options: MeshOptions,
    ) -> Result<Self> {
        let (points, faces) = (points.into(), faces.into());
        let surface = Surface::new(points.as_slice(), faces.as_slice())?;
        let topology_kernels = Topology::new(geometry);
        // The kernels are prepared together, because the driver compiles several in parallel.
        let operations = [
            Some(Operation::tree(options.build_mode)),
            Some(Operation::FACES),
            options.check.then_some(Operation::CHECKED_MESH),
            options.topology.then_some(Operation::MESH_TOPOLOGY),
        ];
        geometry.prepare_kernels(&operations.into_iter().flatten().collect::<Vec<_>>())?;
        if options.check {
            let validation = topology_kernels.validate(stream, surface)?;
            validation.check_indices(points.as_slice().len())?;
        }
        let capacity = faces.as_slice().len();
        let tree = FaceTree::new(stream, geometry, capacity, options.build_mode)?;
        let topology = if options.topology {
            Some(TopologyMemory {
                neighbors: DeviceBuffer::zeroed(stream, 3 * capacity)?,
                vertex_normals: DeviceBuffer::zeroed(stream, points.as_slice().len())?,
                closed: DeviceBuffer::zeroed(stream, 1)?,
            })
        } else {
            None
        };
        let winding = options.winding.then(|| Moments::new(stream, geometry, &tree)).transpose()?;
        let mut mesh = Self {
            tree,
            topology_kernels,
            points,
            faces,
            topology,
            winding,
            options,
            #[cfg(any(feature = "rust-kernels", feature = "tape"))]
            recorded: None,
        };
        mesh.rebuild(stream)?;
        Ok(mesh)
    }

    /// Rebuilds the hierarchy from the current points and faces in its memory, after [`points_mut`](Self::points_mut)
    /// or [`faces_mut`](Self::faces_mut). Indices are not checked: faces with an index out of range are skipped. The
    /// call can be recorded in a graph.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn rebuild(&mut self, stream: &Stream) -> Result<()> {
        self.remake(stream, true, FaceTree::rebuild)
    }

    /// Updates the hierarchy to the current points. The faces must be the same, and those that the last build skipped
    /// stay skipped. It is far less work than a build, but queries take longer the more the mesh has changed its shape.
    /// It can be recorded in a graph.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn refit(&mut self, stream: &Stream) -> Result<()> {
        self.remake(stream, false, FaceTree::refit)
    }

    /// Builds or refits the hierarchy, and then updates the data that depends on it.
    fn remake(
        &mut self,
        stream: &Stream,
        faces_changed: bool,
        make: fn(&mut FaceTree, &Stream, Surface<'_>) -> Result<()>,
    ) -> Result<()> {
        self.enqueues(stream).run(|| {
            let surface = Surface::new(self.points.as_slice(), self.faces.as_slice())?;
            #[cfg(any(feature = "rust-kernels", feature = "tape"))]
            let before = self.made();
            make(&mut self.tree, stream, surface)?;
            #[cfg(any(feature = "rust-kernels", feature = "tape"))]
            self.note_made(stream, before);
            let updated = self.update_parts(stream, faces_changed);
            if updated.is_err() {
                self.tree.break_up();
            }
            updated
        })
    }

    /// Groups enqueues so that no launch of a graph on the same hierarchy, points or faces comes between them.
    fn enqueues<'s>(&self, stream: &'s Stream) -> Enqueues<'s> {
        let tree = self.tree.tree().memory.buffer().allocation();
        enqueues(stream, [tree, self.points().allocation(), self.faces().allocation()])
    }

    /// Updates the data that depends on the hierarchy.
    fn update_parts(&mut self, stream: &Stream, faces_changed: bool) -> Result<()> {
        if let Some(moments) = &mut self.winding {
            moments.update(stream, &self.tree)?;
        }
        let Some(topology) = &mut self.topology else {
            return Ok(());
        };
        let surface = Surface::new(self.points.as_slice(), self.faces.as_slice())?;
        let TopologyMemory { neighbors, vertex_normals, closed } = topology;
        if faces_changed {
            self.topology_kernels.neighbors(stream, surface, &mut *neighbors)?;
            self.topology_kernels.closed(stream, surface, &*neighbors, closed)?;
        }
        self.topology_kernels.vertex_normals(stream, surface, vertex_normals)
    }

    /// Returns the version of the hierarchy that work recorded now will find.
    #[cfg(any(feature = "rust-kernels", feature = "tape"))]
    fn tree_version(&self) -> u64 {
        let tree = self.tree.tree().memory.buffer();
        tree.allocation().version(tree.byte_range())
    }

    /// Returns the version of the current hierarchy, which does not count a build in a graph that was never launched.
    #[cfg(any(feature = "rust-kernels", feature = "tape"))]
    fn made(&self) -> u64 {
        let version = self.tree_version();
        match self.recorded {
            Some(recorded) if recorded.version == version => recorded.before,
            _ => version,
        }
    }

    #[cfg(any(feature = "rust-kernels", feature = "tape"))]
    fn note_made(&mut self, stream: &Stream, before: u64) {
        let version = self.tree_version();
        self.recorded = stream.is_recording().then_some(Recorded { before, version });
    }

    /// Fails if the points were changed after the hierarchy was built or refitted. Builds and refits read the points
    /// before they write the hierarchy, so its version is the greater one until the points change.
    #[cfg(any(feature = "rust-kernels", feature = "tape"))]
    pub(crate) fn check_current(&self, stream: &Stream) -> Result<()> {
        let points = self.points();
        let changed = points.allocation().version(points.byte_range());
        let tree = if stream.is_recording() { self.tree_version() } else { self.made() };
        // A mesh without faces has no hierarchy that could be out of date.
        if changed > tree && !self.faces().is_empty() {
            return Err(Error::invalid("the mesh's points were changed since it was built")
                .with_hint("`Mesh::refit` takes them over"));
        }
        Ok(())
    }

    pub(crate) fn geometry(&self) -> &GeometryKernels {
        self.topology_kernels.geometry()
    }

    /// Copies other points, as many as before, and [refits](Self::refit).
    ///
    /// # Errors
    /// Another number of points; otherwise if the driver returns an error.
    pub fn refit_to(
        &mut self,
        stream: &Stream,
        points: impl Into<Array<'a, [f32; 3]>>,
    ) -> Result<()> {
        let points = points.into();
        let (n, there) = (points.as_slice().len(), self.points.as_slice().len());
        if n != there {
            return Err(Error::invalid(format!("{n} points for a mesh of {there}")));
        }
        self.points = points;
        self.refit(stream)
    }

    /// Returns the defects and the size of the mesh. Waits.
    ///
    /// # Errors
    /// A stream that records; otherwise if the driver returns an error.
    pub fn report(&self, stream: &Stream) -> Result<MeshReport> {
        let surface = Surface::new(self.points.as_slice(), self.faces.as_slice())?;
        self.topology_kernels.report(stream, surface)
    }

    /// Returns the report of the last build of its hierarchy. Waits.
    ///
    /// # Errors
    /// A stream that records; otherwise if the driver returns an error.
    pub fn bvh_report(&self, stream: &Stream) -> Result<BvhReport> {
        self.tree.report(stream)
    }

    /// Returns the points.
    #[must_use]
    pub fn points(&self) -> DeviceSlice<'_, [f32; 3]> {
        self.points.as_slice()
    }

    /// Returns the faces.
    #[must_use]
    pub fn faces(&self) -> DeviceSlice<'_, [u32; 3]> {
        self.faces.as_slice()
    }

    /// Returns the points for writing, if the mesh owns them. Queries see the change after a [`refit`](Self::refit) or
    /// [`rebuild`](Self::rebuild).
    pub fn points_mut(&mut self) -> Option<DeviceSliceMut<'_, [f32; 3]>> {
        self.points.as_slice_mut()
    }

    /// Returns the faces for writing, if the mesh owns them. Queries see the change after a
    /// [`rebuild`](Self::rebuild).
    pub fn faces_mut(&mut self) -> Option<DeviceSliceMut<'_, [u32; 3]>> {
        self.faces.as_slice_mut()
    }

    /// Returns the normals of vertices: the normalized sums of their faces' unit normals, weighted by angles. `None`
    /// without [topology](MeshOptions::topology).
    #[must_use]
    pub fn vertex_normals(&self) -> Option<DeviceSlice<'_, [f32; 3]>> {
        self.topology.as_ref().map(|topology| topology.vertex_normals.as_slice())
    }

    /// Returns the face across each edge of each face (0: from vertex 0 to 1, 1: from 1 to 2, 2: from 2 to 0):
    /// `neighbors[3 * face + edge]`, or [`NO_FACE`](super::NO_FACE) at boundaries and at edges of more than two
    /// faces. `None` without [topology](MeshOptions::topology).
    #[must_use]
    pub fn neighbors(&self) -> Option<DeviceSlice<'_, u32>> {
        self.topology.as_ref().map(|topology| topology.neighbors.as_slice())
    }

    /// Returns the mesh's options.
    #[must_use]
    pub fn options(&self) -> MeshOptions {
        self.options
    }

    /// Returns the bytes of device memory that it holds, without points and faces.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let topology = self.topology.as_ref().map_or(0, |topology| {
            topology.neighbors.size_bytes()
                + topology.vertex_normals.size_bytes()
                + topology.closed.size_bytes()
        });
        let winding = self.winding.as_ref().map_or(0, Moments::bytes);
        self.tree.tree().memory.buffer().size_bytes() + topology + winding
    }
}
