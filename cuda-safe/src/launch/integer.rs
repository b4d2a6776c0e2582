//! Integers that callers pass where a kernel, a grid or a block takes an integer of another type.

use std::any::type_name;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// An integer that converts to `N` where its value is in the range of `N`.
///
/// Methods of [`kernels!`](crate::kernels) take any integer for an integer parameter: a CUDA C++ kernel that takes an
/// `int` is called with a `usize`. The method checks the range, and returns
/// [`ErrorKind::Precondition`](crate::ErrorKind::Precondition) for a value outside. Passing an integer of the
/// parameter's own type costs nothing.
///
/// A literal without a type is an `i32`, as everywhere in Rust: write `0xFFFF_FFFF_u32` for a larger one.
#[diagnostic::on_unimplemented(
    message = "expected an integer, which is converted to `{N}`",
    label = "`{Self}` is no integer"
)]
pub trait Integer<N>: sealed::Primitive {
    /// Returns the value as an `N`, or `None` if it is out of range.
    fn convert(self) -> Option<N>;
}

mod sealed {
    /// A primitive integer.
    pub trait Primitive: Copy + std::fmt::Display + 'static {}
}

/// An integer whose values an `i128` has: constants and fields in clauses.
#[diagnostic::on_unimplemented(
    message = "expressions of `kernels!` read integers",
    label = "`{Self}` is no integer, or not one of at most 64 bits or an `i128`"
)]
pub trait Number: sealed::Primitive {
    /// The least and the greatest value.
    const RANGE: (i128, i128);

    /// Returns the value.
    fn number(self) -> i128;

    /// Returns the number of this value; `None` if it is out of range.
    fn of(value: i128) -> Option<Self>;
}

macro_rules! integers {
    ($($integer:ident)+) => {$(
        impl sealed::Primitive for $integer {}

        #[diagnostic::do_not_recommend]
        impl<N: TryFrom<$integer>> Integer<N> for $integer {
            #[inline]
            fn convert(self) -> Option<N> {
                N::try_from(self).ok()
            }
        }
    )+};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

macro_rules! numbers {
    ($($integer:ident)+) => {$(
        #[diagnostic::do_not_recommend]
        impl Number for $integer {
            const RANGE: (i128, i128) = ($integer::MIN as i128, $integer::MAX as i128);

            #[inline]
            fn of(value: i128) -> Option<Self> {
                Self::try_from(value).ok()
            }

            #[inline]
            fn number(self) -> i128 {
                // The cast loses no value: the list has no u128.
                self as i128
            }
        }
    )+};
}

numbers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 usize);

/// Returns the value of a constant or of a field that a clause reads.
#[inline]
pub fn number(value: impl Number) -> i128 {
    value.number()
}

/// Returns the argument `value` as the integer that the kernel takes.
///
/// # Errors
/// [`ErrorKind::Precondition`] if it is out of range. `clause` is the parameter with its type, `name` its name.
#[inline]
pub fn integer<N, I: Integer<N>>(
    kernel: &'static str,
    clause: &'static str,
    name: &'static str,
    value: I,
) -> Result<N> {
    match value.convert() {
        Some(converted) => Ok(converted),
        None => Err(out_of_range::<N>(kernel, clause, name, &value)),
    }
}

#[cold]
fn out_of_range<N>(
    kernel: &'static str,
    clause: &'static str,
    name: &'static str,
    value: &dyn fmt::Display,
) -> Error {
    let text = value.to_string();
    // Only a u128 has values that an i128 does not have; the hint shows them.
    let values = text.parse().ok().map(|value| (name, value)).into_iter().collect();
    Error::new(ErrorKind::Precondition { kernel, clause, values })
        .with_hint(format!("{text} is out of the range of {}", type_name::<N>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts each of `values` to `N`, and compares with the range of `N`.
    fn ranges<N: TryFrom<i128> + Into<i128> + PartialEq>(least: i128, most: i128) {
        let edges = [0, 1, least, most, i128::from(i32::MIN), i128::from(u64::MAX)];
        for value in edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]) {
            let inside = (least..=most).contains(&value);
            assert_eq!(integer::<N, _>("k", "n: N", "n", value).is_ok(), inside, "{value}");
            if let Ok(small) = i64::try_from(value)
                && let Ok(converted) = integer::<i64, _>("k", "n: i64", "n", small)
            {
                assert_eq!(i128::from(converted), value);
            }
        }
    }

    #[test]
    fn values_in_range_pass_and_no_others() {
        ranges::<u8>(0, 255);
        ranges::<i8>(-128, 127);
        ranges::<u16>(0, 65535);
        ranges::<i32>(i32::MIN.into(), i32::MAX.into());
        ranges::<u32>(0, u32::MAX.into());
        ranges::<i64>(i64::MIN.into(), i64::MAX.into());
        ranges::<u64>(0, u64::MAX.into());
        assert_eq!(integer::<i32, _>("k", "n: i32", "n", 7usize).ok(), Some(7));
        assert_eq!(integer::<usize, _>("k", "n: usize", "n", 7u8).ok(), Some(7));
    }

    #[test]
    fn the_error_names_parameter_type_and_value() {
        let text = |result: Result<i32>| result.map_err(|error| error.to_string());
        assert_eq!(
            text(integer("scale", "n: i32", "n", 1usize << 40)),
            Err("kernel `scale`: `n: i32` does not hold: n = 1099511627776; hint: 1099511627776 is \
                 out of the range of i32"
                .to_owned())
        );
        assert_eq!(
            text(integer("scale", "n: i32", "n", u128::MAX)),
            Err(format!(
                "kernel `scale`: `n: i32` does not hold; hint: {} is out of the range of i32",
                u128::MAX
            ))
        );
    }
}
