//! Bit instructions against loops over single bits.

use super::random::{CASES, Random};
use crate::arith::bits::*;
use crate::arith::*;

/// Returns a shift or a position: often near the width, sometimes far past it.
fn position(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => random.below(8) as u32 * 32 + random.below(3) as u32,
        1 => random.bits() as u32,
        _ => random.below(70) as u32,
    }
}

fn fields<T: Int>() {
    let mut random = Random::new(21 + u64::from(T::WIDTH));
    for _ in 0..CASES / 32 {
        let [a, b] = [0; 2].map(|_: i32| T::Bits::narrow(random.int(T::WIDTH)));
        let (at, length) = (position(&mut random), position(&mut random));
        let (wide_a, wide_b) = (a.widen(), b.widen());
        let bit = |word: u64, i: u32| word >> i & 1;
        let (from, count) = if T::WIDTH == 64 { (at, length) } else { (at & 255, length & 255) };
        let (from, count, top) = (u64::from(from), u64::from(count), u64::from(T::WIDTH) - 1);
        // The manual's definition, bit by bit.
        let sign = if !T::SIGNED || count == 0 {
            0
        } else {
            bit(wide_a, (from + count - 1).min(top) as u32)
        };
        let (mut extracted, mut inserted) = (0, wide_b);
        for i in 0..u64::from(T::WIDTH) {
            let inside = i < count && from + i <= top;
            let source = if inside { bit(wide_a, (from + i) as u32) } else { sign };
            extracted |= source << i;
            if inside {
                let to = from + i;
                inserted = inserted & !(1 << to) | bit(wide_a, i as u32) << to;
            }
        }
        assert_eq!(T::bfe(a, at, length).widen(), extracted, "bfe {a:?} {at} {length}");
        assert_eq!(T::bfi(a, b, at, length).widen(), inserted, "bfi {a:?} {b:?} {at} {length}");

        let negative = T::SIGNED && bit(wide_a, T::WIDTH - 1) == 1;
        let found = (0..T::WIDTH).rev().find(|&i| (bit(wide_a, i) == 1) != negative);
        assert_eq!(T::bfind(a), found.unwrap_or(u32::MAX));
        assert_eq!(T::bfind_shift(a), found.map_or(u32::MAX, |i| T::WIDTH - 1 - i));
        assert_eq!(T::popc(a), (0..T::WIDTH).map(|i| bit(wide_a, i) as u32).sum());
        let highest = (0..T::WIDTH).rev().find(|&i| bit(wide_a, i) == 1);
        assert_eq!(T::clz(a), highest.map_or(T::WIDTH, |i| T::WIDTH - 1 - i));
        let reversed = (0..T::WIDTH).fold(0, |w, i| w | bit(wide_a, i) << (T::WIDTH - 1 - i));
        assert_eq!(T::brev(a).widen(), reversed);
        assert_eq!(T::cnot(a).widen(), u64::from(wide_a == 0));
        assert_eq!(T::and(a, b).widen(), wide_a & wide_b);
        assert_eq!(T::or(a, b).widen(), wide_a | wide_b);
        assert_eq!(T::xor(a, b).widen(), wide_a ^ wide_b);

        let value =
            if T::SIGNED { i128::from(T::extend(a).cast_signed()) } else { i128::from(wide_a) };
        let shift = at.min(64);
        assert_eq!(T::shl(a, at), T::Bits::narrow((value << shift) as u64), "shl {a:?} {at}");
        assert_eq!(T::shr(a, at), T::Bits::narrow((value >> shift) as u64), "shr {a:?} {at}");
    }
}

#[test]
fn fields_and_counts_of_every_type() {
    fields::<U16>();
    fields::<S16>();
    fields::<U32>();
    fields::<S32>();
    fields::<U64>();
    fields::<S64>();
}

#[test]
fn lop3_looks_each_bit_up() {
    let mut random = Random::new(31);
    for lut in 0..=255u8 {
        let [a, b, c] = [0; 3].map(|_: i32| random.bits() as u32);
        let expected = (0..32).fold(0, |d, i| {
            let index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
            d | (u32::from(lut) >> index & 1) << i
        });
        assert_eq!(lop3(a, b, c, lut), expected);
    }
    assert_eq!(lop3(0xf0, 0xcc, 0xaa, 0x96), 0xf0 ^ 0xcc ^ 0xaa);
}

#[test]
fn funnel_shifts_move_64_bits() {
    let mut random = Random::new(32);
    for _ in 0..CASES / 32 {
        let [a, b] = [0; 2].map(|_: i32| random.bits() as u32);
        let n = position(&mut random);
        let both = u128::from(b) << 32 | u128::from(a);
        let left = |n: u32| (both << n >> 32) as u32;
        let right = |n: u32| (both >> n) as u32;
        assert_eq!(shf_l::<true>(a, b, n), left(n.min(32)));
        assert_eq!(shf_l::<false>(a, b, n), left(n % 32));
        assert_eq!(shf_r::<true>(a, b, n), right(n.min(32)));
        assert_eq!(shf_r::<false>(a, b, n), right(n % 32));
    }
}

#[test]
fn prmt_picks_bytes_and_signs() {
    let mut random = Random::new(33);
    for _ in 0..CASES / 32 {
        let [a, b, c] = [0; 3].map(|_: i32| random.bits() as u32);
        let bytes: Vec<u8> = a.to_le_bytes().into_iter().chain(b.to_le_bytes()).collect();
        let expected = [0, 4, 8, 12].map(|shift| {
            let byte = bytes[(c >> shift & 7) as usize];
            let sign = if byte & 0x80 == 0 { 0 } else { 0xff };
            if c >> shift & 8 == 0 { byte } else { sign }
        });
        assert_eq!(prmt(a, b, c), u32::from_le_bytes(expected));
    }
}

#[test]
fn prmt_modes_are_the_manuals_tables() {
    // Byte i of b:a has the value i; the tables list the result's bytes from the top.
    let (a, b) = (0x0302_0100, 0x0706_0504);
    let table = |f: fn(u32, u32, u32) -> u32| [0, 1, 2, 3].map(|c| f(a, b, c | 0xfff0));
    assert_eq!(table(prmt_f4e), [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]);
    assert_eq!(table(prmt_b4e), [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]);
    assert_eq!(table(prmt_rc8), [0, 0x0101_0101, 0x0202_0202, 0x0303_0303]);
    assert_eq!(table(prmt_ecl), [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]);
    assert_eq!(table(prmt_ecr), [0, 0x0101_0100, 0x0202_0100, 0x0302_0100]);
    assert_eq!(table(prmt_rc16), [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]);
}

#[test]
fn bmsk_and_szext_clamp_or_wrap() {
    let mut random = Random::new(34);
    for _ in 0..CASES / 32 {
        let (at, length, a) = (position(&mut random), position(&mut random), random.bits() as u32);
        let ones = |at: u32, length: u32| {
            (0..32).fold(0u32, |m, i| m | u32::from(i >= at && i - at < length) << i)
        };
        assert_eq!(bmsk::<true>(at, length), ones(at, length), "{at} {length}");
        assert_eq!(bmsk::<false>(at, length), ones(at % 32, length % 32), "{at} {length}");
        let extended = |n: u32, signed: bool| match n {
            0 => 0,
            32.. => a,
            _ => {
                let low = a & ones(0, n);
                if signed && a >> (n - 1) & 1 == 1 { low | !ones(0, n) } else { low }
            }
        };
        assert_eq!(szext::<false, true>(a, length), extended(length, false));
        assert_eq!(szext::<true, true>(a, length), extended(length, true));
        assert_eq!(szext::<false, false>(a, length), extended(length % 32, false));
        assert_eq!(szext::<true, false>(a, length), extended(length % 32, true));
    }
}

#[test]
fn fns_counts_set_bits_from_the_base() {
    let mut random = Random::new(35);
    for _ in 0..CASES / 32 {
        let (mask, base) = (random.bits() as u32 & random.bits() as u32, random.below(32) as u32);
        let offset = random.below(41) as i32 - 20;
        let is_set = |i: &u32| mask >> i & 1 == 1;
        let expected = match offset {
            0 => Some(base).filter(is_set),
            1.. => (base..32).filter(is_set).nth(offset as usize - 1),
            _ => (0..=base).rev().filter(is_set).nth(offset.unsigned_abs() as usize - 1),
        };
        let found = fns(mask, base, offset.cast_unsigned());
        assert_eq!(found, expected.unwrap_or(u32::MAX), "{mask:x} {base} {offset}");
    }
    assert_eq!(fns(u32::MAX, 31, i32::MIN.cast_unsigned()), u32::MAX);
}

#[test]
fn dot_products_of_bytes_and_halves() {
    let mut random = Random::new(36);
    let byte = |a: u32, i: u32, signed: bool| {
        let byte = (a >> (8 * i)) as u8;
        if signed { i64::from(byte.cast_signed()) } else { i64::from(byte) }
    };
    let half = |a: u32, i: u32, signed: bool| {
        let half = (a >> (16 * i)) as u16;
        if signed { i64::from(half.cast_signed()) } else { i64::from(half) }
    };
    for _ in 0..CASES / 32 {
        let [a, b, c] = [0; 3].map(|_: i32| random.int(32) as u32);
        for (x, y) in [(false, false), (false, true), (true, false), (true, true)] {
            let bytes: i64 = (0..4).map(|i| byte(a, i, x) * byte(b, i, y)).sum();
            let halves =
                |at: u32| -> i64 { (0..2).map(|i| half(a, i, x) * byte(b, at + i, y)).sum() };
            let sum = |dot: i64| (dot + i64::from(c)) as u32;
            let (four, low, high) = match (x, y) {
                (false, false) => (
                    dp4a::<false, false>(a, b, c),
                    dp2a::<false, false, false>(a, b, c),
                    dp2a::<false, false, true>(a, b, c),
                ),
                (false, true) => (
                    dp4a::<false, true>(a, b, c),
                    dp2a::<false, true, false>(a, b, c),
                    dp2a::<false, true, true>(a, b, c),
                ),
                (true, false) => (
                    dp4a::<true, false>(a, b, c),
                    dp2a::<true, false, false>(a, b, c),
                    dp2a::<true, false, true>(a, b, c),
                ),
                (true, true) => (
                    dp4a::<true, true>(a, b, c),
                    dp2a::<true, true, false>(a, b, c),
                    dp2a::<true, true, true>(a, b, c),
                ),
            };
            assert_eq!((four, low, high), (sum(bytes), sum(halves(0)), sum(halves(2))));
        }
    }
}
