//! Bit instructions of 32 bits: `lop3`, `shf`, `prmt`, `bmsk`, `szext`, `fns`, `dp4a`, `dp2a`
//! ("Logic and Shift Instructions", "Integer Arithmetic Instructions").

/// `lop3`: bit by bit, the bit of `lut` at `4a + 2b + c`.
#[inline(always)]
pub(crate) fn lop3(a: u32, b: u32, c: u32, lut: u8) -> u32 {
    // `lut` is the same for every lane: the eight masks are made once outside the caller's loop.
    let term = |index: u32| 0u32.wrapping_sub(u32::from(lut) >> index & 1);
    let select = |bit: u32, one: u32, zero: u32| zero ^ (bit & (zero ^ one));
    let c00 = select(c, term(1), term(0));
    let c01 = select(c, term(3), term(2));
    let c10 = select(c, term(5), term(4));
    let c11 = select(c, term(7), term(6));
    select(a, select(b, c11, c10), select(b, c01, c00))
}

/// `shf.l`: the upper half of `b:a` shifted left; by at most 32 with `CLAMP`, else modulo 32.
#[inline(always)]
pub(crate) fn shf_l<const CLAMP: bool>(a: u32, b: u32, n: u32) -> u32 {
    let n = if CLAMP { n.min(32) } else { n & 31 };
    ((u64::from(b) << 32 | u64::from(a)) << n >> 32) as u32
}

/// `shf.r`: the lower half of `b:a` shifted right; by at most 32 with `CLAMP`, else modulo 32.
#[inline(always)]
pub(crate) fn shf_r<const CLAMP: bool>(a: u32, b: u32, n: u32) -> u32 {
    let n = if CLAMP { n.min(32) } else { n & 31 };
    ((u64::from(b) << 32 | u64::from(a)) >> n) as u32
}

/// Byte `index` of the eight of `b:a`.
#[inline(always)]
fn byte(a: u32, b: u32, index: u32) -> u32 {
    ((u64::from(b) << 32 | u64::from(a)) >> ((index & 7) * 8)) as u32 & 0xff
}

/// Four bytes of `b:a`, chosen by a function of the result's byte.
#[inline(always)]
fn permute(a: u32, b: u32, index: impl Fn(u32) -> u32) -> u32 {
    (0..4).fold(0, |d, i| d | byte(a, b, index(i)) << (8 * i))
}

/// `prmt`: each nibble of `c` names a byte of `b:a`; with bit 3 set, its sign is repeated instead.
#[inline(always)]
pub(crate) fn prmt(a: u32, b: u32, c: u32) -> u32 {
    let bytes = permute(a, b, |i| c >> (4 * i));
    // Bit 3 of each selector moves to the bottom of a byte.
    let signed = c >> 3 & 1 | c << 1 & 0x100 | c << 5 & 0x1_0000 | c << 9 & 0x100_0000;
    let signs = bytes >> 7 & 0x0101_0101;
    let (from_sign, ones) = (signed * 0xff, signs * 0xff);
    (bytes & !from_sign) | (ones & from_sign)
}

/// `prmt.f4e`: four bytes upwards from byte `c`.
#[inline(always)]
pub(crate) fn prmt_f4e(a: u32, b: u32, c: u32) -> u32 {
    permute(a, b, |i| (c & 3) + i)
}

/// `prmt.b4e`: four bytes downwards from byte `c`, around the eight.
#[inline(always)]
pub(crate) fn prmt_b4e(a: u32, b: u32, c: u32) -> u32 {
    permute(a, b, |i| (c & 3).wrapping_sub(i))
}

/// `prmt.rc8`: byte `c` four times.
#[inline(always)]
pub(crate) fn prmt_rc8(a: u32, b: u32, c: u32) -> u32 {
    permute(a, b, |_| c & 3)
}

/// `prmt.ecl`: the bytes below `c` replaced by byte `c`.
#[inline(always)]
pub(crate) fn prmt_ecl(a: u32, b: u32, c: u32) -> u32 {
    permute(a, b, |i| i.max(c & 3))
}

/// `prmt.ecr`: the bytes above `c` replaced by byte `c`.
#[inline(always)]
pub(crate) fn prmt_ecr(a: u32, b: u32, c: u32) -> u32 {
    permute(a, b, |i| i.min(c & 3))
}

/// `prmt.rc16`: half `c` twice.
#[inline(always)]
pub(crate) fn prmt_rc16(a: u32, b: u32, c: u32) -> u32 {
    permute(a, b, |i| (c & 1) * 2 + (i & 1))
}

/// `bmsk`: `length` ones from `position`; past 31 cut off with `CLAMP`, else both modulo 32.
#[inline(always)]
pub(crate) fn bmsk<const CLAMP: bool>(position: u32, length: u32) -> u32 {
    let start = position & 31;
    let end = start + (length & 31);
    let past = CLAMP && length >= 32;
    let below_end = if end >= 32 || past { u32::MAX } else { (1u32 << (end & 31)).wrapping_sub(1) };
    let ones = u32::MAX << start & below_end;
    if CLAMP && position >= 32 { 0 } else { ones }
}

/// `szext`: the low `n` bits sign- or zero-extended; `n` modulo 32, or everything from 32 on with
/// `CLAMP`.
#[inline(always)]
pub(crate) fn szext<const SIGNED: bool, const CLAMP: bool>(a: u32, n: u32) -> u32 {
    let bits = n & 31;
    let spare = (32 - bits) & 31;
    let extended = if SIGNED {
        ((a << spare).cast_signed() >> spare).cast_unsigned()
    } else {
        a << spare >> spare
    };
    if CLAMP && n >= 32 {
        a
    } else if bits == 0 {
        0
    } else {
        extended
    }
}

/// `fns`: the position of the `offset`-th set bit of `mask` from `base` upwards, downwards for a
/// negative offset; with 0, `base` itself if its bit is set. `u32::MAX` if there is none.
#[inline(always)]
pub(crate) fn fns(mask: u32, base: u32, offset: u32) -> u32 {
    // The manual leaves a base past 31 open.
    let base = base & 31;
    let offset = offset.cast_signed();
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let up = offset > 0;
    // A search downwards is one upwards in the reversed word.
    let (word, start) = if up { (mask, base) } else { (mask.reverse_bits(), 31 - base) };
    let mut left = word & u32::MAX << start;
    let skip = offset.unsigned_abs() - 1;
    if skip >= left.count_ones() {
        return u32::MAX;
    }
    for _ in 0..skip {
        left &= left.wrapping_sub(1);
    }
    let found = left.trailing_zeros();
    if up { found } else { 31 - found }
}

/// Returns a field of `a`, of `BITS` bits from `shift`, sign- or zero-extended.
#[inline(always)]
fn field<const SIGNED: bool, const BITS: u32>(a: u32, shift: u32) -> i32 {
    let top = a << (32 - BITS - shift);
    if SIGNED { top.cast_signed() >> (32 - BITS) } else { (top >> (32 - BITS)).cast_signed() }
}

/// `dp4a`: the four products of the bytes of `a` and `b`, added to `c`.
#[inline(always)]
pub(crate) fn dp4a<const A_SIGNED: bool, const B_SIGNED: bool>(a: u32, b: u32, c: u32) -> u32 {
    (0..4).fold(c, |sum, i| {
        let product = field::<A_SIGNED, 8>(a, 8 * i) * field::<B_SIGNED, 8>(b, 8 * i);
        sum.wrapping_add(product.cast_unsigned())
    })
}

/// `dp2a.lo`, `dp2a.hi` (`HIGH`): the halves of `a` times two bytes of `b`, added to `c`.
#[inline(always)]
pub(crate) fn dp2a<const A_SIGNED: bool, const B_SIGNED: bool, const HIGH: bool>(
    a: u32,
    b: u32,
    c: u32,
) -> u32 {
    let base = if HIGH { 16 } else { 0 };
    (0..2).fold(c, |sum, i| {
        let product = field::<A_SIGNED, 16>(a, 16 * i) * field::<B_SIGNED, 8>(b, base + 8 * i);
        sum.wrapping_add(product.cast_unsigned())
    })
}
