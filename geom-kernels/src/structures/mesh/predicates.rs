//! Signs of determinants, without rounding errors: `geom/math/predicates.cuh`, which has the proofs.

use super::exact::{Float, fma, sub, three, widen};

/// Returns the sign as -1, 0 or 1.
#[inline(always)]
fn sign(a: f64) -> i32 {
    i32::from(0.0 < a) - i32::from(a < 0.0)
}

/// A sum of up to `N` numbers without rounding: components that do not overlap, smallest first, none of them 0.
struct Expansion<const N: usize> {
    parts: [f64; N],
    count: usize,
}

impl<const N: usize> Expansion<N> {
    fn new() -> Self {
        Self { parts: [0.0; N], count: 0 }
    }

    /// Adds a number. There are at most `N`.
    fn add(&mut self, mut term: f64) {
        let mut kept = 0;
        for i in 0..self.count.min(N) {
            // Knuth's sum of two: the rounding error of the sum is itself a floating-point number.
            let part = self.parts[i];
            let sum = term + part;
            let virtual_part = sum - term;
            let lost = (term - (sum - virtual_part)) + (part - virtual_part);
            if lost != 0.0 {
                self.parts[kept] = lost;
                kept += 1;
            }
            term = sum;
        }
        if term != 0.0
            && let Some(last) = self.parts.get_mut(kept)
        {
            *last = term;
            kept += 1;
        }
        self.count = kept;
    }

    /// Returns the sum to 2^-50 of itself, with its sign.
    fn value(&self) -> f64 {
        self.parts.iter().take(self.count).fold(0.0, |sum, part| sum + part)
    }
}

/// Returns (a - c) × (b - c), to 2^-50 of it.
#[cold]
pub(super) fn orient2d_exact(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    let mut sum = Expansion::<6>::new();
    for [p, q] in [[a, b], [b, c], [c, a]] {
        sum.add(p[0] * q[1]);
        sum.add(-(p[1] * q[0]));
    }
    sum.value()
}

/// Returns the determinant of (a - d, b - d, c - d), to 2^-50 of it.
#[cold]
fn orient3d_exact(points: [[f32; 3]; 4]) -> f64 {
    let mut sum = Expansion::<48>::new();
    let rows = points.map(widen);
    for left_out in (0..4).rev() {
        // The other rows follow in a cycle, whose sign alternates.
        let [mut r, s, t] = [1, 2, 3].map(|next| rows[(left_out + next) & 3]);
        if left_out & 1 == 0 {
            r = r.map(|x| -x);
        }
        for [x, y, z] in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
            for [x, y, z] in [[r[x], s[y], t[z]], [-r[x], s[z], t[y]]] {
                let xy = x * y;
                let high = xy * z;
                sum.add(fma(xy, z, -high));
                sum.add(high);
            }
        }
    }
    sum.value()
}

/// Returns the sign of (a - c) × (b - c): 1 if a, b, c turn counterclockwise, 0 on one line.
#[inline(always)]
pub(super) fn orient2d(a: [f32; 2], b: [f32; 2], c: [f32; 2]) -> i32 {
    let wide = |p: [f32; 2]| [f64::from(p[0]), f64::from(p[1])];
    let (a, b, c) = (wide(a), wide(b), wide(c));
    let (left, right) = ((a[0] - c[0]) * (b[1] - c[1]), (a[1] - c[1]) * (b[0] - c[0]));
    let value = left - right;
    let error = (left.abs() + right.abs()) * 4.440_892_098_500_626e-16; // 2^-51
    // If the error is 0, the products are 0, and so is the determinant.
    if error < value.abs() || error == 0.0 {
        return sign(value);
    }
    sign(orient2d_exact(a, b, c))
}

/// Returns the sign of the determinant of (a - d, b - d, c - d): 1 if d lies below the plane of a, b, c, which turn
/// counterclockwise seen from above; 0 on one plane.
#[inline(always)]
pub(super) fn orient3d(t: [[f32; 3]; 3], d: [f32; 3]) -> i32 {
    let [a, b, c] = t;
    let [r, s, t] = three(|i| sub(widen(t[i]), widen(d)));
    let (rs, st, tr) = (r[1] * s[0], s[1] * t[0], t[1] * r[0]);
    let (sr, ts, rt) = (r[0] * s[1], s[0] * t[1], t[0] * r[1]);
    let value = fma(r[2], ts - st, fma(s[2], rt - tr, t[2] * (sr - rs)));
    let size = fma(
        r[2].abs(),
        ts.abs() + st.abs(),
        fma(s[2].abs(), rt.abs() + tr.abs(), t[2].abs() * (sr.abs() + rs.abs())),
    );
    let error = size * 8.881_784_197_001_252e-16; // 2^-50
    if error < value.abs() || error == 0.0 {
        return sign(value);
    }
    sign(orient3d_exact([a, b, c, d]))
}

/// Below this, the f32 products of an edge function may have underflowed: 2^-100.
pub(super) const EDGE_FUNCTION_LEAST: f32 = 7.888_609e-31;

/// Returns p × q by Kahan's difference of products: right to 2 ulp, with the exact sign unless the magnitude is below
/// [`EDGE_FUNCTION_LEAST`].
#[inline(always)]
pub(super) fn difference_of_products<T: Float>(p: [T; 2], q: [T; 2]) -> T {
    let product = p[1] * q[0];
    fma(p[0], q[1], -product) + fma(-p[1], q[0], product)
}

/// Returns the same in f64: both products are exact, only the difference is rounded.
#[inline(always)]
pub(super) fn wide_difference_of_products(p: [f32; 2], q: [f32; 2]) -> f64 {
    f64::from(p[0]) * f64::from(q[1]) - f64::from(p[1]) * f64::from(q[0])
}

/// Returns 1 if the origin is left of the line from p to q, -1 if it is right, 0 if it is on it.
#[inline(always)]
fn edge_side(p: [f32; 2], q: [f32; 2]) -> i32 {
    let value = difference_of_products(p, q);
    if EDGE_FUNCTION_LEAST <= value.abs() {
        return sign(f64::from(value));
    }
    sign(wide_difference_of_products(p, q))
}

/// Returns the side of the line from p to q on which a point on that line is after a shift by (e, e²), for any
/// sufficiently small e > 0. 0 only if p is q; the opposite sign for q, p.
#[inline(always)]
pub(super) fn side_of_tie(p: [f32; 2], q: [f32; 2]) -> i32 {
    match i32::from(q[1] < p[1]) - i32::from(p[1] < q[1]) {
        0 => i32::from(p[0] < q[0]) - i32::from(q[0] < p[0]),
        side => side,
    }
}

/// Returns the side of the origin, with ties resolved by [`side_of_tie`].
#[inline(always)]
pub(super) fn perturbed_edge_side(p: [f32; 2], q: [f32; 2]) -> i32 {
    match edge_side(p, q) {
        0 => side_of_tie(p, q),
        side => side,
    }
}
