//! Integer instructions against 128-bit integers.

use super::random::{CASES, Random};
use crate::arith::*;

/// Returns the value of an operand.
fn value<T: Int>(a: T::Bits) -> i128 {
    if T::SIGNED { i128::from(T::extend(a).cast_signed()) } else { i128::from(T::extend(a)) }
}

/// Returns the low bits of a value.
fn wrap<T: Int>(value: i128) -> T::Bits {
    T::Bits::narrow(value as u64)
}

/// Returns a value clamped to the type.
fn clamp<T: Int>(value: i128) -> T::Bits {
    wrap::<T>(value.clamp(T::MIN.into(), T::MAX.into()))
}

fn arithmetic<T: Int>() {
    let mut random = Random::new(u64::from(T::WIDTH) * 2 + u64::from(T::SIGNED));
    for _ in 0..CASES / 16 {
        let [a, b, c] = [0; 3].map(|_: i32| T::Bits::narrow(random.int(T::WIDTH)));
        let [x, y, z] = [a, b, c].map(value::<T>);
        let part = |product: i128| product >> T::WIDTH;
        assert_eq!(T::add(a, b), wrap::<T>(x + y));
        assert_eq!(T::sub(a, b), wrap::<T>(x - y));
        assert_eq!(T::add_sat(a, b), clamp::<T>(x + y));
        assert_eq!(T::sub_sat(a, b), clamp::<T>(x - y));
        // The product of two u64 may exceed i128: its bits are right all the same.
        let product = x.wrapping_mul(y);
        assert_eq!(T::mul_lo(a, b), wrap::<T>(product));
        assert_eq!(T::mul_hi(a, b), wrap::<T>(part(product)), "{a:?} {b:?}");
        assert_eq!(T::mad_lo(a, b, c), wrap::<T>(product.wrapping_add(z)));
        assert_eq!(T::mad_hi(a, b, c), wrap::<T>(part(product) + z));
        let high = value::<T>(wrap::<T>(part(product)));
        assert_eq!(T::mad_hi_sat(a, b, c), clamp::<T>(high + z));
        assert_eq!(T::sad(a, b, c), wrap::<T>(z + (x - y).abs()));
        assert_eq!(T::abs(a), wrap::<T>(x.abs()));
        assert_eq!(T::neg(a), wrap::<T>(-x));
        assert_eq!(T::min(a, b), wrap::<T>(x.min(y)));
        assert_eq!(T::max(a, b), wrap::<T>(x.max(y)));
        assert_eq!(T::min_relu(a, b), wrap::<T>(x.min(y).max(0)));
        assert_eq!(T::max_relu(a, b), wrap::<T>(x.max(y).max(0)));
        let all_ones = wrap::<T>(-1);
        assert_eq!(T::div(a, b), if y == 0 { all_ones } else { wrap::<T>(x / y) });
        assert_eq!(T::rem(a, b), if y == 0 { all_ones } else { wrap::<T>(x % y) });
        for (cmp, expected) in [x == y, x != y, x < y, x <= y, x > y, x >= y].iter().enumerate() {
            let got = match cmp {
                0 => compare::int::<T, { compare::EQ }>(a, b),
                1 => compare::int::<T, { compare::NE }>(a, b),
                2 => compare::int::<T, { compare::LT }>(a, b),
                3 => compare::int::<T, { compare::LE }>(a, b),
                4 => compare::int::<T, { compare::GT }>(a, b),
                _ => compare::int::<T, { compare::GE }>(a, b),
            };
            assert_eq!(got, *expected);
        }
    }
}

#[test]
fn arithmetic_of_every_type_is_that_of_integers() {
    arithmetic::<U8>();
    arithmetic::<S8>();
    arithmetic::<U16>();
    arithmetic::<S16>();
    arithmetic::<U32>();
    arithmetic::<S32>();
    arithmetic::<U64>();
    arithmetic::<S64>();
}

fn wide<T: Wide>() {
    let mut random = Random::new(7);
    for _ in 0..CASES / 16 {
        let [a, b] = [0; 2].map(|_: i32| T::Bits::narrow(random.int(T::WIDTH)));
        let c = <T::Product as Int>::Bits::narrow(random.int(2 * T::WIDTH));
        let product = value::<T>(a) * value::<T>(b);
        assert_eq!(T::mul_wide(a, b), wrap::<T::Product>(product));
        assert_eq!(T::mad_wide(a, b, c), wrap::<T::Product>(product + value::<T::Product>(c)));
    }
}

#[test]
fn wide_products_are_whole() {
    wide::<U16>();
    wide::<S16>();
    wide::<U32>();
    wide::<S32>();
}

/// Sums of three and four words through the flag, against sums of the whole.
fn chains<T: Int>() {
    let mut random = Random::new(9);
    let join = |low: T::Bits, high: T::Bits| {
        u128::from(low.widen()) | u128::from(high.widen()) << T::WIDTH
    };
    let mask = u128::MAX >> (128 - 2 * T::WIDTH);
    for _ in 0..CASES / 16 {
        let [a, b, c, d] = [0; 4].map(|_: i32| T::Bits::narrow(random.int(T::WIDTH)));
        let (low, flag) = T::add_carry(a, c, false);
        let (high, out) = T::add_carry(b, d, flag);
        let (sum, over) = join(a, b).overflowing_add(join(c, d));
        assert_eq!(join(low, high), sum & mask);
        assert_eq!(out, over || sum > mask);
        let (low, flag) = T::add_carry(a, T::not(c), true);
        let (high, out) = T::add_carry(b, T::not(d), flag);
        assert_eq!(join(low, high), join(a, b).wrapping_sub(join(c, d)) & mask);
        assert_eq!(out, join(a, b) >= join(c, d));
        // a * b + d:c, as a 64-bit multiplication is done in words.
        let (low, flag) = T::mad_lo_carry(a, b, c, false);
        let (high, _) = T::mad_hi_carry(a, b, d, flag);
        let product = u128::from(a.widen()) * u128::from(b.widen());
        assert_eq!(join(low, high), product.wrapping_add(join(c, d)) & mask);
    }
}

#[test]
fn carry_chains_are_sums_of_twice_the_width() {
    chains::<U32>();
    chains::<U64>();
}

#[test]
fn mul24_takes_24_bits_of_each_source() {
    let mut random = Random::new(11);
    let signed = |a: u32| i64::from((a << 8).cast_signed() >> 8);
    for _ in 0..CASES / 16 {
        let [a, b, c] = [0; 3].map(|_: i32| random.int(32) as u32);
        let unsigned = u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff);
        let product = signed(a) * signed(b);
        assert_eq!(int::mul24_lo::<false>(a, b), unsigned as u32);
        assert_eq!(int::mul24_hi::<false>(a, b), (unsigned >> 16) as u32);
        assert_eq!(int::mul24_lo::<true>(a, b), product as u32);
        assert_eq!(int::mul24_hi::<true>(a, b), (product >> 16) as u32);
        assert_eq!(int::mad24_lo::<false>(a, b, c), (unsigned as u32).wrapping_add(c));
        assert_eq!(int::mad24_hi::<true>(a, b, c), ((product >> 16) as u32).wrapping_add(c));
        let sum = i64::from((product >> 16) as i32) + i64::from(c.cast_signed());
        let clamped = sum.clamp(i32::MIN.into(), i32::MAX.into());
        assert_eq!(int::mad24_hi_sat(a, b, c), clamped as u32);
    }
}

#[test]
fn edge_cases() {
    assert_eq!(S32::div(0x8000_0000, u32::MAX), 0x8000_0000);
    assert_eq!(S32::rem(0x8000_0000, u32::MAX), 0);
    assert_eq!(S64::div(1 << 63, u64::MAX), 1 << 63);
    assert_eq!(S16::div(0x8000, 0xffff), 0x8000);
    assert_eq!(S32::rem((-7i32).cast_unsigned(), 3), (-1i32).cast_unsigned());
    assert_eq!(S32::abs(0x8000_0000), 0x8000_0000);
    assert_eq!(S32::mad_hi_sat(0x8000_0000, 0x8000_0000, 0x7fff_ffff), 0x7fff_ffff);
    assert_eq!(x2_2(S16::min_relu, 0x8000_0005, 0x0001_0003), 0x0000_0003);
    assert_eq!(x2_3(U16::mad_lo, 0x0002_0003, 0x0004_0005, 0x0001_0001), 0x0009_0010);
    assert_eq!(x2(U16::not, 0x0000_ffff), 0xffff_0000);
    assert_eq!(pair!(U16::not, 0x0000_ffff), 0xffff_0000);
    assert_eq!(pair!(S16::min_relu, 0x8000_0005, 0x0001_0003), 0x0000_0003);
    assert_eq!(pair!(U16::mad_lo, 0x0002_0003, 0x0004_0005, 0x0001_0001), 0x0009_0010);
}
