//! Square roots, by squaring them in integers.

use super::random::{CASES, Random};
use crate::arith::*;

/// `value` as a significand of exactly `bits` bits and an exponent.
fn parts(value: f64, bits: u32) -> (u128, i32) {
    let raw = value.to_bits();
    let exponent = (raw >> 52 & 0x7ff) as i32;
    let fraction = u128::from(raw & ((1 << 52) - 1));
    let (significand, exponent) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let length = 128 - significand.leading_zeros();
    if length > bits {
        // Only roots that have no more bits are tested.
        assert_eq!(significand.trailing_zeros().min(length - bits), length - bits);
        (significand >> (length - bits), exponent + (length - bits).cast_signed())
    } else {
        (significand << (bits - length), exponent - (bits - length).cast_signed())
    }
}

/// Whether `(numerator / 2 * 2^exponent)^2` is less than, equal to or more than `a`.
fn square_against(numerator: u128, exponent: i32, a: f64) -> std::cmp::Ordering {
    let (a, a_exponent) = parts(a, 53);
    let square = numerator * numerator;
    // square * 2^(2 exponent - 2) against a * 2^a_exponent
    let shift = a_exponent - (2 * exponent - 2);
    if shift >= 0 { square.cmp(&(a << shift)) } else { (square << -shift).cmp(&a) }
}

fn check<const R: u8>(a: f64, root: f64, bits: u32) {
    let (significand, exponent) = parts(root, bits);
    let square = |numerator| square_against(numerator, exponent, a);
    let (low, high) = match R {
        RN => (2 * significand - 1, 2 * significand + 1),
        RP => (2 * significand - 2, 2 * significand),
        _ => (2 * significand, 2 * significand + 2),
    };
    let right = match R {
        RN => square(low).is_lt() && square(high).is_gt(),
        RP => square(low).is_lt() && square(high).is_ge(),
        _ => square(low).is_le() && square(high).is_gt(),
    };
    assert!(right, "sqrt of {a:e} is not {root:e} in mode {R}");
}

#[test]
fn roots_are_rounded_once() {
    let mut random = Random::new(500);
    for _ in 0..CASES / 8 {
        let a = random.f32() & 0x7fff_ffff;
        if F32::is_finite(a) && a != 0 {
            let root = |bits| F32::to_f64(bits);
            let x = F32::to_f64(a);
            check::<RN>(x, root(F32::sqrt::<RN, false>(a)), 24);
            check::<RZ>(x, root(F32::sqrt::<RZ, false>(a)), 24);
            check::<RM>(x, root(F32::sqrt::<RM, false>(a)), 24);
            check::<RP>(x, root(F32::sqrt::<RP, false>(a)), 24);
        }
        let a = random.f64() & !F64::SIGN;
        if F64::is_finite(a) && a != 0 {
            let x = f64::from_bits(a);
            check::<RN>(x, f64::from_bits(F64::sqrt::<RN>(a)), 53);
            check::<RZ>(x, f64::from_bits(F64::sqrt::<RZ>(a)), 53);
            check::<RM>(x, f64::from_bits(F64::sqrt::<RM>(a)), 53);
            check::<RP>(x, f64::from_bits(F64::sqrt::<RP>(a)), 53);
        }
    }
}

#[test]
fn roots_of_special_values() {
    for (a, root) in [
        (0, 0),
        (0x8000_0000, 0x8000_0000),
        (0x7f80_0000, 0x7f80_0000),
        (0xff80_0000, 0x7fff_ffff),
        (0xbf80_0000, 0x7fff_ffff),
        (0xffc0_0001, 0x7fff_ffff),
    ] {
        assert_eq!(F32::sqrt::<RN, false>(a), root);
        assert_eq!(F32::sqrt::<RM, false>(a), root);
    }
    assert_eq!(F64::sqrt::<RM>(F64::SIGN), F64::SIGN);
    assert_eq!(F64::sqrt::<RZ>(0xbff0 << 48), F64::NAN);
    assert_eq!(F64::sqrt::<RP>(F64::INFINITY), F64::INFINITY);
}
