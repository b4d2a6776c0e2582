//! Dual numbers: a value and its derivative along a direction, for kernels and for the code around them.
//!
//! A kernel over dual numbers computes a directional derivative beside its values, which have the bits of the same kernel over
//! floats without `contract`. The gradient of such a derivative has second derivatives: `cuda-tape` says how to take the product of a Hessian
//! and a vector.
//!
//! ```
//! use gpu_phases::dual::Dual64;
//! use gpu_phases::kernel;
//!
//! #[kernel]
//! fn cubes(x: &[Dual64], out: &mut [Dual64]) {
//!     assert!(x.len() == out.len());
//!     each(out, |i, out| *out = x[i] * x[i] * x[i] + 1.0);
//! }
//!
//! let mut out = [Dual64::default()];
//! cubes::cpu(&[Dual64::new(2.0, 1.0)], &mut out)?;
//! assert_eq!(out, [Dual64::new(9.0, 12.0)]);
//! # Ok::<(), gpu_phases::kernel::CpuError>(())
//! ```
//!
//! A number without a tangent is the right operand of `+`, `-`, `*` and `/`: write `x * 2.0`.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::{Pod, Zeroable};

use crate::{Device, device};

macro_rules! dual {
    ($doc:literal $name:ident $float:ident) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Default, Device)]
        #[repr(C)]
        pub struct $name {
            /// The value.
            pub value: $float,
            /// The derivative along the direction.
            pub tangent: $float,
        }

        // SAFETY: floats without padding.
        unsafe impl Zeroable for $name {}
        // SAFETY: floats without padding, and all bytes are floats.
        unsafe impl Pod for $name {}

        #[device]
        impl $name {
            /// Returns the number with this value and this derivative.
            #[must_use]
            pub fn new(value: $float, tangent: $float) -> Self {
                Self { value, tangent }
            }

            /// Returns a number that does not change along the direction.
            #[must_use]
            pub fn constant(value: $float) -> Self {
                Self { value, tangent: 0.0 }
            }

            /// Returns a function of this number, by the function's value and its derivative here.
            #[must_use]
            pub fn chain(self, value: $float, slope: $float) -> Self {
                Self { value, tangent: slope * self.tangent }
            }

            /// Returns 1 / x.
            #[must_use]
            pub fn recip(self) -> Self {
                let value = self.value.recip();
                self.chain(value, -value * value)
            }

            /// Returns the square root. Its derivative at 0 is 0.
            #[must_use]
            pub fn sqrt(self) -> Self {
                let value = self.value.sqrt();
                self.chain(value, if value == 0.0 { 0.0 } else { 0.5 / value })
            }

            /// Returns the power.
            #[must_use]
            pub fn powi(self, n: i32) -> Self {
                let slope = if n == 0 { 0.0 } else { n as $float * self.value.powi(n - 1) };
                self.chain(self.value.powi(n), slope)
            }

            /// Returns the power.
            #[must_use]
            pub fn powf(self, y: $float) -> Self {
                let slope = if y == 0.0 { 0.0 } else { y * self.value.powf(y - 1.0) };
                // A constant stays one where the derivative is infinite or a NaN.
                let is_constant = self.tangent == 0.0 && !slope.is_finite();
                self.chain(self.value.powf(y), if is_constant { 0.0 } else { slope })
            }

            /// Returns eˣ.
            #[must_use]
            pub fn exp(self) -> Self {
                let value = self.value.exp();
                self.chain(value, value)
            }

            /// Returns the natural logarithm.
            #[must_use]
            pub fn ln(self) -> Self {
                let slope = self.value.recip();
                let is_constant = self.tangent == 0.0 && !slope.is_finite();
                self.chain(self.value.ln(), if is_constant { 0.0 } else { slope })
            }

            /// Returns the sine.
            #[must_use]
            pub fn sin(self) -> Self {
                self.chain(self.value.sin(), self.value.cos())
            }

            /// Returns the cosine.
            #[must_use]
            pub fn cos(self) -> Self {
                self.chain(self.value.cos(), -self.value.sin())
            }

            /// Returns the hyperbolic tangent.
            #[must_use]
            pub fn tanh(self) -> Self {
                let value = self.value.tanh();
                self.chain(value, 1.0 - value * value)
            }

            /// Returns the absolute value. Its derivative at 0 is 1.
            #[must_use]
            pub fn abs(self) -> Self {
                let tangent = if self.value < 0.0 { -self.tangent } else { self.tangent };
                Self { value: self.value.abs(), tangent }
            }

            /// Returns the lesser number, this one if both values are equal.
            #[must_use]
            pub fn min(self, other: Self) -> Self {
                let is_other = other.value < self.value || self.value.is_nan();
                let tangent = if is_other { other.tangent } else { self.tangent };
                Self { value: self.value.min(other.value), tangent }
            }

            /// Returns the greater number, this one if both values are equal.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                let is_other = other.value > self.value || self.value.is_nan();
                let tangent = if is_other { other.tangent } else { self.tangent };
                Self { value: self.value.max(other.value), tangent }
            }
        }

        #[device]
        impl Neg for $name {
            type Output = Self;

            fn neg(self) -> Self {
                Self { value: -self.value, tangent: -self.tangent }
            }
        }

        dual!(@operator $name $float Add add AddAssign add_assign +, a b: a.tangent + b.tangent, a.tangent);
        dual!(@operator $name $float Sub sub SubAssign sub_assign -, a b: a.tangent - b.tangent, a.tangent);
        dual!(@operator $name $float Mul mul MulAssign mul_assign *, a b:
            a.tangent * b.value + a.value * b.tangent, a.tangent * b);
        dual!(@operator $name $float Div div DivAssign div_assign /, a b:
            (a.tangent - a.value / b.value * b.tangent) / b.value, a.tangent / b);
    };
    (
        @operator $name:ident $float:ident $trait:ident $f:ident $assign:ident $fa:ident $op:tt,
        $a:ident $b:ident: $of_both:expr, $of_number:expr
    ) => {
        #[device]
        impl $trait for $name {
            type Output = Self;

            fn $f(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                Self { value: $a.value $op $b.value, tangent: $of_both }
            }
        }

        #[device]
        impl $trait<$float> for $name {
            type Output = Self;

            fn $f(self, number: $float) -> Self {
                let ($a, $b) = (self, number);
                Self { value: $a.value $op $b, tangent: $of_number }
            }
        }

        #[device]
        impl $assign for $name {
            fn $fa(&mut self, other: Self) {
                *self = *self $op other;
            }
        }
    };
}

dual! { "A dual number of `f32`." Dual32 f32 }
dual! { "A dual number of `f64`." Dual64 f64 }
