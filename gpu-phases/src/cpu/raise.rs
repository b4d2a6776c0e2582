//! Unwinding from a failed check on the CPU.

use std::fmt;
use std::panic::Location;

use crate::fault::FaultKind;

/// A failed check, before its element is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) kind: FaultKind,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    pub(crate) index: u64,
    pub(crate) len: u64,
}

/// The reason why an element did not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    Check(Check),
    Panic(String),
}

/// Which thread failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// As [`Fault::element`](crate::Fault::element).
    pub(crate) element: [u64; 3],
    /// As [`Fault::block`](crate::Fault::block).
    pub(crate) block: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element: [x, y, z], block } = self;
        match block {
            None => write!(f, "element ({x}, {y}, {z})"),
            Some(block) => write!(f, "block {block}, thread ({x}, {y})"),
        }
    }
}

/// The payload of the unwinding.
#[derive(Debug)]
pub(crate) enum Raised {
    /// A check failed in the code that unwinds.
    Check(Check),
    /// The conditions before the loop are not satisfied.
    Refused(String),
    /// The loop has ended, and this is the first element that failed.
    Element(Place, Cause),
}

impl Raised {
    /// Unwinds. No panic hook runs.
    #[cfg(panic = "unwind")]
    pub(crate) fn throw(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }

    /// Reports the failure as a panic, since the program cannot unwind.
    #[cfg(not(panic = "unwind"))]
    #[allow(clippy::panic, reason = "the program was built to abort at the first failure")]
    pub(crate) fn throw(self) -> ! {
        match self {
            Self::Check(check) => panic!("a check of a kernel failed: {check:?}"),
            Self::Refused(message) => panic!("{message}"),
            Self::Element(place, cause) => {
                panic!("{place} of a kernel failed: {cause:?}")
            }
        }
    }
}

/// Ends the kernel with a fault at this line of the caller's file.
#[cold]
#[inline(never)]
pub(crate) fn fault(
    kind: FaultKind,
    line: u32,
    index: u64,
    len: u64,
    caller: &'static Location<'static>,
) -> ! {
    Raised::Check(Check { kind, file: caller.file(), line, index, len }).throw()
}
