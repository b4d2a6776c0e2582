//! `println!` in kernels. The text is the same on the CPU as that of `printf` on a device.

use std::fmt;

use crate::device::Device;
use crate::probe::Probe;

/// A value that `println!` of a kernel takes.
#[diagnostic::on_unimplemented(
    message = "kernels cannot print a value of the type `{Self}`",
    label = "this has the type `{Self}`",
    note = "kernels print numbers and `bool`s: print each part"
)]
pub trait Print {
    /// The type with references removed.
    type Value: Device;

    /// Displays the value like `printf` with the [`conversion`] of its type.
    #[allow(clippy::missing_errors_doc, reason = "as of all formatting")]
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

macro_rules! references {
    ($($reference:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Print> Print for $reference {
            type Value = T::Value;

            fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                T::display(self, f)
            }
        }
    )*};
}
references!(&T, &mut T);

/// A value that displays like `printf`.
#[derive(Debug)]
struct Printed<'v, T>(&'v T);

impl<T: Print> fmt::Display for Printed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}

/// Returns the value to display, and reports its type.
pub fn printed<'v, T: Print>(_: &Probe<T::Value>, value: &'v T) -> impl fmt::Display + use<'v, T> {
    Printed(value)
}

/// Prints a line.
#[cold]
pub fn print(line: fmt::Arguments<'_>) {
    println!("{line}");
}

macro_rules! displayed {
    ($($name:ident)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Print for $name {
            type Value = Self;

            fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                displayed!(@ $name *self, f)
            }
        }
    )*};
    (@ f32 $value:expr, $f:ident) => { float(f64::from($value), 9, $f) };
    (@ f64 $value:expr, $f:ident) => { float($value, 17, $f) };
    (@ $other:ident $value:expr, $f:ident) => { write!($f, "{}", $value) };
}
displayed!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 bool);

/// Returns the conversion of `printf` for a type of C++. Floats have `decimals`, or as many digits as show all their bits.
#[must_use]
pub fn conversion(ty: &str, decimals: Option<u8>) -> String {
    match (ty, decimals) {
        ("bool", _) => "%s".to_owned(),
        ("f32" | "f64", Some(decimals)) => format!("%.{decimals}f"),
        ("f32", None) => "%.9g".to_owned(),
        ("f64", None) => "%.17g".to_owned(),
        _ if ty.starts_with('u') => "%llu".to_owned(),
        _ => "%lld".to_owned(),
    }
}

/// Displays like `%.{decimals}f` if the format has decimals, else like `%.{digits}g`.
fn float(value: f64, digits: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("nan");
    }
    if value.is_infinite() {
        return f.write_str(if value < 0.0 { "-inf" } else { "inf" });
    }
    if let Some(decimals) = f.precision() {
        return write!(f, "{value:.decimals$}");
    }
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match usize::try_from(exponent + 4) {
        Ok(above) if above < digits + 4 => {
            let text = format!("{value:.*}", digits + 3 - above);
            f.write_str(shortened(&text))
        }
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(f, "{}e{sign}{:02}", shortened(mantissa), exponent.unsigned_abs())
        }
    }
}

/// Removes the zeros at the end of decimals.
fn shortened(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::Printed;

    #[test]
    fn floats_are_displayed_as_c_does() {
        let cases: [(f64, &str); 12] = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(Printed(&value).to_string(), text);
        }
        assert_eq!(Printed(&0.1f32).to_string(), "0.100000001");
        assert_eq!(Printed(&16_777_216f32).to_string(), "16777216");
        // A tie is rounded to the even digit.
        assert_eq!(format!("{:.2} {:.2}", Printed(&0.125f32), Printed(&0.375f32)), "0.12 0.38");
        assert_eq!(format!("{:.0} {:.1}", Printed(&2.5f64), Printed(&-0.0f64)), "2 -0.0");
        assert_eq!(format!("{:.1} {:.1}", Printed(&7u8), Printed(&true)), "7 true");
    }
}
