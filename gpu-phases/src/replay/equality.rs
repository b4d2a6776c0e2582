//! Comparison of elements whose type is known only by name.

/// How elements are compared.
#[derive(Clone, Copy)]
pub(super) enum Equality {
    Bytes,
    F16,
    Bf16,
    F32,
    F64,
}

impl Equality {
    pub(super) fn of(type_name: &str) -> Self {
        let element = type_name.trim_start_matches('[').split(';').next().unwrap_or_default();
        match element {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => Self::Bytes,
        }
    }

    fn size(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn is_nan(self, part: &[u8]) -> bool {
        match self {
            Self::Bytes => false,
            Self::F16 => {
                part.try_into().is_ok_and(|part| u16::from_ne_bytes(part) & 0x7fff > 0x7c00)
            }
            Self::Bf16 => {
                part.try_into().is_ok_and(|part| u16::from_ne_bytes(part) & 0x7fff > 0x7f80)
            }
            Self::F32 => part.try_into().is_ok_and(|part| f32::from_ne_bytes(part).is_nan()),
            Self::F64 => part.try_into().is_ok_and(|part| f64::from_ne_bytes(part).is_nan()),
        }
    }

    /// Returns whether an element contains a NaN.
    pub(super) fn holds(self, element: &[u8]) -> bool {
        element.chunks(self.size()).any(|part| self.is_nan(part))
    }

    pub(super) fn test(self, a: &[u8], b: &[u8]) -> bool {
        let mut parts = a.chunks(self.size()).zip(b.chunks(self.size()));
        a == b || parts.all(|(a, b)| a == b || self.is_nan(a) && self.is_nan(b))
    }
}
