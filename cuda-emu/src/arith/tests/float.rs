//! Float arithmetic in every rounding against `rustc_apfloat`.

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float as Oracle, Round};

use super::random::{CASES, Random};
use crate::arith::*;

pub(super) const ROUNDS: [(u8, Round); 4] = [
    (RN, Round::NearestTiesToEven),
    (RZ, Round::TowardZero),
    (RM, Round::TowardNegative),
    (RP, Round::TowardPositive),
];

/// Checks a result: the oracle's bits, or NaN as the format has it (f64: any).
fn check<T: Float>(got: T::Bits, expected: u128, nan: bool, sources: &[T::Bits], what: &str) {
    if nan {
        let right = if T::WIDTH == 64 { T::is_nan(got) } else { got == T::NAN };
        assert!(right, "{what} of {sources:x?}: {got:x?} instead of NaN");
    } else {
        assert_eq!(u128::from(got.widen()), expected, "{what} of {sources:x?}");
    }
}

fn arithmetic<T: Float, O: Oracle, const R: u8>(round: Round, exponent: u32) {
    let mut random = Random::new(u64::from(T::WIDTH) + u64::from(R) * 100);
    for _ in 0..CASES / 8 {
        let sources = [0; 3].map(|_: i32| T::Bits::narrow(random.float(exponent, T::FRACTION)));
        let [a, b, c] = sources;
        let [x, y, z] = sources.map(|bits| O::from_bits(bits.widen().into()));
        let check = |got, expected: O, what| {
            check::<T>(got, expected.to_bits(), expected.is_nan(), &sources, what);
        };
        check(T::add::<R, false, false>(a, b), x.add_r(y, round).value, "add");
        check(T::sub::<R, false, false>(a, b), x.sub_r(y, round).value, "sub");
        check(T::mul::<R, false, false>(a, b), x.mul_r(y, round).value, "mul");
        check(T::fma::<R, false, false>(a, b, c), x.mul_add_r(y, z, round).value, "fma");
        // A third source that all but cancels the product.
        let product = x.mul_r(y, Round::TowardZero).value;
        let near = -product;
        let bits = T::Bits::narrow(near.to_bits() as u64);
        check(T::fma::<R, false, false>(a, b, bits), x.mul_add_r(y, near, round).value, "fma");

        let sat = |got, exact: T::Bits| {
            let value = T::to_f64(exact);
            // f64 has no `.sat`.
            if T::WIDTH == 64 {
                return;
            }
            let clamped = if value > 0.0 { value.min(1.0) } else { 0.0 };
            assert_eq!(got, T::from_f64::<RN>(clamped), "sat of {sources:x?}");
        };
        sat(T::add::<R, false, true>(a, b), T::add::<R, false, false>(a, b));
        sat(T::sub::<R, false, true>(a, b), T::sub::<R, false, false>(a, b));
        sat(T::mul::<R, false, true>(a, b), T::mul::<R, false, false>(a, b));
        sat(T::fma::<R, false, true>(a, b, c), T::fma::<R, false, false>(a, b, c));
    }
}

#[test]
fn sums_and_products_are_rounded_once() {
    let [rn, rz, rm, rp] = ROUNDS.map(|(_, round)| round);
    arithmetic::<F32, Single, RN>(rn, 8);
    arithmetic::<F32, Single, RZ>(rz, 8);
    arithmetic::<F32, Single, RM>(rm, 8);
    arithmetic::<F32, Single, RP>(rp, 8);
    arithmetic::<F64, Double, RN>(rn, 11);
    arithmetic::<F64, Double, RZ>(rz, 11);
    arithmetic::<F64, Double, RM>(rm, 11);
    arithmetic::<F64, Double, RP>(rp, 11);
    arithmetic::<F16, Half, RN>(rn, 5);
    arithmetic::<F16, Half, RZ>(rz, 5);
    arithmetic::<F16, Half, RM>(rm, 5);
    arithmetic::<F16, Half, RP>(rp, 5);
    arithmetic::<Bf16, BFloat, RN>(rn, 8);
    arithmetic::<Bf16, BFloat, RZ>(rz, 8);
    arithmetic::<Bf16, BFloat, RM>(rm, 8);
    arithmetic::<Bf16, BFloat, RP>(rp, 8);
}

fn quotients<const R: u8>(round: Round) {
    let mut random = Random::new(300 + u64::from(R));
    for _ in 0..CASES / 8 {
        let (a, b) = (random.f32(), random.f32());
        let (x, y) = (Single::from_bits(a.into()), Single::from_bits(b.into()));
        let expected = x.div_r(y, round).value;
        let nan = expected.is_nan();
        check::<F32>(F32::div::<R, false>(a, b), expected.to_bits(), nan, &[a, b], "div");
        let expected = Single::from_bits(0x3f80_0000).div_r(y, round).value;
        let nan = expected.is_nan();
        check::<F32>(F32::rcp::<R, false>(b), expected.to_bits(), nan, &[b], "rcp");

        let (a, b) = (random.f64(), random.f64());
        let (x, y) = (Double::from_bits(a.into()), Double::from_bits(b.into()));
        let expected = x.div_r(y, round).value;
        let nan = expected.is_nan();
        check::<F64>(F64::div::<R>(a, b), expected.to_bits(), nan, &[a, b], "div");
        let expected = Double::from_bits(0x3ff << 52).div_r(y, round).value;
        let nan = expected.is_nan();
        check::<F64>(F64::rcp::<R>(b), expected.to_bits(), nan, &[b], "rcp");
    }
}

#[test]
fn quotients_are_rounded_once() {
    let [rn, rz, rm, rp] = ROUNDS.map(|(_, round)| round);
    quotients::<RN>(rn);
    quotients::<RZ>(rz);
    quotients::<RM>(rm);
    quotients::<RP>(rp);
}

/// Returns the expected result with `.ftz`: flushed if it would be subnormal with an exponent without a lower end, as
/// the same operation on scaled sources shows.
fn flushed<O: Oracle>(result: O, scaled: O, shift: i32) -> O {
    let least = O::SMALLEST.scalbn(0).max(O::smallest_normalized()).scalbn(shift);
    let tiny = scaled.abs() < least;
    if tiny { O::ZERO.copy_sign(result) } else { result }
}

fn flushing<T: Float, O: Oracle, const R: u8>(round: Round, exponent: u32, shift: i32) {
    let mut random = Random::new(400 + u64::from(R));
    let bias = (1u64 << (exponent - 1)) - 1;
    for _ in 0..CASES / 8 {
        // Products near the least normal number: the exponents add up to it.
        let part = random.below(bias - 1);
        let mut source = |power: u64| {
            let sign = random.below(2) << (T::WIDTH - 1);
            let fraction = match random.below(3) {
                0 => random.below(16),
                1 => (1 << T::FRACTION) - 1 - random.below(16),
                _ => random.bits() & ((1 << T::FRACTION) - 1),
            };
            T::Bits::narrow(sign | power << T::FRACTION | fraction)
        };
        let a = source(bias - part);
        let b = source(part + 1);
        let c = source(part % 3);
        let [x, y, z] = [a, b, c].map(|bits| O::from_bits(T::flush(bits).widen().into()));
        let check = |got: T::Bits, expected: O, what| {
            check::<T>(got, expected.to_bits(), expected.is_nan(), &[a, b, c], what);
        };
        let (up, up_z) = (x.scalbn(shift), z.scalbn(shift));
        let product = flushed(x.mul_r(y, round).value, up.mul_r(y, round).value, shift);
        check(T::mul::<R, true, false>(a, b), product, "mul.ftz");
        let sum =
            flushed(x.mul_add_r(y, z, round).value, up.mul_add_r(y, up_z, round).value, shift);
        check(T::fma::<R, true, false>(a, b, c), sum, "fma.ftz");
        let plain = flushed(z.add_r(x, round).value, up_z.add_r(up, round).value, shift);
        check(T::add::<R, true, false>(c, a), plain, "add.ftz");
    }
}

#[test]
fn ftz_looks_at_the_result_as_rounded_without_a_least_exponent() {
    let [rn, rz, rm, rp] = ROUNDS.map(|(_, round)| round);
    flushing::<F32, Single, RN>(rn, 8, 64);
    flushing::<F32, Single, RZ>(rz, 8, 64);
    flushing::<F32, Single, RM>(rm, 8, 64);
    flushing::<F32, Single, RP>(rp, 8, 64);
    flushing::<F16, Half, RN>(rn, 5, 10);
}

#[test]
fn ftz_flushes_sources_and_keeps_signs() {
    assert_eq!(F32::add::<RN, true, false>(0x8000_0001, 0x8000_0001), 0x8000_0000);
    assert_eq!(F32::mul::<RN, true, false>(0x007f_ffff, 0x7f00_0000), 0);
    assert_eq!(F32::div::<RN, true>(0x3f80_0000, 0x8000_0001), 0xff80_0000);
    assert_eq!(F32::sqrt::<RN, true>(0x8000_0001), 0x8000_0000);
    assert_eq!(F32::abs::<true>(0x8000_0001), 0);
    assert_eq!(F32::neg::<true>(0x0000_0001), 0x8000_0000);
    assert_eq!(F16::add::<RN, true, false>(0x8001, 0x8001), 0x8000);
    assert_eq!(F16::fma_relu::<false>(0xbc00, 0x3c00, 0x0000), 0);
    assert_eq!(F16::fma_relu::<false>(0x7c00, 0x0000, 0x0000), 0x7fff);
    assert_eq!(Bf16::fma_relu::<false>(0x3f80, 0x3f80, 0x3f80), 0x4000);
}
