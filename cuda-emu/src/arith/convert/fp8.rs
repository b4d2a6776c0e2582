//! The 8-bit formats e4m3 and e5m2. Conversions to them saturate: `.satfinite` is not optional.

use crate::arith::RN;
use crate::arith::float::narrow;

/// The greatest e4m3, 448.
const E4M3_MAX: u32 = 0x7e;
/// The greatest finite e5m2, 57344.
const E5M2_MAX: u32 = 0x7b;
/// NaN of either.
const NAN: u32 = 0x7f;

/// Returns an f32 rounded to 8 bits; infinity and what is past `max` become `max`.
#[inline(always)]
fn round<const EXPONENT: u32, const FRACTION: u32>(a: u32, max: u32) -> u8 {
    let magnitude = narrow::round_small::<EXPONENT, FRACTION, RN>(a).min(max);
    let number = magnitude | a >> 31 << 7;
    (if a & 0x7fff_ffff > 0x7f80_0000 { NAN } else { number }) as u8
}

/// `cvt.rn.satfinite.e4m3x2.f32`, one half of it.
#[inline(always)]
pub(crate) fn f32_to_e4m3(a: u32) -> u8 {
    round::<4, 3>(a, E4M3_MAX)
}

/// `cvt.rn.satfinite.e5m2x2.f32`, one half of it.
#[inline(always)]
pub(crate) fn f32_to_e5m2(a: u32) -> u8 {
    round::<5, 2>(a, E5M2_MAX)
}

/// Returns the value of an e4m3, exactly. The format has no infinity: only all ones is NaN.
#[inline(always)]
pub(crate) fn e4m3_to_f32(a: u8) -> f32 {
    let magnitude = u32::from(a & 0x7f);
    // The scale corrects the bias and normalises subnormals.
    let scale = f32::from_bits((254 - 7) << 23);
    let value = f32::from_bits(magnitude << 20) * scale;
    let value = if magnitude == NAN { f32::NAN } else { value };
    if a >= 0x80 { -value } else { value }
}

/// Returns the value of an e5m2, exactly.
#[inline(always)]
pub(crate) fn e5m2_to_f32(a: u8) -> f32 {
    narrow::small_to_f32::<5, 2>(a.into())
}
