//! 16-bit floats: each becomes a `float` of the same value, in a separate register.
//!
//! After this pass the others see only numbers of 32 and 64 bits. An instruction on 16-bit floats stays, with these
//! registers as its operands. Where the kernel is repeated, operands are narrowed before it and results widened after
//! it, so that it rounds as in the kernel. Its derivative is that of the same instruction on `float`. Packed
//! instructions are written lane by lane, and moves of 16 bits become moves of the `float`.
//!
//! Other instructions get the bits by a marker, whose result has no known derivative: if an active output depends on
//! it, the kernel is refused.

mod instr;
mod kinds;
mod marker;
mod memory;
mod parts;
mod rewrite;

use ptx::ir::Type;

pub(crate) use marker::{Marker, Narrowed, marker};
pub(crate) use rewrite::widen;

/// Returns the bits of the `float` with the value of a 16-bit float.
pub(crate) fn widened(half: Type, bits: u16) -> u32 {
    let bits = u32::from(bits);
    if half == Type::Bf16 {
        return bits << 16;
    }
    let (sign, exponent, fraction) = ((bits & 0x8000) << 16, (bits >> 10) & 0x1f, bits & 0x3ff);
    match (exponent, fraction) {
        (0, 0) => sign,
        (0, _) => {
            // A subnormal is fraction * 2^-24.
            let shift = fraction.leading_zeros() - 21;
            sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13)
        }
        (0x1f, _) => sign | 0x7f80_0000 | fraction << 13,
        _ => sign | ((exponent + 112) << 23) | fraction << 13,
    }
}

/// Returns the bits of the 16-bit float that has exactly the value of a `float`.
pub(crate) fn narrowed(half: Type, bits: u32) -> u16 {
    let short = |bits: u32| u16::try_from(bits & 0xffff).unwrap_or(0);
    if half == Type::Bf16 {
        return short(bits >> 16);
    }
    let (sign, exponent, fraction) = ((bits >> 16) & 0x8000, (bits >> 23) & 0xff, bits & 0x7f_ffff);
    let rest = match exponent {
        0xff => 0x7c00 | fraction >> 13,
        113.. => ((exponent - 112) << 10) | fraction >> 13,
        103..113 => (fraction | 0x80_0000) >> (126 - exponent),
        _ => 0,
    };
    short(sign | rest)
}

#[cfg(test)]
mod tests {
    use ptx::ir::Type;

    use super::{narrowed, widened};

    /// The value of a 16-bit float by its definition.
    fn value(bits: u16) -> f64 {
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        sign * match exponent {
            0 => fraction * 2f64.powi(-24),
            0x1f if fraction == 0.0 => f64::INFINITY,
            0x1f => f64::NAN,
            _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
        }
    }

    #[test]
    fn each_16_bit_float_is_a_float() {
        for bits in 0..=u16::MAX {
            let wide = f32::from_bits(widened(Type::F16, bits));
            let (got, want) = (f64::from(wide), value(bits));
            assert!(got == want || got.is_nan() && want.is_nan(), "{bits:#x}: {got}, not {want}");
            assert_eq!(wide.is_sign_negative(), bits >> 15 == 1);
            assert_eq!(narrowed(Type::F16, wide.to_bits()), bits);
            let wide = widened(Type::Bf16, bits);
            assert_eq!((wide, narrowed(Type::Bf16, wide)), (u32::from(bits) << 16, bits));
        }
    }
}
