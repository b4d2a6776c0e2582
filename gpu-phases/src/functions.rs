//! Elementary functions with one result on all targets: `x.sin()`, `x.exp()` and the like in kernels.
//!
//! They are written in the language of kernels, from operations that IEEE 754 defines and with polynomials of our own
//! (Chebyshev interpolation), so processors and devices compute the same bits. Errors are at most 2.5 units in the last
//! place; the tests measure them.
//!
//! Reduction of arguments: W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980; for large ones
//! M. Payne and R. Hanek, Radian Reduction for Trigonometric Functions, 1983. Logarithms of doubles: P. Tang,
//! Table-Driven Implementation of the Logarithm Function, 1990, without a table.

#![allow(dead_code, reason = "kernels and the trait use the types of the functions' names")]

use crate::probe::{Named, Probe};
use crate::text::Text;
use crate::{Real, device};

mod elementary;
mod logarithms;
mod powers;
mod reduce;

use elementary::*;
use logarithms::*;
use powers::*;

/// Returns c\[0] + c\[1] x + c\[2] x² + ….
#[device]
pub(crate) fn horner<T: Real, const N: usize>(x: T, c: [T; N]) -> T {
    let mut sum = c[N - 1];
    for k in 1..N {
        sum = sum.mul_add(x, c[N - 1 - k]);
    }
    sum
}

/// Returns x · 2ⁿ for n from -252 to 254. It is rounded once where the result has fewer digits.
#[device]
fn scale_f32(x: f32, n: i32) -> f32 {
    let half = n >> 1;
    x * f32::from_bits(((half + 127) as u32) << 23)
        * f32::from_bits(((n - half + 127) as u32) << 23)
}

/// Returns x · 2ⁿ for n from -2044 to 2046.
#[device]
fn scale_f64(x: f64, n: i64) -> f64 {
    let half = n >> 1;
    x * f64::from_bits(((half + 1023) as u64) << 52)
        * f64::from_bits(((n - half + 1023) as u64) << 52)
}

/// A function of a type of numbers.
#[derive(Debug)]
pub struct Of<T, F>(std::marker::PhantomData<fn() -> (T, F)>);

/// Returns the C++ name of a function, and writes it.
fn source<S: Named, R>(_: impl Fn(Probe<S>) -> R, text: &mut Text) -> String {
    S::name(text)
}

macro_rules! functions {
    ($($method:ident $tag:ident $args:tt -> $output:ty: $f32:ident $f64:ident;)+) => {
        $(
            #[doc = concat!("Stands for `", stringify!($method), "`.")]
            #[derive(Debug)]
            pub struct $tag;

            functions!(@named f32 $tag $args $f32);
            functions!(@named f64 $tag $args $f64);
        )+

        /// Numbers that have the elementary functions in kernels.
        pub trait Elementary: Sized {
            $(functions!(@declare $method $tag $args $output);)+
        }

        impl Elementary for f32 {
            $(functions!(@define $method $tag $args $output, $f32);)+
        }

        impl Elementary for f64 {
            $(functions!(@define $method $tag $args $output, $f64);)+
        }
    };
    (@declare $method:ident $tag:ident ($($arg:ident)?) $output:ty) => {
        /// Returns the function's value.
        fn $method(self, probe: Probe<Of<Self, $tag>> $(, $arg: Self)?) -> $output;
    };
    (@define $method:ident $tag:ident ($($arg:ident)?) $output:ty, $function:ident) => {
        #[inline(always)]
        fn $method(self, _: Probe<Of<Self, $tag>> $(, $arg: Self)?) -> $output {
            $function::phases_call(Probe::new(), self $(, $arg)?)
        }
    };
    (@named $f:ident $tag:ident ($($arg:ident)?) $function:ident) => {
        // SAFETY: the C++ is that of the function.
        #[allow(unsafe_code, reason = "the C++ of `#[device]` functions is trusted")]
        unsafe impl Named for Of<$f, $tag> {
            fn name(text: &mut Text) -> String {
                $(let $arg = 0.0;)?
                source(|probe| $function::phases_call(probe, 0.0 $(, $arg)?), text)
            }
        }
    };
}

functions! {
    phases_sin Sin() -> Self: sin_f32 sin_f64;
    phases_cos Cos() -> Self: cos_f32 cos_f64;
    phases_sin_cos SinCos() -> (Self, Self): sin_cos_f32 sin_cos_f64;
    phases_tan Tan() -> Self: tan_f32 tan_f64;
    phases_asin Asin() -> Self: asin_f32 asin_f64;
    phases_acos Acos() -> Self: acos_f32 acos_f64;
    phases_atan Atan() -> Self: atan_f32 atan_f64;
    phases_atan2 Atan2(x) -> Self: atan2_f32 atan2_f64;
    phases_sinh Sinh() -> Self: sinh_f32 sinh_f64;
    phases_cosh Cosh() -> Self: cosh_f32 cosh_f64;
    phases_tanh Tanh() -> Self: tanh_f32 tanh_f64;
    phases_exp Exp() -> Self: exp_f32 exp_f64;
    phases_exp2 Exp2() -> Self: exp2_f32 exp2_f64;
    phases_exp_m1 ExpM1() -> Self: exp_m1_f32 exp_m1_f64;
    phases_ln Ln() -> Self: ln_f32 ln_f64;
    phases_ln_1p Ln1p() -> Self: ln_1p_f32 ln_1p_f64;
    phases_log2 Log2() -> Self: log2_f32 log2_f64;
    phases_log10 Log10() -> Self: log10_f32 log10_f64;
    phases_powf Powf(y) -> Self: powf_f32 powf_f64;
    phases_cbrt Cbrt() -> Self: cbrt_f32 cbrt_f64;
    phases_hypot Hypot(y) -> Self: hypot_f32 hypot_f64;
}
