//! Arithmetic on bits: the result of each PTX instruction for one thread, and nothing else.
//!
//! A type of PTX is a marker ([`U32`], [`S16`], [`F32`]…); its instructions are functions of the
//! marker that take and give the bits of a register (`u8` to `u64`). Modifiers are const
//! parameters, so that each instruction in each form is a separate function: no branch on a
//! modifier is left, and a loop over 32 lanes that calls one is vectorised where the instruction
//! set allows it.
//!
//! Directed rounding never touches the processor's rounding mode, which the compiler takes to be
//! "to nearest". It comes from exact residuals and from rounding to odd (`float::odd`), or
//! from integers (`float::soft`). The processor must not flush subnormals: the executor sees to it.
//!
//! Section numbers in the documentation of this module are titles of the PTX ISA manual.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "complete by type: the executor need not name all"
)]

pub(crate) mod approx;
pub(crate) mod atomics;
pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod int;
pub(crate) mod video;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use float::{F32, F64, Float};
pub(crate) use half::{Bf16, F16};
pub(crate) use int::{Int, S8, S16, S32, S64, U8, U16, U32, U64, Wide};

/// `.rn`: to nearest, ties to even.
pub(crate) const RN: u8 = 0;
/// `.rz`: towards zero.
pub(crate) const RZ: u8 = 1;
/// `.rm`: towards minus infinity.
pub(crate) const RM: u8 = 2;
/// `.rp`: towards plus infinity.
pub(crate) const RP: u8 = 3;
/// `.rna`: to nearest, ties away from zero.
pub(crate) const RNA: u8 = 4;
/// To odd: an inexact result is truncated and its last bit set. Not a mode of PTX: a result rounded
/// so to at least two bits more than needed can be rounded again, in any mode, without error.
pub(crate) const ODD: u8 = 5;

/// The bits of a register.
pub(crate) trait Bits: Copy + Eq + Send + Sync + std::fmt::Debug + 'static {
    /// Zero-extends.
    fn widen(self) -> u64;
    /// Truncates.
    fn narrow(bits: u64) -> Self;
}

macro_rules! bits {
    ($($ty:ty)*) => {$(
        impl Bits for $ty {
            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "truncation is its job")]
            fn narrow(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}
bits!(u8 u16 u32 u64);

/// Applies a function of 16-bit values, given by its path, to both halves of one to three sources.
/// Unlike [`x2`], [`x2_2`] and [`x2_3`] it calls the function by name, so that `#[inline(always)]`
/// holds: a function passed as a value is called through `Fn::call`, which the compiler may leave a
/// call, and then nothing is vectorised.
macro_rules! pair {
    ($f:expr, $a:expr) => {{
        let a = $a;
        $crate::arith::join($f($crate::arith::low(a)), $f($crate::arith::high(a)))
    }};
    ($f:expr, $a:expr, $b:expr) => {{
        use $crate::arith::{high, join, low};
        let (a, b) = ($a, $b);
        join($f(low(a), low(b)), $f(high(a), high(b)))
    }};
    ($f:expr, $a:expr, $b:expr, $c:expr) => {{
        use $crate::arith::{high, join, low};
        let (a, b, c) = ($a, $b, $c);
        join($f(low(a), low(b), low(c)), $f(high(a), high(b), high(c)))
    }};
}
pub(crate) use pair;

/// Applies a function of 16-bit values to both halves: the unary instructions of `f16x2`,
/// `bf16x2`, `u16x2` and `s16x2`.
#[inline(always)]
pub(crate) fn x2(f: impl Fn(u16) -> u16, a: u32) -> u32 {
    join(f(low(a)), f(high(a)))
}

/// Binary instructions of packed types, see [`x2`].
#[inline(always)]
pub(crate) fn x2_2(f: impl Fn(u16, u16) -> u16, a: u32, b: u32) -> u32 {
    join(f(low(a), low(b)), f(high(a), high(b)))
}

/// Instructions of packed types with three sources, see [`x2`].
#[inline(always)]
pub(crate) fn x2_3(f: impl Fn(u16, u16, u16) -> u16, a: u32, b: u32, c: u32) -> u32 {
    join(f(low(a), low(b), low(c)), f(high(a), high(b), high(c)))
}

/// Returns the lower half.
#[inline(always)]
pub(crate) fn low(a: u32) -> u16 {
    a as u16
}

/// Returns the upper half.
#[inline(always)]
pub(crate) fn high(a: u32) -> u16 {
    (a >> 16) as u16
}

/// Returns a register of two halves.
#[inline(always)]
pub(crate) fn join(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}
