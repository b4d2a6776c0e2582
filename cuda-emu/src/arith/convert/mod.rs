//! Conversions ("Data Movement and Conversion Instructions: cvt, cvt.pack"): each pair of types is a separate function.
//! [`Cvt`] does any conversion that is only known at run time.

pub(crate) mod fp8;
mod pack;
mod runtime;

pub(crate) use pack::cvt_pack;
pub(crate) use runtime::Cvt;

use super::float::{narrow, soft};
use super::{Bits, F16, F32, Float, Int, ODD, RM, RN, RNA, RP};

/// Clamps an integer, extended to 64 bits, to a type.
#[inline(always)]
fn clamp_int(value: u64, value_signed: bool, width: u32, signed: bool) -> u64 {
    let greatest = u64::MAX >> (64 - width + u32::from(signed));
    if value_signed {
        let least = if signed { -1i64 << (width - 1) } else { 0 };
        let greatest = greatest.min(i64::MAX.cast_unsigned()).cast_signed();
        value.cast_signed().clamp(least, greatest).cast_unsigned()
    } else {
        value.min(greatest)
    }
}

/// `cvt` between integers, `cvt.sat` with `SAT`.
#[inline(always)]
pub(crate) fn int<From: Int, To: Int, const SAT: bool>(a: From::Bits) -> To::Bits {
    let value = From::extend(a);
    let value = if SAT { clamp_int(value, From::SIGNED, To::WIDTH, To::SIGNED) } else { value };
    To::Bits::narrow(value)
}

/// Rounds to an integral value: `.rni`, `.rzi`, `.rmi`, `.rpi`.
#[inline(always)]
fn round_f64<const R: u8>(value: f64) -> f64 {
    match R {
        RN => value.round_ties_even(),
        RM => value.floor(),
        RP => value.ceil(),
        _ => value.trunc(),
    }
}

/// See [`round_f64`].
#[inline(always)]
fn round_f32<const R: u8>(value: f32) -> f32 {
    match R {
        RN => value.round_ties_even(),
        RM => value.floor(),
        RP => value.ceil(),
        _ => value.trunc(),
    }
}

/// Returns an integral value clamped to an integer type; NaN becomes `nan`.
#[inline(always)]
fn clamp_f64(value: f64, width: u32, signed: bool, nan: u64) -> u64 {
    let clamped = if width == 64 {
        if signed { (value as i64).cast_unsigned() } else { value as u64 }
    } else if signed {
        let least = -1i32 << (width - 1);
        u64::from((value as i32).clamp(least, !least).cast_unsigned())
    } else {
        u64::from((value as u32).min(u32::MAX >> (32 - width)))
    };
    if value.is_nan() { nan } else { clamped }
}

/// Returns the result for NaN: zero, or the top bit alone where the source is f64 or the destination has 64 bits.
#[inline(always)]
const fn nan_to_int(source_width: u32, width: u32) -> u64 {
    if source_width == 64 || width == 64 { 1 << (width - 1) } else { 0 }
}

/// `cvt.rni` (`RN`)… from a float to an integer: clamped to the type, with or without `.sat`.
#[inline(always)]
pub(crate) fn float_to_int<F: Float, I: Int, const R: u8, const FTZ: bool>(a: F::Bits) -> I::Bits {
    let a = if FTZ { F::flush(a) } else { a };
    if F::WIDTH == 32 && I::WIDTH == 32 {
        // The value is an f32, whose vectors are twice as long as f64's. NaN becomes 0.
        let value = round_f32::<R>(f32::from_bits(a.widen() as u32));
        let bits = if I::SIGNED { (value as i32).cast_unsigned() } else { value as u32 };
        return I::Bits::narrow(bits.into());
    }
    let value = round_f64::<R>(F::to_f64(a));
    I::Bits::narrow(clamp_f64(value, I::WIDTH, I::SIGNED, nan_to_int(F::WIDTH, I::WIDTH)))
}

/// Returns a 64-bit integer as f64, rounded.
#[inline(always)]
fn wide_to_f64<const R: u8>(value: u64, signed: bool) -> f64 {
    let negative = signed && value.cast_signed() < 0;
    if R == RN {
        if signed { value.cast_signed() as f64 } else { value as f64 }
    } else {
        let magnitude = if negative { value.wrapping_neg() } else { value };
        soft::pack::<R>(negative, 0, magnitude.into())
    }
}

/// `cvt.rn`… from an integer to a float.
#[inline(always)]
pub(crate) fn int_to_float<I: Int, F: Float, const R: u8>(a: I::Bits) -> F::Bits {
    let value = I::extend(a);
    if F::WIDTH == 64 {
        let exact = I::WIDTH < 64;
        let double = if exact && I::SIGNED {
            f64::from(value as i32)
        } else if exact {
            f64::from(value as u32)
        } else {
            wide_to_f64::<R>(value, I::SIGNED)
        };
        return F::Bits::narrow(double.to_bits());
    }
    if F::WIDTH == 32 && R == RN {
        let single = match (I::WIDTH < 64, I::SIGNED) {
            (true, true) => value as i32 as f32,
            (true, false) => value as u32 as f32,
            (false, true) => value.cast_signed() as f32,
            (false, false) => value as f32,
        };
        return F::Bits::narrow(single.to_bits().into());
    }
    let odd = match (I::WIDTH < 64, I::SIGNED) {
        (true, true) => f64::from(value as i32),
        (true, false) => f64::from(value as u32),
        (false, signed) => wide_to_f64::<ODD>(value, signed),
    };
    F::from_f64::<R>(odd)
}

/// Converts a NaN to another format, as measured on an H200; the manual leaves payloads open. To and from f64 payloads
/// are kept, quieted, and bf16 becomes f32 by a shift; otherwise the result is the canonical NaN. Bits are
/// zero-extended; `fraction` identifies the format.
#[inline(always)]
fn convert_nan(
    a: u64,
    fraction: u32,
    width: u32,
    to_fraction: u32,
    to_width: u32,
    ftz: bool,
) -> u64 {
    let sign = a >> (width - 1) << (to_width - 1);
    let quiet = (1 << (to_width - 1)) - (1 << (to_fraction - 1));
    let payload = a & ((1 << fraction) - 1);
    let canonical = u64::MAX >> (65 - to_width);
    if fraction == 52 && to_fraction == 52 {
        a | quiet
    } else if to_fraction == 52 && ftz {
        // The flush goes through an f32 instruction, which gives its canonical NaN.
        0x7fff_ffff_e000_0000
    } else if to_fraction == 52 {
        sign | quiet | payload << (52 - fraction)
    } else if fraction == 52 {
        sign | quiet | payload >> (52 - to_fraction)
    } else if fraction == 7 && to_fraction == 23 && !ftz {
        a << 16
    } else {
        canonical
    }
}

/// `cvt` between float formats; a wider destination takes any `R`. `FTZ` flushes f32 sources and
/// f32 results, no other format; the H200 does not flush the source of a conversion to f16.
#[inline(always)]
pub(crate) fn float_to_float<
    From: Float,
    To: Float,
    const R: u8,
    const FTZ: bool,
    const SAT: bool,
>(
    a: From::Bits,
) -> To::Bits {
    let flushes = FTZ && From::WIDTH == 32 && To::FRACTION != F16::FRACTION;
    let a = if flushes { From::flush(a) } else { a };
    let bits = if From::FRACTION == To::FRACTION {
        // f32 and f64 are not converted; an instruction that flushes makes NaN canonical.
        let keep = From::WIDTH > 16 && !FTZ;
        To::Bits::narrow(if keep { a } else { From::canonical(a) }.widen())
    } else {
        let bits = if FTZ && To::WIDTH == 32 {
            To::Bits::narrow(F32::narrowed::<R, true>(From::to_f64(a)).into())
        } else {
            To::from_f64::<R>(From::to_f64(a))
        };
        let nan = convert_nan(a.widen(), From::FRACTION, From::WIDTH, To::FRACTION, To::WIDTH, FTZ);
        if From::is_nan(a) { To::Bits::narrow(nan) } else { bits }
    };
    let bits = if FTZ && To::WIDTH == 32 { To::flush(bits) } else { bits };
    if SAT { To::saturate(bits) } else { bits }
}

/// `cvt.rni` (`RN`)… within a float format: to an integral value.
#[inline(always)]
pub(crate) fn integral<F: Float, const R: u8, const FTZ: bool, const SAT: bool>(
    a: F::Bits,
) -> F::Bits {
    let a = if FTZ && F::WIDTH == 32 { F::flush(a) } else { a };
    let bits = if F::WIDTH == 32 {
        let value = round_f32::<R>(f32::from_bits(a.widen() as u32));
        F::Bits::narrow(value.to_bits().into())
    } else {
        F::from_f64::<RN>(round_f64::<R>(F::to_f64(a)))
    };
    let bits = if F::is_nan(a) { F::canonical(a) } else { bits };
    if SAT { F::saturate(bits) } else { bits }
}

/// `cvt.tf32.f32`: 10 bits of fraction are kept. A NaN becomes 7fffe000; `.rna` only cuts it, which
/// can make an infinity of it.
#[inline(always)]
pub(crate) fn f32_to_tf32<const R: u8>(a: u32) -> u32 {
    let rounded = narrow::f32_to_small::<8, 10, R>(a) << 13;
    let nan = if R == RNA { a } else { F32::NAN } & !0x1fff;
    if F32::is_nan(a) { nan } else { rounded }
}
