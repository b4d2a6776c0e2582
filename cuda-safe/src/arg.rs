//! How kernels take arguments: their types, and the memory that they use.
//!
//! [`kernels!`](crate::kernels) and [`Kernel::launch`](crate::Kernel::launch) use these. A program needs them to pass a
//! type of its own to kernels: see [`KernelArg`](crate::KernelArg).

pub use crate::launch::{ArgKind, ArgType, ArgVisitor, Class, EachArg, KernelArgs, UseVisitor};
