//! Weights of texels, and sums of texels with weights.

/// Fraction bits of the weights of a linear filter.
pub(crate) const FRACTION: u32 = 8;
/// The sum of all weights.
pub(crate) const WHOLE: u32 = 1 << FRACTION;

/// Returns the part of a weight that a fraction is, rounded up from the half.
fn part(weight: u32, fraction: u32) -> u32 {
    (weight * fraction + WHOLE / 2) >> FRACTION
}

/// Returns the weights of the corners of three axes, which add up to `whole`, in units of 2^-8. Bit n of an index says whether the corner is
/// the second along axis n.
///
/// The third axis divides the whole among two slices. In each, the first axis gives the second column its part, and the
/// second axis divides the columns: of the second column the second row is rounded, of the first column the first row,
/// and the other row is the rest.
pub(crate) fn weights([a, b, c]: [u32; 3], whole: u32) -> [u32; 8] {
    let mut weights = [0; 8];
    for (corners, whole) in
        weights.chunks_exact_mut(4).zip([whole - part(whole, c), part(whole, c)])
    {
        let second = part(a, whole);
        let first = whole - second;
        let (near, far) = (part(first, WHOLE - b), part(second, b));
        corners.copy_from_slice(&[near, second - far, first - near, far]);
    }
    weights
}

/// How a sum of floats is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Precision {
    /// Bits of a texel that the sum keeps after the first bit of the largest one.
    kept: i32,
    /// Fraction bits of the result, and the exponent of the least normal one.
    fraction: i32,
    least: i32,
}

impl Precision {
    /// Of textures of f32.
    pub(crate) const SINGLE: Self = Self { kept: 27, fraction: 23, least: -126 };
    /// Of textures of f16.
    pub(crate) const HALF: Self = Self { kept: 14, fraction: 10, least: -14 };
}

/// The NaN that a filter returns.
const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// Returns 2^`exponent`, for exponents of normal numbers.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023).clamp(1, 2046) as u64) << 52)
}

/// Returns the exponent of a number's first bit, at least `least`.
fn exponent(value: f32, least: i32) -> i32 {
    (((value.to_bits() >> 23) & 0xff) as i32 - 127).max(least)
}

/// Rounds to the nearest, and ties away from zero.
fn round(value: f64, precision: Precision) -> f32 {
    if value == 0.0 || !value.is_finite() {
        return value as f32;
    }
    let first = (((value.to_bits() >> 52) & 0x7ff) as i32) - 1023;
    let unit = power(first.max(precision.least) - precision.fraction);
    let rounded = (value.abs() / unit + 0.5).floor() * unit;
    (if value < 0.0 { -rounded } else { rounded }) as f32
}

/// Returns the weighted sum of floats. Those of weight 0 count for nothing.
///
/// Four texels are added up at a time, those of one slice of one level. They are cut off below the last place that is kept
/// of the largest one. The sum of the products is exact, and rounded once for all.
pub(crate) fn sum<const N: usize>(terms: [(f32, u32); N], precision: Precision) -> f32 {
    let total: f64 = terms.chunks(4).map(|four| exact(four, precision)).sum();
    if total.is_nan() { NAN } else { round(total, precision) }
}

/// Returns the weighted sum of texels of one slice, before it is rounded.
fn exact(terms: &[(f32, u32)], precision: Precision) -> f64 {
    let terms = terms.iter().filter(|(_, weight)| *weight != 0);
    let exponents = terms.clone().map(|(value, _)| exponent(*value, precision.least));
    let largest = exponents.max().unwrap_or(precision.least);
    let unit = power(largest - precision.kept);
    let products =
        terms.map(|(value, weight)| (f64::from(*value) / unit).trunc() * f64::from(*weight));
    products.sum::<f64>() * (unit / f64::from(WHOLE))
}

/// Returns the weighted sum of integers, rounded up from the half.
pub(crate) fn sum_integers(terms: impl Iterator<Item = (i32, u32)>) -> i32 {
    let total: i64 = terms.map(|(value, weight)| i64::from(value) * i64::from(weight)).sum();
    ((total + i64::from(WHOLE / 2)) >> FRACTION) as i32
}
