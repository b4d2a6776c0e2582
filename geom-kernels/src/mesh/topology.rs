//! The faces across edges, and the normals of vertices: device/geom/mesh/topology.cuh.

use cuda_safe::{
    DeviceSlice, Error, KernelArg, Result, Stream, WriteView,
    arg::{ArgType, UseVisitor},
    kernels,
};

use super::layout::RawSurface;
use crate::GeometryKernels;
use crate::algorithms::{Algorithms, SortedIndices};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, same_length};
use crate::part::read;

kernels! {
    #[name = "mesh_{}"]
    struct Kernels;
    // SAFETY: thread i reads face i, if there are so many, and of its points those that there are, and writes 3
    // keys. Three for each face do not overflow 32 bits.
    unsafe in Source::MESH_TOPOLOGY {
        safe fn edge_keys(
            points: &[[f32; 3]],
            faces: &[[u32; 3]],
            point_count: u32,
            face_count: u32,
            #[any] bits: u32,
            keys: &mut [u64],
        ) where point_count <= points.len(), face_count <= faces.len(), 3 * face_count <= keys.len(),
                3 * face_count <= 0xffff_ffff;
        /// Reads `n` keys and indices, and writes at these indices.
        ///
        /// # Safety
        /// `places` is a permutation of 0..n.
        unsafe fn neighbors(keys: &[u64], places: &[u32], n: u32, bits: u32, neighbors: &mut [u32])
            where n <= keys.len(), n <= places.len(), n <= neighbors.len();
        /// Reads the faces, those of their points that exist, and three neighbours each, of which it reads those that
        /// are faces; clears the result by an atomic operation.
        ///
        /// # Safety
        /// There are three neighbours for each face.
        unsafe fn closed(surface: Surface<'_>, neighbors: &[u32], closed: &mut [u32])
            where 1 <= closed.len();
        safe fn corner_keys(
            points: &[[f32; 3]],
            faces: &[[u32; 3]],
            point_count: u32,
            face_count: u32,
            keys: &mut [u32],
        ) where point_count <= points.len(), face_count <= faces.len(), 3 * face_count <= keys.len(),
                3 * face_count <= 0xffff_ffff;
        /// Reads the vertex and index of each corner of the faces; of the faces, only points that exist; and writes
        /// the normals of vertices that exist, each by one thread.
        ///
        /// # Safety
        /// The vertices ascend, and `places` holds indices of corners.
        unsafe fn vertex_normals(
            points: &[[f32; 3]],
            faces: &[[u32; 3]],
            point_count: u32,
            face_count: u32,
            vertices: &[u32],
            places: &[u32],
            normals: &mut [[f32; 3]],
        ) where point_count <= points.len(), face_count <= faces.len(),
                3 * face_count <= vertices.len(), 3 * face_count <= places.len(),
                point_count <= normals.len();
    }
}
of_source!(Kernels, Source::MESH_TOPOLOGY);

/// The most faces of a mesh: a leaf of a hierarchy numbers its items in 28 bits.
pub(crate) const MAX_FACES: usize = (1 << 28) - 1;
/// The most points of a mesh.
pub(crate) const MAX_POINTS: usize = (1 << 31) - 1;

/// Points and faces on the device: any coordinates, any indices.
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

    /// Returns the number of points, which `new` has checked to be less than 2^31.
    pub(crate) fn point_count(&self) -> u32 {
        self.points.len() as u32
    }

    /// Returns the number of faces, which `new` has checked to be less than 2^28.
    pub(crate) fn face_count(&self) -> u32 {
        self.faces.len() as u32
    }

    /// Returns the number of corners of all faces, and of their edges: less than 2^30.
    pub(crate) fn corners(&self) -> usize {
        3 * self.faces.len()
    }

    /// Returns the number of bits of a point's index and of the number of points: 1 to 31.
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

/// Kernels over the faces of meshes: checks, neighbours, normals, reports.
#[derive(Debug)]
pub struct Topology {
    geometry: GeometryKernels,
    pub(crate) sort: Algorithms<'static>,
}

impl Topology {
    /// Creates the kernels for the context of `geometry`. They are loaded on first use.
    #[must_use]
    pub fn new(geometry: &GeometryKernels) -> Self {
        Self { geometry: geometry.clone(), sort: geometry.algorithms() }
    }

    pub(crate) fn geometry(&self) -> &GeometryKernels {
        &self.geometry
    }

    /// Writes, for each edge of each face (0: from vertex 0 to 1, 1: from 1 to 2, 2: from 2 to 0), the face on the
    /// other side: `neighbors[3 * face + edge]`.
    ///
    /// The element is `0xffff_ffff` if there is none: at a boundary, at an edge of more than two faces, and for all
    /// edges of faces that are skipped or name a point twice, which are not neighbours of other faces either. Two
    /// faces at an edge are each other's neighbours, even if they run along it in the same direction. The call does
    /// not wait, and can be recorded.
    ///
    /// # Errors
    /// `neighbors` does not have three elements for each face; otherwise if the driver returns an error.
    pub fn neighbors<'a>(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        neighbors: impl WriteView<'a, u32>,
    ) -> Result<()> {
        let neighbors = neighbors.write_view();
        same_length("neighbours", neighbors.len(), surface.corners())?;
        if neighbors.is_empty() {
            return Ok(());
        }
        let (kernels, n) = (self.geometry.kernels::<Kernels>()?, surface.corners());
        let edges = self.sorted_edges(stream, surface)?;
        let (keys, places, count) = (edges.keys(), edges.indices(), n as u32);
        // SAFETY: a sort of `n` indices has left them.
        unsafe {
            kernels.neighbors(stream, cover(n), keys, places, count, surface.bits(), neighbors)
        }
    }

    /// Writes 1 if each edge has a face on the other side that runs along it in the opposite direction, else 0. Only
    /// faces with edges count; without faces it is 1. `neighbors` are those of [`neighbors`](Self::neighbors). The
    /// call does not wait, and can be recorded.
    ///
    /// # Errors
    /// `neighbors` does not have three elements for each face, or `closed` not one; otherwise if the driver returns
    /// an error.
    pub fn closed<'a, 'b>(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        neighbors: impl Into<DeviceSlice<'a, u32>>,
        closed: impl WriteView<'b, u32>,
    ) -> Result<()> {
        let (neighbors, mut closed) = (neighbors.into(), closed.write_view());
        same_length("neighbours", neighbors.len(), surface.corners())?;
        same_length("answers", closed.len(), 1)?;
        closed.fill(stream, 1)?;
        if neighbors.is_empty() {
            return Ok(());
        }
        let kernels = self.geometry.kernels::<Kernels>()?;
        // SAFETY: there are as many neighbours, as was just compared.
        unsafe { kernels.closed(stream, cover(surface.faces().len()), surface, neighbors, closed) }
    }

    /// Writes the normal of each vertex: the normalized sum of its faces' unit normals, each times the face's angle
    /// there (Bærentzen and Aanæs, "Signed Distance Computation Using the Angle Weighted Pseudonormal", 2005). It is
    /// zero for a vertex without faces, and where the normals cancel.
    ///
    /// Faces that are skipped or have no area add nothing. The sum is computed in f64, in a fixed order, and rounded
    /// once. The call does not wait, and can be recorded.
    ///
    /// # Errors
    /// `normals` does not have one element for each point; otherwise if the driver returns an error.
    pub fn vertex_normals<'a>(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        normals: impl WriteView<'a, [f32; 3]>,
    ) -> Result<()> {
        let mut normals = normals.write_view();
        same_length("normals", normals.len(), surface.points().len())?;
        normals.reborrow().cast_mut::<f32>()?.fill(stream, 0.0)?;
        let n = surface.corners();
        if n == 0 || normals.is_empty() {
            return Ok(());
        }
        let kernels = self.geometry.kernels::<Kernels>()?;
        let corners = self.sorted_corners(stream, surface)?;
        // SAFETY: a sort of the corners by their vertices has left both.
        unsafe {
            kernels.vertex_normals(
                stream,
                cover(n),
                surface.points(),
                surface.faces(),
                surface.point_count(),
                surface.face_count(),
                corners.keys(),
                corners.indices(),
                normals,
            )
        }
    }

    /// Returns the corners sorted by their vertices, with those of skipped faces at the end.
    pub(crate) fn sorted_corners(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
    ) -> Result<SortedIndices<u32>> {
        let kernels = self.geometry.kernels::<Kernels>()?;
        self.sort.kernels().sort_indices(stream, surface.corners(), surface.bits(), |keys| {
            let (points, faces) = (surface.points(), surface.faces());
            let (p, f) = (surface.point_count(), surface.face_count());
            kernels.corner_keys(stream, cover(faces.len()), points, faces, p, f, keys)
        })
    }

    /// Returns the edges sorted by their vertices. A key has the lower index in its upper bits, and each index has as
    /// many bits as points need.
    pub(crate) fn sorted_edges(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
    ) -> Result<SortedIndices<u64>> {
        let (kernels, bits) = (self.geometry.kernels::<Kernels>()?, surface.bits());
        self.sort.kernels().sort_indices(stream, surface.corners(), 2 * bits, |keys| {
            let (points, faces) = (surface.points(), surface.faces());
            let (p, f) = (surface.point_count(), surface.face_count());
            kernels.edge_keys(stream, cover(faces.len()), points, faces, p, f, bits, keys)
        })
    }
}
