//! Floating-point arithmetic ("Floating Point Instructions", "Half Precision Floating Point
//! Instructions"): one trait for all formats.
//!
//! NaN results, as the H200 has them: 7fffffff for f32, 7fff for the 16-bit formats; f64 keeps sign
//! and payload of a source that is NaN, quieted (of several the second, then the third; `div` takes
//! the first), and an invalid operation gives fff8000000000000.

pub(crate) mod double;
pub(crate) mod narrow;
pub(crate) mod odd;
pub(crate) mod single;
pub(crate) mod soft;

pub(crate) use double::F64;
pub(crate) use single::F32;

use super::Bits;

/// A floating-point type of PTX.
///
/// Const parameters: `R` is a rounding ([`RN`](super::RN)…), `FTZ` flushes subnormal sources and
/// results to zeros of the same sign, `SAT` clamps to [0, 1] and makes NaN 0. f64 ignores the last
/// two: PTX has them not.
pub(crate) trait Float: Copy + 'static {
    /// The register.
    type Bits: Bits;
    /// Bits of a value.
    const WIDTH: u32;
    /// Bits of the stored fraction.
    const FRACTION: u32;
    /// The NaN of an invalid operation.
    const NAN: Self::Bits;
    /// 1.0
    const ONE: Self::Bits;

    /// `add`
    fn add<const R: u8, const FTZ: bool, const SAT: bool>(
        a: Self::Bits,
        b: Self::Bits,
    ) -> Self::Bits;
    /// `sub`
    fn sub<const R: u8, const FTZ: bool, const SAT: bool>(
        a: Self::Bits,
        b: Self::Bits,
    ) -> Self::Bits;
    /// `mul`
    fn mul<const R: u8, const FTZ: bool, const SAT: bool>(
        a: Self::Bits,
        b: Self::Bits,
    ) -> Self::Bits;
    /// `fma` and floating-point `mad`: rounded once.
    fn fma<const R: u8, const FTZ: bool, const SAT: bool>(
        a: Self::Bits,
        b: Self::Bits,
        c: Self::Bits,
    ) -> Self::Bits;

    /// `min`: -0 is less than +0. A NaN source is passed over, or with `NAN` gives NaN; with
    /// `XORSIGN` magnitudes are compared and the sign is the xor of the signs.
    fn min<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(
        a: Self::Bits,
        b: Self::Bits,
    ) -> Self::Bits;
    /// `max`, see [`Float::min`].
    fn max<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(
        a: Self::Bits,
        b: Self::Bits,
    ) -> Self::Bits;
    /// `min` of three.
    #[inline(always)]
    fn min3<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(
        a: Self::Bits,
        b: Self::Bits,
        c: Self::Bits,
    ) -> Self::Bits {
        Self::min::<FTZ, NAN, XORSIGN>(Self::min::<FTZ, NAN, XORSIGN>(a, b), c)
    }
    /// `max` of three.
    #[inline(always)]
    fn max3<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(
        a: Self::Bits,
        b: Self::Bits,
        c: Self::Bits,
    ) -> Self::Bits {
        Self::max::<FTZ, NAN, XORSIGN>(Self::max::<FTZ, NAN, XORSIGN>(a, b), c)
    }
    /// `abs`. Of an f64 that is NaN the sign stays, for `neg` too.
    fn abs<const FTZ: bool>(a: Self::Bits) -> Self::Bits;
    /// `neg`
    fn neg<const FTZ: bool>(a: Self::Bits) -> Self::Bits;
    /// `copysign`: the magnitude of `b` with the sign of `a`.
    fn copysign(a: Self::Bits, b: Self::Bits) -> Self::Bits;

    /// `a == b`; false for NaN.
    fn eq<const FTZ: bool>(a: Self::Bits, b: Self::Bits) -> bool;
    /// `a < b`; false for NaN.
    fn lt<const FTZ: bool>(a: Self::Bits, b: Self::Bits) -> bool;
    /// `a <= b`; false for NaN.
    fn le<const FTZ: bool>(a: Self::Bits, b: Self::Bits) -> bool;

    /// `testp.notanumber`
    fn is_nan(a: Self::Bits) -> bool;
    /// `testp.infinite`
    fn is_infinite(a: Self::Bits) -> bool;
    /// `testp.subnormal`: zero is not.
    fn is_subnormal(a: Self::Bits) -> bool;
    /// `testp.number`
    #[inline(always)]
    fn is_number(a: Self::Bits) -> bool {
        !Self::is_nan(a)
    }
    /// `testp.finite`
    #[inline(always)]
    fn is_finite(a: Self::Bits) -> bool {
        !Self::is_nan(a) & !Self::is_infinite(a)
    }
    /// `testp.normal`: zero is.
    #[inline(always)]
    fn is_normal(a: Self::Bits) -> bool {
        Self::is_finite(a) & !Self::is_subnormal(a)
    }
    /// Returns whether the sign bit is set.
    fn is_negative(a: Self::Bits) -> bool;

    /// A subnormal becomes a zero of its sign (`.ftz`).
    fn flush(a: Self::Bits) -> Self::Bits;
    /// Any NaN becomes [`Float::NAN`]; f64 keeps it.
    fn canonical(a: Self::Bits) -> Self::Bits;
    /// `.sat`: clamped to [0, 1]; NaN and -0 become +0.
    fn saturate(a: Self::Bits) -> Self::Bits;
    /// `.relu`: negative values, -0 too, become +0; NaN becomes the canonical NaN.
    fn relu(a: Self::Bits) -> Self::Bits;

    /// Returns the value, exactly; a NaN stays one.
    fn to_f64(a: Self::Bits) -> f64;
    /// Returns the value rounded once; NaN becomes [`Float::NAN`].
    fn from_f64<const R: u8>(value: f64) -> Self::Bits;
}

/// The members of [`Float`] that are made of bits alone, for a format with `$fraction` bits in
/// `$bits`, with its signed type and its canonical NaN.
macro_rules! bitwise {
    ($bits:ident, $signed:ident, $fraction:literal, $nan:literal, $one:literal) => {
        type Bits = $bits;
        const WIDTH: u32 = $bits::BITS;
        const FRACTION: u32 = $fraction;
        const NAN: $bits = $nan;
        const ONE: $bits = $one;

        #[inline(always)]
        fn min<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(a: $bits, b: $bits) -> $bits {
            Self::extremum::<FTZ, NAN, XORSIGN, false>(a, b)
        }
        #[inline(always)]
        fn max<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(a: $bits, b: $bits) -> $bits {
            Self::extremum::<FTZ, NAN, XORSIGN, true>(a, b)
        }
        #[inline(always)]
        fn copysign(a: $bits, b: $bits) -> $bits {
            (a & Self::SIGN) | (b & !Self::SIGN)
        }
        #[inline(always)]
        fn is_nan(a: $bits) -> bool {
            a & !Self::SIGN > Self::INFINITY
        }
        #[inline(always)]
        fn is_infinite(a: $bits) -> bool {
            a & !Self::SIGN == Self::INFINITY
        }
        #[inline(always)]
        fn is_subnormal(a: $bits) -> bool {
            (a & !Self::SIGN).wrapping_sub(1) < (1 << $fraction) - 1
        }
        #[inline(always)]
        fn is_negative(a: $bits) -> bool {
            a & Self::SIGN != 0
        }
        #[inline(always)]
        fn flush(a: $bits) -> $bits {
            if a & Self::INFINITY == 0 { a & Self::SIGN } else { a }
        }
        #[inline(always)]
        fn saturate(a: $bits) -> $bits {
            // Positive numbers are ordered as their bits; NaN and negative numbers are, as unsigned integers, past
            // infinity.
            if a > Self::INFINITY { 0 } else { a.min($one) }
        }
        #[inline(always)]
        fn relu(a: $bits) -> $bits {
            if Self::is_nan(a) {
                Self::NAN
            } else if a & Self::SIGN != 0 {
                0
            } else {
                a
            }
        }
    };
}

/// The inherent constants and [`Float::min`] / [`Float::max`] for [`bitwise`].
macro_rules! inherent {
    ($name:ident, $bits:ident, $signed:ident, $fraction:literal) => {
        impl $name {
            /// Returns the result of `min` and `max` of two NaN, `b` being the second.
            #[inline(always)]
            fn both_nan(b: $bits) -> $bits {
                if $bits::BITS == 64 { b | 1 << ($fraction - 1) } else { <Self as Float>::NAN }
            }

            /// The sign bit.
            pub(crate) const SIGN: $bits = 1 << ($bits::BITS - 1);
            /// Plus infinity: all exponent bits.
            pub(crate) const INFINITY: $bits = (Self::SIGN - 1) >> $fraction << $fraction;

            /// `min` or `max`.
            #[inline(always)]
            fn extremum<const FTZ: bool, const NAN: bool, const XORSIGN: bool, const MAX: bool>(
                a: $bits,
                b: $bits,
            ) -> $bits {
                let (a, b) = if FTZ { (Self::flush(a), Self::flush(b)) } else { (a, b) };
                let sign = (a ^ b) & Self::SIGN;
                let (x, y) = if XORSIGN { (a & !Self::SIGN, b & !Self::SIGN) } else { (a, b) };
                // The key is the two's complement of sign and magnitude: it orders all numbers, -0 before +0.
                let key = |v: $bits| {
                    let v = v.cast_signed();
                    v ^ ((v >> ($bits::BITS - 1)) & $signed::MAX)
                };
                let first = if MAX { key(x) >= key(y) } else { key(x) <= key(y) };
                let chosen = if first { x } else { y };
                let chosen = if XORSIGN { chosen | sign } else { chosen };
                let (a_nan, b_nan) = (Self::is_nan(a), Self::is_nan(b));
                if NAN {
                    if a_nan | b_nan { Self::NAN } else { chosen }
                } else {
                    // With one NaN the result is the other source.
                    let other = if a_nan {
                        if XORSIGN { y | sign } else { y }
                    } else if XORSIGN {
                        x | sign
                    } else {
                        x
                    };
                    let one = if a_nan | b_nan { other } else { chosen };
                    if a_nan & b_nan { Self::both_nan(b) } else { one }
                }
            }
        }
    };
}
pub(crate) use {bitwise, inherent};
