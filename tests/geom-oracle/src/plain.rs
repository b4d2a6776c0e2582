//! Queries of meshes in f64 that go through every face, for any coordinates in f64.

use crate::linear::{cross, dot, length, sub};

type Point = [f64; 3];

/// Where a mesh is closest to a point.
#[derive(Debug, Clone, Copy)]
pub struct Closest {
    /// The closest point.
    pub position: Point,
    /// Its distance from `q`.
    pub distance: f64,
    /// The weight of the second corner of its triangle.
    pub u: f64,
    /// The weight of the third corner.
    pub v: f64,
}

/// Returns the i-th point of a list of coordinates.
#[must_use]
pub fn point(x: &[f64], i: usize) -> Point {
    std::array::from_fn(|k| x[3 * i + k])
}

/// Of a triangle: inside, then its edges and corners.
fn of_triangle(t: [Point; 3], q: Point) -> Closest {
    let at = |w: [f64; 3]| {
        let position: Point = std::array::from_fn(|i| (0..3).map(|k| w[k] * t[k][i]).sum());
        Closest { position, distance: length(&sub(q, position)), u: w[1], v: w[2] }
    };
    let (ab, ac, aq) = (sub(t[1], t[0]), sub(t[2], t[0]), sub(q, t[0]));
    let n = cross(ab, ac);
    let (u, v) = (dot(&n, &cross(aq, ac)) / dot(&n, &n), dot(&n, &cross(ab, aq)) / dot(&n, &n));
    if u > 0.0 && v > 0.0 && u + v < 1.0 {
        return at([1.0 - u - v, u, v]);
    }
    let edges = (0..3).map(|i| {
        let j = (i + 1) % 3;
        let along = sub(t[j], t[i]);
        let s = (dot(&sub(q, t[i]), &along) / dot(&along, &along)).clamp(0.0, 1.0);
        let mut w = [0.0; 3];
        (w[i], w[j]) = (1.0 - s, s);
        at(w)
    });
    edges.fold(
        at([1.0, 0.0, 0.0]),
        |best, one| if one.distance < best.distance { one } else { best },
    )
}

/// Returns where a mesh with at least one face is closest to `q`.
#[must_use]
pub fn closest(vertices: &[f64], faces: &[[u32; 3]], q: Point) -> Closest {
    let all = faces.iter().map(|face| of_triangle(face.map(|i| point(vertices, i as usize)), q));
    let none = Closest { position: [f64::NAN; 3], distance: f64::INFINITY, u: 0.0, v: 0.0 };
    all.fold(none, |best, one| if one.distance < best.distance { one } else { best })
}

/// Returns whether a point is inside of a closed mesh, by the solid angles of its faces (A. van Oosterom, J. Strackee,
/// "The Solid Angle of a Plane Triangle", 1983).
#[must_use]
pub fn is_inside(vertices: &[f64], faces: &[[u32; 3]], q: Point) -> bool {
    let angle = |face: &[u32; 3]| {
        let [a, b, c] = face.map(|i| sub(point(vertices, i as usize), q));
        let (la, lb, lc) = (length(&a), length(&b), length(&c));
        let below = la * lb * lc + dot(&a, &b) * lc + dot(&b, &c) * la + dot(&c, &a) * lb;
        2.0 * dot(&a, &cross(b, c)).atan2(below)
    };
    faces.iter().map(angle).sum::<f64>() > 2.0 * std::f64::consts::PI
}
