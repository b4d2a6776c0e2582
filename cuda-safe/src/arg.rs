//! How kernels take arguments: their types, and the memory that they use.
//!
//! [`kernels!`](crate::kernels) and [`Kernel::launch`](crate::Kernel::launch) use these. A program needs them to pass
//! its own types to kernels: see [`KernelArg`](crate::KernelArg).

pub use crate::launch::{
    ArgClass, ArgKind, ArgType, ArgVisitor, InspectArgs, Integer, IntoRawPointer, KernelArgs,
    NullableReadView, NullableWriteView, RawPointer, ReadOnly,
};
pub use crate::memory::UseVisitor;

/// The device header `geom/layout.cuh`: the name under which it is included, and its text.
///
/// It has the macros `GEOM_LAYOUT(type, size, align)` and `GEOM_FIELD(type, field, offset)`, which assert at compile
/// time that a structure of a kernel has the layout of the Rust type with [`DeviceRepr`](crate::DeviceRepr).
pub const LAYOUT_HEADER: (&str, &str) =
    ("geom/layout.cuh", include_str!("../device/geom/layout.cuh"));
