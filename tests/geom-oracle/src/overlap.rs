//! The faces in boxes and balls, with a class for those at the brink.

use crate::Mesh;
use crate::distance::nearest;
use crate::tree::Bounds;
use crate::vector::{Triangle, add, scale, sub, valid, widen};

/// Faces that were asked for, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Those that overlap by more than the tolerance.
    pub certain: Vec<u32>,
    /// Those that touch within the tolerance.
    pub doubtful: Vec<u32>,
}

impl Found {
    /// Whether `faces`, in any order, are the certain ones and perhaps some doubtful ones, each once.
    pub fn admits(&self, faces: &[u32]) -> bool {
        let mut faces = faces.to_vec();
        faces.sort_unstable();
        let once = faces.windows(2).all(|pair| pair[0] != pair[1]);
        let is_in = |list: &[u32], face: &u32| list.binary_search(face).is_ok();
        let known = |face: &u32| is_in(&self.certain, face) || is_in(&self.doubtful, face);
        once && faces.iter().all(known) && self.certain.iter().all(|face| is_in(&faces, face))
    }

    fn add(&mut self, face: u32, overlap: Overlap) {
        match overlap {
            Overlap::Yes => self.certain.push(face),
            Overlap::Doubtful => self.doubtful.push(face),
            Overlap::No => {}
        }
    }

    fn sorted(mut self) -> Self {
        self.certain.sort_unstable();
        self.doubtful.sort_unstable();
        self
    }
}

enum Overlap {
    Yes,
    No,
    Doubtful,
}

impl Mesh {
    /// The faces that have a point in a closed box. Doubtful are those that do or don't when the box
    /// grows or shrinks by the part `tolerance` of the extent of face and box, as seen from the box's
    /// middle; so in a box without inside no face is certain. 1e-12 is above the rounding here.
    ///
    /// Nothing for corners that are not finite or beyond 2^60, or not in order.
    pub fn faces_overlapping_box(&self, lower: [f32; 3], upper: [f32; 3], tolerance: f64) -> Found {
        let (lower, upper) = (widen(lower), widen(upper));
        let mut found = Found::default();
        if valid(lower) && valid(upper) && (0..3).all(|i| lower[i] <= upper[i]) {
            // All is seen from the box's middle: coordinates are no longer than distances.
            let middle = scale(add(lower, upper), 0.5);
            let half = scale(sub(upper, lower), 0.5);
            let near = |b: &Bounds| {
                let margin =
                    tolerance * farthest(&[sub(b.lower, middle), sub(b.upper, middle), half]);
                (0..3).all(|i| b.lower[i] - margin <= upper[i] && b.upper[i] + margin >= lower[i])
            };
            self.tree.visit(near, |slot| {
                let triangle = self.triangles[slot].map(|corner| sub(corner, middle));
                let [a, b, c] = triangle;
                let margin = tolerance * farthest(&[a, b, c, half]);
                let overlap = match () {
                    _ if is_in_box(&triangle, half.map(|x| x - margin)) => Overlap::Yes,
                    _ if is_in_box(&triangle, half.map(|x| x + margin)) => Overlap::Doubtful,
                    _ => Overlap::No,
                };
                found.add(self.faces[slot], overlap);
            });
        }
        found.sorted()
    }

    /// The faces at a distance from `center` of `radius` at most. Doubtful are those at a distance that is
    /// the radius but for the part `tolerance` of the face's extent, as seen from the center. 1e-12 is above
    /// the rounding here.
    ///
    /// Nothing for a center that is not finite or beyond 2^60, or a radius that is negative or NaN.
    pub fn faces_within(&self, center: [f32; 3], radius: f32, tolerance: f64) -> Found {
        let (center, radius) = (widen(center), f64::from(radius));
        let mut found = Found::default();
        if valid(center) && radius >= 0.0 {
            let near = |b: &Bounds| {
                let margin = tolerance * farthest(&[sub(b.lower, center), sub(b.upper, center)]);
                let reach = (radius + margin) * (1.0 + 1e-12);
                b.distance_squared(center) <= reach * reach
            };
            self.tree.visit(near, |slot| {
                let triangle = &self.triangles[slot];
                let margin = tolerance * farthest(&triangle.map(|corner| sub(corner, center)));
                let distance = nearest(triangle, center).0.sqrt();
                let overlap = match () {
                    _ if distance < radius - margin => Overlap::Yes,
                    _ if distance <= radius + margin => Overlap::Doubtful,
                    _ => Overlap::No,
                };
                found.add(self.faces[slot], overlap);
            });
        }
        found.sorted()
    }
}

/// The extent as seen from the origin: the sum of the largest coordinates along each axis.
fn farthest(points: &[[f64; 3]]) -> f64 {
    (0..3).map(|i| points.iter().map(|p| p[i].abs()).fold(0.0, f64::max)).sum()
}

/// Whether something is left of a triangle when it is cut at the planes of the box from -`half` to `half`
/// (I. Sutherland and G. Hodgman, Reentrant Polygon Clipping, 1974). The rest consists of points of the triangle,
/// however thin it is.
fn is_in_box(triangle: &Triangle, half: [f64; 3]) -> bool {
    let mut polygon = triangle.to_vec();
    for axis in 0..3 {
        cut(&mut polygon, |p| half[axis] - p[axis]);
        cut(&mut polygon, |p| half[axis] + p[axis]);
    }
    !polygon.is_empty()
}

/// Keeps the part of a convex polygon where `above` is not negative.
fn cut(polygon: &mut Vec<[f64; 3]>, above: impl Fn(&[f64; 3]) -> f64) {
    let whole = std::mem::take(polygon);
    let next = whole.iter().cycle().skip(1);
    for (p, q) in whole.iter().zip(next) {
        let (hp, hq) = (above(p), above(q));
        if hp >= 0.0 {
            polygon.push(*p);
        }
        if (hp < 0.0) != (hq < 0.0) && hp != 0.0 && hq != 0.0 {
            polygon.push(add(*p, scale(sub(*q, *p), hp / (hp - hq))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Found;
    use crate::Mesh;
    use crate::rng::{Rng, soup};
    use crate::vector::{Triangle, cross, dot, sub, widen};

    /// The largest gap between the two on all axes that can separate them (S. Gottschalk et al., OBBTree,
    /// 1996), exact for small integers: above 0 they are apart, at 0 they touch.
    fn gap(triangle: &Triangle, lower: [f64; 3], upper: [f64; 3]) -> f64 {
        let units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let [a, b, c] = *triangle;
        let edges = [sub(b, a), sub(c, b), sub(a, c)];
        let mut axes = units.to_vec();
        axes.push(cross(edges[0], edges[1]));
        axes.extend(edges.iter().flat_map(|edge| units.map(|unit| cross(*edge, unit))));
        let gaps = axes.iter().filter(|axis| **axis != [0.0; 3]).map(|axis| {
            let on = triangle.map(|p| dot(p, *axis));
            let corner = |far: bool| -> f64 {
                let along = |i: usize| (axis[i] * lower[i], axis[i] * upper[i]);
                (0..3).map(along).map(|(x, y)| if far { x.max(y) } else { x.min(y) }).sum()
            };
            let (low, high) = (on[0].min(on[1]).min(on[2]), on[0].max(on[1]).max(on[2]));
            (corner(false) - high).max(low - corner(true))
        });
        gaps.fold(f64::NEG_INFINITY, f64::max)
    }

    #[test]
    fn faces_in_boxes_are_those_that_no_axis_separates() {
        let mut rng = Rng::new(8);
        let mut counts = [0; 2];
        for _ in 0..200 {
            let (points, faces) = soup(&mut rng, 40, 1);
            // Multiples of 1/8, far from the origin: every class must be exactly right.
            let points: Vec<[f32; 3]> =
                points.iter().map(|p| p.map(|x| (x * 8.0).round() / 8.0 + 1024.0)).collect();
            let mesh = Mesh::new(&points, &faces);
            let [p, q] = [rng.lattice_point(), rng.lattice_point()];
            let lower: [f32; 3] = std::array::from_fn(|i| p[i].min(q[i]) + 1024.0);
            let upper: [f32; 3] =
                std::array::from_fn(|i| p[i].max(q[i]) + 1024.0 + if p == q { 0.0 } else { 0.125 });
            let mut wanted = Found::default();
            for face in 0..faces.len() as u32 {
                let Some(triangle) = mesh.triangle(face) else { continue };
                let local = triangle.map(|p| p.map(|x| x - 1024.0));
                let [low, high] = [lower, upper].map(|p| widen(p).map(|x| x - 1024.0));
                let gap = gap(&local, low, high);
                if gap < 0.0 && lower != upper {
                    wanted.certain.push(face);
                } else if gap <= 0.0 {
                    wanted.doubtful.push(face);
                }
            }
            assert_eq!(mesh.faces_overlapping_box(lower, upper, 1e-12), wanted);
            counts[0] += wanted.certain.len();
            counts[1] += wanted.doubtful.len();
        }
        assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
    }

    #[test]
    fn faces_within_are_those_at_a_distance() {
        let mut rng = Rng::new(9);
        let (points, faces) = soup(&mut rng, 300, 0);
        let mesh = Mesh::new(&points, &faces);
        for step in 0..50 {
            let (center, radius) = (rng.point(), step as f32 * 0.02);
            let found = mesh.faces_within(center, radius, 1e-12);
            let wide = mesh.faces_within(center, radius, 1e-3);
            for face in 0..faces.len() as u32 {
                let distance = mesh.distance_to_face(face, widen(center)).unwrap_or(f64::NAN);
                assert_eq!(found.certain.contains(&face), distance < f64::from(radius));
                assert!(!wide.certain.contains(&face) || distance < f64::from(radius));
            }
            assert!(found.doubtful.is_empty());
            assert!(wide.admits(&found.certain) && found.admits(&found.certain));
        }
        let [touching] = [[[0.0, 0.0, 3.0], [1.0, 0.0, 3.0], [0.0, 1.0, 3.0]]];
        let mesh = Mesh::new(&touching, &[[0, 1, 2]]);
        let found = mesh.faces_within([0.0; 3], 3.0, 1e-12);
        assert_eq!(found, Found { certain: vec![], doubtful: vec![0] });
    }

    #[test]
    fn bad_questions_find_nothing() {
        let points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
        let mesh = Mesh::new(&points, &[[0, 1, 2]]);
        let none = Found::default();
        assert_eq!(mesh.faces_overlapping_box([-1.0; 3], [f32::NAN; 3], 1e-12), none);
        assert_eq!(mesh.faces_overlapping_box([1.0; 3], [-1.0; 3], 1e-12), none);
        assert_eq!(mesh.faces_overlapping_box([f32::NEG_INFINITY; 3], [1.0; 3], 1e-12), none);
        assert_eq!(mesh.faces_within([f32::NAN; 3], 1.0, 1e-12), none);
        assert_eq!(mesh.faces_within([0.0; 3], -1.0, 1e-12), none);
        assert_eq!(mesh.faces_within([0.0; 3], f32::NAN, 1e-12), none);
        let all = Found { certain: vec![0], doubtful: vec![] };
        assert_eq!(mesh.faces_within([0.0; 3], f32::INFINITY, 1e-12), all);
        assert_eq!(mesh.faces_overlapping_box([-1.0; 3], [1.0; 3], 1e-12), all);
    }

    #[test]
    fn answers_are_admitted_with_or_without_the_doubtful() {
        let found = Found { certain: vec![1, 4], doubtful: vec![2] };
        assert!(found.admits(&[4, 1]) && found.admits(&[2, 4, 1]));
        assert!(!found.admits(&[1]) && !found.admits(&[1, 4, 3]) && !found.admits(&[1, 1, 4]));
    }
}
