//! Closest points: the least of the distances to the three edges and to the inside.
//!
//! The inside is asked by Gram-Schmidt on the longest edge, which errs by an angle of rounding / (height /
//! longest edge). So well-shaped triangles are measured in f64 and all others in pairs of f64; of those
//! that are flatter than rounding, the edges are enough.

use rayon::prelude::*;

use crate::Mesh;
use crate::real::{Double, Real};
use crate::vector::{Triangle, add, dot, scale, sub, valid};

/// The least height, as a part of the longest edge, of the triangles that are measured in f64.
const WELL_SHAPED: f64 = 1.0 / 64.0;
/// The height below which a triangle is as good as its edges.
const FLAT: f64 = f64::EPSILON * 4.0;

/// The closest point of a mesh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Closest {
    /// The distance. It errs by less than 1e-13 of itself and of the face's size.
    pub distance: f64,
    /// The point of the face.
    pub position: [f64; 3],
    /// The face; of several at the same distance the first.
    pub face: u32,
}

impl Mesh {
    /// The closest point of the mesh to `q`; `None` without faces, or for a `q` that is not finite or
    /// beyond 2^60.
    pub fn closest(&self, q: [f64; 3]) -> Option<Closest> {
        let mut best = Best::default();
        if valid(q) {
            self.tree
                .nearest(q, |slot| best.offer(self.faces[slot], nearest(&self.triangles[slot], q)));
        }
        best.answer(q)
    }

    /// [`closest`](Self::closest) by asking every face.
    pub fn closest_brute(&self, q: [f64; 3]) -> Option<Closest> {
        let mut best = Best::default();
        if valid(q) {
            for (face, triangle) in self.faces.iter().zip(&self.triangles) {
                best.offer(*face, nearest(triangle, q));
            }
        }
        best.answer(q)
    }

    /// [`closest`](Self::closest) of many points, on all cores.
    pub fn closest_of_all(&self, points: &[[f32; 3]]) -> Vec<Option<Closest>> {
        points.par_iter().map(|q| self.closest(q.map(f64::from))).collect()
    }

    /// The distance from a face to a point; `None` for a face that was skipped, or a point that is not
    /// finite or beyond 2^60.
    pub fn distance_to_face(&self, face: u32, q: [f64; 3]) -> Option<f64> {
        self.closest_on_face(face, q).map(|closest| closest.distance)
    }

    /// The closest point of one face; `None` as for [`distance_to_face`](Self::distance_to_face).
    pub fn closest_on_face(&self, face: u32, q: [f64; 3]) -> Option<Closest> {
        let triangle = self.triangle(face).filter(|_| valid(q))?;
        let mut best = Best::default();
        best.offer(face, nearest(triangle, q));
        best.answer(q)
    }
}

/// A point near the origin: the square of its distance, and where it is.
type Near = (f64, [f64; 3]);

/// The best face so far.
struct Best {
    squared: f64,
    offset: [f64; 3],
    face: u32,
}

impl Default for Best {
    fn default() -> Self {
        Self { squared: f64::INFINITY, offset: [0.0; 3], face: u32::MAX }
    }
}

impl Best {
    fn offer(&mut self, face: u32, (squared, offset): Near) -> f64 {
        if (squared, face) < (self.squared, self.face) {
            *self = Self { squared, offset, face };
        }
        squared
    }

    fn answer(self, q: [f64; 3]) -> Option<Closest> {
        let distance = self.squared.sqrt();
        (self.squared < f64::INFINITY).then(|| Closest {
            distance,
            position: add(q, self.offset),
            face: self.face,
        })
    }
}

/// The point of a triangle nearest to `q`, as seen from there.
pub(crate) fn nearest(triangle: &Triangle, q: [f64; 3]) -> Near {
    nearest_in::<f64>(triangle, q, WELL_SHAPED)
        .or_else(|| nearest_in::<Double>(triangle, q, FLAT))
        .unwrap_or_else(|| {
            let [a, b, c] = seen_from::<Double>(triangle, q);
            rounded(nearest_on_edges(a, b, c))
        })
}

fn seen_from<R: Real>(triangle: &Triangle, q: [f64; 3]) -> [[R; 3]; 3] {
    triangle.map(|corner| sub(corner.map(R::from), q.map(R::from)))
}

fn rounded<R: Real>((squared, at): (R, [R; 3])) -> Near {
    (squared.round(), at.map(R::round))
}

/// [`nearest`], if the triangle is at least so high, as a part of its longest edge.
fn nearest_in<R: Real>(triangle: &Triangle, q: [f64; 3], height: f64) -> Option<Near> {
    let [a, b, c] = seen_from::<R>(triangle, q);
    let (ab, bc, ca) = (sub(b, a), sub(c, b), sub(a, c));
    let (ab2, bc2, ca2) = (dot(ab, ab), dot(bc, bc), dot(ca, ca));
    // From p along the longest edge, and from p along another one.
    let (p, e, e2, f) = match () {
        _ if ab2 >= bc2 && ab2 >= ca2 => (a, ab, ab2, sub(c, a)),
        _ if bc2 >= ca2 => (b, bc, bc2, sub(a, b)),
        _ => (c, ca, ca2, sub(b, c)),
    };
    let zero = R::from(0.0);
    if e2 == zero {
        return None;
    }
    let along = dot(f, e) / e2;
    let up = sub(f, scale(e, along));
    let up2 = dot(up, up);
    if up2 < R::from(height * height) * e2 {
        return None;
    }

    let edges = nearest_on_edges(a, b, c);
    // The origin's place in the plane is p + s f + t e; the rest of it stands on e and on `up`.
    let s = zero - dot(p, up) / up2;
    let foot = zero - dot(p, e) / e2;
    let t = foot - s * along;
    if s < zero || t < zero || s + t > R::from(1.0) {
        return Some(rounded(edges));
    }
    let at = add(p, add(scale(e, foot), scale(up, s)));
    let inside = (dot(at, at), at);
    Some(rounded(if inside.0 < edges.0 { inside } else { edges }))
}

fn nearest_on_edges<R: Real>(a: [R; 3], b: [R; 3], c: [R; 3]) -> (R, [R; 3]) {
    let nearer = |x: (R, [R; 3]), y: (R, [R; 3])| if y.0 < x.0 { y } else { x };
    nearer(nearer(nearest_on_segment(a, b), nearest_on_segment(b, c)), nearest_on_segment(c, a))
}

/// The point between `a` and `b` nearest to the origin, and the square of its distance.
pub(crate) fn nearest_on_segment<R: Real>(a: [R; 3], b: [R; 3]) -> (R, [R; 3]) {
    let (zero, e) = (R::from(0.0), sub(b, a));
    let (along, e2) = (zero - dot(a, e), dot(e, e));
    let at = match () {
        _ if along <= zero => a,
        _ if along >= e2 => b,
        _ => add(a, scale(e, along / e2)),
    };
    (dot(at, at), at)
}

#[cfg(test)]
mod tests {
    use super::nearest;
    use crate::Mesh;
    use crate::real::Double;
    use crate::rng::{Rng, soup};
    use crate::vector::{Triangle, add, cross, dot, length, scale, sub, widen};

    fn query(rng: &mut Rng, kind: usize) -> [f64; 3] {
        let q = if kind == 1 { rng.lattice_point() } else { rng.point() };
        let far = if kind == 3 { 4096.0 } else { 0.0 };
        q.map(|x| f64::from(x) * 1.25 + far)
    }

    /// A point above or below the face's inside.
    fn query_above(rng: &mut Rng, [a, b, c]: Triangle) -> [f64; 3] {
        let [ab, ac] = [sub(b, a), sub(c, a)];
        let [x, y, z] = rng.point().map(|x| f64::from(x.abs()));
        let sum = x + y + z + 1e-9;
        let inside = add(a, add(scale(ab, x / sum), scale(ac, y / sum)));
        let normal = cross(ab, ac);
        let height = f64::from(rng.float()) / (length(normal) + f64::MIN_POSITIVE);
        add(inside, scale(normal, height))
    }

    /// A point p of a convex set is the one closest to q if no corner v has (q - p) · (v - p) > 0.
    #[test]
    fn nothing_of_the_face_is_nearer() {
        let mut rng = Rng::new(1);
        for kind in 0..4 {
            let (points, faces) = soup(&mut rng, 3000, kind);
            for face in faces {
                let triangle = face.map(|v| widen(points[v as usize]));
                let above = rng.below(2) == 0;
                let q = if above { query_above(&mut rng, triangle) } else { query(&mut rng, kind) };
                let (squared, offset) = nearest(&triangle, q);
                let seen = triangle.map(|v| sub(v, q));
                let size = seen.iter().map(|v| length(*v)).fold(0.0, f64::max);
                for v in seen {
                    let gain = -dot(offset, sub(v, offset));
                    assert!(gain <= 2e-14 * size * size, "{kind} {triangle:?} {q:?} {gain:e}");
                }
                assert!((length(offset) - squared.sqrt()).abs() <= 1e-14 * size);
                // It is a point of the face: seen from itself it is at distance 0, in the same arithmetic,
                // and farther than the plane.
                let (rest, _) = nearest(&triangle, add(q, offset));
                let at = length(add(q, offset));
                assert!(rest.sqrt() <= 1e-14 * size + 1e-15 * at, "{kind} {triangle:?} {rest:e}");
            }
        }
    }

    /// Measures in f64 agree with those in pairs of f64, needles' positions included.
    #[test]
    fn precisions_agree() {
        let mut rng = Rng::new(2);
        let mut compared = [0; 2];
        for kind in [0, 2, 3] {
            let (points, faces) = soup(&mut rng, 5000, kind);
            for face in faces {
                let triangle = face.map(|v| widen(points[v as usize]));
                let above = rng.below(2) == 0;
                let q = if above { query_above(&mut rng, triangle) } else { query(&mut rng, kind) };
                let found = nearest(&triangle, q);
                let Some(exact) = super::nearest_in::<Double>(&triangle, q, 1e-12) else {
                    continue;
                };
                let fast = super::nearest_in::<f64>(&triangle, q, super::WELL_SHAPED).is_some();
                let size = triangle.iter().map(|v| length(sub(*v, q))).fold(0.0, f64::max);
                assert!((found.0.sqrt() - exact.0.sqrt()).abs() < 1e-14 * size);
                let apart = length(sub(found.1, exact.1));
                assert!(apart < 1e-13 * size, "{kind} {triangle:?} {q:?} {apart:e}");
                compared[usize::from(fast)] += 1;
            }
        }
        assert!(compared.iter().all(|count| *count > 3000), "{compared:?}");
    }

    #[test]
    fn the_tree_finds_what_asking_every_face_finds() {
        let mut rng = Rng::new(3);
        for faces in [0, 1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 200] {
            for kind in 0..4 {
                let (points, faces) = soup(&mut rng, faces, kind);
                let mesh = Mesh::new(&points, &faces);
                for _ in 0..100 {
                    let q = query(&mut rng, kind);
                    let found = mesh.closest(q);
                    assert_eq!(found, mesh.closest_brute(q));
                    assert_eq!(found.is_none(), faces.is_empty());
                    if let Some(found) = found {
                        assert_eq!(mesh.distance_to_face(found.face, q), Some(found.distance));
                    }
                }
            }
        }
    }

    #[test]
    fn sides_corners_and_insides_are_told_apart() {
        let points = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]];
        let mesh = Mesh::new(&points, &[[0, 1, 2]]);
        let near = |q: [f64; 3]| mesh.closest(q).map(|c| (c.distance, c.position, c.face));
        assert_eq!(near([1.0, 1.0, 3.0]), Some((3.0, [1.0, 1.0, 0.0], 0)));
        assert_eq!(near([2.0, -2.0, 0.0]), Some((2.0, [2.0, 0.0, 0.0], 0)));
        assert_eq!(near([7.0, -4.0, 0.0]), Some((5.0, [4.0, 0.0, 0.0], 0)));
        assert_eq!(near([3.0, 3.0, 1.0]), Some((3f64.sqrt(), [2.0, 2.0, 0.0], 0)));
        assert_eq!(near([f64::NAN, 0.0, 0.0]), None);
        assert_eq!(near([0.0, 1e30, 0.0]), None);
        assert_eq!(mesh.distance_to_face(1, [0.0; 3]), None);
    }
}
