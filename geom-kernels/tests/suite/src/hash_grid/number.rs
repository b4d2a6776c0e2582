//! Coordinates of both types, and what the tests do with them.

use cuda_safe::vector::{Double3, Float3};
use cuda_safe::{DeviceBuffer, DeviceRepr};
use geom_kernels::{Points, Real};

use test_harness::Rng;

/// `f32` or `f64`.
pub(super) trait Number: Real + DeviceRepr + std::fmt::Display + 'static {
    /// How the names of the test's kernels end.
    const NAME: &'static str;
    const EPSILON: f64;
    /// Differences below this have squares that round to 0 or nearly.
    const TINY: f64;
    const INFINITY: Self;
    const NAN: Self;

    fn of(value: f64) -> Self;
    fn f64(self) -> f64;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn fma(self, b: Self, c: Self) -> Self;
    fn floor(self) -> Self;
    /// To nearest, ties to even.
    fn round(self) -> Self;
    fn next_up(self) -> Self;
    fn next_down(self) -> Self;
    fn hashed(self) -> u64;
    fn points(buffer: &DeviceBuffer<[Self; 3]>) -> Points<'_, Self>;
}

macro_rules! number {
    ($number:ty, $name:literal, $tiny:expr) => {
        impl Number for $number {
            const NAME: &'static str = $name;
            const EPSILON: f64 = <$number>::EPSILON as f64;
            const TINY: f64 = $tiny;
            const INFINITY: Self = <$number>::INFINITY;
            const NAN: Self = <$number>::NAN;

            fn of(value: f64) -> Self {
                value as Self
            }
            fn f64(self) -> f64 {
                f64::from(self)
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            fn floor(self) -> Self {
                self.floor()
            }
            fn round(self) -> Self {
                self.round_ties_even()
            }
            fn next_up(self) -> Self {
                self.next_up()
            }
            fn next_down(self) -> Self {
                self.next_down()
            }
            fn hashed(self) -> u64 {
                u64::from(self.to_bits())
            }
            fn points(buffer: &DeviceBuffer<[Self; 3]>) -> Points<'_, Self> {
                buffer.into()
            }
        }
    };
}

// 2^-70 and 2^-500: safely above the roots of the smallest normal numbers.
number!(f32, "f32", 8.470_329_472_543_003e-22);
number!(f64, "f64", 3.054_936_363_499_605e-151);

/// Points as other types that grids take.
pub(super) fn as_float3(points: &[[f32; 3]]) -> Vec<Float3> {
    points.iter().map(|&[x, y, z]| Float3 { x, y, z }).collect()
}

pub(super) fn as_double3(points: &[[f64; 3]]) -> Vec<Double3> {
    points.iter().map(|&[x, y, z]| Double3 { x, y, z }).collect()
}

/// A number in 0..1 with 53 random bits.
pub(super) fn unit(rng: &mut Rng) -> f64 {
    (rng.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// A point of the box from `low` to `high`.
pub(super) fn inside<T: Number>(rng: &mut Rng, low: f64, high: f64) -> [T; 3] {
    std::array::from_fn(|_| T::of(low + (high - low) * unit(rng)))
}
