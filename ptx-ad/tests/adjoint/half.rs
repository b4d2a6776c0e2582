//! 16-bit floats as arguments.

use ptx_ad::Real;

use crate::common::{Arg, Layout};

/// 16-bit floats near these values.
pub(crate) fn buffer(real: Real, values: &[f32]) -> Arg {
    let bytes = values.iter().flat_map(|value| near(real, *value).to_le_bytes()).collect();
    Arg::Buffer { bytes, size: 2, layout: Layout::All(real), active: true, length: None }
}

/// A 16-bit float near a value.
pub(crate) fn scalar(real: Real, value: f32) -> Arg {
    let bytes = near(real, value).to_le_bytes().to_vec();
    Arg::Value { bytes, reals: vec![(0, real)], active: true }
}

/// The value of a 16-bit float.
pub(crate) fn value(real: Real, bits: u16) -> f64 {
    if real == Real::Bf16 {
        return f32::from_bits(u32::from(bits) << 16).into();
    }
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

/// A 16-bit float near a value of at most 1000: the highest bits of it.
pub(crate) fn near(real: Real, value: f32) -> u16 {
    let bits = value.to_bits();
    if real == Real::Bf16 {
        return (bits >> 16) as u16;
    }
    let sign = (bits >> 16) & 0x8000;
    let magnitude = match bits & 0x7fff_ffff {
        small if small < 0x3880_0000 => 0,
        magnitude => (magnitude - 0x3800_0000) >> 13,
    };
    (sign | magnitude) as u16
}
