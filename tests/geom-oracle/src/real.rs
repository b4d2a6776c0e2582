//! Two kinds of numbers that distances are measured in: f64, and pairs of f64 with about 106 bits.

use std::ops::{Add, Div, Mul, Sub};

/// Arithmetic for an algorithm that is written once and run in two precisions.
pub(crate) trait Real:
    Copy
    + PartialOrd
    + From<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The nearest f64.
    fn round(self) -> f64;
}

impl Real for f64 {
    fn round(self) -> f64 {
        self
    }
}

/// a + b exactly: the rounded sum and what it lacks (D. Knuth, The Art of Computer Programming 2).
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let from_b = sum - a;
    (sum, (a - (sum - from_b)) + (b - from_b))
}

/// a · b exactly, as long as nothing underflows: the rounded product and what it lacks.
pub(crate) fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// The unevaluated sum of two f64, the second at most half a unit in the last place of the first:
/// relative errors of 2^-104 or so (T. Dekker, A Floating-Point Technique for Extending the Available
/// Precision, 1971).
///
/// The order of numbers is the order of the pairs, first the larger parts.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Double {
    high: f64,
    low: f64,
}

impl Double {
    /// From a large part and one that is smaller by far.
    fn renormalized(high: f64, low: f64) -> Self {
        let sum = high + low;
        Self { high: sum, low: low - (sum - high) }
    }
}

impl From<f64> for Double {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Real for Double {
    fn round(self) -> f64 {
        self.high
    }
}

impl Add for Double {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (high, lack) = two_sum(self.high, other.high);
        let (low, rest) = two_sum(self.low, other.low);
        let sum = Self::renormalized(high, lack + low);
        Self::renormalized(sum.high, sum.low + rest)
    }
}

impl Sub for Double {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + Self { high: -other.high, low: -other.low }
    }
}

impl Mul for Double {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (high, lack) = two_product(self.high, other.high);
        Self::renormalized(high, lack + (self.high * other.low + self.low * other.high))
    }
}

impl Div for Double {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        // Long division, a digit of 53 bits at a time.
        let first = self.high / other.high;
        let rest = self - other * Self::from(first);
        let second = rest.high / other.high;
        let rest = rest - other * Self::from(second);
        Self::renormalized(first, second) + Self::from(rest.high / other.high)
    }
}

#[cfg(test)]
mod tests {
    use super::{Double, Real};

    #[test]
    fn pairs_keep_what_f64_loses() {
        let tiny = Double::from(f64::EPSILON * f64::EPSILON);
        let one = Double::from(1.0);
        let sum = one + tiny;
        assert_eq!((sum - one).round(), tiny.round());
        // (1 + e)² - 1 = 2 e + e².
        assert_eq!((sum * sum - one).round(), 2.0 * tiny.round());
        let third = one / Double::from(3.0);
        let lack = (third * Double::from(3.0) - one).round();
        assert!(lack.abs() < 1e-31, "{lack}");
        assert!(one < sum && one - tiny < one);
    }
}
