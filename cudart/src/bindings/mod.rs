//! What `cargo xtask bindgen` wrote. Do not edit the generated files in this folder.

/// Types of the signatures of the header, by name, and the names.
macro_rules! table {
    (
        $fns:ident $library:ident $symbols:ident
        $($version:literal $name:ident as $base:ident ( $($arg:ident : $ty:ty),* $(,)? ) -> $ret:ty;)*
    ) => {
        /// Every function that the header declares, sorted by name.
        pub const $symbols: &[&str] = &[$(stringify!($name)),*];

        /// The signatures of the functions, each under the function's name.
        pub mod signatures {
            #[allow(unused_imports, reason = "the signatures name what the header declares")]
            use super::*;
            $(pub type $name = unsafe extern "C" fn($($arg: $ty),*) -> $ret;)*
        }
    };
}

/// `Default` of C structs: all bytes zero, which is how the header asks for them to be set up.
macro_rules! zeroed {
    ($($name:ident)*) => {$(
        impl Default for $name {
            #[inline]
            fn default() -> Self {
                // SAFETY: C structs and unions of integers, floats, raw pointers, optional function
                // pointers and arrays and structs of these: zero is a valid value of all of them.
                unsafe { core::mem::zeroed() }
            }
        }
    )*};
}

/// Names of the result codes.
macro_rules! codes {
    ($code:ident $($name:ident)*) => {
        impl $code {
            /// Every code that the header has, with its name.
            pub const ALL: &[(Self, &core::ffi::CStr)] = &[$((
                Self::$name,
                // The name has no NUL of its own.
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            )),*];
        }

        impl core::fmt::Debug for $code {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match Self::ALL.iter().find(|(code, _)| code == self) {
                    Some((_, name)) => write!(f, "{} ({})", name.to_string_lossy(), self.0),
                    None => write!(f, "{}({})", stringify!($code), self.0),
                }
            }
        }
    };
}

#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unused_qualifications,
    clippy::too_many_arguments,
    clippy::type_complexity,
    clippy::missing_safety_doc,
    reason = "generated: NVIDIA's names and documentation"
)]
pub mod runtime;
#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    reason = "generated: NVIDIA's names and documentation"
)]
pub mod runtime_12;
