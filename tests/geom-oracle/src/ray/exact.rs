//! Signs and values of the volumes between a ray and a triangle.
//!
//! Seen from the origin o along d, edge (p, q) turns as d · ((p - o) × (q - o)); the sum of the three edges
//! is d · n with the normal n, and t = n · (a - o) / n · d. Each is a sum of determinants of vectors that
//! are f32: without rounding in [`Expansion`], and in f64 where that decides it.

use std::cmp::Ordering;

use super::{Hit, Ray};
use crate::expansion::Expansion;
use crate::vector::{Triangle, cross, dot, sub, widen};

/// The part of the magnitudes that a determinant of rounded differences errs by at most: each of the six
/// products takes five roundings, and sums five more.
const ERROR: f64 = 16.0 * f64::EPSILON;
/// The error, as a part of the value, with which a value in f64 is used.
const CLOSE: f64 = 1e-14;

/// A ray and a triangle.
pub(super) struct Exact {
    o: [f64; 3],
    d: [f64; 3],
    corners: Triangle,
    /// The corners as seen from the origin, rounded.
    seen: Triangle,
}

/// A determinant in f64, and how much it errs at most.
struct Rounded {
    value: f64,
    error: f64,
}

fn determinant(u: [f64; 3], v: [f64; 3], w: [f64; 3]) -> Rounded {
    let magnitude = |a: [f64; 3]| a.map(f64::abs);
    let [v1, w1] = [magnitude(v), magnitude(w)];
    let sums = std::array::from_fn(|i| {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        v1[j] * w1[k] + v1[k] * w1[j]
    });
    Rounded { value: dot(u, cross(v, w)), error: ERROR * dot(magnitude(u), sums) }
}

impl Exact {
    pub(super) fn new(triangle: &Triangle, ray: &Ray) -> Self {
        let o = widen(ray.origin);
        let seen = triangle.map(|corner| sub(corner, o));
        Self { o, d: widen(ray.direction), corners: *triangle, seen }
    }

    /// How many edges the line of the ray meets; `None` if it misses the triangle or runs along it.
    pub(super) fn edges_met(&self) -> Option<u8> {
        let signs: [f64; 3] = std::array::from_fn(|i| self.edge(i, f64::MAX));
        let (positive, negative) = (signs.iter().any(|x| *x > 0.0), signs.iter().any(|x| *x < 0.0));
        (positive != negative).then(|| signs.iter().filter(|x| **x == 0.0).count() as u8)
    }

    /// How the edge opposite to corner `i` turns. The sign is exact, and the value errs by the part
    /// `close` of itself.
    fn edge(&self, i: usize, close: f64) -> f64 {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        let rounded = determinant(self.d, self.seen[j], self.seen[k]);
        if rounded.value.abs() > rounded.error && rounded.error <= close * rounded.value.abs() {
            return rounded.value;
        }
        let (p, q) = (self.corners[j], self.corners[k]);
        let mut sum = Expansion::default();
        sum.add_determinant(1.0, self.d, p, q);
        sum.add_determinant(-1.0, self.d, p, self.o);
        sum.add_determinant(-1.0, self.d, self.o, q);
        sum.round()
    }

    /// d · n, for a ray that hits: then no edge cancels another one.
    fn slope(&self) -> f64 {
        (0..3).map(|i| self.edge(i, CLOSE)).sum()
    }

    /// n · (a - o).
    fn height(&self) -> f64 {
        let [a, b, c] = self.seen;
        let rounded = determinant(a, b, c);
        if rounded.error <= CLOSE * rounded.value.abs() && rounded.error > 0.0 {
            return rounded.value;
        }
        let mut sum = Expansion::default();
        self.add_height(&mut sum);
        sum.round()
    }

    fn add_height(&self, sum: &mut Expansion) {
        let ([a, b, c], o) = (self.corners, self.o);
        sum.add_determinant(1.0, a, b, c);
        sum.add_determinant(-1.0, o, b, c);
        sum.add_determinant(-1.0, a, o, c);
        sum.add_determinant(-1.0, a, b, o);
    }

    /// The t of a hit.
    pub(super) fn t(&self) -> f64 {
        self.height() / self.slope()
    }

    /// Whether the t of a hit is on the ray.
    pub(super) fn is_within(&self, ray: &Ray) -> bool {
        self.order_of_t(ray.t_min) != Ordering::Less
            && self.order_of_t(ray.t_max) != Ordering::Greater
    }

    /// The t of a hit against a bound, exactly.
    fn order_of_t(&self, bound: f32) -> Ordering {
        let (t, bound) = (self.t(), f64::from(bound));
        if bound.is_infinite() || (t - bound).abs() > 1e-12 * bound.abs() {
            return t.partial_cmp(&bound).unwrap_or(Ordering::Equal);
        }
        // t - bound = (n · (a - o) - bound n · d) / n · d.
        let mut sum = Expansion::default();
        self.add_height(&mut sum);
        let [a, b, c] = self.corners;
        for (p, q) in [(a, b), (b, c), (c, a)] {
            sum.add_determinant(-bound, self.d, p, q);
        }
        let order = sum.round().partial_cmp(&0.0).unwrap_or(Ordering::Equal);
        if self.slope() > 0.0 { order } else { order.reverse() }
    }

    /// Where it hits.
    pub(super) fn hit(&self, face: u32, edges: u8) -> Hit {
        let weights: [f64; 3] = std::array::from_fn(|i| self.edge(i, CLOSE));
        let slope = weights[0] + weights[1] + weights[2];
        let uv = [weights[1] / slope, weights[2] / slope];
        Hit { t: self.height() / slope, uv, face, front: slope < 0.0, edges }
    }

    pub(super) fn direction(&self) -> [f64; 3] {
        self.d
    }

    pub(super) fn seen(&self) -> &Triangle {
        &self.seen
    }
}
