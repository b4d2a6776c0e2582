//! The faces across edges, and the normals of vertices: device/geom/mesh/topology.cuh.

use cuda_safe::{
    DeviceSlice, DeviceSliceMut, Error, Kernel, KernelArg, Result, Stream,
    arg::{ArgType, UseVisitor},
};

use super::layout::RawSurface;
use crate::GeometryKernels;
use crate::algorithms::{Algorithms, SortedIndices};
use crate::geometry::{Group, Source};
use crate::lengths::{cover, same_length};
use crate::part::read;

/// The most faces of a mesh: a leaf of a hierarchy numbers its items in 28 bits.
pub(crate) const MAX_FACES: usize = (1 << 28) - 1;
/// The most points of a mesh.
pub(crate) const MAX_POINTS: usize = (1 << 31) - 1;

/// Points and faces on the device: any numbers, any indices.
#[derive(Debug, Clone, Copy)]
pub struct Surface<'a> {
    points: DeviceSlice<'a, [f32; 3]>,
    faces: DeviceSlice<'a, [u32; 3]>,
}

impl<'a> Surface<'a> {
    /// # Errors
    /// More than 2^31 - 1 points or 2^28 - 1 faces.
    pub fn new(
        points: impl Into<DeviceSlice<'a, [f32; 3]>>,
        faces: impl Into<DeviceSlice<'a, [u32; 3]>>,
    ) -> Result<Self> {
        let (points, faces) = (points.into(), faces.into());
        for (what, n, most) in
            [("points", points.len(), MAX_POINTS), ("faces", faces.len(), MAX_FACES)]
        {
            if n > most {
                let message = format!("a mesh of {n} {what}; at most {most} are possible");
                return Err(Error::invalid(message));
            }
        }
        Ok(Self { points, faces })
    }

    pub(crate) fn points(&self) -> DeviceSlice<'a, [f32; 3]> {
        self.points
    }

    pub(crate) fn faces(&self) -> DeviceSlice<'a, [u32; 3]> {
        self.faces
    }

    /// `new` has seen that it is less than 2^31.
    pub(crate) fn point_count(&self) -> u32 {
        self.points.len() as u32
    }

    /// `new` has seen that it is less than 2^28.
    pub(crate) fn face_count(&self) -> u32 {
        self.faces.len() as u32
    }

    /// How many corners faces have, and edges. Less than 2^30.
    pub(crate) fn corners(&self) -> usize {
        3 * self.faces.len()
    }

    /// The bits of a point's index, and of the number of points: 1 to 31.
    pub(crate) fn bits(&self) -> u32 {
        (u32::BITS - self.point_count().leading_zeros()).max(1)
    }
}

// SAFETY: kernels read faces below their number, and points whose index is below theirs; both arrays are
// reported as read.
unsafe impl KernelArg for Surface<'_> {
    type Abi = RawSurface;
    const TYPE: ArgType = ArgType::value::<RawSurface>();

    fn abi(&self) -> RawSurface {
        RawSurface {
            points: self.points.device_ptr(),
            faces: self.faces.device_ptr(),
            point_count: self.point_count(),
            face_count: self.face_count(),
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        read(visitor, &self.points)?;
        read(visitor, &self.faces)
    }
}

/// What is made of the faces of meshes: their check, their neighbours and normals, reports. Keep it: it
/// remembers which kernels it has loaded.
#[derive(Debug)]
pub struct Topology {
    geometry: GeometryKernels,
    pub(crate) sort: Algorithms<'static>,
    kernels: Group<5>,
    report: Group<5>,
}

/// The kernels of a report.
pub(crate) struct ReportKernels<'a> {
    pub(crate) validate: &'a Kernel,
    pub(crate) bound_points: &'a Kernel,
    pub(crate) measure_faces: &'a Kernel,
    pub(crate) count_points: &'a Kernel,
    pub(crate) count_edges: &'a Kernel,
}

impl Topology {
    /// For meshes in the context of `geometry`. Nothing is loaded yet.
    #[must_use]
    pub fn new(geometry: &GeometryKernels) -> Self {
        Self {
            geometry: geometry.clone(),
            sort: geometry.algorithms(),
            kernels: Group::default(),
            report: Group::default(),
        }
    }

    #[cfg(feature = "tape")]
    pub(crate) fn geometry(&self) -> &GeometryKernels {
        &self.geometry
    }

    fn kernels(&self) -> Result<&[Kernel; 5]> {
        let names = || {
            [
                "mesh_edge_keys",
                "mesh_neighbors",
                "mesh_closed",
                "mesh_corner_keys",
                "mesh_vertex_normals",
            ]
            .map(String::from)
        };
        self.kernels.get(&self.geometry, Source::MeshTopology, names)
    }

    pub(crate) fn report_kernels(&self) -> Result<ReportKernels<'_>> {
        let names = || {
            [
                "mesh_validate",
                "mesh_bound_points",
                "mesh_measure_faces",
                "mesh_count_points",
                "mesh_count_edges",
            ]
            .map(String::from)
        };
        let kernels = self.report.get(&self.geometry, Source::MeshReport, names)?;
        let [validate, bound_points, measure_faces, count_points, count_edges] = kernels;
        Ok(ReportKernels { validate, bound_points, measure_faces, count_points, count_edges })
    }

    /// Writes for each face and each of its edges (0: from vertex 0 to 1, 1: from 1 to 2, 2: from 2 to 0)
    /// the face on the other side: `neighbors[3 * face + edge]`.
    ///
    /// `0xffff_ffff` where there is none: at a boundary, at an edge of more than two faces, and for all
    /// edges of faces that are skipped or name a point twice, which are nobody's neighbours either. Of two
    /// faces at an edge each is the other's neighbour, also if they run along it in the same direction.
    /// Nothing is waited for, and it can be recorded.
    ///
    /// # Errors
    /// `neighbors` has not three elements for each face; otherwise what the driver answered.
    pub fn neighbors(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        neighbors: DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        same_length("neighbours", neighbors.len(), surface.corners())?;
        if neighbors.is_empty() {
            return Ok(());
        }
        let [_, kernel, ..] = self.kernels()?;
        let edges = self.sorted_edges(stream, surface)?;
        let n = surface.corners();
        let args = (edges.keys(), edges.indices(), n as u32, surface.bits(), neighbors);
        // SAFETY: reads n keys and n places, and writes to these places, which are those below n.
        unsafe { kernel.launch(stream, cover(n), args) }
    }

    /// Writes whether each edge has a face on the other side that runs it the other way: 1 or 0. Of faces
    /// that have edges; of no faces, 1. `neighbors` are those of [`neighbors`](Self::neighbors). Nothing is
    /// waited for, and it can be recorded.
    ///
    /// # Errors
    /// `neighbors` has not three elements for each face, `closed` not one; otherwise what the driver
    /// answered.
    pub fn closed(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        neighbors: DeviceSlice<'_, u32>,
        mut closed: DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        same_length("neighbours", neighbors.len(), surface.corners())?;
        same_length("answers", closed.len(), 1)?;
        closed.fill(stream, 1)?;
        if neighbors.is_empty() {
            return Ok(());
        }
        let [_, _, kernel, ..] = self.kernels()?;
        let args = (surface, neighbors, closed);
        // SAFETY: reads the faces, of them points that there are, and three neighbours each, of which it
        // reads those that are faces; clears the answer by an atomic operation.
        unsafe { kernel.launch(stream, cover(surface.faces().len()), args) }
    }

    /// Writes the normal of each vertex: the sum of its faces' unit normals, each times the face's angle
    /// there (Bærentzen and Aanæs, "Signed Distance Computation Using the Angle Weighted Pseudonormal",
    /// 2005), made one of length one. Zero of a vertex without faces, and where they cancel.
    ///
    /// Faces that are skipped or have no area add nothing. It is computed in f64, always in the same order,
    /// and rounded once. Nothing is waited for, and it can be recorded.
    ///
    /// # Errors
    /// `normals` has not one element for each point; otherwise what the driver answered.
    pub fn vertex_normals(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        mut normals: DeviceSliceMut<'_, [f32; 3]>,
    ) -> Result<()> {
        same_length("normals", normals.len(), surface.points().len())?;
        normals.reborrow().cast_mut::<f32>()?.fill(stream, 0.0)?;
        let n = surface.corners();
        if n == 0 || normals.is_empty() {
            return Ok(());
        }
        let [.., kernel] = self.kernels()?;
        let corners = self.sorted_corners(stream, surface)?;
        let (points, faces) = (surface.points(), surface.faces());
        let counts = (surface.point_count(), surface.face_count());
        let args = (points, faces, counts.0, counts.1, corners.keys(), corners.indices(), normals);
        // SAFETY: reads n keys and n places, which are those of corners; of the faces, points that there are;
        // and writes to the keys that are less than there are points, each by one thread.
        unsafe { kernel.launch(stream, cover(n), args) }
    }

    /// Corners by their vertices: those of skipped faces at the end.
    pub(crate) fn sorted_corners(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
    ) -> Result<SortedIndices<u32>> {
        let [.., corner_keys, _] = self.kernels()?;
        let (n, bits) = (surface.corners(), surface.bits());
        self.sort.kernels().sort_indices::<u32>(stream, n, bits, |keys| {
            let (points, faces) = (surface.points(), surface.faces());
            let counts = (surface.point_count(), surface.face_count());
            let args = (points, faces, counts.0, counts.1, keys);
            // SAFETY: reads the faces, and of them points that there are, and writes 3 keys for each.
            unsafe { corner_keys.launch(stream, cover(surface.faces().len()), args) }
        })
    }

    /// Edges by their vertices: the lower index above the higher one, of as many bits as points need.
    pub(crate) fn sorted_edges(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
    ) -> Result<SortedIndices<u64>> {
        let [edge_keys, ..] = self.kernels()?;
        let bits = surface.bits();
        self.sort.kernels().sort_indices::<u64>(stream, surface.corners(), 2 * bits, |keys| {
            let (points, faces) = (surface.points(), surface.faces());
            let counts = (surface.point_count(), surface.face_count());
            let args = (points, faces, counts.0, counts.1, bits, keys);
            // SAFETY: reads the faces, and of them points that there are, and writes 3 keys for each.
            unsafe { edge_keys.launch(stream, cover(surface.faces().len()), args) }
        })
    }
}
