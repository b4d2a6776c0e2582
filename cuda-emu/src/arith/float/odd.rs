//! Operations rounded to odd: of f64 for sources of at most 24 bits, of f32 for f16.
//!
//! The sign of the exact residual of the nearest result gives the side of the true value; if it is not the result, the
//! result is truncated and its last bit set. 53 bits of that are more than two more than 24, so that a second rounding,
//! in any mode, equals one rounding of the true value. Exponents of f32 are far from the ends of f64's: no residual
//! underflows.

/// `value`, the rounding of `value + residual` to nearest, rounded to odd instead. Only the sign of
/// the residual matters; NaN (of an infinite result) counts as exact.
#[inline(always)]
pub(crate) fn to_odd(value: f64, residual: f64) -> f64 {
    let bits = value.to_bits();
    // If the signs differ, the value was rounded away from zero.
    let away = (residual.to_bits() ^ bits) >> 63;
    let truncated = bits.wrapping_sub(away) | 1;
    f64::from_bits(if residual.abs() > 0.0 { truncated } else { bits })
}

/// `a + b`. An exact zero has the sign of rounding to nearest.
#[inline(always)]
pub(crate) fn add(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let residual = (a - (sum - b_part)) + (b - b_part);
    to_odd(sum, residual)
}

/// `a + b` in f32, for numbers whose sum and residual are far from its ends: f16 and their products.
#[inline(always)]
pub(crate) fn add_f32(a: f32, b: f32) -> f32 {
    let sum = a + b;
    let b_part = sum - a;
    let residual = (a - (sum - b_part)) + (b - b_part);
    // If the signs differ, the sum was rounded away from zero.
    let away = (residual.to_bits() ^ sum.to_bits()) >> 31;
    let truncated = sum.to_bits().wrapping_sub(away) | 1;
    f32::from_bits(if residual.abs() > 0.0 { truncated } else { sum.to_bits() })
}

/// `a / b`
#[inline(always)]
pub(crate) fn div(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let remainder = (-quotient).mul_add(b, a);
    to_odd(quotient, if b < 0.0 { -remainder } else { remainder })
}

/// Returns the square root.
#[inline(always)]
pub(crate) fn sqrt(a: f64) -> f64 {
    let root = a.sqrt();
    to_odd(root, (-root).mul_add(root, a))
}
