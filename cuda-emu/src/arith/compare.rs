//! Comparisons ("Comparison and Selection Instructions").

use super::{Float, Int};

/// `.eq`
pub(crate) const EQ: u8 = 0;
/// `.ne`
pub(crate) const NE: u8 = 1;
/// `.lt`, `.lo`
pub(crate) const LT: u8 = 2;
/// `.le`, `.ls`
pub(crate) const LE: u8 = 3;
/// `.gt`, `.hi`
pub(crate) const GT: u8 = 4;
/// `.ge`, `.hs`
pub(crate) const GE: u8 = 5;
/// `.equ`: equal or unordered, like the four below.
pub(crate) const EQU: u8 = 6;
/// `.neu`
pub(crate) const NEU: u8 = 7;
/// `.ltu`
pub(crate) const LTU: u8 = 8;
/// `.leu`
pub(crate) const LEU: u8 = 9;
/// `.gtu`
pub(crate) const GTU: u8 = 10;
/// `.geu`
pub(crate) const GEU: u8 = 11;
/// `.num`: no operand is NaN.
pub(crate) const NUM: u8 = 12;
/// `.nan`: an operand is NaN.
pub(crate) const NAN: u8 = 13;

/// Returns a comparison ([`EQ`] to [`GE`]) of integers; `.lo`, `.ls`, `.hi`, `.hs` are `LT`… of an unsigned type.
#[inline(always)]
pub(crate) fn int<T: Int, const CMP: u8>(a: T::Bits, b: T::Bits) -> bool {
    match CMP {
        EQ => T::eq(a, b),
        NE => !T::eq(a, b),
        LT => T::lt(a, b),
        LE => T::le(a, b),
        GT => T::lt(b, a),
        _ => T::le(b, a),
    }
}

/// Returns a comparison of floats. The ordered ones are false when an operand is NaN, `NE` too.
#[inline(always)]
pub(crate) fn float<T: Float, const CMP: u8, const FTZ: bool>(a: T::Bits, b: T::Bits) -> bool {
    let unordered = || T::is_nan(a) | T::is_nan(b);
    match CMP {
        EQ => T::eq::<FTZ>(a, b),
        NE => !T::eq::<FTZ>(a, b) & !unordered(),
        LT => T::lt::<FTZ>(a, b),
        LE => T::le::<FTZ>(a, b),
        GT => T::lt::<FTZ>(b, a),
        GE => T::le::<FTZ>(b, a),
        EQU => T::eq::<FTZ>(a, b) | unordered(),
        NEU => !T::eq::<FTZ>(a, b),
        LTU => !T::le::<FTZ>(b, a),
        LEU => !T::lt::<FTZ>(b, a),
        GTU => !T::le::<FTZ>(a, b),
        GEU => !T::lt::<FTZ>(a, b),
        NUM => !unordered(),
        _ => unordered(),
    }
}

/// `slct` on an f32: whether `a` is chosen, `c >= 0`. NaN chooses `b`.
#[inline(always)]
pub(crate) fn slct_f32<const FTZ: bool>(c: u32) -> bool {
    super::F32::le::<FTZ>(0, c)
}

/// `slct` on an s32: whether `a` is chosen, `c >= 0`.
#[inline(always)]
pub(crate) fn slct_s32(c: u32) -> bool {
    c.cast_signed() >= 0
}
