//! The side of a surface that a point is on.

use std::cmp::Ordering;
use std::f64::consts::PI;

use rayon::prelude::*;
use robust::{Coord, Coord3D, orient2d, orient3d};

use crate::Mesh;
use crate::vector::{Triangle, cross, dot, length, sub, valid, widen};

impl Mesh {
    /// How often the mesh winds around `q`: faces that a ray from `q` along x leaves through their front,
    /// less those that it enters through. 0 for a `q` that is not finite or beyond 2^60.
    ///
    /// Decided exactly, for a point that is moved from `q` by amounts smaller than any number, z by less
    /// than y and x by less than z (H. Edelsbrunner and E. Mücke, Simulation of Simplicity, 1990), so that
    /// the ray meets no edge and no vertex. If the mesh is closed, then every ray counts the same, and a
    /// point that is not on it is moved across nothing.
    pub fn winding(&self, q: [f32; 3]) -> i32 {
        self.crossings(q).0
    }

    /// Whether the mesh winds around `q`.
    pub fn inside(&self, q: [f32; 3]) -> bool {
        self.winding(q) != 0
    }

    /// Whether the ray of [`winding`](Self::winding) crosses an odd number of faces.
    pub fn inside_by_parity(&self, q: [f32; 3]) -> bool {
        self.crossings(q).1 % 2 == 1
    }

    /// [`winding`](Self::winding) by asking every face.
    pub fn winding_brute(&self, q: [f32; 3]) -> i32 {
        if !valid(widen(q)) {
            return 0;
        }
        self.triangles.iter().map(|triangle| crossing(triangle, widen(q))).sum()
    }

    /// [`winding`](Self::winding) of many points, on all cores.
    pub fn winding_of_all(&self, points: &[[f32; 3]]) -> Vec<i32> {
        points.par_iter().map(|q| self.winding(*q)).collect()
    }

    /// The winding number and the number of crossings.
    fn crossings(&self, q: [f32; 3]) -> (i32, u32) {
        let q = widen(q);
        let (mut sum, mut count) = (0, 0);
        if valid(q) {
            let meets = |b: &crate::tree::Bounds| {
                let across = |i: usize| b.lower[i] <= q[i] && q[i] <= b.upper[i];
                b.upper[0] >= q[0] && across(1) && across(2)
            };
            self.tree.visit(meets, |slot| {
                let crossing = crossing(&self.triangles[slot], q);
                sum += crossing;
                count += u32::from(crossing != 0);
            });
        }
        (sum, count)
    }

    /// The solid angle that the mesh covers as seen from `q`, in steradians; more where it sees the
    /// faces' backs, less where it sees their fronts. By 4 π it is the generalised winding number, also of
    /// meshes that are not closed. Every face is asked. 0 for a `q` that is not finite or beyond 2^60.
    ///
    /// A. van Oosterom and J. Strackee, The Solid Angle of a Plane Triangle, 1983; A. Jacobson et al.,
    /// Robust Inside-Outside Segmentation using Generalized Winding Numbers, 2013.
    pub fn solid_angle(&self, q: [f64; 3]) -> f64 {
        if !valid(q) {
            return 0.0;
        }
        // Parts of a fixed size are added in their order: the sum is the same on any number of cores.
        let part = |part: &[Triangle]| part.iter().map(|t| solid_angle(t, q)).sum::<f64>();
        self.triangles.par_chunks(4096).map(part).collect::<Vec<f64>>().iter().sum()
    }

    /// [`solid_angle`](Self::solid_angle) by 4 π: 1 inside of a closed mesh that is turned outwards, 0
    /// outside, and something between where there are holes.
    pub fn generalized_winding(&self, q: [f64; 3]) -> f64 {
        self.solid_angle(q) / (4.0 * PI)
    }
}

fn solid_angle(triangle: &Triangle, q: [f64; 3]) -> f64 {
    let [a, b, c] = triangle.map(|corner| sub(corner, q));
    let (la, lb, lc) = (length(a), length(b), length(c));
    let volume = dot(a, cross(b, c));
    let rest = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb;
    2.0 * volume.atan2(rest)
}

/// 1 if the ray from `q` along x leaves through the front of the triangle, -1 if through its back, else 0.
fn crossing(triangle: &Triangle, q: [f64; 3]) -> i32 {
    let [a, b, c] = triangle;
    let turn = around(a, b, q);
    if turn == Ordering::Equal || around(b, c, q) != turn || around(c, a, q) != turn {
        return 0;
    }
    // All edges turn as the triangle does, which is how its normal points along x. It is crossed if `q`
    // is behind a front that points along x, or in front of one that points back.
    match (turn, above(triangle, q)) {
        (Ordering::Greater, Ordering::Less) => 1,
        (Ordering::Less, Ordering::Greater) => -1,
        _ => 0,
    }
}

/// How the edge from `a` to `b` turns around `q`, seen against x, with y before z.
fn around(a: &[f64; 3], b: &[f64; 3], q: [f64; 3]) -> Ordering {
    let of = |p: [f64; 3]| Coord { x: p[1], y: p[2] };
    // Where q is on the line, what its move along y does, and then the one along z.
    sign(orient2d(of(*a), of(*b), of(q)))
        .then_with(|| sign(a[2] - b[2]))
        .then_with(|| sign(b[1] - a[1]))
}

/// Whether `q` is above the triangle's plane, where its normal points, or below.
fn above(triangle: &Triangle, q: [f64; 3]) -> Ordering {
    let of = |p: [f64; 3]| Coord3D { x: p[0], y: p[1], z: p[2] };
    let [a, b, c] = *triangle;
    // orient3d is positive below.
    let side = sign(orient3d(of(a), of(b), of(c), of(q))).reverse();
    let normal = |i| normal_along(triangle, i);
    side.then_with(|| normal(1)).then_with(|| normal(2)).then_with(|| normal(0))
}

/// The sign of an axis's component of the normal.
pub(crate) fn normal_along(triangle: &Triangle, axis: usize) -> Ordering {
    let of = |p: [f64; 3]| Coord { x: p[(axis + 1) % 3], y: p[(axis + 2) % 3] };
    let [a, b, c] = *triangle;
    sign(orient2d(of(a), of(b), of(c)))
}

fn sign(x: f64) -> Ordering {
    x.partial_cmp(&0.0).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::above;
    use crate::Mesh;
    use crate::rng::{Rng, soup, sphere};
    use crate::vector::widen;

    #[test]
    fn rays_and_angles_agree_around_closed_surfaces() {
        let mut rng = Rng::new(4);
        let (points, faces) = sphere(3);
        let mesh = Mesh::new(&points, &faces);
        let turned: Vec<[u32; 3]> = faces.iter().map(|&[a, b, c]| [a, c, b]).collect();
        let turned = Mesh::new(&points, &turned);
        let mut counts = [0; 2];
        for step in 0..2000 {
            // In the lattice, rays run through vertices and along edges.
            let q = if step % 2 == 0 { rng.lattice_point() } else { rng.point() };
            if mesh.closest(widen(q)).is_some_and(|c| c.distance < 1e-9) {
                continue;
            }
            let wanted = mesh.generalized_winding(widen(q));
            let winding = mesh.winding(q);
            assert!((wanted - f64::from(winding)).abs() < 1e-9, "{q:?}: {winding}, {wanted}");
            assert_eq!(winding, mesh.winding_brute(q));
            assert_eq!(turned.winding(q), -winding);
            assert_eq!(mesh.inside(q), winding == 1);
            assert_eq!(mesh.inside_by_parity(q), mesh.inside(q));
            counts[usize::from(mesh.inside(q))] += 1;
        }
        assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
        assert_eq!(mesh.winding([0.0; 3]), 1);
        assert_eq!(mesh.winding([f32::NAN; 3]), 0);
        assert_eq!(mesh.generalized_winding([f64::NAN; 3]), 0.0);
    }

    /// Tetrahedra between the points of a lattice: closed, and touching rays in every way.
    #[test]
    fn rays_meet_no_edge() {
        let mut rng = Rng::new(5);
        let mut inside = 0;
        for _ in 0..300 {
            let (mut points, mut faces) = (Vec::new(), Vec::new());
            for first in [0, 4, 8] {
                points.extend((0..4).map(|_| rng.lattice_point()));
                let corner = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]];
                faces.extend(corner.map(|face| face.map(|v| v + first)));
            }
            let mesh = Mesh::new(&points, &faces);
            for _ in 0..30 {
                let q = rng.lattice_point();
                let winding = mesh.winding(q);
                assert_eq!(winding, mesh.winding_brute(q));
                assert_eq!(winding % 2 != 0, mesh.inside_by_parity(q));
                if mesh.closest(widen(q)).is_some_and(|c| c.distance > 1e-9) {
                    let wanted = mesh.generalized_winding(widen(q));
                    assert!(
                        (wanted - f64::from(winding)).abs() < 1e-9,
                        "{q:?}: {winding}, {wanted}"
                    );
                    inside += u32::from(winding != 0);
                }
            }
        }
        assert!(inside > 50, "{inside}");
    }

    /// A point on faces, edges and vertices is where it moves to, by steps that are small against all
    /// that the lattice has: y first, then z, then x.
    #[test]
    fn points_of_faces_are_where_they_move_to() {
        let mut rng = Rng::new(16);
        let mut touching = 0;
        for _ in 0..2000 {
            let points: Vec<[f32; 3]> = (0..4).map(|_| rng.lattice_point()).collect();
            let mesh = Mesh::new(&points, &[[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]);
            for _ in 0..10 {
                let q = rng.lattice_point();
                let step = [22, 8, 15].map(|bits| 0.5f32.powi(bits));
                let moved = std::array::from_fn(|i| q[i] + step[i]);
                assert_eq!(mesh.winding(q), mesh.winding(moved), "{points:?} {q:?}");
                let on = mesh.closest(widen(q)).is_some_and(|c| c.distance == 0.0);
                touching += u32::from(on && mesh.inside(q));
            }
        }
        assert!(touching > 50, "{touching}");
    }

    /// A point is inside of exactly one of the cells of a subdivision, also where it is on their faces.
    #[test]
    fn points_of_faces_are_on_one_side() {
        let mut rng = Rng::new(6);
        for _ in 0..500 {
            let corners: Vec<[f32; 3]> = (0..4).map(|_| rng.lattice_point()).collect();
            let middle = rng.lattice_point();
            let points: Vec<[f32; 3]> = corners.into_iter().chain([middle]).collect();
            let faces = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]];
            let whole = Mesh::new(&points, &faces);
            let parts = faces
                .map(|[a, b, c]| Mesh::new(&points, &[[a, b, c], [b, a, 4], [c, b, 4], [a, c, 4]]));
            for _ in 0..20 {
                let q = rng.lattice_point();
                let sum: i32 = parts.iter().map(|part| part.winding(q)).sum();
                assert_eq!(sum, whole.winding(q));
            }
        }
    }

    #[test]
    fn trees_and_all_faces_agree_on_soups() {
        let mut rng = Rng::new(7);
        for kind in 0..3 {
            let (points, faces) = soup(&mut rng, 150, kind);
            let mesh = Mesh::new(&points, &faces);
            for _ in 0..200 {
                let q = rng.lattice_point();
                assert_eq!(mesh.winding(q), mesh.winding_brute(q));
            }
        }
    }

    #[test]
    fn above_is_where_the_normal_points() {
        let triangle = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
        assert_eq!(above(&triangle, [0.0, 0.0, 1.0]), Ordering::Greater);
        assert_eq!(above(&triangle, [0.0, 0.0, -1.0]), Ordering::Less);
        assert_eq!(above(&triangle, [9.0, 3.0, 0.0]), Ordering::Greater);
    }
}
