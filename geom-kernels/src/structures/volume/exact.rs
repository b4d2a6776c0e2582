//! The operations of `geom/math/exact.cuh` on the CPU, with the same bits.
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
    /// Whether the device's NaN keep bits of an operand, and these operations do not.
    const HAS_PAYLOADS: bool = false;

    /// Converts a number, rounded to nearest.
    fn of(value: f64) -> Self;
    /// Converts an f32, exactly. A NaN keeps its payload where the device's conversion does.
    fn from_f32(value: f32) -> Self;
    /// Converts to f32, rounded to nearest, with the device's NaN.
    fn to_f32(self) -> f32;
    /// Converts to f64, with the device's NaN.
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
        if self.is_nan() { not_a_number() } else { self }
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        Careful::from_f32(self).0
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
    const HAS_PAYLOADS: bool = true;

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

/// An f64 whose NaN have the device's bits: those of a certain operand, else fff8000000000000. It is slow: a query
/// whose result is NaN is computed again with it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Careful(f64);

/// The bit of a NaN that says that it is quiet.
const QUIET: u64 = 1 << 51;

impl Careful {
    /// Returns a result. If it is NaN, it is the first source that is one, made quiet.
    fn result(value: f64, sources: [Self; 3]) -> Self {
        if !value.is_nan() {
            return Self(value);
        }
        let source = sources.iter().find(|source| source.0.is_nan());
        Self(f64::from_bits(source.map_or(0xfff8 << 48, |source| source.0.to_bits() | QUIET)))
    }
}

impl Add for Careful {
    type Output = Self;
    fn add(self, b: Self) -> Self {
        Self::result(self.0 + b.0, [b, self, self])
    }
}
impl Sub for Careful {
    type Output = Self;
    fn sub(self, b: Self) -> Self {
        Self::result(self.0 - b.0, [b, self, self])
    }
}
impl Mul for Careful {
    type Output = Self;
    fn mul(self, b: Self) -> Self {
        Self::result(self.0 * b.0, [b, self, self])
    }
}
impl Div for Careful {
    type Output = Self;
    fn div(self, b: Self) -> Self {
        Self::result(self.0 / b.0, [self, b, b])
    }
}
impl Neg for Careful {
    type Output = Self;
    fn neg(self) -> Self {
        Self::result(-self.0, [self; 3])
    }
}

impl Float for Careful {
    const ZERO: Self = Self(0.0);

    fn of(value: f64) -> Self {
        Self(value)
    }
    fn from_f32(value: f32) -> Self {
        if !value.is_nan() {
            return Self(value.into());
        }
        let bits = u64::from(value.to_bits());
        Self(f64::from_bits(bits >> 31 << 63 | 0x7ff8 << 48 | (bits & 0x7f_ffff) << 29))
    }
    fn to_f32(self) -> f32 {
        if !self.0.is_nan() {
            return self.0 as f32;
        }
        let bits = self.0.to_bits();
        f32::from_bits((bits >> 63 << 31) as u32 | 0x7fc0_0000 | (bits >> 29) as u32 & 0x7f_ffff)
    }
    fn to_f64(self) -> f64 {
        self.0
    }
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self::result(self.0.mul_add(b.0, c.0), [b, c, self])
    }
    fn floor(self) -> Self {
        Self(self.0.floor())
    }
    fn floor_to_int(self) -> i32 {
        self.0.floor_to_int()
    }
    fn min(self, other: Self) -> Self {
        Self(Float::min(self.0, other.0))
    }
    fn max(self, other: Self) -> Self {
        Self(Float::max(self.0, other.0))
    }
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

/// Returns the NaN of f32 operations.
#[inline(always)]
pub(crate) fn not_a_number() -> f32 {
    f32::from_bits(0x7fff_ffff)
}
