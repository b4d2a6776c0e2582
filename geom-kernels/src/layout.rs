//! The types that host and device both declare.
//!
//! C++ and Rust each declare such a type once. `cargo xtask layouts` lists the types and fields that
//! `tools/xtask/layouts.txt` names, with the sizes and offsets of the Rust types. A test compiles the list as
//! assertions against the headers with each supported NVRTC, so neither declaration can change alone.

#[rustfmt::skip]
mod generated;

use bytemuck::{Pod, Zeroable};

/// A box along the axes, closed: its faces belong to it. `geom::aabb<T>` of `geom/math/box.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct Aabb<T> {
    /// The lower bounds.
    pub lower: [T; 3],
    /// The upper bounds. The box is empty if one is less than its `lower`.
    pub upper: [T; 3],
}

/// Implements [`DeviceRepr`](cuda_safe::DeviceRepr) for types that LAYOUTS lists.
macro_rules! device_repr {
    ($($type:ty),+ $(,)?) => {$(
        // SAFETY: repr(C); LAYOUTS has it, so its fields lie as those of the structure that is named there. Addresses,
        // where it has any, are written by this crate alone.
        unsafe impl cuda_safe::DeviceRepr for $type {}
    )+};
}
pub(crate) use device_repr;

/// Implements the items for one type of coordinates.
macro_rules! of {
    ($float:ty) => {
        impl Aabb<$float> {
            /// The empty box, the identity of unions: from infinity to minus infinity.
            pub const EMPTY: Self =
                Self { lower: [<$float>::INFINITY; 3], upper: [<$float>::NEG_INFINITY; 3] };
        }
        // SAFETY: six numbers, for which zero is valid.
        unsafe impl Zeroable for Aabb<$float> {}
        // SAFETY: repr(C), six numbers without padding, for which any bits are valid.
        unsafe impl Pod for Aabb<$float> {}
        device_repr!(Aabb<$float>);
    };
}
of!(f32);
of!(f64);

/// The layout of a structure in memory, in bytes. For this project's tests.
#[derive(Debug)]
pub struct Layout {
    /// The name in C++.
    pub name: &'static str,
    /// The header that declares it.
    pub header: &'static str,
    /// The size in bytes.
    pub size: usize,
    /// The alignment in bytes.
    pub align: usize,
    /// The names and offsets of the fields.
    pub fields: &'static [(&'static str, usize)],
}

/// Returns the layout of every structure that kernels and the host share. For this project's tests.
#[cfg(feature = "internals")]
#[must_use]
pub fn layouts() -> &'static [Layout] {
    generated::LAYOUTS
}
