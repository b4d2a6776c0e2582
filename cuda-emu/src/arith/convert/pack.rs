//! `cvt.pack`: two 32-bit integers saturated and packed.

use ptx::ir::Type;

use super::clamp_int;

/// `cvt.pack.sat.to.from`: `a` above `b`, both saturated to `to` (2 to 16 bits), above them the low
/// bits of `c` (0 in the form without it). `None` for types that PTX does not have here.
#[must_use]
pub(crate) fn cvt_pack(to: Type, from: Type, a: u32, b: u32, c: u32) -> Option<u32> {
    let from_signed = match from {
        Type::S32 => true,
        Type::U32 => false,
        _ => return None,
    };
    let width = match to {
        Type::U16 | Type::S16 => 16,
        Type::U8 | Type::S8 => 8,
        Type::U4 | Type::S4 => 4,
        Type::U2 | Type::S2 => 2,
        _ => return None,
    };
    let saturate = |x: u32| {
        let extended =
            if from_signed { i64::from(x.cast_signed()).cast_unsigned() } else { x.into() };
        let clamped = clamp_int(extended, from_signed, width, to.is_signed());
        clamped as u32 & (u32::MAX >> (32 - width))
    };
    let rest = if width == 16 { 0 } else { c << (2 * width) };
    Some(rest | saturate(a) << width | saturate(b))
}
