//! `f16` and `bf16` of the crate `half`. Operations compute in `f32` and round once, so they give the same bits on
//! all targets.

use std::fmt::{self, Write as _};

use half::{bf16, f16};

use crate::device::{Device, Float};
use crate::math::{DefinedFloat, Number, Real};
use crate::methods::{BuiltIn, own_places};
use crate::print::Print;
use crate::text::Text;

/// Converts to `f32` with rounding to odd, so that a second rounding gives the same result as a single one.
fn odd(value: f64) -> f32 {
    let near = value as f32;
    let toward_zero =
        if f64::from(near).abs() > value.abs() { f32::from_bits(near.to_bits() - 1) } else { near };
    if value.is_nan() || f64::from(toward_zero) == value {
        toward_zero
    } else {
        f32::from_bits(toward_zero.to_bits() | 1)
    }
}

macro_rules! halves {
    ($($name:ident $float:ident $nan:literal)*) => {$(
        // SAFETY: `phases::$name` holds the same 16 bits, and every byte pattern is one.
        #[diagnostic::do_not_recommend]
        unsafe impl Device for $name {
            const FLOATS: usize = 1;

            fn floats(at: usize, visit: &mut dyn FnMut(usize, Float)) {
                visit(at, Float::$float);
            }

            fn rust_name() -> String {
                stringify!($name).to_owned()
            }

            fn cpp_name() -> String {
                stringify!($name).to_owned()
            }

            fn write(text: &mut Text) {
                text.define("half", |_| include_str!("half.cuh").to_owned());
            }

            fn write_value(&self, text: &mut String) {
                let _ = write!(text, "{}{{{:#x}}}", stringify!($name), self.to_bits());
            }

            fn is_valid(_: &[u8]) -> bool {
                true
            }
        }

        own_places! { [] $name; }
        impl Number for $name {}

        #[diagnostic::do_not_recommend]
        impl Print for $name {
            type Value = f32;

            fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().display(f)
            }
        }

        impl Real for $name {
            fn from_f64(value: f64) -> Self {
                Self::phases_from_f64(value)
            }

            fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }

            fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }

            fn is_finite(self) -> bool {
                self.to_f32().is_finite()
            }

            fn is_infinite(self) -> bool {
                self.to_f32().is_infinite()
            }
        }

        impl DefinedFloat for $name {
            type Bits = u16;

            fn phases_from_f64(value: f64) -> Self {
                Self::from_f32(odd(value))
            }

            fn phases_to_bits(self) -> u16 {
                if self.is_nan() { $nan } else { self.to_bits() }
            }

            fn phases_is_sign_negative(self) -> bool {
                self.to_f32().phases_is_sign_negative()
            }

            fn phases_is_sign_positive(self) -> bool {
                self.to_f32().phases_is_sign_positive()
            }

            fn phases_powi(self, exponent: i32) -> Self {
                Self::from_f32(self.to_f32().phases_powi(exponent))
            }

            halves!(@by_f32
                phases_abs() phases_signum() phases_floor() phases_ceil() phases_trunc() phases_round()
                phases_round_ties_even() phases_fract() phases_sqrt() phases_recip()
                phases_stop_gradient()
                phases_min(other) phases_max(other) phases_copysign(sign) phases_clamp(min, max)
                phases_mul_add(factor, addend) phases_rem_euclid(by) phases_div_euclid(by));
        }
    )*};
    (@by_f32 $($name:ident($($arg:ident),*))*) => {$(
        #[track_caller]
        fn $name(self $(, $arg: Self)*) -> Self {
            Self::from_f32(self.to_f32().$name($($arg.to_f32()),*))
        }
    )*};
}
halves!(f16 F16 0x7e00 bf16 Bf16 0x7fc0);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the nearest of all values, and the even one of two.
    fn nearest(value: f64, all: &[(f64, u16)]) -> u16 {
        let at = all.partition_point(|(known, _)| *known < value);
        let (low, high) = (all[at.saturating_sub(1)], all[at.min(all.len() - 1)]);
        let (down, up) = (value - low.0, high.0 - value);
        if down < up || (down == up && low.1 % 2 == 0) { low.1 } else { high.1 }
    }

    #[test]
    fn conversions_round_once() {
        // The inputs are the values from 1 to 4, and numbers that differ from midpoints by less than an f32 resolves.
        let f16s: Vec<(f64, u16)> = (0x3c00..=0x4400)
            .map(|bits| (f64::from(f16::from_bits(bits).to_f32()), bits))
            .collect();
        let bf16s: Vec<(f64, u16)> = (0x3f80..=0x4080)
            .map(|bits| (f64::from(bf16::from_bits(bits).to_f32()), bits))
            .collect();
        for at in 0..4000 {
            let near = 1.0 + f64::from(at) / 2048.0;
            for value in [near, near + 1e-12, near - 1e-12, near + 0.000_244_140_625] {
                let value = value.clamp(1.0, 4.0);
                assert_eq!(f16::phases_from_f64(value).to_bits(), nearest(value, &f16s), "{value}");
                assert_eq!(
                    bf16::phases_from_f64(value).to_bits(),
                    nearest(value, &bf16s),
                    "{value}"
                );
            }
        }
        for value in [
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
            -1e-300,
            65_520.0,
            65_519.999_999_9,
        ] {
            let exact =
                if value.abs() > 65_519.999_999_95 { f64::INFINITY.copysign(value) } else { value };
            let exact = if exact.abs() > 65_504.0 && exact.is_finite() { 65_504.0 } else { exact };
            let got = f64::from(f16::phases_from_f64(value).to_f32());
            assert_eq!(
                got.to_bits(),
                (if exact == -1e-300 { -0.0 } else { exact }).to_bits(),
                "{value}"
            );
        }
        assert_eq!(f16::phases_from_f64(-f64::NAN).phases_to_bits(), f16::NAN.to_bits());
    }
}
