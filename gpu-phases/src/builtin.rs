//! The C++ of built-in types.

use std::fmt::Write as _;

use crate::device::{Device, Float};
use crate::text::Text;

macro_rules! integers {
    ($($name:ident $(= $length:expr)?,)*) => {$(
        // SAFETY: `phases::$name` holds one integer of the same width and sign, and every byte pattern is one.
        #[diagnostic::do_not_recommend]
        unsafe impl Device for $name {
            $(const LENGTH: Option<fn(Self) -> usize> = $length;)?

            fn rust_name() -> String {
                stringify!($name).to_owned()
            }

            fn cpp_name() -> String {
                stringify!($name).to_owned()
            }

            fn write(_: &mut Text) {}

            fn write_value(&self, text: &mut String) {
                // The smallest signed number has no literal: it is one less than the next one.
                let suffix = if $name::MIN == 0 { "ull" } else { "ll" };
                if *self == $name::MIN && $name::MIN != 0 {
                    let _ = write!(text, "{}({}{suffix} - 1)", stringify!($name), self + 1);
                } else {
                    let _ = write!(text, "{}({self}{suffix})", stringify!($name));
                }
            }

            fn is_valid(_: &[u8]) -> bool {
                true
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize = Some(|length| length), i8, i16, i32, i64, isize,);

macro_rules! floats {
    ($($name:ident $float:ident $from_bits:literal)*) => {$(
        // SAFETY: `phases::$name` holds one IEEE number of the same width, and every byte pattern is one.
        #[diagnostic::do_not_recommend]
        unsafe impl Device for $name {
            const FLOATS: usize = 1;

            fn floats(at: usize, visit: &mut dyn FnMut(usize, Float)) {
                visit(at, Float::$float);
            }

            fn rust_name() -> String {
                stringify!($name).to_owned()
            }

            fn cpp_name() -> String {
                stringify!($name).to_owned()
            }

            fn write(_: &mut Text) {}

            fn write_value(&self, text: &mut String) {
                let _ = write!(text, "{}({}({:#x}))", stringify!($name), $from_bits, self.to_bits());
            }

            fn is_valid(_: &[u8]) -> bool {
                true
            }
        }
    )*};
}
floats!(f32 F32 "bits_f32" f64 F64 "bits_f64");

// SAFETY: `bool` is one byte, 0 or 1, in both languages.
#[diagnostic::do_not_recommend]
unsafe impl Device for bool {
    fn rust_name() -> String {
        "bool".to_owned()
    }

    fn cpp_name() -> String {
        "bool".to_owned()
    }

    fn write(_: &mut Text) {}

    fn write_value(&self, text: &mut String) {
        text.push_str(if *self { "true" } else { "false" });
    }

    fn is_valid(bytes: &[u8]) -> bool {
        matches!(bytes, [0 | 1])
    }
}

// SAFETY: arrays have the same layout in C++ and Rust. An empty one has one byte in C++, and is refused in memory by
// `is_stored`.
#[diagnostic::do_not_recommend]
unsafe impl<T: Device, const N: usize> Device for [T; N] {
    const STORED: bool = N > 0 && T::STORED;
    const FLOATS: usize = N * T::FLOATS;

    fn floats(at: usize, visit: &mut dyn FnMut(usize, Float)) {
        if T::FLOATS > 0 {
            (0..N).for_each(|i| T::floats(at + i * size_of::<T>(), visit));
        }
    }

    fn rust_name() -> String {
        format!("[{}; {N}]", T::rust_name())
    }

    fn cpp_name() -> String {
        format!("array<{}, {N}>", T::cpp_name())
    }

    fn write(text: &mut Text) {
        T::write(text);
    }

    fn write_value(&self, text: &mut String) {
        text.push_str(&Self::cpp_name());
        text.push('{');
        if N > 0 {
            text.push('{');
            for value in self {
                value.write_value(text);
                text.push(',');
            }
            text.push('}');
        }
        text.push('}');
    }

    fn is_valid(bytes: &[u8]) -> bool {
        size_of::<T>() == 0 || bytes.chunks_exact(size_of::<T>()).all(T::is_valid)
    }
}
