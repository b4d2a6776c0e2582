//! Numbers that blocks share and combine.

use std::cmp::Ordering;

use super::target::sealed;
use crate::device::Device;
use crate::math::{DefinedFloat, DefinedInt};

/// A value of kernels that is no array: an element of the memory of a block. Numbers, `bool`, and what derives `Device`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of memory that a block of threads has",
    note = "elements are numbers, `bool`, and structures and enums that derive `Device`"
)]
pub trait Element: Device {}

/// Numbers that warps and blocks combine.
///
/// Sums of integers wrap around. Sums of floats have one order on all targets. `min` and `max` are those of
/// [`math`](crate::math).
#[diagnostic::on_unimplemented(
    message = "warps and blocks combine numbers, not `{Self}`",
    label = "a value of each thread of type `{Self}`",
    note = "make a number of it in a phase; `block.compact` counts flags, and `block.warp_ballot` collects them"
)]
pub trait Summed: Element + sealed::Sealed {
    /// The sum of nothing.
    const ZERO: Self;

    /// Returns the sum.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// Returns the smaller one.
    #[must_use]
    fn lesser(self, other: Self) -> Self;
    /// Returns the greater one.
    #[must_use]
    fn greater(self, other: Self) -> Self;
    /// Compares; floats by `total_cmp`, but a NaN is the greatest, whatever its sign.
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! elements {
    ($($name:ty)*) => {$(impl Element for $name {})*};
}

elements!(bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
#[cfg(feature = "half")]
elements!(half::f16 half::bf16);

macro_rules! summed {
    ($zero:literal $plus:ident $order:ident: $($name:ident)*) => {$(
        impl sealed::Sealed for $name {}

        impl Summed for $name {
            const ZERO: Self = $zero;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                $plus!(self, other)
            }

            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                self.phases_min(other)
            }

            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                self.phases_max(other)
            }

            #[inline(always)]
            fn order(&self, other: &Self) -> Ordering {
                $order!(self, other)
            }
        }
    )*};
}

macro_rules! wrapping {
    ($a:expr, $b:expr) => {
        $a.wrapping_add($b)
    };
}

macro_rules! of_integers {
    ($a:expr, $b:expr) => {
        $a.cmp($b)
    };
}

// Processors differ in the sign of a NaN.
macro_rules! of_floats {
    ($a:expr, $b:expr) => {
        $a.is_nan().cmp(&$b.is_nan()).then($a.total_cmp($b))
    };
}

macro_rules! rounding {
    ($a:expr, $b:expr) => {
        $a + $b
    };
}

summed!(0 wrapping of_integers: u8 u16 u32 u64 usize i8 i16 i32 i64 isize);
summed!(0.0 rounding of_floats: f32 f64);
