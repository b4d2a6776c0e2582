//! Rounding of wider values to narrower formats, in every mode and without a branch.

use crate::arith::{ODD, RM, RN, RNA, RP, RZ};

/// Returns an f64 rounded to f32. NaN gives some NaN.
#[inline(always)]
pub(crate) fn f64_to_f32<const R: u8>(value: f64) -> u32 {
    let nearest = value as f32;
    let bits = nearest.to_bits();
    let back = f64::from(nearest);
    let negative = bits >> 31 == 1;
    // The magnitude moves one step towards zero, or away from it.
    let inwards = match R {
        RZ | ODD => back.abs() > value.abs(),
        RM => back > value && !negative,
        RP => back < value && negative,
        _ => false,
    };
    let outwards = match R {
        RM => back > value && negative,
        RP => back < value && !negative,
        _ => false,
    };
    let stepped = bits.wrapping_sub(u32::from(inwards)).wrapping_add(u32::from(outwards));
    if R == ODD { stepped | u32::from(back != value && !value.is_nan()) } else { stepped }
}

/// Returns an f32 rounded to a format of `EXPONENT` and `FRACTION` bits (at least 2 and at most 21), laid out as IEEE
/// 754 has it. The caller treats NaN.
#[inline(always)]
pub(crate) fn f32_to_small<const EXPONENT: u32, const FRACTION: u32, const R: u8>(
    bits: u32,
) -> u32 {
    let infinity = ((1u32 << EXPONENT) - 1) << FRACTION;
    let rounded = round_small::<EXPONENT, FRACTION, R>(bits);
    let negative = bits >> 31 == 1;
    let magnitude = bits & 0x7fff_ffff;
    let to_infinity = match R {
        RZ | ODD => false,
        RM => negative,
        RP => !negative,
        _ => true,
    };
    let limit = if to_infinity || magnitude == 0x7f80_0000 { infinity } else { infinity - 1 };
    rounded.min(limit) | u32::from(negative) << (EXPONENT + FRACTION)
}

/// Returns the rounded magnitude of an f32 in such a format, as if its exponent had no upper end: a value that
/// overflows compares greater than any number of the format.
#[inline(always)]
pub(crate) fn round_small<const EXPONENT: u32, const FRACTION: u32, const R: u8>(bits: u32) -> u32 {
    let bias = (1u32 << (EXPONENT - 1)) - 1;
    let dropped = 23 - FRACTION;
    let negative = bits >> 31 == 1;
    let magnitude = bits & 0x7fff_ffff;
    let exponent = magnitude >> 23;
    // The least exponent of a normal number of the format, as in an f32.
    let least = 128 - bias;
    let normal = exponent >= least;
    // A normal number keeps its exponent in front of the significand, so that a carry out of the
    // fraction increments it; a subnormal has the hidden bit made explicit.
    let hidden = (magnitude & 0x7f_ffff) | if exponent == 0 { 0 } else { 0x80_0000 };
    let significand = if normal { magnitude.wrapping_sub((least - 1) << 23) } else { hidden };
    let deeper = if normal { 0 } else { least - exponent.max(1) };
    // A shift by 31 is past all 24 bits: below half.
    let shift = (dropped + deeper).min(31);
    let kept = significand >> shift;
    let rest = significand & ((1u32 << shift) - 1);
    let half = 1u32 << (shift - 1);
    let up = match R {
        RN => rest > half || (rest == half && kept & 1 == 1),
        RNA => rest >= half,
        RM => negative && rest != 0,
        RP => !negative && rest != 0,
        _ => false,
    };
    let odd = R == ODD && rest != 0;
    (kept + u32::from(up)) | u32::from(odd)
}

/// Returns a small format widened to f32, exactly. Infinities and NaN keep their fraction bits.
#[inline(always)]
pub(crate) fn small_to_f32<const EXPONENT: u32, const FRACTION: u32>(bits: u32) -> f32 {
    let bias = (1u32 << (EXPONENT - 1)) - 1;
    let sign = (bits >> (EXPONENT + FRACTION) & 1) << 31;
    let magnitude = (bits & ((1 << (EXPONENT + FRACTION)) - 1)) << (23 - FRACTION);
    if EXPONENT == 8 {
        return f32::from_bits(sign | magnitude);
    }
    let least = (128 - bias) << 23;
    // A subnormal is the difference that its bits make to the least normal number: exact, and without subnormal f32,
    // which are slow on many processors.
    let subnormal = f32::from_bits(least | magnitude) - f32::from_bits(least);
    let normal = magnitude + (127 - bias) * (1 << 23);
    let finite = if magnitude < 1 << 23 { subnormal.to_bits() } else { normal };
    let special = magnitude | 0x7f80_0000;
    let largest = ((1u32 << EXPONENT) - 1) << 23;
    f32::from_bits(sign | if magnitude >= largest { special } else { finite })
}
