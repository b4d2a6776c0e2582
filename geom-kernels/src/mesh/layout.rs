//! Types in device memory and of kernel arguments, as `device/geom/mesh/` declares them.

use bytemuck::{Pod, Zeroable};

use crate::bvh::layout::RawBvh;
use crate::layout::device_repr;

/// The index in results of queries that found no face.
pub const NO_FACE: u32 = u32::MAX;

/// The point of a mesh that is closest to a query. `geom::ClosestPoint` of `geom/mesh/closest.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct ClosestPoint {
    /// The point of the mesh; NaN if there is none.
    pub position: [f32; 3],
    /// The square of its distance; infinite if there is none.
    pub distance_squared: f32,
    /// The face of the point; [`NO_FACE`] if there is none.
    pub face: u32,
    /// The position is (1 - u - v) a + u b + v c, about, where a, b and c are the face's vertices.
    pub u: f32,
    /// See `u`.
    pub v: f32,
    /// The part of the face: 0, 1, 2 is a vertex; 3, 4, 5 the edge from vertex 0 to 1, from 1 to 2, from 2
    /// to 0; 6 the inside.
    pub feature: u32,
}

/// The hit of a ray. `geom::RayHit` of `geom/mesh/rays.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct RayHit {
    /// The ray parameter; infinite if nothing is hit.
    pub t: f32,
    /// The face; [`NO_FACE`] if nothing is hit.
    pub face: u32,
    /// The point is (1 - u - v) a + u b + v c, about, where a, b and c are the face's vertices.
    pub u: f32,
    /// See `u`.
    pub v: f32,
    /// 1 if the ray comes from the side to which the face's normal points, else 0.
    pub front: u32,
}

/// A point of a face: (1 - u - v) a + u b + v c. `geom::FacePoint` of `geom/mesh/evaluate.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct FacePoint {
    /// The face.
    pub face: u32,
    /// The weight of the face's second vertex.
    pub u: f32,
    /// The weight of the face's third vertex.
    pub v: f32,
}

impl From<ClosestPoint> for FacePoint {
    fn from(point: ClosestPoint) -> Self {
        Self { face: point.face, u: point.u, v: point.v }
    }
}

impl From<RayHit> for FacePoint {
    fn from(hit: RayHit) -> Self {
        Self { face: hit.face, u: hit.u, v: hit.v }
    }
}

/// `geom::MeshTriangle`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
pub(crate) struct MeshTriangle {
    pub(crate) first: [f32; 3],
    pub(crate) face: u32,
    pub(crate) second: [f32; 3],
    pub(crate) inverse_01: f32,
    pub(crate) third: [f32; 3],
    pub(crate) inverse_12: f32,
    pub(crate) nx: f32,
    pub(crate) ny: f32,
    pub(crate) nz: f32,
    pub(crate) inverse_02: f32,
}

/// `geom::MeshTopology`.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawTopology {
    pub(crate) neighbors: u64,
    pub(crate) vertex_normals: u64,
    pub(crate) closed: u64,
}

/// `geom::Mesh`: the kernel argument for a mesh.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RawMesh {
    pub(crate) bvh: RawBvh,
    pub(crate) triangles: u64,
    pub(crate) points: u64,
    pub(crate) faces: u64,
    pub(crate) topology: RawTopology,
    pub(crate) moments: u64,
    pub(crate) point_count: u32,
    pub(crate) face_count: u32,
}

/// `geom::mesh::Surface`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawSurface {
    pub(crate) points: u64,
    pub(crate) faces: u64,
    pub(crate) point_count: u32,
    pub(crate) face_count: u32,
}

/// `geom::mesh::PointQueries`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawPointQueries {
    pub(crate) points: u64,
    pub(crate) stride: u64,
    pub(crate) component: u64,
    pub(crate) distances: u64,
    pub(crate) order: u64,
    pub(crate) distance: f32,
    pub(crate) length: u32,
}

device_repr!(ClosestPoint, RayHit, FacePoint, RawMesh, RawSurface, RawPointQueries);
