//! Vectors of three numbers, in f64 or in pairs of them.

use crate::real::Real;

pub(crate) type Triangle = [[f64; 3]; 3];

/// The largest magnitude that a coordinate may have: squares of differences stay far from overflow.
pub(crate) const LARGEST: f64 = (1u64 << 60) as f64;

/// Returns whether all coordinates are valid for queries.
pub(crate) fn valid(point: [f64; 3]) -> bool {
    // A NaN is not below anything.
    point.iter().all(|x| x.abs() <= LARGEST)
}

pub(crate) fn widen(point: [f32; 3]) -> [f64; 3] {
    point.map(f64::from)
}

pub(crate) fn add<R: Real>(a: [R; 3], b: [R; 3]) -> [R; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(crate) fn sub<R: Real>(a: [R; 3], b: [R; 3]) -> [R; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(crate) fn scale<R: Real>(a: [R; 3], s: R) -> [R; 3] {
    a.map(|x| x * s)
}

pub(crate) fn dot<R: Real>(a: [R; 3], b: [R; 3]) -> R {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(crate) fn length(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}
