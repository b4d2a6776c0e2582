//! The types that kernels compute with.

use crate::text::Text;

/// A type of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float {
    /// `f16`
    F16,
    /// `bf16`
    Bf16,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

/// A type that kernels compute with: numbers, `bool`, arrays and tuples of them, `Option`s, and structures and enums
/// that derive it.
///
/// # Safety
/// Only the macros of this crate implement it. The C++ that [`Device::write`] writes is a type of the same
/// size, alignment, fields and meaning as `Self`, and [`Device::is_valid`] returns whether bytes are a value of `Self`.
/// If [`Device::STORED`], `Self` has no padding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type that kernels compute with",
    label = "this has the type `{Self}` in a kernel",
    note = "write `#[derive(Clone, Copy, Device)]` and `#[repr(C)]` before your own type",
    note = "types of kernels are numbers, `bool`, arrays and tuples of them, `Option`s, and what derives `Device`",
    note = "the value of an `if`, `match` or `loop` with statements is no reference: take the index, or copy the value"
)]
pub unsafe trait Device: Copy + Send + Sync + 'static {
    /// Whether the type can be in memory that a device and the host share: its layout is defined, and it has bytes.
    const STORED: bool = true;

    /// Returns the type's name in Rust, with its path.
    fn rust_name() -> String;

    /// Returns the name of its C++ type.
    fn cpp_name() -> String;

    /// Writes the definition of its C++ type, and all that it needs, once per [`Text`].
    fn write(text: &mut Text);

    /// Writes this value as an expression of C++.
    fn write_value(&self, text: &mut String);

    /// Returns the value as a length, if kernels take it as they take lengths: in 32 bits unless a launch needs more.
    const LENGTH: Option<fn(Self) -> usize> = None;

    /// The number of floats in a value.
    const FLOATS: usize = 0;

    /// Passes the offset in bytes, plus `at`, and the type of each float in a value.
    fn floats(at: usize, visit: &mut dyn FnMut(usize, Float)) {
        let _ = (at, visit);
    }

    /// Returns whether these `size_of::<Self>()` bytes are a valid value.
    fn is_valid(bytes: &[u8]) -> bool;
}
