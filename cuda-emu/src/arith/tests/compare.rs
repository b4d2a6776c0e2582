//! Comparisons of floats, `min` and `max`.

use super::random::{CASES, Random};
use crate::arith::compare::*;
use crate::arith::*;

/// Returns all comparisons of a pair, in the order of the constants.
fn all<T: Float, const FTZ: bool>(a: T::Bits, b: T::Bits) -> [bool; 14] {
    [
        float::<T, EQ, FTZ>(a, b),
        float::<T, NE, FTZ>(a, b),
        float::<T, LT, FTZ>(a, b),
        float::<T, LE, FTZ>(a, b),
        float::<T, GT, FTZ>(a, b),
        float::<T, GE, FTZ>(a, b),
        float::<T, EQU, FTZ>(a, b),
        float::<T, NEU, FTZ>(a, b),
        float::<T, LTU, FTZ>(a, b),
        float::<T, LEU, FTZ>(a, b),
        float::<T, GTU, FTZ>(a, b),
        float::<T, GEU, FTZ>(a, b),
        float::<T, NUM, FTZ>(a, b),
        float::<T, NAN, FTZ>(a, b),
    ]
}

fn pairs<T: Float>(exponent: u32) {
    let mut random = Random::new(600 + u64::from(T::WIDTH));
    for i in 0..CASES / 16 {
        let a = T::Bits::narrow(random.float(exponent, T::FRACTION));
        let other = random.float(exponent, T::FRACTION);
        // `b` is often the same number, or has the other sign.
        let b = match i % 4 {
            0 => a,
            1 => T::neg::<false>(a),
            _ => T::Bits::narrow(other),
        };
        for (ftz, got) in [(false, all::<T, false>(a, b)), (true, all::<T, true>(a, b))] {
            let source = |bits| T::to_f64(if ftz && T::WIDTH < 64 { T::flush(bits) } else { bits });
            let order = source(a).partial_cmp(&source(b));
            let (equal, less) = (order == Some(std::cmp::Ordering::Equal), source(a) < source(b));
            let (more, nan) = (source(a) > source(b), order.is_none());
            let ordered = [equal, less | more, less, less | equal, more, more | equal];
            assert_eq!(got[..6], ordered, "{a:x?} {b:x?}");
            assert_eq!(got[6..12], ordered.map(|holds| holds | nan), "{a:x?} {b:x?}");
            assert_eq!(got[12..], [!nan, nan]);
        }
        extrema::<T>(a, b);
    }
}

/// `min` and `max` of a pair.
fn extrema<T: Float>(a: T::Bits, b: T::Bits) {
    let (x, y) = (T::to_f64(a), T::to_f64(b));
    let (least, greatest) =
        (T::min::<false, false, false>(a, b), T::max::<false, false, false>(a, b));
    let nans = (T::min::<false, true, false>(a, b), T::max::<false, true, false>(a, b));
    if x.is_nan() || y.is_nan() {
        assert_eq!(nans, (T::NAN, T::NAN));
        let number = if x.is_nan() { b } else { a };
        if T::is_nan(number) {
            assert!(T::is_nan(least) && T::is_nan(greatest));
        } else {
            assert_eq!((least, greatest), (number, number));
        }
        return;
    }
    let a_first = x < y || (x == y && T::is_negative(a));
    let expected = if a_first { (a, b) } else { (b, a) };
    assert_eq!((least, greatest), expected);
    assert_eq!(nans, expected);
    // Magnitudes, with the product's sign.
    let sign = |magnitude: f64| {
        if T::is_negative(a) == T::is_negative(b) { magnitude } else { -magnitude }
    };
    let small = T::min::<false, false, true>(a, b);
    let large = T::max::<false, true, true>(a, b);
    assert_eq!(T::to_f64(small).to_bits(), sign(x.abs().min(y.abs())).to_bits());
    assert_eq!(T::to_f64(large).to_bits(), sign(x.abs().max(y.abs())).to_bits());
}

#[test]
fn comparisons_and_extrema_of_every_format() {
    pairs::<F16>(5);
    pairs::<Bf16>(8);
    pairs::<F32>(8);
    pairs::<F64>(11);
}

#[test]
fn extrema_flush_and_take_three() {
    assert_eq!(F32::min::<true, false, false>(0x8000_0001, 0), 0x8000_0000);
    assert_eq!(F32::max::<true, false, false>(0x0000_0001, 0x8000_0000), 0);
    let [one, two, three] = [1.0f32, 2.0, 3.0].map(f32::to_bits);
    assert_eq!(F32::min3::<false, false, false>(two, one, three), one);
    assert_eq!(F32::max3::<false, false, false>(two, one, three), three);
    assert_eq!(F32::max3::<false, true, false>(two, F32::NAN, three), F32::NAN);
    assert_eq!(F32::max3::<false, false, false>(two, F32::NAN, three), three);
}

#[test]
fn testp_puts_each_value_in_its_class() {
    // Bits, then: finite, infinite, number, NaN, normal, subnormal.
    for (bits, classes) in [
        (0x0000_0000, [true, false, true, false, true, false]),
        (0x8000_0000, [true, false, true, false, true, false]),
        (0x0000_0001, [true, false, true, false, false, true]),
        (0x807f_ffff, [true, false, true, false, false, true]),
        (0x0080_0000, [true, false, true, false, true, false]),
        (0x7f7f_ffff, [true, false, true, false, true, false]),
        (0xff80_0000, [false, true, true, false, false, false]),
        (0x7f80_0001, [false, false, false, true, false, false]),
        (0xffff_ffff, [false, false, false, true, false, false]),
    ] {
        let got = [
            F32::is_finite(bits),
            F32::is_infinite(bits),
            F32::is_number(bits),
            F32::is_nan(bits),
            F32::is_normal(bits),
            F32::is_subnormal(bits),
        ];
        assert_eq!(got, classes, "{bits:x}");
    }
    assert!(F64::is_subnormal(1) && F64::is_normal(0) && F64::is_nan(0xfff0_0000_0000_0001));
    assert!(F16::is_subnormal(0x83ff) && F16::is_infinite(0xfc00) && Bf16::is_nan(0x7f81));
}

#[test]
fn selections() {
    assert!(slct_s32(0) && slct_s32(5) && !slct_s32(u32::MAX));
    assert!(slct_f32::<false>(0x8000_0000) && !slct_f32::<false>(0x8000_0001));
    assert!(slct_f32::<true>(0x8000_0001) && !slct_f32::<false>(0x7fc0_0000));
    assert_eq!(F32::copysign(0x8000_0000, 0x3f80_0000), 0xbf80_0000);
    assert_eq!(F64::copysign(0, 0xfff0_0000_0000_0000), 0x7ff0_0000_0000_0000);
}
