//! Real numbers to some 100 bits: sums of two f64, and what is nearest to a triangle in them.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{Point, Triangle};

/// high + low, where low is at most half an ulp of high. Dekker 1971, with fused products.
#[derive(Debug, Clone, Copy)]
pub(super) struct Real {
    high: f64,
    low: f64,
}

impl Real {
    pub(super) fn of(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }

    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let part = high - a;
        Self { high, low: (a - (high - part)) + (b - part) }
    }

    pub(super) fn value(self) -> f64 {
        self.high + self.low
    }

    pub(super) fn sqrt(self) -> f64 {
        self.value().max(0.0).sqrt()
    }
}

impl Add for Real {
    type Output = Self;
    fn add(self, b: Self) -> Self {
        let (high, low) = (Self::sum(self.high, b.high), Self::sum(self.low, b.low));
        let once = Self::sum(high.high, high.low + low.high);
        Self::sum(once.high, once.low + low.low)
    }
}

impl Neg for Real {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Sub for Real {
    type Output = Self;
    fn sub(self, b: Self) -> Self {
        self + -b
    }
}

impl Mul for Real {
    type Output = Self;
    fn mul(self, b: Self) -> Self {
        let high = self.high * b.high;
        let low = self.high.mul_add(b.high, -high) + (self.high * b.low + self.low * b.high);
        Self::sum(high, low)
    }
}

impl Div for Real {
    type Output = Self;
    fn div(self, b: Self) -> Self {
        let first = Self::of(self.high / b.high);
        let second = Self::of((self - first * b).high / b.high);
        first + second
    }
}

type Vector = [Real; 3];

fn vector(p: Point) -> Vector {
    p.map(|x| Real::of(x.into()))
}

fn sub(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] - b[i])
}

fn dot(a: Vector, b: Vector) -> Real {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        a[j] * b[k] - a[k] * b[j]
    })
}

/// (b - a) x (c - a), rounded.
pub(super) fn area(t: &Triangle) -> [f64; 3] {
    let [a, b, c] = t.map(vector);
    cross(sub(b, a), sub(c, a)).map(Real::value)
}

/// From the point to the segment.
fn to_segment(a: Vector, b: Vector, q: Vector) -> f64 {
    let along = sub(b, a);
    let (over, under) = (dot(sub(q, a), along), dot(along, along));
    if over.value() <= 0.0 {
        return dot(sub(q, a), sub(q, a)).sqrt();
    }
    if (under - over).value() <= 0.0 {
        return dot(sub(q, b), sub(q, b)).sqrt();
    }
    let t = over / under;
    let away: Vector = std::array::from_fn(|i| q[i] - (a[i] + t * along[i]));
    dot(away, away).sqrt()
}

/// The least distance of a point from a triangle: that from its edges, or from its plane where the point
/// is above it.
pub(super) fn distance(t: &Triangle, q: Point) -> f64 {
    let ([a, b, c], q) = (t.map(vector), vector(q));
    let edges = to_segment(a, b, q).min(to_segment(b, c, q)).min(to_segment(c, a, q));
    let (ab, ac, aq) = (sub(b, a), sub(c, a), sub(q, a));
    let n = cross(ab, ac);
    let n2 = dot(n, n);
    let longest = dot(ab, ab).value().max(dot(ac, ac).value());
    // Thinner than 2^-40 of its length, the inside is no nearer.
    if n2.value() <= longest * longest * 2_f64.powi(-80) {
        return edges;
    }
    let (v, w) = (dot(n, cross(aq, ac)), dot(n, cross(ab, aq)));
    if v.value() < 0.0 || w.value() < 0.0 || (n2 - v - w).value() < 0.0 {
        return edges;
    }
    edges.min(dot(n, aq).value().abs() / n2.sqrt())
}

/// The distance of two points.
pub(super) fn between(a: Point, b: Point) -> f64 {
    let d = sub(vector(a), vector(b));
    dot(d, d).sqrt()
}
