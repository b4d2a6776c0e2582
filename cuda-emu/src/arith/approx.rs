//! Approximate instructions ("Floating Point Instructions": `.approx`, `.full`).
//!
//! The manual gives an error bound and a table of special values; the bits are the device's own.
//! Here each is computed in f64 to about 2^-36 and rounded once, so that the error is half an ulp
//! and a little. No function of the platform's mathematical library is used: the bits are the same
//! on every machine.

use super::float::{F32, Float};
use super::{Bits, RN, RZ};

/// Returns an f32 source as f64.
#[inline(always)]
fn source<const FTZ: bool>(a: u32) -> f64 {
    F32::to_f64(if FTZ { F32::flush(a) } else { a })
}

/// Returns an f64 result rounded to f32; NaN canonical.
#[inline(always)]
fn result<const FTZ: bool>(value: f64) -> u32 {
    F32::result::<FTZ, false>(value as f32)
}

/// Evaluates a polynomial by Horner's rule, the highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    coefficients.iter().fold(0.0, |sum, &c| sum.mul_add(x, c))
}

/// 2^x; relative error below 2^-36. Gives 0 and infinity beyond ±1000.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let x = x.clamp(-1000.0, 1000.0);
    let whole = x.round_ties_even();
    // ln(2)^n / n!
    let fraction = polynomial(
        x - whole,
        [
            1.017_808_600_923_969_9e-7,
            1.321_548_679_014_431e-6,
            1.525_273_380_405_984e-5,
            1.540_353_039_338_161e-4,
            1.333_355_814_642_844_3e-3,
            9.618_129_107_628_477e-3,
            5.550_410_866_482_158e-2,
            2.402_265_069_591_007e-1,
            std::f64::consts::LN_2,
            1.0,
        ],
    );
    // Adding 1.5 * 2^52 leaves the whole number in the low bits.
    let shifted = (whole + 6_755_399_441_055_744.0).to_bits();
    let power = f64::from_bits(shifted.wrapping_add(1023) << 52);
    fraction * power
}

/// log2 of a positive finite number; absolute error below 2^-45.
#[inline(always)]
fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    // `centred` puts the significand in [sqrt(1/2), sqrt(2)).
    let centred = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = ((centred.cast_signed() >> 52) as i32) as f64;
    let m = f64::from_bits(bits.wrapping_sub(centred & 0xfff0_0000_0000_0000));
    let s = (m - 1.0) / (m + 1.0);
    // 2 / ln(2) * atanh(s)
    let series = polynomial(
        s * s,
        [1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0],
    );
    (s * series).mul_add(2.0 * std::f64::consts::LOG2_E, exponent)
}

/// sin(2π(turns + quarter / 4)); absolute error below 2^-36.
#[inline(always)]
fn sine(turns: f64, quarter: u64) -> f64 {
    let quarters = turns * 4.0;
    let n = quarters.round_ties_even();
    let r = (quarters - n) * std::f64::consts::FRAC_PI_2;
    let square = r * r;
    let sin = r * polynomial(
        square,
        [
            -2.505_210_838_544_172e-8,
            2.755_731_922_398_589e-6,
            -1.984_126_984_126_984e-4,
            8.333_333_333_333_333e-3,
            -1.666_666_666_666_666_6e-1,
            1.0,
        ],
    );
    let cos = polynomial(
        square,
        [
            2.087_675_698_786_81e-9,
            -2.755_731_922_398_589e-7,
            2.480_158_730_158_73e-5,
            -1.388_888_888_888_889e-3,
            4.166_666_666_666_666_4e-2,
            -0.5,
            1.0,
        ],
    );
    // The sum's low bits are n, as in `exp2`.
    let quadrant = (n + 6_755_399_441_055_744.0).to_bits().wrapping_add(quarter);
    let value = if quadrant & 1 == 0 { sin } else { cos };
    if quadrant & 2 == 0 { value } else { -value }
}

/// Returns the fraction of a turn that an angle is. As on the device the turns are an f32, so that the error
/// grows with the angle and beyond 2^26 nothing is left of it.
#[inline(always)]
fn turns(a: u32, ftz: bool) -> f64 {
    let a = if ftz { F32::flush(a) } else { a };
    let per_radian = (0.5 * std::f32::consts::FRAC_1_PI).to_bits();
    let turns = f32::from_bits(F32::mul::<RZ, false, false>(a, per_radian));
    f64::from(turns - turns.round_ties_even())
}

/// `ex2.approx.f32`: the manual allows 2 ulp (2^-22.5 relative).
#[inline(always)]
pub(crate) fn ex2<const FTZ: bool>(a: u32) -> u32 {
    let x = source::<FTZ>(a);
    // `clamp` passes NaN on.
    result::<FTZ>(exp2(x))
}

/// `lg2.approx.f32`: the manual allows 2^-22 absolute in (0.5, 2), else 2^-22 relative.
#[inline(always)]
pub(crate) fn lg2<const FTZ: bool>(a: u32) -> u32 {
    let x = source::<FTZ>(a);
    let value = log2(x);
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    result::<FTZ>(if x < 0.0 || x.is_nan() { f64::NAN } else { value })
}

/// `sin.approx.f32`: the manual allows 2^-20.5 absolute in ±2π, 2^-14.7 in ±100π.
#[inline(always)]
pub(crate) fn sin<const FTZ: bool>(a: u32) -> u32 {
    // The difference of infinities is NaN.
    let value = sine(turns(a, FTZ), 0);
    result::<FTZ>(if value == 0.0 { value.copysign(F32::to_f64(a)) } else { value })
}

/// `cos.approx.f32`, see [`sin`].
#[inline(always)]
pub(crate) fn cos<const FTZ: bool>(a: u32) -> u32 {
    result::<FTZ>(sine(turns(a, FTZ), 1))
}

/// `rcp.approx.f32`: the manual allows 1 ulp.
#[inline(always)]
pub(crate) fn rcp<const FTZ: bool>(a: u32) -> u32 {
    F32::rcp::<RN, FTZ>(a)
}

/// `sqrt.approx.f32`: the manual allows 2^-23 relative.
#[inline(always)]
pub(crate) fn sqrt<const FTZ: bool>(a: u32) -> u32 {
    F32::sqrt::<RN, FTZ>(a)
}

/// `rsqrt.approx.f32`: the manual allows 2^-22.9 relative.
#[inline(always)]
pub(crate) fn rsqrt<const FTZ: bool>(a: u32) -> u32 {
    result::<FTZ>(1.0 / source::<FTZ>(a).sqrt())
}

/// `div.approx.f32`: the manual allows 2 ulp for divisors from 2^-126 to 2^126, and gives 0 above
/// (NaN for an infinite dividend).
#[inline(always)]
pub(crate) fn div<const FTZ: bool>(a: u32, b: u32) -> u32 {
    let quotient = F32::div::<RN, FTZ>(a, b);
    let magnitude = b & !F32::SIGN;
    let huge = (magnitude > 0x7e80_0000) & (magnitude < F32::INFINITY);
    let zero = if F32::is_infinite(a) | F32::is_nan(a) { F32::NAN } else { (a ^ b) & F32::SIGN };
    if huge { zero } else { quotient }
}

/// `div.full.f32`: the manual allows 2 ulp over the full range.
#[inline(always)]
pub(crate) fn div_full<const FTZ: bool>(a: u32, b: u32) -> u32 {
    F32::div::<RN, FTZ>(a, b)
}

/// Returns the hyperbolic tangent; relative error below 2^-30.
#[inline(always)]
fn hyperbolic_tangent(x: f64) -> f64 {
    let exponential = exp2(x.abs() * (2.0 * std::f64::consts::LOG2_E));
    let large = (1.0 - 2.0 / (exponential + 1.0)).copysign(x);
    // Near 0 the difference cancels.
    let small = x * polynomial(x * x, [-17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0]);
    if x.abs() < 0.0625 { small } else { large }
}

/// `tanh.approx.f32`: the manual allows 2^-11 relative.
#[inline(always)]
pub(crate) fn tanh(a: u32) -> u32 {
    let x = F32::to_f64(a);
    result::<false>(hyperbolic_tangent(x))
}

/// `tanh.approx` of f16 and bf16: the manual allows 2^-10.987 and 2^-8 absolute.
#[inline(always)]
pub(crate) fn tanh_half<F: Float>(a: F::Bits) -> F::Bits {
    F::from_f64::<RN>(hyperbolic_tangent(F::to_f64(a)))
}

/// `ex2.approx` of f16 and bf16: the manual allows 2^-9.9 and 2^-7 relative.
#[inline(always)]
pub(crate) fn ex2_half<F: Float, const FTZ: bool>(a: F::Bits) -> F::Bits {
    let value = F::from_f64::<RN>(exp2(F::to_f64(if FTZ { F::flush(a) } else { a })));
    if FTZ { F::flush(value) } else { value }
}

/// Returns the f64 of the upper 32 bits of `a`, subnormals flushed.
#[inline(always)]
fn upper(a: u64) -> f64 {
    f64::from_bits(super::F64::flush(a) & 0xffff_ffff_0000_0000)
}

/// Returns an f64 rounded to its upper 32 bits, subnormals flushed, NaN 7fffffff00000000.
#[inline(always)]
fn to_upper(value: f64) -> u64 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff_ffff + (bits >> 32 & 1)) & 0xffff_ffff_0000_0000;
    let rounded = super::F64::flush(rounded);
    if value.is_nan() { 0x7fff_ffff_0000_0000 } else { rounded }
}

/// `rcp.approx.ftz.f64`: of the upper 32 bits, the lower ones of the result are 0.
#[inline(always)]
pub(crate) fn rcp_f64(a: u64) -> u64 {
    to_upper(1.0 / upper(a))
}

/// `rsqrt.approx.ftz.f64`: of the upper 32 bits, the lower ones of the result are 0; without `.ftz`
/// of all bits, subnormals too.
#[inline(always)]
pub(crate) fn rsqrt_f64<const FTZ: bool>(a: u64) -> u64 {
    if FTZ {
        to_upper(1.0 / upper(a).sqrt())
    } else {
        super::F64::rcp::<RN>(super::F64::sqrt::<RN>(a))
    }
}

/// Returns the number of ulps of an f32 between an approximate result and the value in f64: for the bounds
/// that tests and goldens check.
#[must_use]
pub(crate) fn ulps(approximate: u32, exact: f64) -> f64 {
    let value = F32::to_f64(approximate);
    if value == exact || (value.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    let exponent = ((exact.abs() as f32).to_bits().widen() >> 23).clamp(1, 254) as i32;
    let ulp = 2.0f64.powi(exponent - 127 - 23);
    (value - exact).abs() / ulp
}
