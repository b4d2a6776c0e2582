//! Evaluation at points of faces: `geom/mesh/evaluate.cuh`.

use super::Mesh;
use super::exact::{NAN, fma, three, widen};
use super::triangle::normal;
use crate::mesh::FacePoint;

/// Returns (1 - u - v) a + u b + v c, in f64, rounded once more.
fn blend(point: FacePoint, [a, b, c]: [f32; 3]) -> f32 {
    let [u, v] = [point.u, point.v].map(f64::from);
    let [a, b, c] = widen([a, b, c]);
    number(fma(v, c, fma(u, b, (1.0 - u - v) * a)))
}

/// Rounds to f32. A NaN has the bits that a device gives it.
fn number(x: f64) -> f32 {
    if x.is_nan() { NAN } else { x as f32 }
}

impl Mesh {
    /// Returns the position of a point of a face; `None` if the face does not exist or has an index out of range.
    #[must_use]
    pub fn position_at(&self, point: impl Into<FacePoint>) -> Option<[f32; 3]> {
        let point = point.into();
        let (_, [a, b, c]) = self.face_corners(point.face)?;
        Some(three(|axis| blend(point, [a[axis], b[axis], c[axis]])))
    }

    /// Returns the unit normal of a face: zero without an area; `None` as for [`position_at`](Self::position_at).
    #[must_use]
    pub fn face_normal(&self, face: u32) -> Option<[f32; 3]> {
        let (_, corners) = self.face_corners(face)?;
        Some(normal(corners).map(|x| number(f64::from(x))))
    }

    /// Interpolates attributes of the mesh's points at a point of a face; `None` as for
    /// [`position_at`](Self::position_at), or if a vertex has no attributes.
    #[must_use]
    pub fn attribute_at<const N: usize>(
        &self,
        attributes: &[[f32; N]],
        point: impl Into<FacePoint>,
    ) -> Option<[f32; N]> {
        let point = point.into();
        let (index, _) = self.face_corners(point.face)?;
        let [a, b, c] = index.map(|vertex| attributes.get(vertex as usize));
        let (a, b, c) = (a?, b?, c?);
        Some(std::array::from_fn(|i| blend(point, [a[i], b[i], c[i]])))
    }

    /// Interpolates the normals of vertices, without normalizing the result; `None` as for
    /// [`position_at`](Self::position_at), or without [topology](crate::mesh::MeshOptions::topology).
    #[must_use]
    pub fn smooth_normal(&self, point: impl Into<FacePoint>) -> Option<[f32; 3]> {
        self.attribute_at(self.vertex_normals()?, point)
    }
}
