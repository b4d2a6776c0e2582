//! The operations of `geom/math/exact.cuh` on the CPU, with the same bits but for the payload of a NaN.
//!
//! Sums, differences, products and quotients are Rust's operators: they round to nearest, and are never fused.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number that queries compute with.
pub trait Float:
    Copy
    + PartialOrd
    + Debug
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// 0.
    const ZERO: Self;

    /// Converts a number, rounded to nearest.
    fn of(value: f64) -> Self;
    /// Converts an f32, exactly.
    fn from_f32(value: f32) -> Self;
    /// Converts to f32, rounded to nearest.
    fn to_f32(self) -> f32;
    /// Converts to f64.
    fn to_f64(self) -> f64;
    /// Returns `self * b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Returns the largest integer that is not greater.
    fn floor(self) -> Self;
    /// Returns the same as an integer. Out of range it saturates; a NaN gives 0 (f32) or the smallest (f64).
    fn floor_to_int(self) -> i32;
    /// Returns the lesser operand: -0 of two zeros, and the number if the other operand is NaN.
    fn min(self, other: Self) -> Self;
    /// Returns the greater operand: +0 of two zeros, and the number if the other operand is NaN.
    fn max(self, other: Self) -> Self;
}

macro_rules! extrema {
    ($float:ty) => {
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            if self < other || other.is_nan() {
                self
            } else if self == other {
                <$float>::from_bits(self.to_bits() | other.to_bits())
            } else {
                other
            }
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            if self > other || other.is_nan() {
                self
            } else if self == other {
                <$float>::from_bits(self.to_bits() & other.to_bits())
            } else {
                other
            }
        }
    };
}

impl Float for f32 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.into()
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self::mul_add(self, b, c)
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self::floor(self)
    }
    #[inline(always)]
    fn floor_to_int(self) -> i32 {
        Self::floor(self) as i32
    }
    extrema!(f32);
}

impl Float for f64 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value.into()
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self::mul_add(self, b, c)
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self::floor(self)
    }
    #[inline(always)]
    fn floor_to_int(self) -> i32 {
        if self.is_nan() { i32::MIN } else { Self::floor(self) as i32 }
    }
    extrema!(f64);
}

/// Returns `a * b + c`, rounded once.
#[inline(always)]
pub(crate) fn fma<T: Float>(a: T, b: T, c: T) -> T {
    a.mul_add(b, c)
}

/// Returns the lesser operand: see [`Float::min`].
#[inline(always)]
pub(crate) fn min<T: Float>(a: T, b: T) -> T {
    a.min(b)
}

/// Returns the greater operand: see [`Float::max`].
#[inline(always)]
pub(crate) fn max<T: Float>(a: T, b: T) -> T {
    a.max(b)
}
