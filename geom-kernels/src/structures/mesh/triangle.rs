//! Single triangles: `geom/mesh/triangle/closest.cuh` and `types.cuh`, which have the proofs.

use super::exact::{
    cross, dot, fma_each, length_squared, max, min, mul, narrow, sub, three, widen,
};
use super::predicates::orient2d_exact;
use crate::Aabb;
use crate::mesh::ClosestPoint;

/// The corners of a triangle.
pub(super) type Triangle = [[f32; 3]; 3];

/// Returns whether the coordinates are numbers of at most 2^60 in magnitude.
#[inline(always)]
pub(super) fn is_valid(p: [f32; 3]) -> bool {
    const MOST: f32 = (1u64 << 60) as f32;
    p[0].abs() <= MOST && p[1].abs() <= MOST && p[2].abs() <= MOST
}

/// Returns the smallest box with the triangle in it.
#[inline(always)]
pub(super) fn bounds([a, b, c]: Triangle) -> Aabb<f32> {
    let each = |f: fn(f32, f32) -> f32| three(|axis| f(f(a[axis], b[axis]), c[axis]));
    Aabb { lower: each(min), upper: each(max) }
}

/// Returns (a - c) × (b - c): to 2^-31 of it, and 0 only if it is 0.
fn area_component(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    let (left, right) = ((a[0] - c[0]) * (b[1] - c[1]), (a[1] - c[1]) * (b[0] - c[0]));
    let (value, size) = (left - right, left.abs() + right.abs());
    if size * 9.536_743_164_062_5e-7 <= value.abs() {
        return value;
    }
    orient2d_exact(a, b, c)
}

/// Returns the vector (b - a) × (c - a) along the normal, whose length is twice the area. 0 only if the area is 0.
pub(super) fn area_vector(t: Triangle) -> [f64; 3] {
    let [a, b, c] = t.map(widen);
    [[1, 2], [2, 0], [0, 1]].map(|axes: [usize; 2]| {
        let flat = |p: [f64; 3]| axes.map(|axis| p[axis]);
        area_component(flat(a), flat(b), flat(c))
    })
}

/// Returns the unit normal: a, b, c turn counterclockwise as seen from its tip. 0 only if the area is 0.
pub(super) fn normal(t: Triangle) -> [f32; 3] {
    let n = area_vector(t);
    let length = length_squared(n).sqrt();
    if length == 0.0 {
        return [0.0; 3];
    }
    narrow(mul(n, 1.0 / length))
}

/// Returns the point of the segment from `low` to `high` that is closest to q, and t, which is 0 and 1 at its ends.
#[inline(always)]
fn closest_on_segment(low: [f32; 3], high: [f32; 3], q: [f64; 3]) -> ([f32; 3], f64) {
    let from = widen(low);
    let along = sub(widen(high), from);
    let (over, under) = (dot(sub(q, from), along), length_squared(along));
    if over <= 0.0 {
        return (low, 0.0);
    }
    if over >= under {
        return (high, 1.0);
    }
    let t = over / under;
    (narrow(fma_each(t, along, from)), t)
}

/// Returns the closest point of edge 0, 1 or 2, from its lower to its higher vertex.
#[inline(always)]
fn closest_on_edge(t: Triangle, flags: u32, edge: usize, q: [f64; 3]) -> ([f32; 3], f64) {
    let (low, high) = (t[edge % 3], t[(edge + 1) % 3]);
    if flags >> edge & 1 != 0 {
        return closest_on_segment(high, low, q);
    }
    closest_on_segment(low, high, q)
}

/// Returns the nearest edge; among equally near ones the one whose corner is nearest.
fn nearest_edge(t: Triangle, flags: u32, q: [f64; 3]) -> usize {
    let (mut found, mut least) = (0, 0.0);
    for edge in 0..3 {
        let (position, at) = closest_on_edge(t, flags, edge, q);
        let distance = length_squared(sub(q, widen(position)));
        let is_corner = at == 0.0 || at == 1.0;
        if edge == 0 || distance < least || (is_corner && distance == least) {
            (found, least) = (edge, distance);
        }
    }
    found
}

/// Returns the point of the triangle that is closest to q, which is valid. Its face is 0. Bit i of `flags` is set if
/// edge i (a-b, b-c, c-a) runs from the vertex of the higher index in its mesh to that of the lower.
#[inline(always)]
pub(super) fn closest_point(t: Triangle, flags: u32, q: [f32; 3]) -> ClosestPoint {
    let (a, wide_q) = (widen(t[0]), widen(q));
    let (ab, ac, aq) = (sub(widen(t[1]), a), sub(widen(t[2]), a), sub(wide_q, a));
    let n = cross(ab, ac);
    let (n2, ab2, ac2) = (length_squared(n), length_squared(ab), length_squared(ac));
    let sum = ab2 + ac2;
    let found = |position: [f32; 3], [u, v]: [f32; 2], feature: usize| ClosestPoint {
        position,
        distance_squared: length_squared(sub(q, position)),
        face: 0,
        u,
        v,
        feature: feature as u32,
    };
    let edge = if sum * sum * 1.421_085_471_520_200_4e-14 < n2 {
        let k = cross(n, aq);
        let (v, w) = (dot(ac, k), -dot(ab, k));
        let u = n2 - v - w;
        let (sees_ab, sees_bc, sees_ca) = (w <= 0.0, u <= 0.0, v <= 0.0);
        // A query at b or c is at no edge except by rounding.
        let at_corner = q == t[1] || q == t[2];
        if !sees_ab && !sees_bc && !sees_ca && !at_corner {
            let inverse = 1.0 / n2;
            let (v, w) = (v * inverse, w * inverse);
            let p = narrow(fma_each(w, ac, fma_each(v, ab, a)));
            let Aabb { lower, upper } = bounds(t);
            let p = three(|i| min(max(p[i], lower[i]), upper[i]));
            return found(p, [v as f32, w as f32], 6);
        }
        let (along_ab, along_ac) = (dot(ab, aq), dot(ac, aq));
        let on_ab = if sees_ca { 0.0 < along_ab } else { !sees_bc || along_ab < ab2 };
        let on_ca = !sees_bc || along_ac < ac2;
        if sees_ab && on_ab {
            0
        } else if sees_ca && on_ca {
            2
        } else {
            1
        }
    } else {
        nearest_edge(t, flags, wide_q)
    };
    let (position, at) = closest_on_edge(t, flags, edge, wide_q);
    // The parameter is in the face's orientation, from the start of the edge.
    let turned = flags >> edge & 1 != 0;
    let next = (edge + 1) % 3;
    let feature = match at {
        0.0 => [edge, next][usize::from(turned)],
        1.0 => [next, edge][usize::from(turned)],
        _ => 3 + edge,
    };
    let (high, low) = (at as f32, (1.0 - at) as f32);
    let (from, to) = if turned { (high, low) } else { (low, high) };
    found(position, [[to, 0.0], [from, to], [0.0, from]][edge], feature)
}
