//! PTX, the assembly of CUDA's virtual machine, read without CUDA.
//!
//! [`entries`] scans a text for the signatures of its kernels: how many bytes each parameter takes,
//! where it lies and whether it is an integer, a float or a structure. [`mangled`] reads from a C++
//! kernel's name what PTX has forgotten: to what its pointers point, and which are `const`.
//!
//! ```
//! let text = ".visible .entry scale(.param .u64 scale_0, .param .f32 scale_1) { ret; }";
//! let kernels = ptx::entries(text)?;
//! assert_eq!(kernels[0].name, "scale");
//! assert_eq!(kernels[0].params[1].offset, 8);
//! assert_eq!(kernels[0].params[1].class(), ptx::Class::Float);
//! # Ok::<(), ptx::Error>(())
//! ```
#![forbid(unsafe_code)]

mod entry;
mod error;
pub mod mangled;

pub use entry::{Class, Param, ParamType, Signature, entries};
pub use error::Error;
