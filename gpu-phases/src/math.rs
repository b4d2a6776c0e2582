//! Functions of numbers with the same defined result on every target.
//!
//! In kernels `x.min(y)` and similar calls use these: the macro writes `x.phases_min(y)` in the copy that rustc
//! compiles, and the C++ for devices defines the same results. They are needed where Rust leaves a result
//! unspecified, or where a panic of std would not have the line of the kernel.
//!
//! # Floats
//! The sign and the payload of a NaN differ by processor. No function of a kernel exposes them:
//! [`to_bits`](DefinedFloat::phases_to_bits) of a NaN is that of `NAN` in Rust, `is_sign_negative` is false, and
//! `copysign` takes its sign as positive. Only the bits of a NaN that a kernel stores as a float may differ.
//!
//! | function | result |
//! |---|---|
//! | `min`, `max` | -0.0 is less than 0.0. A NaN is ignored: the result is the other operand |
//! | `clamp` | `self` if it is a NaN. A fault (`Assert`) unless `min <= max`. A zero keeps its sign between zeros |
//! | `abs`, `copysign`, `signum` | exact; `signum` of a zero is 1.0 with its sign, of a NaN a NaN |
//! | `floor`, `ceil`, `trunc`, `round`, `round_ties_even`, `fract` | exact; zeros and results that round to zero keep the sign |
//! | `sqrt`, `mul_add`, `recip` | correctly rounded; `mul_add` rounds once |
//! | `stop_gradient` | the number itself, which is a constant for gradients: what is computed from it has none |
//! | `powi` | products by squaring, from the lowest bit of the exponent on; the reciprocal at the end if it is negative |
//! | `rem_euclid`, `div_euclid` | as std computes them, from the exact `%` |
//!
//! `sin`, `exp`, `ln`, `powf` and the like of `f32` and `f64` are the library's own, in the language of kernels, with errors
//! of at most 2.5 units in the last place. Those of C libraries and of CUDA have other bits.
//!
//! `f16` and `bf16` have the same functions, whose results are those of `f32`, rounded once more. So `+`, `-`, `*`, `/`, `%`
//! and `sqrt` are correctly rounded. `from_f64` rounds once.
//!
//! # Integers
//! `abs`, `pow` and `signum` behave as in std, with overflow checks as in the kernel's crate. `rem_euclid`,
//! `div_euclid` and `div_ceil` by zero are faults, as is division of the smallest number by -1. `min`, `max` and
//! `clamp` use the usual order, and `clamp` is a fault unless `min <= max`. Functions that cannot fail
//! (`leading_zeros`, `count_ones`, `rotate_left`, `wrapping_*`, `saturating_*`, `checked_*`) are std's.

use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem, Shl, Shr,
    Sub, SubAssign,
};
use std::panic::{self, AssertUnwindSafe, Location};

use crate::cpu::raise;
use crate::device::Device;
use crate::fault::FaultKind;

#[cold]
#[inline(never)]
fn fail(kind: FaultKind, caller: &'static Location<'static>) -> ! {
    raise::fault(kind, caller.line(), 0, 0, caller)
}

/// Evaluates an operation of std that overflows: it panics if the kernel's crate checks overflows, else it wraps. The
/// function is generic, because overflow checks are those of the crate that instantiates it.
#[cold]
#[track_caller]
fn overflowed<T>(operation: impl FnOnce() -> T) -> T {
    match panic::catch_unwind(AssertUnwindSafe(operation)) {
        Ok(wrapped) => wrapped,
        Err(_) => fail(FaultKind::Overflow, Location::caller()),
    }
}

macro_rules! declare {
    ($(#[$meta:meta])* $trait:ident { $($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)* }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "the functions are those of std without the prefix; the module says what differs")]
        pub trait $trait: Copy {
            $($(#[$doc])* #[must_use] #[track_caller] fn $name(self $(, $arg: $ty)*) -> $out;)*
        }
    };
}

declare! {
    /// Functions of integers with defined results.
    DefinedInt {
        phases_min(other: Self) -> Self;
        phases_max(other: Self) -> Self;
        phases_clamp(min: Self, max: Self) -> Self;
        phases_rem_euclid(by: Self) -> Self;
        phases_div_euclid(by: Self) -> Self;
        phases_pow(exponent: u32) -> Self;
    }
}

declare! {
    /// Functions of signed integers with defined results.
    DefinedSigned {
        phases_abs() -> Self;
        phases_signum() -> Self;
        phases_is_positive() -> bool;
        phases_is_negative() -> bool;
    }
}

declare! {
    /// Functions of unsigned integers with defined results.
    DefinedUnsigned {
        phases_div_ceil(by: Self) -> Self;
    }
}

/// Functions of floats with defined results.
#[allow(
    missing_docs,
    reason = "the functions are those of std without the prefix; the module says what differs"
)]
pub trait DefinedFloat: Copy {
    /// The unsigned integer of the same width.
    type Bits;
    #[must_use]
    fn phases_from_f64(value: f64) -> Self;
    #[must_use]
    fn phases_min(self, other: Self) -> Self;
    #[must_use]
    fn phases_max(self, other: Self) -> Self;
    #[must_use]
    #[track_caller]
    fn phases_clamp(self, min: Self, max: Self) -> Self;
    #[must_use]
    fn phases_abs(self) -> Self;
    #[must_use]
    fn phases_signum(self) -> Self;
    #[must_use]
    fn phases_copysign(self, sign: Self) -> Self;
    #[must_use]
    fn phases_to_bits(self) -> Self::Bits;
    #[must_use]
    fn phases_is_sign_negative(self) -> bool;
    #[must_use]
    fn phases_is_sign_positive(self) -> bool;
    #[must_use]
    fn phases_floor(self) -> Self;
    #[must_use]
    fn phases_ceil(self) -> Self;
    #[must_use]
    fn phases_trunc(self) -> Self;
    #[must_use]
    fn phases_round(self) -> Self;
    #[must_use]
    fn phases_round_ties_even(self) -> Self;
    #[must_use]
    fn phases_fract(self) -> Self;
    #[must_use]
    fn phases_sqrt(self) -> Self;
    #[must_use]
    fn phases_recip(self) -> Self;
    #[must_use]
    fn phases_stop_gradient(self) -> Self;
    #[must_use]
    fn phases_mul_add(self, factor: Self, addend: Self) -> Self;
    #[must_use]
    fn phases_powi(self, exponent: i32) -> Self;
    #[must_use]
    fn phases_rem_euclid(self, by: Self) -> Self;
    #[must_use]
    fn phases_div_euclid(self, by: Self) -> Self;
}

macro_rules! integers {
    ($($name:ident)*) => {$(
        impl DefinedInt for $name {
            #[inline(always)]
            fn phases_min(self, other: Self) -> Self {
                if other < self { other } else { self }
            }

            #[inline(always)]
            fn phases_max(self, other: Self) -> Self {
                if other > self { other } else { self }
            }

            #[inline(always)]
            #[track_caller]
            fn phases_clamp(self, min: Self, max: Self) -> Self {
                if min > max {
                    fail(FaultKind::Assert, Location::caller());
                }
                self.phases_max(min).phases_min(max)
            }

            #[inline(always)]
            #[track_caller]
            fn phases_rem_euclid(self, by: Self) -> Self {
                match self.checked_rem_euclid(by) {
                    Some(result) => result,
                    None => fail(FaultKind::Division, Location::caller()),
                }
            }

            #[inline(always)]
            #[track_caller]
            fn phases_div_euclid(self, by: Self) -> Self {
                match self.checked_div_euclid(by) {
                    Some(result) => result,
                    None => fail(FaultKind::Division, Location::caller()),
                }
            }

            #[inline(always)]
            #[track_caller]
            fn phases_pow(self, exponent: u32) -> Self {
                match self.checked_pow(exponent) {
                    Some(power) => power,
                    None => overflowed(|| self.pow(exponent)),
                }
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

macro_rules! signed {
    ($($name:ident)*) => {$(
        impl DefinedSigned for $name {
            #[inline(always)]
            #[track_caller]
            fn phases_abs(self) -> Self {
                match self.checked_abs() {
                    Some(value) => value,
                    None => overflowed(|| self.abs()),
                }
            }

            #[inline(always)]
            fn phases_signum(self) -> Self {
                self.signum()
            }

            // `f64` of std has deprecated methods of these names, and the C++ has them only for integers.
            #[inline(always)]
            fn phases_is_positive(self) -> bool {
                self > 0
            }

            #[inline(always)]
            fn phases_is_negative(self) -> bool {
                self < 0
            }
        }
    )*};
}
signed!(i8 i16 i32 i64 isize);

macro_rules! unsigned {
    ($($name:ident)*) => {$(
        impl DefinedUnsigned for $name {
            #[inline(always)]
            #[track_caller]
            fn phases_div_ceil(self, by: Self) -> Self {
                if by == 0 {
                    fail(FaultKind::Division, Location::caller());
                }
                self.div_ceil(by)
            }
        }
    )*};
}
unsigned!(u8 u16 u32 u64 usize);

macro_rules! floats {
    ($($name:ident $bits:ident)*) => {$(
        impl DefinedFloat for $name {
            type Bits = $bits;

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "it rounds")]
            fn phases_from_f64(value: f64) -> Self {
                value as $name
            }

            // Equal numbers differ at most in the sign of a zero.
            #[inline(always)]
            fn phases_min(self, other: Self) -> Self {
                let equal = $name::from_bits(self.to_bits() | other.to_bits());
                let less = if self < other || other.is_nan() { self } else { other };
                if self == other { equal } else { less }
            }

            #[inline(always)]
            fn phases_max(self, other: Self) -> Self {
                let equal = $name::from_bits(self.to_bits() & other.to_bits());
                let greater = if self > other || other.is_nan() { self } else { other };
                if self == other { equal } else { greater }
            }

            #[inline(always)]
            #[track_caller]
            fn phases_clamp(self, min: Self, max: Self) -> Self {
                let ordered = min <= max;
                if !ordered {
                    fail(FaultKind::Assert, Location::caller());
                }
                let low = if self < min { min } else { self };
                if low > max { max } else { low }
            }

            #[inline(always)]
            fn phases_abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn phases_signum(self) -> Self {
                if self.is_nan() { self } else { (1.0 as $name).copysign(self) }
            }

            #[inline(always)]
            fn phases_copysign(self, sign: Self) -> Self {
                let negative = sign.phases_is_sign_negative();
                if negative { -self.abs() } else { self.abs() }
            }

            #[inline(always)]
            fn phases_to_bits(self) -> $bits {
                if self.is_nan() { $name::NAN.to_bits() } else { self.to_bits() }
            }

            #[inline(always)]
            fn phases_is_sign_negative(self) -> bool {
                !self.is_nan() && self.is_sign_negative()
            }

            #[inline(always)]
            fn phases_is_sign_positive(self) -> bool {
                !self.phases_is_sign_negative()
            }

            #[inline(always)]
            fn phases_fract(self) -> Self {
                self - self.trunc()
            }

            #[inline(always)]
            fn phases_stop_gradient(self) -> Self {
                self
            }

            #[inline(always)]
            fn phases_recip(self) -> Self {
                1.0 / self
            }

            #[inline(always)]
            fn phases_mul_add(self, factor: Self, addend: Self) -> Self {
                self.mul_add(factor, addend)
            }

            #[inline]
            fn phases_powi(self, exponent: i32) -> Self {
                let (mut base, mut left, mut power) = (self, exponent.unsigned_abs(), 1.0);
                loop {
                    if left & 1 == 1 {
                        power *= base;
                    }
                    left /= 2;
                    if left == 0 {
                        break;
                    }
                    base *= base;
                }
                if exponent < 0 { 1.0 / power } else { power }
            }

            #[inline]
            fn phases_rem_euclid(self, by: Self) -> Self {
                let rest = self % by;
                if rest < 0.0 { rest + by.abs() } else { rest }
            }

            #[inline]
            fn phases_div_euclid(self, by: Self) -> Self {
                let quotient = (self / by).trunc();
                if self % by < 0.0 {
                    if by > 0.0 { quotient - 1.0 } else { quotient + 1.0 }
                } else {
                    quotient
                }
            }

            floats!(@std phases_floor floor, phases_ceil ceil, phases_trunc trunc, phases_round round,
                phases_round_ties_even round_ties_even, phases_sqrt sqrt);
        }
    )*};
    (@std $($name:ident $std:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            self.$std()
        }
    )*};
}
floats!(f32 u32 f64 u64);

/// Declares the names by which kernels call methods of a trait: another trait may have methods of the same names.
macro_rules! called {
    ($($called:ident = $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {$(
        #[doc(hidden)]
        #[inline(always)]
        #[must_use]
        fn $called(self $(, $arg: $ty)*) -> $out {
            self.$name($($arg),*)
        }
    )*};
}

/// A number in a kernel: the common methods of [`Real`] and [`Int`].
pub trait Number:
    Device
    + crate::print::Print
    + PartialOrd
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// Returns zero.
    #[doc(hidden)]
    #[must_use]
    fn phases_default() -> Self {
        Self::default()
    }
}

/// `f32` or `f64`, with the feature `half` also `f16` and `bf16`: the bound of a generic kernel, or `#[device]` function, over floats.
pub trait Real: Number + Neg<Output = Self> + DefinedFloat {
    /// Converts a number, rounded to the nearest one.
    #[must_use]
    fn from_f64(value: f64) -> Self;

    /// Converts to `f64`, which is exact.
    #[must_use]
    fn to_f64(self) -> f64;

    /// Returns whether this is a NaN.
    #[must_use]
    fn is_nan(self) -> bool;

    /// Returns whether this is neither infinite nor a NaN.
    #[must_use]
    fn is_finite(self) -> bool;

    /// Returns whether this is infinite.
    #[must_use]
    fn is_infinite(self) -> bool;

    called! {
        phases_to_f64 = to_f64() -> f64;
        phases_is_nan = is_nan() -> bool;
        phases_is_finite = is_finite() -> bool;
        phases_is_infinite = is_infinite() -> bool;
    }
}

/// An integer: the bound of a generic kernel, or `#[device]` function, over integers.
pub trait Int:
    Number
    + Ord
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
    + DefinedInt
{
    /// Converts as `as` does: the lower bits are kept.
    #[must_use]
    fn from_i64(value: i64) -> Self;

    /// Converts as `as` does: a `u64` above `i64::MAX` becomes negative.
    #[must_use]
    fn to_i64(self) -> i64;

    /// Returns the number of ones in the binary form.
    #[must_use]
    fn count_ones(self) -> u32;

    /// Returns the number of leading zeros in the binary form.
    #[must_use]
    fn leading_zeros(self) -> u32;

    /// Returns the number of trailing zeros in the binary form.
    #[must_use]
    fn trailing_zeros(self) -> u32;

    /// Adds, wrapping around.
    #[must_use]
    fn wrapping_add(self, other: Self) -> Self;

    /// Subtracts, wrapping around.
    #[must_use]
    fn wrapping_sub(self, other: Self) -> Self;

    /// Multiplies, wrapping around.
    #[must_use]
    fn wrapping_mul(self, other: Self) -> Self;

    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    fn phases_from_i64(value: i64) -> Self {
        Self::from_i64(value)
    }

    called! {
        phases_to_i64 = to_i64() -> i64;
        phases_count_ones = count_ones() -> u32;
        phases_leading_zeros = leading_zeros() -> u32;
        phases_trailing_zeros = trailing_zeros() -> u32;
        phases_wrapping_add = wrapping_add(other: Self) -> Self;
        phases_wrapping_sub = wrapping_sub(other: Self) -> Self;
        phases_wrapping_mul = wrapping_mul(other: Self) -> Self;
    }
}

macro_rules! reals {
    ($($name:ident)*) => {$(
        impl Number for $name {}

        #[allow(clippy::cast_possible_truncation, reason = "documented")]
        impl Real for $name {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $name
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            reals!(@same $name: is_nan is_finite is_infinite);
        }
    )*};
    (@same $type:ident: $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> bool {
            <$type>::$name(self)
        }
    )*};
}
reals!(f32 f64);

macro_rules! ints {
    ($($name:ident)*) => {$(
        impl Number for $name {}

        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "documented")]
        impl Int for $name {
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as $name
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }

            ints!(@count $name: count_ones leading_zeros trailing_zeros);
            ints!(@wrap $name: wrapping_add wrapping_sub wrapping_mul);
        }
    )*};
    (@count $type:ident: $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> u32 {
            <$type>::$name(self)
        }
    )*};
    (@wrap $type:ident: $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            <$type>::$name(self, other)
        }
    )*};
}
ints!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

#[cfg(test)]
#[path = "math_tests.rs"]
mod tests;
