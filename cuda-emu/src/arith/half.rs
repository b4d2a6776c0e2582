//! f16 and bf16 arithmetic ("Half Precision Floating Point Instructions"): computed in f32 where
//! its 24 bits make the second rounding harmless, else in f64 rounded to odd.

use super::float::{Float, bitwise, inherent, narrow, odd};
use super::{ODD, RM, RN};

/// Returns an f64, exact or rounded to odd, rounded to odd again: still more than two bits more than needed.
#[inline(always)]
fn to_odd_f32(value: f64) -> f32 {
    f32::from_bits(narrow::f64_to_f32::<ODD>(value))
}

macro_rules! half {
    ($(#[$doc:meta])* $name:ident, $exponent:literal, $fraction:literal, $one:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum $name {}

        inherent!($name, u16, i16, $fraction);

        impl $name {
            /// Returns the value as f32, exactly.
            #[inline(always)]
            pub(crate) fn to_f32(a: u16) -> f32 {
                narrow::small_to_f32::<$exponent, $fraction>(a.into())
            }

            /// Returns an f32 rounded, NaN canonical.
            #[inline(always)]
            pub(crate) fn from_f32<const R: u8>(value: f32) -> u16 {
                let rounded =
                    narrow::f32_to_small::<$exponent, $fraction, R>(value.to_bits()) as u16;
                if value.is_nan() { Self::NAN } else { rounded }
            }

            /// Returns a source as a number.
            #[inline(always)]
            fn source<const FTZ: bool>(a: u16) -> f32 {
                Self::to_f32(if FTZ { Self::flush(a) } else { a })
            }

            /// Returns a result rounded once, with `.ftz` and `.sat`. Flushed is also what would be below the least
            /// normal number if the exponent had no lower end.
            #[inline(always)]
            fn finish<const R: u8, const FTZ: bool, const SAT: bool>(value: f32) -> u16 {
                let bits = Self::from_f32::<R>(value);
                let scaled = Self::from_f32::<R>(value * 1024.0) & !Self::SIGN;
                let tiny = FTZ && scaled < 11 << $fraction;
                let bits = if tiny { bits & Self::SIGN } else { bits };
                if SAT { Self::saturate(bits) } else { bits }
            }

            /// Returns the sum of a product and a number rounded once, with the zero's sign that `R` asks.
            #[inline(always)]
            fn sum<const R: u8, const FTZ: bool, const SAT: bool>(a: f32, b: f32, c: f32) -> u16 {
                let (sum, negative) = if $exponent == 5 {
                    let product = a * b;
                    (odd::add_f32(product, c), product.is_sign_negative())
                } else {
                    let product = f64::from(a) * f64::from(b);
                    (to_odd_f32(odd::add(product, c.into())), product.is_sign_negative())
                };
                let minus = R == RM && sum == 0.0 && (negative | c.is_sign_negative());
                Self::finish::<R, FTZ, SAT>(if minus { -0.0 } else { sum })
            }

            /// `fma.relu`
            #[inline(always)]
            pub(crate) fn fma_relu<const FTZ: bool>(a: u16, b: u16, c: u16) -> u16 {
                Self::relu(Self::fma::<RN, FTZ, false>(a, b, c))
            }
        }

        impl Float for $name {
            bitwise!(u16, i16, $fraction, 0x7fff, $one);

            #[inline(always)]
            fn add<const R: u8, const FTZ: bool, const SAT: bool>(a: u16, b: u16) -> u16 {
                let (a, b) = (Self::source::<FTZ>(a), Self::source::<FTZ>(b));
                if R == RN {
                    Self::finish::<R, FTZ, SAT>(a + b)
                } else {
                    Self::sum::<R, FTZ, SAT>(a, 1.0, b)
                }
            }

            #[inline(always)]
            fn sub<const R: u8, const FTZ: bool, const SAT: bool>(a: u16, b: u16) -> u16 {
                Self::add::<R, FTZ, SAT>(a, b ^ Self::SIGN)
            }

            #[inline(always)]
            fn mul<const R: u8, const FTZ: bool, const SAT: bool>(a: u16, b: u16) -> u16 {
                let (a, b) = (Self::source::<FTZ>(a), Self::source::<FTZ>(b));
                // A product of f16 is an f32; one of bf16 can underflow it.
                let product = || to_odd_f32(f64::from(a) * f64::from(b));
                Self::finish::<R, FTZ, SAT>(if $exponent == 8 { product() } else { a * b })
            }

            #[inline(always)]
            fn fma<const R: u8, const FTZ: bool, const SAT: bool>(a: u16, b: u16, c: u16) -> u16 {
                let (a, b) = (Self::source::<FTZ>(a), Self::source::<FTZ>(b));
                let c = Self::source::<FTZ>(c);
                Self::sum::<R, FTZ, SAT>(a, b, c)
            }

            #[inline(always)]
            fn abs<const FTZ: bool>(a: u16) -> u16 {
                let a = if FTZ { Self::flush(a) } else { a };
                Self::canonical(a & !Self::SIGN)
            }

            #[inline(always)]
            fn neg<const FTZ: bool>(a: u16) -> u16 {
                let a = if FTZ { Self::flush(a) } else { a };
                Self::canonical(a ^ Self::SIGN)
            }

            #[inline(always)]
            fn eq<const FTZ: bool>(a: u16, b: u16) -> bool {
                Self::source::<FTZ>(a) == Self::source::<FTZ>(b)
            }

            #[inline(always)]
            fn lt<const FTZ: bool>(a: u16, b: u16) -> bool {
                Self::source::<FTZ>(a) < Self::source::<FTZ>(b)
            }

            #[inline(always)]
            fn le<const FTZ: bool>(a: u16, b: u16) -> bool {
                Self::source::<FTZ>(a) <= Self::source::<FTZ>(b)
            }

            #[inline(always)]
            fn canonical(a: u16) -> u16 {
                if Self::is_nan(a) { Self::NAN } else { a }
            }

            #[inline(always)]
            fn to_f64(a: u16) -> f64 {
                Self::to_f32(a).into()
            }

            #[inline(always)]
            fn from_f64<const R: u8>(value: f64) -> u16 {
                Self::from_f32::<R>(to_odd_f32(value))
            }
        }
    };
}

half!(/** `.f16` */ F16, 5, 10, 0x3c00);
half!(/** `.bf16` */ Bf16, 8, 7, 0x3f80);
