//! The target of a compile: a real or a virtual architecture, clamped to those that an NVRTC supports.

use std::fmt;
use std::str::FromStr;

/// A target of the compiler: a GPU's own code (`sm_90`, gives a cubin and PTX) or a virtual
/// architecture (`compute_75`, gives PTX alone, which the driver compiles for any newer GPU).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arch {
    major: u32,
    minor: u32,
    real: bool,
    features: Features,
}

/// The letter after the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Features {
    Portable,
    Family,
    Specific,
}

impl Arch {
    /// Returns the architecture of a GPU of compute capability `major.minor`.
    ///
    /// If the compiler does not know it yet, the newest older virtual architecture is taken instead:
    /// its PTX runs there too.
    #[must_use]
    pub const fn sm(major: u32, minor: u32) -> Self {
        Self { major, minor, real: true, features: Features::Portable }
    }

    /// Returns the virtual architecture of compute capability `major.minor`.
    #[must_use]
    pub const fn compute(major: u32, minor: u32) -> Self {
        Self { major, minor, real: false, features: Features::Portable }
    }

    /// Adds the features of exactly this architecture (`sm_90a`): the result runs on no other.
    #[must_use]
    pub const fn specific(self) -> Self {
        Self { features: Features::Specific, ..self }
    }

    /// Adds the features of this family (`sm_100f`): the result runs on its later members too.
    #[must_use]
    pub const fn family(self) -> Self {
        Self { features: Features::Family, ..self }
    }

    /// Returns the compute capability: major and minor number.
    #[must_use]
    pub const fn capability(self) -> (u32, u32) {
        (self.major, self.minor)
    }

    /// Returns whether it is a GPU's own code, not a virtual architecture.
    #[must_use]
    pub const fn is_real(self) -> bool {
        self.real
    }

    /// Returns this architecture if `supported` (numbers like 90) has it, else the newest older one, as a
    /// virtual architecture: a cubin would not run on a GPU that the compiler does not know, PTX does.
    /// `None` if it is older than all of them, or if its letter asks for exactly what is missing.
    #[must_use]
    pub fn clamped(self, supported: &[u32]) -> Option<Self> {
        let known = supported.iter().map(|n| (n / 10, n % 10));
        let newest = known.filter(|&c| c <= self.capability()).max()?;
        if newest == self.capability() {
            Some(self)
        } else if self.features == Features::Portable {
            Some(Self::compute(newest.0, newest.1))
        } else {
            None
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.real { "sm" } else { "compute" };
        let suffix = match self.features {
            Features::Portable => "",
            Features::Family => "f",
            Features::Specific => "a",
        };
        write!(f, "{prefix}_{}{}{suffix}", self.major, self.minor)
    }
}

/// The text is no architecture's name.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no architecture: expected sm_90, sm_90a, compute_75 or the like")]
pub struct ParseArchError(String);

impl FromStr for Arch {
    type Err = ParseArchError;

    fn from_str(text: &str) -> Result<Self, ParseArchError> {
        let parse = || {
            let (real, rest) = match text.strip_prefix("sm_") {
                Some(rest) => (true, rest),
                None => (false, text.strip_prefix("compute_")?),
            };
            let (features, digits) = match (rest.strip_suffix('a'), rest.strip_suffix('f')) {
                (Some(digits), _) => (Features::Specific, digits),
                (_, Some(digits)) => (Features::Family, digits),
                _ => (Features::Portable, rest),
            };
            let plain =
                (2..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
            let number: u32 = digits.parse().ok().filter(|_| plain)?;
            Some(Self { major: number / 10, minor: number % 10, real, features })
        };
        parse().ok_or_else(|| ParseArchError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NVRTC_12_0: &[u32] = &[50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90];

    #[test]
    fn names_are_the_compilers() {
        for name in ["sm_90", "compute_75", "sm_90a", "sm_100f", "compute_120a"] {
            assert_eq!(name.parse::<Arch>().map(|a| a.to_string()), Ok(name.into()));
        }
        assert_eq!(Arch::sm(10, 3).specific().to_string(), "sm_103a");
        for name in ["", "sm_", "sm_9", "90", "sm_90af", "sm_-90", "compute_99999", "sm_+90"] {
            assert!(name.parse::<Arch>().is_err(), "{name}");
        }
    }

    #[test]
    fn clamping_keeps_what_is_known_and_goes_virtual_for_what_is_not() {
        let clamp = |arch: Arch| arch.clamped(NVRTC_12_0).map(|a| a.to_string());
        assert_eq!(clamp(Arch::sm(9, 0)), Some("sm_90".into()));
        assert_eq!(clamp(Arch::sm(9, 0).specific()), Some("sm_90a".into()));
        assert_eq!(clamp(Arch::sm(12, 0)), Some("compute_90".into()));
        assert_eq!(clamp(Arch::sm(8, 8)), Some("compute_87".into()));
        assert_eq!(clamp(Arch::compute(10, 0)), Some("compute_90".into()));
        assert_eq!(clamp(Arch::sm(12, 0).specific()), None);
        assert_eq!(clamp(Arch::sm(3, 5)), None);
        assert_eq!(Arch::sm(9, 0).clamped(&[]), None);
    }
}
