//! Triangle meshes in host memory, with the queries of a device.

mod batch;
mod block;
mod closest;
mod cylinders;
mod evaluate;
mod exact;
mod ordered;
mod overlap;
mod predicates;
mod rays;
mod sides;
mod simd;
#[cfg(test)]
mod tests;
mod topology;
mod traverse;
mod tree;
mod triangle;
mod winding;

use cuda_safe::{Error, Result};

use self::closest::{AtPoint, ByNormal, ByParity, Closest, PointQuery, Within};
use self::overlap::{EachFace, Region};
use self::rays::{AlongRay, Any, Count, Each, Nearest, RayQuery};
use self::simd::{Simd, Task, with_simd};
use self::topology::Topology;
use self::tree::Tree;
use self::triangle::Triangle;
use self::winding::{ByWinding, Number, Winding};
use crate::mesh::{
    ClosestPoint, MAX_FACES, MAX_MESH_POINTS, MeshOptions, Overlap, RayHit, TriangleMesh,
};
use crate::{Aabb, Ray};

pub use batch::Limit;

/// A triangle mesh in host memory, with a hierarchy over its faces.
///
/// Its queries have the same bits as those of [`mesh::Mesh`](crate::mesh::Mesh), whose documentation says what they
/// find. There is one exception: signs by normals of a mesh that is not closed, or has faces that are not oriented
/// outwards, at points whose nearest faces are equally far up to rounding, as they depend on the hierarchy.
#[derive(Debug, Clone)]
pub struct Mesh {
    tree: Tree,
    topology: Option<Topology>,
    winding: Option<Winding>,
    points: Vec<[f32; 3]>,
    faces: Vec<[u32; 3]>,
}

impl Mesh {
    /// Creates a mesh. Faces with a vertex that is not finite, or has a coordinate beyond 2^60, are skipped: no query
    /// finds them. The hierarchy has one builder; that of the options decides only the bits of winding numbers.
    ///
    /// # Errors
    /// A face with an index that is out of range, unless the options are
    /// [not validated](MeshOptions::skip_validation): the first one is named. More than 2^31 - 1 points or 2^28 - 1 faces.
    pub fn new(mesh: &TriangleMesh, options: MeshOptions) -> Result<Self> {
        Self::from_parts(mesh.points.clone(), mesh.faces.clone(), options)
    }

    /// Creates a mesh of these points, and of faces that name three of them each.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_parts(
        points: Vec<[f32; 3]>,
        faces: Vec<[u32; 3]>,
        options: MeshOptions,
    ) -> Result<Self> {
        let (n, m) = (points.len(), faces.len());
        if n > MAX_MESH_POINTS || m > MAX_FACES {
            return Err(Error::invalid(format!(
                "a mesh of {n} points and {m} faces; at most {MAX_MESH_POINTS} and {MAX_FACES} are possible"
            )));
        }
        if options.check {
            let bad = |face: &[u32; 3]| face.iter().copied().find(|vertex| *vertex as usize >= n);
            let first = faces.iter().enumerate().find_map(|(i, face)| Some((i, bad(face)?)));
            if let Some((face, vertex)) = first {
                let message =
                    format!("face {face}: vertex index {vertex}, but there are {n} points");
                return Err(Error::invalid(message));
            }
        }
        let tree = Tree::new(&points, &faces);
        let topology = options.topology.then(|| Topology::new(&points, &faces));
        let winding = options.winding.then(|| Winding::new(&points, &faces, options.build_mode));
        Ok(Self { tree, topology, winding, points, faces })
    }

    /// Moves the points, of which there must be as many as before, and updates the hierarchy. The faces that the
    /// build skipped stay skipped. It is less work than a build, but queries take longer the more the mesh has changed
    /// its shape.
    ///
    /// # Errors
    /// Another number of points.
    pub fn refit_to(&mut self, points: &[[f32; 3]]) -> Result<()> {
        let (n, there) = (points.len(), self.points.len());
        if n != there {
            return Err(Error::invalid(format!("{n} points for a mesh of {there}")));
        }
        self.points.copy_from_slice(points);
        self.tree.refit(&self.points, &self.faces);
        if let Some(topology) = &mut self.topology {
            topology.refit(&self.points, &self.faces);
        }
        if let Some(winding) = &mut self.winding {
            winding.refit(&self.points, &self.faces);
        }
        Ok(())
    }

    /// Returns the points.
    #[must_use]
    pub fn points(&self) -> &[[f32; 3]] {
        &self.points
    }

    /// Returns the faces.
    #[must_use]
    pub fn faces(&self) -> &[[u32; 3]] {
        &self.faces
    }

    /// Returns the normals of vertices; `None` without [topology](MeshOptions::topology).
    #[must_use]
    pub fn vertex_normals(&self) -> Option<&[[f32; 3]]> {
        self.topology.as_ref().map(|topology| &*topology.vertex_normals)
    }

    /// Returns the face across each edge of each face: see
    /// [`mesh::Mesh::neighbors`](crate::mesh::Mesh::neighbors). `None` without
    /// [topology](MeshOptions::topology).
    #[must_use]
    pub fn neighbors(&self) -> Option<&[u32]> {
        self.topology.as_ref().map(|topology| &*topology.neighbors)
    }

    /// Returns the vertices and corners of a face, if it exists and its indices are in range.
    fn face_corners(&self, face: u32) -> Option<([u32; 3], Triangle)> {
        block::corners_of(&self.points, &self.faces, face)
    }

    fn at_point<Q: PointQuery>(&self, q: [f32; 3], distance: f32, query: Q) -> Q::Found {
        with_simd(AtPoint { mesh: self, q, distance, query })
    }

    fn along_ray<Q: RayQuery>(&self, ray: &Ray, query: Q) -> Q::Found {
        with_simd(AlongRay { mesh: self, ray, query })
    }
}

#[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
impl Mesh {
    /// Finds the point of the mesh that is closest to `q`. `None` if there are no faces, or `q` is not valid: not
    /// finite, or with a coordinate beyond 2^60.
    #[must_use]
    pub fn closest_point(&self, q: [f32; 3]) -> Option<ClosestPoint> {
        self.closest_point_within(q, f32::INFINITY)
    }

    /// Finds the closest point among those within `distance`, as [`closest_point`](Self::closest_point) does.
    #[must_use]
    pub fn closest_point_within(&self, q: [f32; 3], distance: f32) -> Option<ClosestPoint> {
        self.at_point(q, distance, Closest)
    }

    /// Returns whether a face is within `distance` of `q`.
    #[must_use]
    pub fn is_within(&self, q: [f32; 3], distance: f32) -> bool {
        self.at_point(q, distance, Within)
    }

    /// Computes the distance of `q` by [`Sign::Normal`](crate::mesh::Sign::Normal), and the closest point; `None` if
    /// that is not within `distance`.
    #[must_use]
    pub fn signed_distance(&self, q: [f32; 3], distance: f32) -> Option<(f32, ClosestPoint)> {
        self.at_point(q, distance, ByNormal)
    }

    /// Computes the distance of `q` by [`Sign::Parity`](crate::mesh::Sign::Parity), and the closest point; `None` if
    /// that is not within `distance`.
    #[must_use]
    pub fn signed_distance_by_parity(
        &self,
        q: [f32; 3],
        distance: f32,
    ) -> Option<(f32, ClosestPoint)> {
        self.at_point(q, distance, ByParity)
    }

    /// Computes the distance of `q` by [`Sign::Winding`](crate::mesh::Sign::Winding), and the closest point; `None` if
    /// that is not within `distance`, or the mesh was made without [`MeshOptions::winding`].
    #[must_use]
    pub fn signed_distance_by_winding(
        &self,
        q: [f32; 3],
        distance: f32,
    ) -> Option<(f32, ClosestPoint)> {
        self.at_point(q, distance, ByWinding(self.winding.as_ref()?))
    }

    /// Computes how often the mesh winds around `q`: see [`winding_numbers`](Self::winding_numbers). A `beta` of less
    /// than 1 is 1. `None` if the mesh was made without [`MeshOptions::winding`].
    #[must_use]
    pub fn winding_number(&self, q: [f32; 3], beta: f32) -> Option<f32> {
        let number = Number(self.winding.as_ref()?, if 1.0 < beta { beta } else { 1.0 });
        Some(self.at_point(q, f32::INFINITY, number))
    }

    /// Returns the side of a closed mesh that `q` is on: -1 inside, 1 outside or not valid, 0 on the mesh; without
    /// rounding errors. For a mesh that is not closed it is the parity of the faces that a ray towards +x crosses.
    #[must_use]
    pub fn side_of(&self, q: [f32; 3]) -> i32 {
        struct Side<'a>(&'a Mesh, [f32; 3]);
        impl Task for Side<'_> {
            type Output = i32;
            #[inline(always)]
            fn run<S: Simd>(self, simd: S) -> i32 {
                sides::side_of(simd, self.0, self.1)
            }
        }
        with_simd(Side(self, q))
    }

    /// Finds the first hit of a ray: the one of least t, and among equal t the one of the least face.
    #[must_use]
    pub fn nearest_hit(&self, ray: &Ray) -> Option<RayHit> {
        self.along_ray(ray, Nearest)
    }

    /// Returns whether a ray hits anything.
    #[must_use]
    pub fn any_hit(&self, ray: &Ray) -> bool {
        self.along_ray(ray, Any)
    }

    /// Returns the number of faces that a ray hits. A shared edge or vertex that it passes through counts once.
    #[must_use]
    pub fn count_hits(&self, ray: &Ray) -> u32 {
        self.along_ray(ray, Count)
    }
}

impl Mesh {
    /// Calls `f` for each hit of a ray, in no order, until it returns true. Returns whether it did.
    pub fn for_each_hit(&self, ray: &Ray, f: impl FnMut(RayHit) -> bool) -> bool {
        self.along_ray(ray, Each(f))
    }

    /// Calls `f` for each face that has a point in common with the box, in no order, until it returns true. Returns
    /// whether it did. A box that is empty or has a NaN overlaps nothing.
    pub fn for_each_overlap(
        &self,
        of: &Aabb<f32>,
        overlap: Overlap,
        f: impl FnMut(u32) -> bool,
    ) -> bool {
        self.each_face(Region::of_box(of), overlap, f)
    }

    /// Calls `f` for each face that is not farther from `center` than `radius`, in no order, until it returns true.
    /// Returns whether it did. A centre that is not valid, or a radius that is negative or NaN, finds nothing.
    pub fn for_each_within(
        &self,
        center: [f32; 3],
        radius: f32,
        overlap: Overlap,
        f: impl FnMut(u32) -> bool,
    ) -> bool {
        self.each_face(Region::of_ball(center, radius), overlap, f)
    }

    fn each_face(
        &self,
        region: Option<Region>,
        overlap: Overlap,
        f: impl FnMut(u32) -> bool,
    ) -> bool {
        region.is_some_and(|region| with_simd(EachFace { mesh: self, region, overlap, f }))
    }
}
