//! The operations of `geom/math/exact.cuh` that Rust's operators are not, by the same names. Rust's operators round to
//! nearest and are never fused, as exact.cuh's are.

use std::ops::{Add, Mul, Neg, Sub};

use crate::real::Real;

/// The number types of structures on the CPU: `f32` and `f64`.
///
/// The items are the operations of `geom/math/exact.cuh`. Zeros that result from directed rounding may have the other
/// sign.
#[allow(missing_docs, reason = "no part of the interface")]
pub trait Exact:
    Real
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
    #[doc(hidden)]
    const ZERO: Self;
    #[doc(hidden)]
    const INFINITY: Self;
    /// The NaN of `not_a_number`.
    #[doc(hidden)]
    const NAN: Self;
    /// `grid::Limits`: 1 plus four units in the last place, and the difference below which a square rounds to 0.
    #[doc(hidden)]
    const WIDENED: Self;
    #[doc(hidden)]
    const TINY: Self;
    /// Factors by which a number exceeds, or falls below, the errors of a few operations.
    #[doc(hidden)]
    const WIDER: Self;
    #[doc(hidden)]
    const NARROWED: Self;
    /// Squares between these have no neighbours that overflow or underflow.
    #[doc(hidden)]
    const LEAST_SQUARE: Self;
    #[doc(hidden)]
    const GREATEST_SQUARE: Self;

    #[doc(hidden)]
    fn add_up(self, other: Self) -> Self;
    #[doc(hidden)]
    fn add_down(self, other: Self) -> Self;
    #[doc(hidden)]
    fn sub_up(self, other: Self) -> Self;
    #[doc(hidden)]
    fn sub_down(self, other: Self) -> Self;
    #[doc(hidden)]
    fn mul_up(self, other: Self) -> Self;
    #[doc(hidden)]
    fn mul_down(self, other: Self) -> Self;
    #[doc(hidden)]
    fn sqrt_up(self) -> Self;
    #[doc(hidden)]
    fn sqrt(self) -> Self;
    /// Returns the other operand if one is NaN; -0 is less than 0.
    #[doc(hidden)]
    fn min(self, other: Self) -> Self;
    #[doc(hidden)]
    fn max(self, other: Self) -> Self;
    #[doc(hidden)]
    fn fma(self, b: Self, c: Self) -> Self;
    #[doc(hidden)]
    fn floor(self) -> Self;
    /// Rounds to the nearest integer, ties to even.
    #[doc(hidden)]
    fn round(self) -> Self;
    /// Saturates; a NaN gives what the device's conversion gives.
    #[doc(hidden)]
    fn floor_to_int(self) -> i32;
    #[doc(hidden)]
    fn of_int(value: i32) -> Self;
    #[doc(hidden)]
    fn is_finite(self) -> bool;
}

/// Returns whether the exact product is greater than `product`, which is the product rounded to nearest.
#[inline(always)]
fn exceeds_f32(a: f32, b: f32, product: f32) -> bool {
    f64::from(a) * f64::from(b) > f64::from(product)
}
#[inline(always)]
fn exceeds_f64(a: f64, b: f64, product: f64) -> bool {
    if product.abs() > 1e-200 {
        return a.mul_add(b, -product) > 0.0;
    }
    if product == 0.0 {
        return a != 0.0 && b != 0.0 && a.is_sign_positive() == b.is_sign_positive();
    }
    // The error may be less than the least number, so the smaller factor is scaled by a power of two.
    let scale = 2f64.powi(600);
    let (small, large) = if a.abs() < b.abs() { (a, b) } else { (b, a) };
    (small * scale).mul_add(large, -product * scale) > 0.0
}

/// Returns whether the exact square of a root is less than `of`, from which the root was rounded to nearest.
#[inline(always)]
fn root_is_less_f32(root: f32, of: f32) -> bool {
    f64::from(root) * f64::from(root) < f64::from(of)
}
#[inline(always)]
fn root_is_less_f64(root: f64, of: f64) -> bool {
    if of > 1e-200 {
        return root.mul_add(root, -of) < 0.0;
    }
    // Powers of two with even exponents scale a number and its root exactly.
    let (root, of) = (root * 2f64.powi(300), of * 2f64.powi(600));
    root.mul_add(root, -of) < 0.0
}

macro_rules! exact {
    ($float:ident: $nan:literal, $tiny:literal, $int_of_nan:expr, $exceeds:ident, $root_is_less:ident) => {
        impl Exact for $float {
            const ZERO: Self = 0.0;
            const INFINITY: Self = Self::INFINITY;
            const NAN: Self = Self::from_bits($nan);
            const WIDENED: Self = 1.0 + 4.0 * Self::EPSILON;
            const TINY: Self = Self::from_bits($tiny);
            const WIDER: Self = 1.0 + 16.0 * Self::EPSILON;
            const NARROWED: Self = 1.0 - 16.0 * Self::EPSILON;
            const LEAST_SQUARE: Self = Self::MIN_POSITIVE * (1u64 << 30) as Self;
            const GREATEST_SQUARE: Self = Self::MAX / (1u64 << 30) as Self;

            #[inline(always)]
            fn add_up(self, other: Self) -> Self {
                let sum = self + other;
                if !sum.is_finite() {
                    // An overflow ends at the least number.
                    let overflow = self.is_finite() && other.is_finite() && sum < 0.0;
                    return if overflow { Self::MIN } else { sum };
                }
                // D. Knuth's error of a sum.
                let part = sum - self;
                let error = (self - (sum - part)) + (other - part);
                if error > 0.0 { sum.next_up() } else { sum }
            }
            #[inline(always)]
            fn add_down(self, other: Self) -> Self {
                -(-self).add_up(-other)
            }
            #[inline(always)]
            fn sub_up(self, other: Self) -> Self {
                self.add_up(-other)
            }
            #[inline(always)]
            fn sub_down(self, other: Self) -> Self {
                -(-self).add_up(other)
            }
            #[inline(always)]
            fn mul_up(self, other: Self) -> Self {
                let product = self * other;
                if !product.is_finite() {
                    let overflow = self.is_finite() && other.is_finite() && product < 0.0;
                    return if overflow { Self::MIN } else { product };
                }
                if $exceeds(self, other, product) { product.next_up() } else { product }
            }
            #[inline(always)]
            fn mul_down(self, other: Self) -> Self {
                -(-self).mul_up(other)
            }
            #[inline(always)]
            fn sqrt_up(self) -> Self {
                let root = self.sqrt();
                if $root_is_less(root, self) { root.next_up() } else { root }
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self < other || other.is_nan() || (self == other && self.is_sign_negative()) {
                    self
                } else {
                    other
                }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other || other.is_nan() || (self == other && self.is_sign_positive()) {
                    self
                } else {
                    other
                }
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn round(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn floor_to_int(self) -> i32 {
                // The conversion rounds towards 0.
                let integer = self as i32;
                if self.is_nan() {
                    return $int_of_nan;
                }
                integer.saturating_sub(i32::from((integer as Self) > self))
            }
            #[inline(always)]
            fn of_int(value: i32) -> Self {
                value as Self
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
        }
    };
}
exact!(f32: 0x7fff_ffff, 0x1a80_0000, 0, exceeds_f32, root_is_less_f32);
exact!(f64: 0x7fff_ffff_ffff_ffff, 0x1e70_0000_0000_0000, i32::MIN, exceeds_f64, root_is_less_f64);

/// The greatest integer that is not greater; a NaN gives the least integer.
#[inline(always)]
pub(crate) fn floor_to_long(value: f64) -> i64 {
    let integer = value as i64;
    if value.is_nan() {
        return i64::MIN;
    }
    integer.saturating_sub(i64::from((integer as f64) > value))
}

/// The square of a vector's length: `exact::length_squared`, and `grid::squared`.
#[inline(always)]
pub(crate) fn length_squared<T: Exact>([x, y, z]: [T; 3]) -> T {
    z.fma(z, y.fma(y, x * x))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all magnitudes, with many bits and with few.
    fn numbers() -> Vec<f64> {
        let mut word = 1u64;
        let mut all = vec![0.0, -0.0, f64::MAX, f64::MIN, 5e-324, f64::MIN_POSITIVE, f64::INFINITY];
        for _ in 0..4000 {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let bits = if word & 16 == 0 { word } else { word & 0xfff8_0000_0000_0000 };
            all.push(f64::from_bits(bits));
            all.push((1.0 + (word >> 40) as f64) * 2f64.powi((word >> 20) as i32 % 40));
        }
        all.retain(|x| !x.is_nan());
        all
    }

    #[test]
    fn tiny_is_what_the_header_says() {
        assert_eq!(<f32 as Exact>::TINY, 2f32.powi(-74));
        assert_eq!(<f64 as Exact>::TINY, 2f64.powi(-536));
    }

    /// The next number on the one side is no bound, and the result is one: by numbers with more bits.
    #[test]
    fn f32_is_rounded_as_f64_says() {
        let all: Vec<f32> =
            numbers().into_iter().map(|x| x as f32).filter(|x| x.is_finite()).collect();
        let up = |exact: f64| {
            let near = exact as f32;
            if f64::from(near) < exact { near.next_up() } else { near }
        };
        let (mut raised, mut lowered) = (0, 0);
        for (a, b) in all.iter().zip(all.iter().skip(7)) {
            let exact = f64::from(*a) * f64::from(*b);
            assert_eq!(a.mul_up(*b), up(exact), "{a:e} * {b:e}");
            assert_eq!(a.mul_down(*b), -up(-exact), "{a:e} * {b:e}");
            raised += u32::from(a.mul_up(*b) > a * b);
            lowered += u32::from(a.mul_down(*b) < a * b);
            // A sum of numbers of a like magnitude is exact in f64.
            let ratio = (f64::from(*a) / f64::from(*b)).abs();
            if (1e-7..1e7).contains(&ratio) {
                let exact = f64::from(*a) + f64::from(*b);
                assert_eq!(a.add_up(*b), up(exact), "{a:e} + {b:e}");
                assert_eq!(a.add_down(*b), -up(-exact), "{a:e} + {b:e}");
                assert_eq!(a.sub_up(-*b), up(exact), "{a:e} + {b:e}");
                assert_eq!(a.sub_down(-*b), -up(-exact), "{a:e} + {b:e}");
            }
            let root = a.abs().sqrt_up();
            let square = |x: f32| f64::from(x) * f64::from(x);
            assert!(square(root) >= f64::from(a.abs()), "{a:e}");
            assert!(root == 0.0 || square(root.next_down()) < f64::from(a.abs()), "{a:e}");
        }
        assert!(raised > 1000 && lowered > 1000, "{raised} {lowered}");
    }

    /// Directed results enclose the nearest one and are at most one step apart; exact ones do not move.
    #[test]
    fn f64_is_enclosed() {
        let all = numbers();
        for (a, b) in all.iter().zip(all.iter().skip(7)) {
            for (near, low, high) in [
                (a + b, a.add_down(*b), a.add_up(*b)),
                (a - b, a.sub_down(*b), a.sub_up(*b)),
                (a * b, a.mul_down(*b), a.mul_up(*b)),
            ] {
                if near.is_nan() {
                    continue;
                }
                assert!(low <= near && near <= high, "{a:e} {b:e}");
                assert!(low == high || low.next_up() == high, "{a:e} {b:e}: {low:e} {high:e}");
                assert!(near == low || near == high, "{a:e} {b:e}");
            }
            // Products of numbers with few bits are exact.
            let (few, other) = (f64::from(*a as f32), f64::from(*b as f32));
            let product = few * other;
            if product.abs() > f64::MIN_POSITIVE && product.is_finite() {
                assert_eq!((few.mul_down(other), few.mul_up(other)), (product, product));
            }
        }
        // The error of a product that is subnormal, and of one that is 0.
        assert_eq!(1.5f64.mul_up(5e-324), 1e-323);
        assert_eq!((1.5f64.mul_down(5e-324), 0.5f64.mul_up(5e-324)), (5e-324, 5e-324));
        assert_eq!((-0.25f64).mul_down(5e-324), -5e-324);
    }

    #[test]
    fn integers_and_zeros_are_the_devices() {
        for (value, floor) in
            [(1.5, 1), (-1.5, -2), (-0.0, 0), (3e9, i32::MAX), (-3e9, i32::MIN), (-2.0, -2)]
        {
            assert_eq!(value.floor_to_int(), floor);
            assert_eq!((value as f32).floor_to_int(), floor);
        }
        assert_eq!((f32::NAN.floor_to_int(), f64::NAN.floor_to_int()), (0, i32::MIN));
        assert_eq!((floor_to_long(f64::NAN), floor_to_long(-1e300)), (i64::MIN, i64::MIN));
        for (a, b) in [(0.0f32, -0.0f32), (-0.0, 0.0)] {
            assert_eq!(Exact::max(a, b).to_bits(), 0);
            assert_eq!(Exact::min(a, b).to_bits(), 1 << 31);
        }
        assert_eq!(Exact::max(f32::NAN, 1.0), 1.0);
        assert_eq!(Exact::min(1.0, f64::NAN), 1.0);
    }
}
