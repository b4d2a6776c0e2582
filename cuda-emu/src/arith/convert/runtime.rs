//! Any `cvt`, by a description that is only known when the program is loaded.

use ptx::ir::{Rounding, Type};

use super::{clamp_f64, clamp_int, convert_nan, fp8, nan_to_int, round_f64, wide_to_f64};
use crate::arith::{Bf16, Bits, F16, F32, F64, Float, ODD, RM, RN, RNA, RP, RZ};

/// A conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cvt {
    from: Kind,
    to: Kind,
    rounding: u8,
    /// Round to an integral value within the format (`.rni`…).
    integral: bool,
    ftz: bool,
    sat: bool,
    satfinite: bool,
    relu: bool,
    /// Elements of the destination, for which there is one source each or one packed source.
    lanes: u32,
}

/// One element of a source or destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int { width: u32, signed: bool },
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
}

impl Kind {
    /// Returns the element of a type and how many there are.
    fn of(ty: Type) -> Option<(Self, u32)> {
        let int = |width, signed| Self::Int { width, signed };
        Some(match ty {
            Type::U8 | Type::B8 => (int(8, false), 1),
            Type::U16 | Type::B16 => (int(16, false), 1),
            Type::U32 | Type::B32 => (int(32, false), 1),
            Type::U64 | Type::B64 => (int(64, false), 1),
            Type::S8 => (int(8, true), 1),
            Type::S16 => (int(16, true), 1),
            Type::S32 => (int(32, true), 1),
            Type::S64 => (int(64, true), 1),
            Type::F16 => (Self::F16, 1),
            Type::F16x2 => (Self::F16, 2),
            Type::Bf16 => (Self::Bf16, 1),
            Type::Bf16x2 => (Self::Bf16, 2),
            Type::Tf32 => (Self::Tf32, 1),
            Type::F32 => (Self::F32, 1),
            Type::F64 => (Self::F64, 1),
            Type::E4m3 => (Self::E4m3, 1),
            Type::E5m2 => (Self::E5m2, 1),
            Type::E4m3x2 => (Self::E4m3, 2),
            Type::E5m2x2 => (Self::E5m2, 2),
            _ => return None,
        })
    }

    fn width(self) -> u32 {
        match self {
            Self::Int { width, .. } => width,
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 | Self::F32 => 32,
            Self::F64 => 64,
            Self::E4m3 | Self::E5m2 => 8,
        }
    }

    /// Bits of the fraction of the formats with NaN payloads.
    fn fraction(self) -> Option<u32> {
        match self {
            Self::F16 => Some(10),
            Self::Bf16 => Some(7),
            Self::F32 => Some(23),
            Self::F64 => Some(52),
            _ => None,
        }
    }

    fn is_int(self) -> bool {
        matches!(self, Self::Int { .. })
    }
}

/// Calls a function with a rounding as its const parameter.
macro_rules! with_rounding {
    ($rounding:expr, $($f:ident)::+, $($arg:expr),*) => {
        match $rounding {
            RZ => $($f)::+::<RZ>($($arg),*),
            RM => $($f)::+::<RM>($($arg),*),
            RP => $($f)::+::<RP>($($arg),*),
            RNA => $($f)::+::<RNA>($($arg),*),
            ODD => $($f)::+::<ODD>($($arg),*),
            _ => $($f)::+::<RN>($($arg),*),
        }
    };
}

impl Cvt {
    /// Returns the conversion with these types and modifiers; `None` if this module does not have it (narrow formats of
    /// later architectures, `.rs`).
    #[must_use]
    #[allow(clippy::too_many_arguments, reason = "they are the instruction's modifiers")]
    pub(crate) fn new(
        to: Type,
        from: Type,
        rounding: Option<Rounding>,
        ftz: bool,
        sat: bool,
        satfinite: bool,
        relu: bool,
    ) -> Option<Self> {
        let (from, from_lanes) = Kind::of(from)?;
        let (to, lanes) = Kind::of(to)?;
        if from_lanes > 1 && from_lanes != lanes {
            return None;
        }
        let (rounding, integral) = match rounding {
            None => (RN, false),
            Some(Rounding::Rn) => (RN, false),
            Some(Rounding::Rz) => (RZ, false),
            Some(Rounding::Rm) => (RM, false),
            Some(Rounding::Rp) => (RP, false),
            Some(Rounding::Rna) => (RNA, false),
            Some(Rounding::Rni) => (RN, true),
            Some(Rounding::Rzi) => (RZ, true),
            Some(Rounding::Rmi) => (RM, true),
            Some(Rounding::Rpi) => (RP, true),
            _ => return None,
        };
        let integral = integral && !from.is_int() && !to.is_int();
        Some(Self { from, to, rounding, integral, ftz, sat, satfinite, relu, lanes })
    }

    /// One source, which has as many elements as the destination.
    #[inline]
    pub(crate) fn apply(&self, a: u64) -> u64 {
        if self.lanes == 1 {
            return self.element(a);
        }
        let (from, to) = (self.from.width(), self.to.width());
        let mask = u64::MAX >> (64 - from);
        self.element(a & mask) | self.element(a >> from & mask) << to
    }

    /// Returns whether its result has two elements.
    pub(crate) fn makes_two(&self) -> bool {
        self.lanes == 2
    }

    /// Two sources, of a conversion that [makes two](Self::makes_two): `a` becomes the upper element, `b`
    /// the lower one.
    #[inline]
    pub(crate) fn apply2(&self, a: u64, b: u64) -> u64 {
        self.element(b) | self.element(a) << self.to.width()
    }

    /// One element, zero-extended.
    fn element(&self, a: u64) -> u64 {
        match (self.from, self.to) {
            (Kind::Int { width, signed }, Kind::Int { width: to, signed: to_signed }) => {
                let value = extend(a, width, signed);
                let value = if self.sat { clamp_int(value, signed, to, to_signed) } else { value };
                value & u64::MAX >> (64 - to)
            }
            (Kind::Int { width, signed }, to) => {
                let value = extend(a, width, signed);
                // f64 is rounded here, once. Other destinations are rounded from odd.
                let rounding = if to == Kind::F64 { self.rounding } else { ODD };
                let value = with_rounding!(rounding, wide_to_f64, value, signed);
                self.float(value)
            }
            (_, Kind::Int { width, signed }) => {
                let value = self.value(a);
                let value = with_rounding!(self.rounding, round_f64, value);
                let nan = nan_to_int(self.from.width(), width);
                clamp_f64(value, width, signed, nan) & u64::MAX >> (64 - width)
            }
            (_, Kind::Tf32) => self.tf32(a as u32),
            (from, to) => {
                let value = self.value(a);
                if let (true, Some(fraction), Some(to_fraction)) =
                    (value.is_nan(), from.fraction(), to.fraction())
                {
                    let bits = match fraction == to_fraction {
                        // Without a modifier nothing is converted.
                        true if !self.integral && !self.ftz && fraction > 10 => a,
                        true if fraction < 52 => u64::MAX >> (65 - to.width()),
                        _ => {
                            let (width, to_width) = (from.width(), to.width());
                            convert_nan(a, fraction, width, to_fraction, to_width, self.ftz)
                        }
                    };
                    return self.finish_bits(bits);
                }
                if self.integral {
                    let value = with_rounding!(self.rounding, round_f64, value);
                    return self.float(value);
                }
                self.float(value)
            }
        }
    }

    /// Returns a float source, exactly.
    fn value(&self, a: u64) -> f64 {
        match self.from {
            Kind::F16 => F16::to_f64(a as u16),
            Kind::Bf16 => Bf16::to_f64(a as u16),
            Kind::F32 | Kind::Tf32 => {
                // A conversion to f16 flushes nothing, whatever its modifier says.
                let flush = self.ftz && self.to != Kind::F16;
                F32::to_f64(if flush { F32::flush(a as u32) } else { a as u32 })
            }
            Kind::E4m3 => fp8::e4m3_to_f32(a as u8).into(),
            Kind::E5m2 => fp8::e5m2_to_f32(a as u8).into(),
            Kind::F64 | Kind::Int { .. } => f64::from_bits(a),
        }
    }

    /// Returns a value rounded to a float destination, with `.ftz`, `.relu`, `.sat` and `.satfinite`.
    fn float(&self, value: f64) -> u64 {
        let r = self.rounding;
        match self.to {
            Kind::F16 => self.finish::<F16>(with_rounding!(r, F16::from_f64, value)),
            Kind::Bf16 => self.finish::<Bf16>(with_rounding!(r, Bf16::from_f64, value)),
            Kind::F32 if self.ftz => self.finish::<F32>(with_rounding!(r, flushed, value)),
            Kind::F32 => self.finish::<F32>(with_rounding!(r, F32::from_f64, value)),
            Kind::Tf32 => self.tf32(F32::from_f64::<RN>(value)),
            Kind::E4m3 => fp8::f32_to_e4m3(self.small_source(value)).into(),
            Kind::E5m2 => fp8::f32_to_e5m2(self.small_source(value)).into(),
            Kind::F64 | Kind::Int { .. } => self.finish::<F64>(F64::from_f64::<RN>(value)),
        }
    }

    /// `cvt.tf32.f32`
    fn tf32(&self, a: u32) -> u64 {
        let bits = with_rounding!(self.rounding, super::f32_to_tf32, a);
        // Values that are not finite are decremented, including NaN.
        let infinite = self.satfinite && bits & F32::INFINITY == F32::INFINITY;
        let bits = if infinite { bits - (1 << 13) } else { bits };
        let negative = self.relu && F32::is_negative(bits);
        if negative { 0 } else { bits.into() }
    }

    /// Returns the f32 that is rounded to 8 bits: the sources are f32 or f16.
    fn small_source(&self, value: f64) -> u32 {
        let bits = F32::from_f64::<RN>(value);
        if self.relu { F32::relu(bits) } else { bits }
    }

    /// Returns the modifiers of a destination whose bits are known.
    fn finish_bits(&self, bits: u64) -> u64 {
        match self.to {
            Kind::F16 => self.finish::<F16>(bits as u16),
            Kind::Bf16 => self.finish::<Bf16>(bits as u16),
            Kind::F32 => self.finish::<F32>(bits as u32),
            _ => self.finish::<F64>(bits),
        }
    }

    /// `.sat`, `.relu` and `.satfinite`.
    fn finish<F: Float>(&self, bits: F::Bits) -> u64 {
        let bits = if self.sat { F::saturate(bits) } else { bits };
        let bits = if self.relu { F::relu(bits) } else { bits };
        if self.satfinite && F::is_infinite(bits) {
            // The number before infinity.
            return bits.widen() - 1;
        }
        bits.widen()
    }
}

/// Returns an f32 rounded with `.ftz`.
fn flushed<const R: u8>(value: f64) -> u32 {
    F32::narrowed::<R, true>(value)
}

/// Returns an integer of `width` bits extended to 64.
fn extend(a: u64, width: u32, signed: bool) -> u64 {
    let top = a << (64 - width);
    if signed { (top.cast_signed() >> (64 - width)).cast_unsigned() } else { top >> (64 - width) }
}
