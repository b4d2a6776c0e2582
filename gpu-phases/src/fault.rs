//! What a kernel reports if one of its checks fails.

use std::fmt;

use crate::cpu::raise::Place;

/// The check that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum FaultKind {
    /// An index is not less than the length.
    Index = 1,
    /// The result of an integer operation does not fit its type. Checked where the crate that defines the kernel
    /// checks overflows.
    Overflow = 2,
    /// An integer is divided by zero, or the smallest one by -1.
    Division = 3,
    /// A shift is by the type's width or more. Checked as overflows are.
    Shift = 4,
    /// A condition of an `assert!` in the parallel loop is false, or `unreachable!` is reached.
    Assert = 5,
    /// `unwrap` or `expect` of a `None`.
    None = 6,
}

impl FaultKind {
    /// Returns the kind with this number, as kernels write it.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Index,
            2 => Self::Overflow,
            3 => Self::Division,
            4 => Self::Shift,
            5 => Self::Assert,
            6 => Self::None,
            _ => return None,
        })
    }

    /// Says what is wrong, with the index and the length that matter for [`FaultKind::Index`].
    pub(crate) fn describe(self, index: u64, len: u64) -> String {
        match self {
            Self::Index => format!("index {index} is out of bounds of length {len}"),
            Self::Overflow => "an integer operation overflows".to_owned(),
            Self::Division => "an integer is divided by zero, or the smallest one by -1".to_owned(),
            Self::Shift => "a shift is by the width of its type or more".to_owned(),
            Self::Assert => "an assertion is false".to_owned(),
            Self::None => "a `None` is unwrapped".to_owned(),
        }
    }
}

/// A check that failed in one thread of a launch: the first one that was recorded.
///
/// What the launch has written to its outputs is unspecified then.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The source file of the failed check, as `file!()` names it.
    pub file: &'static str,
    /// The line in that file.
    pub line: u32,
    /// The check.
    pub kind: FaultKind,
    /// The index, for [`FaultKind::Index`]; else 0.
    pub index: u64,
    /// The length that the index was checked against; else 0.
    pub len: u64,
    /// The indices of the output's element whose thread failed, as the kernel's closure gets them: one, two or three of
    /// them, the others are 0. Of a kernel over blocks, the index of the thread in its block; 0 at block level.
    pub element: [u64; 3],
    /// The block, of a kernel over blocks.
    pub block: Option<u64>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, file, line, index, len, element, block, .. } = self;
        let place = Place { element: *element, block: *block };
        f.write_str(&self.kind.describe(*index, *len))?;
        write!(f, " in kernel `{kernel}`, {file}:{line}, {place}")
    }
}

// `main() -> Result` and `unwrap` print Debug: a person reads it.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Fault {}
