//! f64 arithmetic.

use super::{Float, bitwise, inherent, soft};
use crate::arith::RN;

/// `.f64`
#[derive(Debug, Clone, Copy)]
pub(crate) enum F64 {}

inherent!(F64, u64, i64, 52);

impl F64 {
    /// Quiets a NaN.
    const QUIET: u64 = 1 << 51;

    /// Returns a result as bits; a NaN is the first source that is one, quieted, else the default NaN. Chosen here
    /// because the compiler may exchange the operands of an addition.
    #[inline(always)]
    fn result(value: f64, sources: [u64; 3]) -> u64 {
        let [first, second, third] = sources;
        let nan = if Self::is_nan(third) { third | Self::QUIET } else { Self::NAN };
        let nan = if Self::is_nan(second) { second | Self::QUIET } else { nan };
        let nan = if Self::is_nan(first) { first | Self::QUIET } else { nan };
        if value.is_nan() { nan } else { value.to_bits() }
    }

    /// `div` with a rounding.
    #[inline(always)]
    pub(crate) fn div<const R: u8>(a: u64, b: u64) -> u64 {
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        let quotient = if R != RN && x.is_finite() && y.is_finite() && y != 0.0 {
            soft::div::<R>(x, y)
        } else {
            x / y
        };
        Self::result(quotient, [a, b, 0])
    }

    /// `rcp` with a rounding.
    #[inline(always)]
    pub(crate) fn rcp<const R: u8>(a: u64) -> u64 {
        Self::div::<R>(Self::ONE, a)
    }

    /// `sqrt` with a rounding.
    #[inline(always)]
    pub(crate) fn sqrt<const R: u8>(a: u64) -> u64 {
        let x = f64::from_bits(a);
        let root = if R != RN && x.is_finite() && x > 0.0 { soft::sqrt::<R>(x) } else { x.sqrt() };
        Self::result(root, [a, 0, 0])
    }
}

impl Float for F64 {
    bitwise!(u64, i64, 52, 0xfff8_0000_0000_0000, 0x3ff0_0000_0000_0000);

    #[inline(always)]
    fn add<const R: u8, const FTZ: bool, const SAT: bool>(a: u64, b: u64) -> u64 {
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        let sum =
            if R != RN && x.is_finite() && y.is_finite() { soft::add::<R>(x, y) } else { x + y };
        Self::result(sum, [b, a, 0])
    }

    #[inline(always)]
    fn sub<const R: u8, const FTZ: bool, const SAT: bool>(a: u64, b: u64) -> u64 {
        // A NaN keeps its sign.
        let negated = if Self::is_nan(b) { b } else { b ^ Self::SIGN };
        Self::add::<R, FTZ, SAT>(a, negated)
    }

    #[inline(always)]
    fn mul<const R: u8, const FTZ: bool, const SAT: bool>(a: u64, b: u64) -> u64 {
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        let product =
            if R != RN && x.is_finite() && y.is_finite() { soft::mul::<R>(x, y) } else { x * y };
        Self::result(product, [b, a, 0])
    }

    #[inline(always)]
    fn fma<const R: u8, const FTZ: bool, const SAT: bool>(a: u64, b: u64, c: u64) -> u64 {
        let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
        let sum = if R != RN && x.is_finite() && y.is_finite() && z.is_finite() {
            soft::fma::<R>(x, y, z)
        } else {
            x.mul_add(y, z)
        };
        Self::result(sum, [b, c, a])
    }

    #[inline(always)]
    fn abs<const FTZ: bool>(a: u64) -> u64 {
        if Self::is_nan(a) { a | Self::QUIET } else { a & !Self::SIGN }
    }

    #[inline(always)]
    fn neg<const FTZ: bool>(a: u64) -> u64 {
        if Self::is_nan(a) { a | Self::QUIET } else { a ^ Self::SIGN }
    }

    #[inline(always)]
    fn eq<const FTZ: bool>(a: u64, b: u64) -> bool {
        f64::from_bits(a) == f64::from_bits(b)
    }

    #[inline(always)]
    fn lt<const FTZ: bool>(a: u64, b: u64) -> bool {
        f64::from_bits(a) < f64::from_bits(b)
    }

    #[inline(always)]
    fn le<const FTZ: bool>(a: u64, b: u64) -> bool {
        f64::from_bits(a) <= f64::from_bits(b)
    }

    #[inline(always)]
    fn canonical(a: u64) -> u64 {
        if Self::is_nan(a) { a | Self::QUIET } else { a }
    }

    #[inline(always)]
    fn to_f64(a: u64) -> f64 {
        f64::from_bits(a)
    }

    #[inline(always)]
    fn from_f64<const R: u8>(value: f64) -> u64 {
        if value.is_nan() { Self::NAN } else { value.to_bits() }
    }
}
