//! Angles reduced to a quadrant.

use crate::device;

/// Returns the upper 64 bits of a product.
#[device]
pub(super) fn mul_hi(a: u64, b: u64) -> u64 {
    let (a1, a0, b1, b0) = (a >> 32, a & 0xffff_ffff, b >> 32, b & 0xffff_ffff);
    let (low, one, two) = (a0 * b0, a1 * b0, a0 * b1);
    let middle = (low >> 32) + (one & 0xffff_ffff) + (two & 0xffff_ffff);
    a1 * b1 + (one >> 32) + (two >> 32) + (middle >> 32)
}

/// 64 bits of 2 / π from bit 64 i behind the point on. A compiler repeats the whole list for each call.
#[device]
pub(super) fn word_of_2_over_pi(i: u32) -> u64 {
    match i {
        0 => 0xa2f9_836e_4e44_1529,
        1 => 0xfc27_57d1_f534_ddc0,
        2 => 0xdb62_9599_3c43_9041,
        3 => 0xfe51_63ab_debb_c561,
        4 => 0xb724_6e3a_424d_d2e0,
        5 => 0x0649_2eea_09d1_921c,
        6 => 0xfe1d_eb1c_b129_a73e,
        7 => 0xe882_35f5_2ebb_4484,
        8 => 0xe99c_7026_b45f_7e41,
        9 => 0x3991_d639_8353_39f4,
        10 => 0x9c84_5f8b_bdf9_283b,
        11 => 0x1ff8_97ff_de05_980f,
        12 => 0xef2f_118b_5a0a_6d1f,
        13 => 0x6d36_7ecf_27cb_09b7,
        14 => 0x4f46_3f66_9e5f_ea2d,
        15 => 0x7527_bac7_ebe5_f17b,
        16 => 0x3d07_39f7_8a52_92ea,
        17 => 0x6bfb_5fb1_1f8d_5d08,
        _ => 0x5603_3046_fc7b_6bab,
    }
}

/// Returns 64 bits from bit `shift` of two words on. It is below 64.
#[device]
pub(super) fn bits_from(first: u64, second: u64, shift: u32) -> u64 {
    if shift == 0 { first } else { (first << shift) | (second >> (64 - shift)) }
}

/// Returns the quadrant of m · 2ᵉ, modulo 4, and the angle from its middle in units of π / 2 · 2⁻¹²⁸: the upper half as
/// a signed number, and the lower one. m has at most 53 bits, e is above -60.
#[device]
pub(super) fn quadrant(m: u64, e: i32) -> (i64, u64, i32) {
    // The bits of 2 / π before these contribute multiples of 4.
    let skipped = if e > 2 { (e - 2) as u32 } else { 0 };
    let (i, shift) = (skipped >> 6, skipped & 63);
    let (a, b) = (word_of_2_over_pi(i), word_of_2_over_pi(i + 1));
    let (c, d) = (word_of_2_over_pi(i + 2), word_of_2_over_pi(i + 3));
    let (w0, w1, w2) = (bits_from(a, b, shift), bits_from(b, c, shift), bits_from(c, d, shift));
    let low = m.wrapping_mul(w1).wrapping_add(mul_hi(m, w2));
    let carry = if low < mul_hi(m, w2) { 1u64 } else { 0u64 };
    let next = mul_hi(m, w1) + carry;
    let high = m.wrapping_mul(w0).wrapping_add(next);
    let over = mul_hi(m, w0) + if high < next { 1u64 } else { 0u64 };
    // The point is 2 bits into the upper word if e >= 2.
    let right = if e < 2 { (2 - e) as u32 } else { 0 };
    let (high, low) = if right == 0 {
        (high, low)
    } else {
        ((high >> right) | (over << (64 - right)), (low >> right) | (high << (64 - right)))
    };
    let (rest, below) = (((high << 2) | (low >> 62)) as i64, low << 2);
    let turn = (high >> 62) as i32;
    (rest, below, if rest < 0 { (turn + 1) & 3 } else { turn })
}

/// Returns the angle from the middle of its quadrant, and the number of the quadrant, of which the last two bits count.
#[device]
pub(super) fn reduce_f32(x: f32) -> (f32, i32) {
    if x.abs() < 71476.0 {
        let n = (x * 0.636_619_75).round_ties_even();
        let r = n.mul_add(-1.570_796_4, x);
        let r = n.mul_add(4.371_139e-8, r);
        return (n.mul_add(1.715_124_5e-15, r), n as i32);
    }
    if !x.is_finite() {
        return (f32::NAN, 0);
    }
    let constant = x.stop_gradient();
    let bits = constant.to_bits() & 0x7fff_ffff;
    let (rest, _, turn) =
        quadrant(((bits & 0x7f_ffff) | 0x80_0000) as u64, (bits >> 23) as i32 - 150);
    let r = (rest as f64 * (1.570_796_326_794_896_6 / 18_446_744_073_709_551_616.0)) as f32;
    // The difference is 0, and has the derivative of the angle: that of `r` is lost with the bits.
    let moved = x - constant;
    if x < 0.0 { (moved - r, -turn) } else { (moved + r, turn) }
}

/// As `reduce_f32`.
#[device]
pub(super) fn reduce_f64(x: f64) -> (f64, i32) {
    if x.abs() < 1_073_741_824.0 {
        let n = (x * 0.636_619_772_367_581_4).round_ties_even();
        let r = n.mul_add(-1.570_796_326_794_896_6, x);
        let r = n.mul_add(-6.123_233_995_736_766e-17, r);
        return (n.mul_add(1.497_384_904_859_169_8e-33, r), n as i32);
    }
    if !x.is_finite() {
        return (f64::NAN, 0);
    }
    let constant = x.stop_gradient();
    let bits = constant.to_bits() & 0x7fff_ffff_ffff_ffff;
    let m = (bits & 0xf_ffff_ffff_ffff) | 0x10_0000_0000_0000;
    let (rest, below, turn) = quadrant(m, (bits >> 52) as i32 - 1075);
    let part = rest as f64 + below as f64 * (1.0 / 18_446_744_073_709_551_616.0);
    let r = part * (1.570_796_326_794_896_6 / 18_446_744_073_709_551_616.0);
    // The difference is 0, and has the derivative of the angle: that of `r` is lost with the bits.
    let moved = x - constant;
    if x < 0.0 { (moved - r, -turn) } else { (moved + r, turn) }
}
