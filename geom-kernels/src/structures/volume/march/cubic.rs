//! The field of a cell along a ray, as in `geom/volume/ray_cubic.cuh`.

use crate::structures::volume::exact::Float;
use crate::structures::volume::exact::fma;

#[inline(always)]
pub(super) fn lerp<C: Float>(a: C, b: C, t: C) -> C {
    fma(t, b - a, a)
}

/// Returns the values between two at `a` and at `b`.
#[inline(always)]
fn split<C: Float>(low: C, high: C, a: C, b: C) -> (C, C) {
    (lerp(low, high, a), lerp(low, high, b))
}

/// A cubic on [0, 1], by its Bernstein coefficients.
#[derive(Debug, Clone, Copy)]
pub(super) struct RayCubic<C>(pub(super) [C; 4]);

impl<C: Float> RayCubic<C> {
    /// Returns the field of a cell with these corners, x slowest, from `a` to `b`, which lie in [0, 1]^3.
    #[inline(always)]
    pub(super) fn new(corners: [C; 8], a: [C; 3], b: [C; 3]) -> Self {
        let [ax, ay, az] = a;
        let [bx, by, bz] = b;
        // The values at a and b in z, then in y, then in x.
        let [f0, f1, f2, f3, f4, f5, f6, f7] = corners;
        let ((f0, f1), (f2, f3)) = (split(f0, f1, az, bz), split(f2, f3, az, bz));
        let ((f4, f5), (f6, f7)) = (split(f4, f5, az, bz), split(f6, f7, az, bz));
        let ((f0, f2), (f1, f3)) = (split(f0, f2, ay, by), split(f1, f3, ay, by));
        let ((f4, f6), (f5, f7)) = (split(f4, f6, ay, by), split(f5, f7, ay, by));
        let ((f0, f4), (f1, f5)) = (split(f0, f4, ax, bx), split(f1, f5, ax, bx));
        let ((f2, f6), (f3, f7)) = (split(f2, f6, ax, bx), split(f3, f7, ax, bx));
        let third = C::of(1.0 / 3.0);
        Self([f0, ((f1 + f2) + f4) * third, ((f3 + f5) + f6) * third, f7])
    }

    /// Returns the mean.
    #[inline(always)]
    pub(super) fn mean(&self) -> C {
        let [b0, b1, b2, b3] = self.0;
        C::of(0.25) * ((b0 + b3) + (b1 + b2))
    }
}

impl RayCubic<f64> {
    /// Returns the value and the derivative, by de Casteljau's algorithm.
    #[inline(always)]
    fn at(&self, s: f64) -> (f64, f64) {
        let [b0, b1, b2, b3] = self.0;
        let (c0, c1, c2) = (lerp(b0, b1, s), lerp(b1, b2, s), lerp(b2, b3, s));
        let (d0, d1) = (lerp(c0, c1, s), lerp(c1, c2, s));
        (lerp(d0, d1, s), 3.0 * (d1 - d0))
    }

    /// Returns the first place in [0, 1] at which the cubic changes sides: less than 0, or not.
    #[inline(always)]
    pub(super) fn first_change(mut self) -> Option<f64> {
        let inside = self.0[0] < 0.0;
        if self.0.iter().all(|b| (*b < 0.0) == inside) {
            return None;
        }
        // The coefficients are scaled by a power of two, so that squares neither overflow nor vanish.
        let most = self.0.iter().fold(0.0f64, |most, b| most.max(b.abs()));
        let exponent = (most.to_bits() >> 52).clamp(1, 2045);
        let scale = f64::from_bits((2046 - exponent) << 52);
        self.0 = self.0.map(|b| b * scale);

        // The zeros of the derivative, d0 (1 - s)^2 + 2 d1 s (1 - s) + d2 s^2 up to a factor, split the interval.
        let [b0, b1, b2, b3] = self.0;
        let (d0, d1, d2) = (b1 - b0, b2 - b1, b3 - b2);
        let discriminant = fma(d1, d1, -(d0 * d2));
        let (mut first, mut second) = (1.0, 1.0);
        if discriminant > 0.0 {
            let (half, root) = (d1 - d0, discriminant.sqrt());
            let q = if half < 0.0 { root - half } else { -(root + half) };
            // The quotients are infinite or NaN if there is no zero.
            let (one, other) = (q / (d2 - fma(2.0, d1, -d0)), d0 / q);
            let inner = |s: f64| if s > 0.0 && s < 1.0 { s } else { 1.0 };
            (first, second) = (inner(one), inner(other));
            if second < first {
                (first, second) = (second, first);
            }
        }
        let mut low = 0.0;
        for end in [first, second] {
            if end < 1.0 {
                if (self.at(end).0 < 0.0) != inside {
                    return Some(self.bracketed_root(inside, low, end));
                }
                low = end;
            }
        }
        ((b3 < 0.0) != inside).then(|| self.bracketed_root(inside, low, 1.0))
    }

    /// Returns the root between `low`, which is on the side `inside` (below 0), and `high`, which is not. By Newton's
    /// method, with bisection where a step is more than half as long as the last but one.
    #[inline(always)]
    fn bracketed_root(&self, inside: bool, mut low: f64, mut high: f64) -> f64 {
        let mut step = high - low;
        let mut last_step = step;
        let mut s = fma(0.5, step, low);
        for _ in 0..200 {
            let (value, slope) = self.at(s);
            if (value < 0.0) == inside {
                low = s;
            } else {
                high = s;
            }
            let newton = value / slope;
            let there = s - newton;
            // The comparisons are false for a NaN.
            let near = low <= there && there <= high && (newton + newton).abs() <= last_step.abs();
            last_step = step;
            step = if near { newton } else { 0.5 * (high - low) };
            s = if near { there } else { low + step };
            // The tolerance is 2^-51 of s, or 2^-100.
            if step.abs() <= (s * 4.440892098500626e-16).max(7.888609052210118e-31) {
                break;
            }
        }
        s
    }
}
