//! Conversions: every pair of types against `rustc_apfloat` or 128-bit integers, the run-time form
//! against the compiled one.

use ptx::ir::{Rounding, Type};
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float as Oracle, FloatConvert, Round};

use super::random::{CASES, Random};
use crate::arith::convert::*;
use crate::arith::*;

const CASES_EACH: u32 = CASES / 64;

/// Returns a conversion described at run time.
fn cvt(to: Type, from: Type, rounding: Rounding) -> Cvt {
    Cvt::new(to, from, Some(rounding), false, false, false, false).unwrap()
}

fn ints<From: Int, To: Int>(from: Type, to: Type) {
    let mut random = Random::new(u64::from(From::WIDTH * 8 + To::WIDTH));
    let plain = Cvt::new(to, from, None, false, false, false, false).unwrap();
    let saturating = Cvt::new(to, from, None, false, true, false, false).unwrap();
    for _ in 0..CASES_EACH {
        let a = From::Bits::narrow(random.int(From::WIDTH));
        let extended = From::extend(a);
        let value =
            if From::SIGNED { i128::from(extended.cast_signed()) } else { i128::from(extended) };
        let wrapped = To::Bits::narrow(value as u64);
        let clamped = To::Bits::narrow(value.clamp(To::MIN.into(), To::MAX.into()) as u64);
        assert_eq!(int::<From, To, false>(a), wrapped, "{from} to {to}: {a:?}");
        assert_eq!(int::<From, To, true>(a), clamped, "{from} to {to}, sat: {a:?}");
        assert_eq!(plain.apply(a.widen()), wrapped.widen());
        assert_eq!(saturating.apply(a.widen()), clamped.widen());
    }
}

/// Calls a generic function for every integer type.
macro_rules! each_int {
    ($f:ident, $($first:ty, $first_ty:expr)?) => {
        each_int!(@ $f, $($first, $first_ty)?; U8 U8, S8 S8, U16 U16, S16 S16, U32 U32, S32 S32, U64 U64, S64 S64)
    };
    (@ $f:ident, $first:ty, $first_ty:expr; $($int:ident $ty:ident),*) => {
        $($f::<$first, $int>($first_ty, Type::$ty);)*
    };
}

#[test]
fn integers_wrap_or_saturate() {
    each_int!(ints, U8, Type::U8);
    each_int!(ints, S8, Type::S8);
    each_int!(ints, U16, Type::U16);
    each_int!(ints, S16, Type::S16);
    each_int!(ints, U32, Type::U32);
    each_int!(ints, S32, Type::S32);
    each_int!(ints, U64, Type::U64);
    each_int!(ints, S64, Type::S64);
}

/// A float format with its oracle.
trait Format: Float {
    type Oracle: Oracle;
    const EXPONENT: u32;
}
impl Format for F16 {
    type Oracle = Half;
    const EXPONENT: u32 = 5;
}
impl Format for Bf16 {
    type Oracle = BFloat;
    const EXPONENT: u32 = 8;
}
impl Format for F32 {
    type Oracle = Single;
    const EXPONENT: u32 = 8;
}
impl Format for F64 {
    type Oracle = Double;
    const EXPONENT: u32 = 11;
}

fn random_float<F: Format>(random: &mut Random) -> F::Bits {
    // Small integers with a fraction too, near the ends of integer types.
    if random.below(3) == 0 {
        let value = random.int(64).cast_signed() as f64 / 2f64.powi(random.below(66) as i32);
        F::from_f64::<RZ>(value)
    } else {
        F::Bits::narrow(random.float(F::EXPONENT, F::FRACTION))
    }
}

fn float_to_ints<F: Format, I: Int>(from: Type, to: Type) {
    let mut random = Random::new(u64::from(F::WIDTH * 8 + I::WIDTH));
    let modes = [
        (Rounding::Rni, Round::NearestTiesToEven),
        (Rounding::Rzi, Round::TowardZero),
        (Rounding::Rmi, Round::TowardNegative),
        (Rounding::Rpi, Round::TowardPositive),
    ];
    for i in 0..CASES_EACH {
        let a = random_float::<F>(&mut random);
        let (rounding, round) = modes[i as usize % 4];
        let got = match i % 4 {
            0 => float_to_int::<F, I, RN, false>(a),
            1 => float_to_int::<F, I, RZ, false>(a),
            2 => float_to_int::<F, I, RM, false>(a),
            _ => float_to_int::<F, I, RP, false>(a),
        };
        let integral = F::Oracle::from_bits(a.widen().into()).round_to_integral(round).value;
        let value = F::to_f64(F::Bits::narrow(integral.to_bits() as u64));
        let expected = if value.is_nan() {
            let whole = F::WIDTH == 64 || I::WIDTH == 64;
            if whole { 1u64 << (I::WIDTH - 1) } else { 0 }
        } else {
            // `as` saturates to 128 bits.
            (value as i128).clamp(I::MIN.into(), I::MAX.into()) as u64
        };
        assert_eq!(got, I::Bits::narrow(expected), "{from} to {to}: {a:x?} {rounding}");
        assert_eq!(cvt(to, from, rounding).apply(a.widen()), got.widen(), "{from} to {to} {a:x?}");
    }
}

#[test]
fn floats_to_integers_are_clamped_in_every_rounding() {
    each_int!(float_to_ints, F16, Type::F16);
    each_int!(float_to_ints, Bf16, Type::Bf16);
    each_int!(float_to_ints, F32, Type::F32);
    each_int!(float_to_ints, F64, Type::F64);
}

const MODES: [(Rounding, Round); 4] = [
    (Rounding::Rn, Round::NearestTiesToEven),
    (Rounding::Rz, Round::TowardZero),
    (Rounding::Rm, Round::TowardNegative),
    (Rounding::Rp, Round::TowardPositive),
];

fn ints_to_float<F: Format, I: Int>(to: Type, from: Type) {
    let mut random = Random::new(u64::from(F::WIDTH * 16 + I::WIDTH));
    for i in 0..CASES_EACH {
        let a = I::Bits::narrow(random.int(I::WIDTH));
        let (rounding, round) = MODES[i as usize % 4];
        let got = match i % 4 {
            0 => int_to_float::<I, F, RN>(a),
            1 => int_to_float::<I, F, RZ>(a),
            2 => int_to_float::<I, F, RM>(a),
            _ => int_to_float::<I, F, RP>(a),
        };
        let extended = I::extend(a);
        let value =
            if I::SIGNED { i128::from(extended.cast_signed()) } else { i128::from(extended) };
        let expected = F::Oracle::from_i128_r(value, round).value.to_bits() as u64;
        assert_eq!(got.widen(), expected, "{from} to {to}: {a:x?} {rounding}");
        assert_eq!(cvt(to, from, rounding).apply(a.widen()), expected, "{from} to {to}: {a:x?}");
    }
}

#[test]
fn integers_to_floats_are_rounded_once() {
    each_int!(ints_to_float, F16, Type::F16);
    each_int!(ints_to_float, Bf16, Type::Bf16);
    each_int!(ints_to_float, F32, Type::F32);
    each_int!(ints_to_float, F64, Type::F64);
}

fn floats<From: Format, To: Format>(from: Type, to: Type)
where
    From::Oracle: FloatConvert<To::Oracle>,
{
    let mut random = Random::new(u64::from(From::WIDTH * 32 + To::WIDTH));
    for i in 0..CASES_EACH * 4 {
        let a = match random.below(2) {
            // Values near what the destination can hold: ties, its subnormals, its greatest.
            0 => {
                let near = To::to_f64(To::Bits::narrow(random.float(To::EXPONENT, To::FRACTION)));
                let step = random.below(5).wrapping_sub(2).cast_signed() as f64;
                From::from_f64::<RN>(near * (1.0 + step * 2f64.powi(-(To::FRACTION as i32) - 1)))
            }
            _ => random_float::<From>(&mut random),
        };
        let (rounding, round) = MODES[i as usize % 4];
        let got = match i % 4 {
            0 => float_to_float::<From, To, RN, false, false>(a),
            1 => float_to_float::<From, To, RZ, false, false>(a),
            2 => float_to_float::<From, To, RM, false, false>(a),
            _ => float_to_float::<From, To, RP, false, false>(a),
        };
        let source = From::Oracle::from_bits(a.widen().into());
        let expected: To::Oracle = source.convert_r(round, &mut false).value;
        let nan = expected.is_nan();
        if nan {
            assert!(To::is_nan(got), "{from} to {to}: {a:x?}");
        } else {
            assert_eq!(
                u128::from(got.widen()),
                expected.to_bits(),
                "{from} to {to} {a:x?} {round:?}"
            );
        }
        assert_eq!(cvt(to, from, rounding).apply(a.widen()), got.widen(), "{from} to {to} {a:x?}");

        let saturated = float_to_float::<From, To, RN, false, true>(a);
        let clamped = To::saturate(float_to_float::<From, To, RN, false, false>(a));
        let runtime = Cvt::new(to, from, Some(Rounding::Rn), false, true, false, false).unwrap();
        assert_eq!(saturated, clamped);
        assert_eq!(runtime.apply(a.widen()), clamped.widen());
        let flushed = float_to_float::<From, To, RN, true, false>(a);
        let runtime = Cvt::new(to, from, Some(Rounding::Rn), true, false, false, false).unwrap();
        assert_eq!(runtime.apply(a.widen()), flushed.widen(), "ftz, {from} to {to} {a:x?}");
    }
}

#[test]
fn floats_to_floats_are_rounded_once() {
    floats::<F16, Bf16>(Type::F16, Type::Bf16);
    floats::<F16, F32>(Type::F16, Type::F32);
    floats::<F16, F64>(Type::F16, Type::F64);
    floats::<Bf16, F16>(Type::Bf16, Type::F16);
    floats::<Bf16, F32>(Type::Bf16, Type::F32);
    floats::<Bf16, F64>(Type::Bf16, Type::F64);
    floats::<F32, F16>(Type::F32, Type::F16);
    floats::<F32, Bf16>(Type::F32, Type::Bf16);
    floats::<F32, F64>(Type::F32, Type::F64);
    floats::<F64, F16>(Type::F64, Type::F16);
    floats::<F64, Bf16>(Type::F64, Type::Bf16);
    floats::<F64, F32>(Type::F64, Type::F32);
}

fn integral_values<F: Format>(ty: Type) {
    let mut random = Random::new(700 + u64::from(F::WIDTH));
    let rounds = [Rounding::Rni, Rounding::Rzi, Rounding::Rmi, Rounding::Rpi];
    for i in 0..CASES_EACH * 4 {
        let a = random_float::<F>(&mut random);
        let (index, round) = (i as usize % 4, MODES[i as usize % 4].1);
        let got = match index {
            0 => integral::<F, RN, false, false>(a),
            1 => integral::<F, RZ, false, false>(a),
            2 => integral::<F, RM, false, false>(a),
            _ => integral::<F, RP, false, false>(a),
        };
        let expected = F::Oracle::from_bits(a.widen().into()).round_to_integral(round).value;
        if expected.is_nan() {
            assert_eq!(got, F::canonical(a));
        } else {
            assert_eq!(u128::from(got.widen()), expected.to_bits(), "{ty}: {a:x?} {round:?}");
        }
        assert_eq!(cvt(ty, ty, rounds[index]).apply(a.widen()), got.widen(), "{ty}: {a:x?}");
    }
}

#[test]
fn integral_values_stay_in_their_format() {
    integral_values::<F16>(Type::F16);
    integral_values::<Bf16>(Type::Bf16);
    integral_values::<F32>(Type::F32);
    integral_values::<F64>(Type::F64);
}

#[test]
fn tf32_keeps_ten_bits() {
    for (a, rn, rz, rna) in [
        (0x3f80_1000, 0x3f80_0000, 0x3f80_0000, 0x3f80_2000),
        (0x3f80_3000, 0x3f80_4000, 0x3f80_2000, 0x3f80_4000),
        (0xbf80_1001, 0xbf80_2000, 0xbf80_0000, 0xbf80_2000),
        (0x7f7f_ffff, 0x7f80_0000, 0x7f7f_e000, 0x7f80_0000),
        (0x0000_1000, 0x0000_0000, 0x0000_0000, 0x0000_2000),
        (0xff80_0000, 0xff80_0000, 0xff80_0000, 0xff80_0000),
    ] {
        assert_eq!(f32_to_tf32::<RN>(a), rn, "{a:x}");
        assert_eq!(f32_to_tf32::<RZ>(a), rz, "{a:x}");
        assert_eq!(f32_to_tf32::<RNA>(a), rna, "{a:x}");
        assert_eq!(cvt(Type::Tf32, Type::F32, Rounding::Rna).apply(a.into()), rna.into());
    }
    let finite =
        Cvt::new(Type::Tf32, Type::F32, Some(Rounding::Rna), false, false, true, false).unwrap();
    assert_eq!(finite.apply(0xff80_0000), 0xff7f_e000);
    let relu =
        Cvt::new(Type::Tf32, Type::F32, Some(Rounding::Rn), false, false, false, true).unwrap();
    assert_eq!(relu.apply(0xbf80_0000), 0);
}

/// Returns the value of an 8-bit float by its definition.
fn small_value(bits: u8, exponent_bits: u32, infinite: bool) -> f64 {
    let fraction_bits = 7 - exponent_bits;
    let exponent = i32::from((bits & 0x7f) >> fraction_bits);
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / 2f64.powi(fraction_bits as i32);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    let top = (1 << exponent_bits) - 1;
    if infinite && exponent == top {
        return if fraction == 0.0 { sign * f64::INFINITY } else { f64::NAN };
    }
    if !infinite && bits & 0x7f == 0x7f {
        return f64::NAN;
    }
    sign * if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    }
}

#[test]
fn eight_bit_floats_are_exact_one_way_and_nearest_the_other() {
    let mut random = Random::new(800);
    for (exponent, infinite, max) in [(4, false, 0x7e), (5, true, 0x7b)] {
        let narrow = |a| if infinite { fp8::f32_to_e5m2(a) } else { fp8::f32_to_e4m3(a) };
        let widen = |a| if infinite { fp8::e5m2_to_f32(a) } else { fp8::e4m3_to_f32(a) };
        for bits in 0..=255u8 {
            let value = small_value(bits, exponent, infinite);
            let got = f64::from(widen(bits));
            assert!(got.to_bits() == value.to_bits() || got.is_nan() && value.is_nan(), "{bits:x}");
        }
        for _ in 0..CASES_EACH {
            let a = match random.below(2) {
                0 => random.f32(),
                _ => ((random.below(40_000) as f32 - 20_000.0) / 256.0).to_bits(),
            };
            let (x, got) = (F32::to_f64(a), narrow(a));
            if x.is_nan() {
                assert_eq!(got, 0x7f);
                continue;
            }
            let magnitude = got & 0x7f;
            assert_eq!(got >= 0x80, F32::is_negative(a));
            if x.abs() >= small_value(max, exponent, infinite) {
                assert_eq!(magnitude, max);
                continue;
            }
            let at = |bits: u8| small_value(bits, exponent, infinite);
            let distance = |bits: u8| (x.abs() - at(bits)).abs();
            // No neighbour is nearer, and a tie goes to the even one.
            for other in [magnitude.wrapping_sub(1), magnitude + 1] {
                if other <= max {
                    let (mine, theirs) = (distance(magnitude), distance(other));
                    assert!(mine < theirs || mine == theirs && magnitude % 2 == 0, "{a:x} {got:x}");
                }
            }
            assert!(magnitude <= max);
        }
    }
}

#[test]
fn packed_conversions_put_the_first_source_on_top() {
    let [one, minus_two] = [1.0f32, -2.0].map(|x| u64::from(x.to_bits()));
    let half = cvt(Type::F16x2, Type::F32, Rounding::Rn);
    assert_eq!(half.apply2(one, minus_two), 0x3c00_c000);
    let relu =
        Cvt::new(Type::Bf16x2, Type::F32, Some(Rounding::Rz), false, false, false, true).unwrap();
    assert_eq!(relu.apply2(one, minus_two), 0x3f80_0000);
    let bytes =
        Cvt::new(Type::E4m3x2, Type::F32, Some(Rounding::Rn), false, false, true, false).unwrap();
    assert_eq!(bytes.apply2(one, 0x7f80_0000), 0x387e);
    let from_half =
        Cvt::new(Type::E5m2x2, Type::F16x2, Some(Rounding::Rn), false, false, true, true).unwrap();
    assert_eq!(from_half.apply(0x3c00_c000), 0x3c00);
    let back = cvt(Type::F16x2, Type::E4m3x2, Rounding::Rn);
    assert_eq!(back.apply(0x387f), 0x3c00_7fff);
    let finite =
        Cvt::new(Type::F16x2, Type::F32, Some(Rounding::Rn), false, false, true, false).unwrap();
    assert_eq!(finite.apply2(0x7f80_0000, 0xff80_0000), 0x7bff_fbff);
}

#[test]
fn unknown_conversions_are_refused() {
    for (to, from, rounding) in [
        (Type::E2m1x2, Type::F32, Some(Rounding::Rn)),
        (Type::F32, Type::Pred, None),
        (Type::F16x2, Type::F32, Some(Rounding::Rs)),
        (Type::F32, Type::F16x2, None),
    ] {
        assert_eq!(Cvt::new(to, from, rounding, false, false, false, false), None);
    }
    assert_eq!(cvt_pack(Type::U32, Type::S32, 1, 2, 3), None);
    assert_eq!(cvt_pack(Type::U8, Type::F32, 1, 2, 3), None);
}

#[test]
fn cvt_pack_saturates_and_shifts_the_rest_up() {
    let minus = |x: i32| (-x).cast_unsigned();
    let pack = |to, a, b, c| cvt_pack(to, Type::S32, a, b, c).unwrap();
    assert_eq!(pack(Type::S16, 40_000, minus(40_000), 9), 0x7fff_8000);
    assert_eq!(pack(Type::U16, 70_000, minus(1), 9), 0xffff_0000);
    assert_eq!(pack(Type::U8, 300, minus(5), 0x1234_5678), 0x5678_ff00);
    assert_eq!(pack(Type::S8, 300, minus(300), 0x1234_5678), 0x5678_7f80);
    assert_eq!(pack(Type::S4, 9, minus(9), 0x1234_5678), 0x3456_7878);
    assert_eq!(pack(Type::U2, 9, minus(9), 0x1234_5678), 0x2345_678c);
    assert_eq!(cvt_pack(Type::U16, Type::U32, u32::MAX, 5, 0), Some(0xffff_0005));
}
