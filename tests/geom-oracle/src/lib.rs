//! Queries of triangle meshes on the host: results of a GPU are compared with them.
//!
//! A [`Mesh`] is asked in f64 and, where something is decided, in exact arithmetic; on purpose with
//! other algorithms than the device's, and with nothing shared.
//!
//! | query | how | errs by |
//! |---|---|---|
//! | [`closest`](Mesh::closest) | least distance to edges and insides | 1e-13 of distance and face |
//! | [`ray_hits`](Mesh::ray_hits) | signs of volumes, exact | t by 1e-13 of itself; nothing else |
//! | [`winding`](Mesh::winding), [`inside`](Mesh::inside) | crossings of a ray that meets no edge | nothing |
//! | [`solid_angle`](Mesh::solid_angle) | sum over all faces | rounding |
//! | [`faces_overlapping_box`](Mesh::faces_overlapping_box) | clipping | says which are [doubtful](Found) |
//! | [`faces_within`](Mesh::faces_within) | distances | says which are [doubtful](Found) |
//! | [`report`](Mesh::report) | counting edges, exact areas | nothing |
//!
//! Beside it are oracles of other tests that take long: [`plain`] queries, [`samples`] of fields, and [`linear`] algebra.
//! This crate is compiled with optimisation even where the tests are not.
//!
//! Coordinates are f32, and are f64 without rounding. A test can't compare rounded results of a device with exact ones
//! in borderline cases: [`classify`](Mesh::classify) and [`nearest_certain`](Mesh::nearest_certain) find the rays for
//! which a tolerance decides.

mod distance;
mod expansion;
pub mod linear;
mod overlap;
pub mod plain;
mod ray;
mod real;
mod report;
#[cfg(test)]
mod rng;
pub mod samples;
mod side;
mod tree;
mod vector;

pub use distance::Closest;
pub use overlap::Found;
pub use ray::{Class, Hit, Nearest, Ray};
pub use report::Report;

use tree::Tree;
use vector::{Triangle, valid, widen};

/// A triangle mesh, and a tree over it.
///
/// Faces with an index out of range, or with a vertex that is not finite or has a coordinate beyond 2^60,
/// are *skipped*: no query finds them.
#[derive(Debug)]
pub struct Mesh {
    /// All faces as given.
    given: Vec<[u32; 3]>,
    /// The triangles that are not skipped, in the tree's order.
    triangles: Vec<Triangle>,
    /// Their faces.
    faces: Vec<u32>,
    /// Where each face's triangle is; `NONE` if it was skipped.
    slots: Vec<u32>,
    tree: Tree,
}

const NONE: u32 = u32::MAX;

impl Mesh {
    /// A mesh of the faces between `points`. It takes a second for a million faces, on one core.
    ///
    /// Faces are counted in u32; what is beyond that is left out.
    pub fn new(points: &[[f32; 3]], faces: &[[u32; 3]]) -> Self {
        let given: Vec<[u32; 3]> = faces.iter().take(NONE as usize).copied().collect();
        let triangle = |face: &[u32; 3]| -> Option<Triangle> {
            let corner = |v: u32| {
                let point = widen(*points.get(v as usize)?);
                valid(point).then_some(point)
            };
            Some([corner(face[0])?, corner(face[1])?, corner(face[2])?])
        };
        let kept = given.iter().zip(0..).filter_map(|(face, index)| Some((index, triangle(face)?)));
        let (tree, items) = Tree::build(kept.collect());
        let (faces, triangles): (Vec<u32>, Vec<Triangle>) = items.into_iter().unzip();
        let mut slots = vec![NONE; given.len()];
        for (face, slot) in faces.iter().zip(0..) {
            slots[*face as usize] = slot;
        }
        Self { given, triangles, faces, slots, tree }
    }

    /// How many faces were skipped.
    pub fn skipped(&self) -> usize {
        self.given.len() - self.faces.len()
    }

    /// The corners of a face; `None` if there is no such face, or it was skipped.
    pub fn triangle(&self, face: u32) -> Option<&[[f64; 3]; 3]> {
        let slot = *self.slots.get(face as usize)?;
        self.triangles.get(slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::Mesh;

    #[test]
    fn bad_faces_are_skipped() {
        let points = [
            [0.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0],
            [f32::NAN, 0.0, 0.0],
            [0.0, f32::INFINITY, 0.0],
            [0.0, 0.0, 1.2e18],
            [0.0, 0.0, (1u64 << 60) as f32],
        ];
        let faces =
            [[0, 1, 3], [0, 4, 2], [5, 1, 2], [0, 1, 7], [0, 1, u32::MAX], [0, 1, 2], [6, 1, 2]];
        let mesh = Mesh::new(&points, &faces);
        assert_eq!(mesh.skipped(), 5);
        assert_eq!(mesh.closest([0.1, 0.1, 0.1]).map(|c| c.face), Some(5));
        assert!(mesh.triangle(0).is_none() && mesh.triangle(7).is_none());
        assert_eq!(mesh.triangle(5), Some(&[[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]));
        assert!(mesh.triangle(6).is_some());
        assert_eq!(Mesh::new(&[], &faces).closest([0.0; 3]), None);
    }
}
