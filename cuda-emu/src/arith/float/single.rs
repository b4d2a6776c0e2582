//! f32 arithmetic.

use super::{Float, bitwise, inherent, narrow, odd};
use crate::arith::{RM, RN};

/// `.f32`
#[derive(Debug, Clone, Copy)]
pub(crate) enum F32 {}

/// 2^64. A product that overflows by it is not tiny, or is exact.
const SCALE: f32 = 18_446_744_073_709_551_616.0;

inherent!(F32, u32, i32, 23);

impl F32 {
    /// Returns a source as a number.
    #[inline(always)]
    fn source<const FTZ: bool>(a: u32) -> f32 {
        f32::from_bits(if FTZ { Self::flush(a) } else { a })
    }

    /// Returns a result as bits: NaN canonical, then `.ftz` and `.sat`.
    #[inline(always)]
    pub(crate) fn result<const FTZ: bool, const SAT: bool>(value: f32) -> u32 {
        let bits = if value.is_nan() { Self::NAN } else { value.to_bits() };
        let bits = if FTZ { Self::flush(bits) } else { bits };
        if SAT { Self::saturate(bits) } else { bits }
    }

    /// [`F32::result`], which is also flushed where it would be below the least normal number if the
    /// exponent had no lower end: `scaled` is the same result times 2^64, rounded.
    #[inline(always)]
    fn flushed<const FTZ: bool, const SAT: bool>(value: f32, scaled: f32) -> u32 {
        let bits = Self::result::<FTZ, SAT>(value);
        let tiny = FTZ && scaled.abs() < f32::MIN_POSITIVE * SCALE;
        if tiny { bits & Self::SIGN } else { bits }
    }

    /// Returns a value rounded to odd, rounded to the result.
    #[inline(always)]
    fn directed<const R: u8, const FTZ: bool, const SAT: bool>(value: f64) -> u32 {
        let bits = f32::from_bits(narrow::f64_to_f32::<R>(value));
        let scaled = f32::from_bits(narrow::f64_to_f32::<R>(value * f64::from(SCALE)));
        Self::flushed::<FTZ, SAT>(bits, scaled)
    }

    /// Returns a sum as [`F32::directed`] takes it, with the zero's sign that `R` asks.
    #[inline(always)]
    fn directed_sum<const R: u8, const FTZ: bool, const SAT: bool>(a: f64, b: f64) -> u32 {
        let sum = odd::add(a, b);
        let minus = R == RM && sum == 0.0 && (a.is_sign_negative() | b.is_sign_negative());
        Self::directed::<R, FTZ, SAT>(if minus { -0.0 } else { sum })
    }

    /// Returns an f64 rounded once, `.ftz` applied.
    #[inline(always)]
    pub(crate) fn narrowed<const R: u8, const FTZ: bool>(value: f64) -> u32 {
        Self::directed::<R, FTZ, false>(value)
    }

    /// `div` with a rounding.
    #[inline(always)]
    pub(crate) fn div<const R: u8, const FTZ: bool>(a: u32, b: u32) -> u32 {
        let (a, b) = (Self::source::<FTZ>(a), Self::source::<FTZ>(b));
        if R == RN {
            Self::flushed::<FTZ, false>(a / b, a * SCALE / b)
        } else {
            Self::directed::<R, FTZ, false>(odd::div(a.into(), b.into()))
        }
    }

    /// `rcp` with a rounding.
    #[inline(always)]
    pub(crate) fn rcp<const R: u8, const FTZ: bool>(a: u32) -> u32 {
        Self::div::<R, FTZ>(Self::ONE, a)
    }

    /// `sqrt` with a rounding.
    #[inline(always)]
    pub(crate) fn sqrt<const R: u8, const FTZ: bool>(a: u32) -> u32 {
        let a = Self::source::<FTZ>(a);
        if R == RN {
            Self::result::<FTZ, false>(a.sqrt())
        } else {
            Self::directed::<R, FTZ, false>(odd::sqrt(a.into()))
        }
    }
}

impl Float for F32 {
    bitwise!(u32, i32, 23, 0x7fff_ffff, 0x3f80_0000);

    #[inline(always)]
    fn add<const R: u8, const FTZ: bool, const SAT: bool>(a: u32, b: u32) -> u32 {
        let (a, b) = (Self::source::<FTZ>(a), Self::source::<FTZ>(b));
        if R == RN {
            Self::result::<FTZ, SAT>(a + b)
        } else {
            Self::directed_sum::<R, FTZ, SAT>(a.into(), b.into())
        }
    }

    #[inline(always)]
    fn sub<const R: u8, const FTZ: bool, const SAT: bool>(a: u32, b: u32) -> u32 {
        Self::add::<R, FTZ, SAT>(a, b ^ Self::SIGN)
    }

    #[inline(always)]
    fn mul<const R: u8, const FTZ: bool, const SAT: bool>(a: u32, b: u32) -> u32 {
        let (a, b) = (Self::source::<FTZ>(a), Self::source::<FTZ>(b));
        if R == RN {
            Self::flushed::<FTZ, SAT>(a * b, a * SCALE * b)
        } else {
            // The product of 48 bits is exact.
            Self::directed::<R, FTZ, SAT>(f64::from(a) * f64::from(b))
        }
    }

    #[inline(always)]
    fn fma<const R: u8, const FTZ: bool, const SAT: bool>(a: u32, b: u32, c: u32) -> u32 {
        let (a, b) = (Self::source::<FTZ>(a), Self::source::<FTZ>(b));
        let c = Self::source::<FTZ>(c);
        if R == RN {
            let scaled = (a * SCALE).mul_add(b, c * SCALE);
            Self::flushed::<FTZ, SAT>(a.mul_add(b, c), scaled)
        } else {
            Self::directed_sum::<R, FTZ, SAT>(f64::from(a) * f64::from(b), c.into())
        }
    }

    #[inline(always)]
    fn abs<const FTZ: bool>(a: u32) -> u32 {
        let a = if FTZ { Self::flush(a) } else { a };
        Self::canonical(a & !Self::SIGN)
    }

    #[inline(always)]
    fn neg<const FTZ: bool>(a: u32) -> u32 {
        let a = if FTZ { Self::flush(a) } else { a };
        Self::canonical(a ^ Self::SIGN)
    }

    #[inline(always)]
    fn eq<const FTZ: bool>(a: u32, b: u32) -> bool {
        Self::source::<FTZ>(a) == Self::source::<FTZ>(b)
    }

    #[inline(always)]
    fn lt<const FTZ: bool>(a: u32, b: u32) -> bool {
        Self::source::<FTZ>(a) < Self::source::<FTZ>(b)
    }

    #[inline(always)]
    fn le<const FTZ: bool>(a: u32, b: u32) -> bool {
        Self::source::<FTZ>(a) <= Self::source::<FTZ>(b)
    }

    #[inline(always)]
    fn canonical(a: u32) -> u32 {
        if Self::is_nan(a) { Self::NAN } else { a }
    }

    #[inline(always)]
    fn to_f64(a: u32) -> f64 {
        f32::from_bits(a).into()
    }

    #[inline(always)]
    fn from_f64<const R: u8>(value: f64) -> u32 {
        Self::directed::<R, false, false>(value)
    }
}
