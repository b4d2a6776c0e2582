//! The types of elements.

use bytemuck::{Pod, Zeroable};
use cuda_sys::cublas::cudaDataType;

pub use half::{bf16, f16};
pub use num_complex::Complex;

/// A type of elements: `f16`, `bf16`, `f32`, `f64`, `Complex<f32>` and `Complex<f64>`, and
/// for products by cuBLASLt [`E4m3`] and [`E5m2`].
///
/// The trait is sealed.
pub trait Element: Pod + sealed::Sealed {
    /// The type in the libraries' terms.
    const TYPE: DataType;
    /// The type of an absolute value.
    type Real: Element;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The type of elements in the libraries' terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType {
    pub(crate) raw: cudaDataType,
    pub(crate) is_complex: bool,
}

impl DataType {
    /// Returns the value of the header.
    #[must_use]
    pub fn as_raw(self) -> cudaDataType {
        self.raw
    }

    /// Returns whether the elements are complex numbers.
    #[must_use]
    pub fn is_complex(self) -> bool {
        self.is_complex
    }
}

/// An 8-bit float with 4 bits of exponent and 3 of mantissa: finite up to 448, and NaN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// An 8-bit float with 5 bits of exponent and 2 of mantissa: finite up to 57344, infinities and NaN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct E5m2(pub u8);

impl E4m3 {
    /// Returns the nearest number; at most 448, as NVIDIA's conversions saturate.
    #[must_use]
    pub fn from_f32(value: f32) -> Self {
        Self(eight_bits(value, (3, -6), 448.0))
    }

    /// Returns the value.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        let (exponent, mantissa) = (i32::from(self.0 >> 3 & 15), f32::from(self.0 & 7));
        let size = match (exponent, self.0 & 7) {
            (15, 7) => f32::NAN,
            (0, _) => mantissa / 512.0,
            _ => (8.0 + mantissa) * 2f32.powi(exponent - 10),
        };
        if self.0 & 128 == 0 { size } else { -size }
    }
}

impl E5m2 {
    /// Returns the nearest number; at most 57344, as NVIDIA's conversions saturate.
    #[must_use]
    pub fn from_f32(value: f32) -> Self {
        Self(eight_bits(value, (2, -14), 57344.0))
    }

    /// Returns the value.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        // They are the upper half of an `f16`.
        f16::from_bits(u16::from(self.0) << 8).to_f32()
    }
}

/// Rounds to a number of so many bits of mantissa, ties to even. Numbers below the least exponent have its distance.
fn eight_bits(value: f32, (mantissa, least): (i32, i32), most: f32) -> u8 {
    let sign = if value.is_sign_negative() { 128 } else { 0 };
    if value.is_nan() {
        return sign | 127;
    }
    let size = value.abs().min(most);
    let exponent = ((size.to_bits() >> 23) as i32 - 127).max(least);
    let steps = (size * 2f32.powi(mantissa - exponent)).round_ties_even() as i32;
    sign | (((exponent - least) << mantissa) + steps) as u8
}

macro_rules! elements {
    ($($ty:ty, $real:ty, $raw:ident, $complex:literal;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const TYPE: DataType = DataType { raw: cudaDataType::$raw, is_complex: $complex };
            type Real = $real;
        }
    )*};
}

elements! {
    f16, f16, CUDA_R_16F, false;
    bf16, bf16, CUDA_R_16BF, false;
    f32, f32, CUDA_R_32F, false;
    f64, f64, CUDA_R_64F, false;
    Complex<f32>, f32, CUDA_C_32F, true;
    Complex<f64>, f64, CUDA_C_64F, true;
    E4m3, E4m3, CUDA_R_8F_E4M3, false;
    E5m2, E5m2, CUDA_R_8F_E5M2, false;
}

#[cfg(test)]
mod tests {
    use super::{E4m3, E5m2, f16};

    /// Compares with the nearest of all values.
    fn nearest(of: impl Fn(f32) -> u8, value: impl Fn(u8) -> f32, most: f32) {
        let all: Vec<(u8, f32)> =
            (0..=255).map(|bits| (bits, value(bits))).filter(|(_, x)| x.is_finite()).collect();
        for (bits, x) in &all {
            assert_eq!(of(*x), *bits);
        }
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits).to_f32() * 1.5;
            if x.is_nan() {
                assert!(value(of(x)).is_nan());
                continue;
            }
            let (got, wanted) = (value(of(x)), x.clamp(-most, most));
            let off = |y: f32| (y - wanted).abs();
            let least = all.iter().map(|(_, y)| off(*y)).fold(f32::MAX, f32::min);
            assert!(off(got) == least, "{x} became {got}");
            let is_tie =
                all.iter().filter(|(_, y)| off(*y) == least && *y != got && *y != -got).count() > 0;
            assert!(!is_tie || of(x) & 1 == 0, "{x} became {got}");
        }
    }

    #[test]
    fn eight_bit_floats_are_the_nearest() {
        nearest(|x| E4m3::from_f32(x).0, |bits| E4m3(bits).to_f32(), 448.0);
        nearest(|x| E5m2::from_f32(x).0, |bits| E5m2(bits).to_f32(), 57344.0);
        assert_eq!(E4m3::from_f32(1.0).0, 0x38);
        assert_eq!(E5m2::from_f32(1.0).0, 0x3c);
    }
}
