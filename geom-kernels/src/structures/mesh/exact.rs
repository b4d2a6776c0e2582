//! The operations of `geom/math/exact.cuh`, with the same bits. Sums, products, quotients and roots are Rust's.

use std::ops::{Add, Mul, Neg, Sub};

/// The NaN that a device's operations return.
pub(super) const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// A number of a vector.
pub(super) trait Float:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// Returns `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

impl Float for f64 {
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

/// Returns the values for three axes. (`array::map` is not inlined, so it would lose the processor's features.)
#[inline(always)]
pub(super) fn three<T>(of: impl Fn(usize) -> T) -> [T; 3] {
    [of(0), of(1), of(2)]
}

/// Returns `a * b + c`, rounded once.
#[inline(always)]
pub(super) fn fma<T: Float>(a: T, b: T, c: T) -> T {
    a.fma(b, c)
}

/// Returns the lesser number. -0 is less than 0; if one is NaN, the result is the other.
#[inline(always)]
pub(super) fn min(a: f32, b: f32) -> f32 {
    if a == b {
        return f32::from_bits(a.to_bits() | b.to_bits());
    }
    if a < b || b.is_nan() { a } else { b }
}

/// Returns the greater number. -0 is less than 0; if one is NaN, the result is the other.
#[inline(always)]
pub(super) fn max(a: f32, b: f32) -> f32 {
    if a == b {
        return f32::from_bits(a.to_bits() & b.to_bits());
    }
    if a > b || b.is_nan() { a } else { b }
}

/// Returns the lesser number, the second if one is NaN or both are equal: one instruction.
#[inline(always)]
pub(super) fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Returns the greater number, the second if one is NaN or both are equal: one instruction.
#[inline(always)]
pub(super) fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Returns the next greater number if `up`, else the same. If `up`, `a` is neither -0 nor infinite nor NaN.
///
/// Whether a rounding went down is a coin toss, so there is no branch.
#[inline(always)]
fn raised(a: f32, up: bool) -> f32 {
    // The bits of a negative number fall when it grows.
    let one = a.to_bits().cast_signed() >> 31 | 1;
    f32::from_bits(a.to_bits().wrapping_add_signed(one * i32::from(up)))
}

/// Returns `a + b`, rounded up, if the sum is finite.
#[inline(always)]
pub(super) fn add_up(a: f32, b: f32) -> f32 {
    let sum = a + b;
    // Knuth's sum of two: the rounding error is a number, and these operations find it.
    let part = sum - a;
    let lost = (a - (sum - part)) + (b - part);
    raised(sum, lost > 0.0)
}

/// Returns `a - b`, rounded up, if the difference is finite.
#[inline(always)]
pub(super) fn sub_up(a: f32, b: f32) -> f32 {
    add_up(a, -b)
}

/// Returns a number rounded up to f32.
#[inline(always)]
fn narrow_up(a: f64) -> f32 {
    let nearest = a as f32;
    raised(nearest, f64::from(nearest) < a)
}

/// Returns `a * b`, rounded up.
#[inline(always)]
pub(super) fn mul_up(a: f32, b: f32) -> f32 {
    narrow_up(f64::from(a) * f64::from(b))
}

/// Returns the square root, rounded up.
#[inline(always)]
pub(super) fn sqrt_up(a: f32) -> f32 {
    let root = a.sqrt();
    // The square has 48 bits, so it is exact.
    let square = f64::from(root) * f64::from(root);
    raised(root, square < f64::from(a))
}

/// Returns the vector as f64.
#[inline(always)]
pub(super) fn widen(a: [f32; 3]) -> [f64; 3] {
    [f64::from(a[0]), f64::from(a[1]), f64::from(a[2])]
}

/// Returns the vector as f32, to nearest.
#[inline(always)]
pub(super) fn narrow(a: [f64; 3]) -> [f32; 3] {
    [a[0] as f32, a[1] as f32, a[2] as f32]
}

/// Returns the sum of two vectors.
#[inline(always)]
pub(super) fn add<T: Float>(a: [T; 3], b: [T; 3]) -> [T; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// Returns the difference of two vectors.
#[inline(always)]
pub(super) fn sub<T: Float>(a: [T; 3], b: [T; 3]) -> [T; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// Returns a vector times a number.
#[inline(always)]
pub(super) fn mul<T: Float>(a: [T; 3], s: T) -> [T; 3] {
    [a[0] * s, a[1] * s, a[2] * s]
}

/// Returns `s b + c` for each component.
#[inline(always)]
pub(super) fn fma_each<T: Float>(s: T, b: [T; 3], c: [T; 3]) -> [T; 3] {
    [fma(s, b[0], c[0]), fma(s, b[1], c[1]), fma(s, b[2], c[2])]
}

/// Returns `fma(z, z', fma(y, y', x * x'))`.
#[inline(always)]
pub(super) fn dot<T: Float>(a: [T; 3], b: [T; 3]) -> T {
    fma(a[2], b[2], fma(a[1], b[1], a[0] * b[0]))
}

/// Returns the square of the length.
#[inline(always)]
pub(super) fn length_squared<T: Float>(a: [T; 3]) -> T {
    dot(a, a)
}

/// Returns the cross product; of each component, one product is rounded before the difference.
#[inline(always)]
pub(super) fn cross<T: Float>(a: [T; 3], b: [T; 3]) -> [T; 3] {
    [
        fma(a[1], b[2], -(a[2] * b[1])),
        fma(a[2], b[0], -(a[0] * b[2])),
        fma(a[0], b[1], -(a[1] * b[0])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all magnitudes and signs.
    fn numbers() -> Vec<f32> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(state & 0xdfff_ffff)
        };
        let mut all: Vec<f32> = (0..400).map(|_| next()).filter(|x| x.is_finite()).collect();
        all.extend([0.0, -0.0, 1.0, 1e-45, -1e-45, 1.0 + f32::EPSILON, 3.0, 1e-38]);
        all
    }

    #[test]
    fn rounding_up_is_the_least_number_that_is_not_less() {
        let (mut exact, mut raised) = (0, 0);
        for a in numbers() {
            for b in numbers() {
                let (sum, product) = (add_up(a, b), mul_up(a, b));
                // Sums of numbers that are far apart do not fit f64: their rounding is known.
                let (wide, least) = (f64::from(a) + f64::from(b), f64::from(sum.next_down()));
                if wide - f64::from(a) == f64::from(b) && wide - f64::from(b) == f64::from(a) {
                    assert!(f64::from(sum) >= wide && least < wide, "{a:e} + {b:e}: {sum:e}");
                } else {
                    let greater = if a.abs() > b.abs() { a } else { b };
                    let lesser = if a.abs() > b.abs() { b } else { a };
                    let wanted = if lesser > 0.0 { greater.next_up() } else { greater };
                    assert_eq!(sum, wanted, "{a:e} + {b:e}");
                }
                assert_eq!(sub_up(a, -b), sum);
                let wide = f64::from(a) * f64::from(b);
                assert!(f64::from(product) >= wide, "{a:e} * {b:e}");
                assert!(f64::from(product.next_down()) < wide, "{a:e} * {b:e}");
                *if sum == a + b { &mut exact } else { &mut raised } += 1;
            }
            let (size, root) = (a.abs(), sqrt_up(a.abs()));
            assert!(f64::from(root) * f64::from(root) >= f64::from(size), "{size:e}");
            let less = f64::from(root.next_down().max(0.0));
            assert!(size == 0.0 || less * less < f64::from(size), "{size:e}");
        }
        assert!(exact > 1000 && raised > 1000, "{exact} {raised}");
    }

    #[test]
    fn minima_and_maxima_know_zeros_and_nan() {
        let bits = |x: f32| x.to_bits();
        for [a, b] in [[0.0, -0.0], [-0.0, 0.0]] {
            assert_eq!([bits(min(a, b)), bits(max(a, b))], [bits(-0.0), 0]);
        }
        for f in [min, max] {
            assert_eq!([f(f32::NAN, 1.0), f(1.0, f32::NAN)], [1.0; 2]);
        }
        assert_eq!([min(1.0, 2.0), max(1.0, 2.0), min(-1.0, -2.0)], [1.0, 2.0, -2.0]);
    }
}
