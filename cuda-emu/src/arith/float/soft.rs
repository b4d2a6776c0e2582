//! f64 arithmetic in integers, for the directed roundings, where residuals would underflow or
//! overflow; and the rounding of integers to f64.

use crate::arith::{ODD, RM, RN, RP};

/// A finite number: `significand * 2^exponent`, with its sign.
#[derive(Debug, Clone, Copy)]
struct Parts {
    negative: bool,
    exponent: i32,
    significand: u64,
}

/// Takes a finite f64 apart.
#[inline]
fn unpack(value: f64) -> Parts {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    Parts {
        negative: bits >> 63 == 1,
        exponent: exponent.max(1) - 1075,
        significand: if exponent == 0 { fraction } else { fraction | 1 << 52 },
    }
}

/// `significand * 2^exponent` rounded to f64. The lowest bit of a significand of more than 64 bits
/// may represent all bits below it (sticky).
pub(crate) fn pack<const R: u8>(negative: bool, exponent: i32, significand: u128) -> f64 {
    let sign = if negative { -1.0 } else { 1.0 };
    if significand == 0 {
        return 0.0f64.copysign(sign);
    }
    let zeros = significand.leading_zeros();
    let top = significand << zeros;
    // `word` has the top 64 bits, the last one sticky.
    let word = u128::from((top >> 64) as u64 | u64::from(top as u64 != 0));
    // The value is in [2^power, 2^(power + 1)).
    let power = exponent - zeros.cast_signed() + 127;
    let deeper = (-1022 - power).clamp(0, 54);
    let shift = 11 + deeper.cast_unsigned();
    let kept = (word >> shift) as u64;
    let rest = word & ((1 << shift) - 1);
    let half = 1u128 << (shift - 1);
    let up = match R {
        RN => rest > half || (rest == half && kept & 1 == 1),
        RM => negative && rest != 0,
        RP => !negative && rest != 0,
        _ => false,
    };
    // The hidden bit of a normal number adds one to its exponent.
    let biased = if power < -1022 { 0 } else { (power.min(1024) + 1022).cast_unsigned() };
    let odd = R == ODD && rest != 0;
    let bits = ((u64::from(biased) << 52) + kept + u64::from(up)) | u64::from(odd);
    let infinity = f64::INFINITY.to_bits();
    let to_infinity = match R {
        RN => true,
        RM => negative,
        RP => !negative,
        _ => false,
    };
    let bits = if bits < infinity { bits } else { infinity - u64::from(!to_infinity) };
    f64::from_bits(bits).copysign(sign)
}

/// Returns the sign of a sum that is exactly zero.
#[inline(always)]
fn zero_sum<const R: u8>(a_negative: bool, b_negative: bool) -> f64 {
    let negative = if R == RM { a_negative | b_negative } else { a_negative & b_negative };
    if negative { -0.0 } else { 0.0 }
}

/// Shifts right; what falls off sets the lowest bit.
#[inline(always)]
fn shift_sticky(value: u128, by: u32) -> u128 {
    if by >= 128 {
        u128::from(value != 0)
    } else {
        value >> by | u128::from(value & ((1 << by) - 1) != 0)
    }
}

/// `significand` with its top bit at 125, and the exponent that it then has.
#[inline(always)]
fn align(significand: u128, exponent: i32) -> (u128, i32) {
    let by = significand.leading_zeros().cast_signed() - 2;
    (significand << by, exponent - by)
}

/// `a * b + c` of finite numbers.
pub(crate) fn fma<const R: u8>(a: f64, b: f64, c: f64) -> f64 {
    let (a, b, c) = (unpack(a), unpack(b), unpack(c));
    let negative = a.negative != b.negative;
    let product = u128::from(a.significand) * u128::from(b.significand);
    let exponent = a.exponent + b.exponent;
    if product == 0 && c.significand == 0 {
        return zero_sum::<R>(negative, c.negative);
    }
    if product == 0 {
        return pack::<R>(c.negative, c.exponent, c.significand.into());
    }
    if c.significand == 0 {
        return pack::<R>(negative, exponent, product);
    }
    // Both significands have zeros below: the product 20 or more, c 73. A shift by one loses nothing, and after a shift
    // by two or more at most one leading bit cancels.
    let (x, x_exponent) = align(product, exponent);
    let (y, y_exponent) = align(c.significand.into(), c.exponent);
    let common = x_exponent.max(y_exponent);
    let x = shift_sticky(x, (common - x_exponent).cast_unsigned());
    let y = shift_sticky(y, (common - y_exponent).cast_unsigned());
    if negative == c.negative {
        pack::<R>(negative, common, x + y)
    } else if x == y {
        zero_sum::<R>(negative, c.negative)
    } else if x > y {
        pack::<R>(negative, common, x - y)
    } else {
        pack::<R>(c.negative, common, y - x)
    }
}

/// `a + b` of finite numbers.
pub(crate) fn add<const R: u8>(a: f64, b: f64) -> f64 {
    fma::<R>(a, 1.0, b)
}

/// `a * b` of finite numbers.
pub(crate) fn mul<const R: u8>(a: f64, b: f64) -> f64 {
    let (a, b) = (unpack(a), unpack(b));
    let product = u128::from(a.significand) * u128::from(b.significand);
    pack::<R>(a.negative != b.negative, a.exponent + b.exponent, product)
}

/// `a / b` of finite numbers, `b` not zero.
pub(crate) fn div<const R: u8>(a: f64, b: f64) -> f64 {
    let (a, b) = (unpack(a), unpack(b));
    // The numerator has its top bit at 127, so that the quotient has at least 75 bits.
    let zeros = a.significand.leading_zeros() + 64;
    let numerator = u128::from(a.significand) << (zeros & 127);
    let divisor = u128::from(b.significand);
    let quotient = numerator / divisor;
    // Bit 0 is below all bits that rounding uses.
    let sticky = u128::from(quotient * divisor != numerator);
    let exponent = a.exponent - b.exponent - zeros.cast_signed();
    pack::<R>(a.negative != b.negative, exponent, quotient | sticky)
}

/// Returns the square root of a finite number, not negative.
pub(crate) fn sqrt<const R: u8>(a: f64) -> f64 {
    let a = unpack(a);
    // The top bit is at 126 or 127 and the exponent even: the root has 64 bits.
    let zeros = (a.significand.leading_zeros() + 64).cast_signed();
    let by = if (a.exponent - zeros) % 2 == 0 { zeros } else { zeros - 1 };
    let radicand = u128::from(a.significand) << (by & 127);
    let root = radicand.isqrt();
    let sticky = u128::from(root * root != radicand);
    // Two bits more make room for the sticky one.
    pack::<R>(false, (a.exponent - by) / 2 - 2, root << 2 | sticky)
}
