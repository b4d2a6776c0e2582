//! Reads and transforms PTX, the assembly of CUDA's virtual machine, without CUDA.
//!
//! - [`parse`] reads a whole text into a typed [`ir::Module`], whose `Display` writes PTX again. Its
//!   [instructions](ir::Instr) list the registers that they use and define.
//! - [`mod@cfg`] has a function's basic blocks, dominators, post-dominators, loops and live registers.
//! - [`ssa::Ssa`] brings a function into static single assignment form and back; [`mod@inline`] takes direct calls out of
//!   it, and [`simplify`] guards, critical edges and all exits but one.
//! - [`entries`] scans a text for the signatures of its kernels: how many bytes each parameter
//!   takes, where it lies and whether it is an integer, a float or a structure.
//! - [`Parts`] splits a text into one for each kernel.
//! - [`variables`] finds the variables of the module that each kernel can reach, and which it may write.
//! - [`fatbin`] reads fat binaries and decompresses the PTX in them.
//! - [`link`] makes one text of several that were compiled apart.
//! - [`mangled`] reads from a C++ kernel's name the types that PTX lacks: the types that its pointers point to, and
//!   which are `const`.
//!
//! ```
//! let text = ".version 8.0
//! .target sm_75
//! .visible .entry scale(.param .u64 scale_0, .param .f32 scale_1)
//! {
//!     .reg .b64 %rd<3>;
//!     .reg .f32 %f<3>;
//!     ld.param.u64 %rd1, [scale_0];
//!     cvta.to.global.u64 %rd2, %rd1;
//!     ld.param.f32 %f1, [scale_1];
//!     red.global.add.f32 [%rd2+4], %f1;
//!     ret;
//! }";
//! let kernels = ptx::entries(text)?;
//! assert_eq!(kernels[0].name, "scale");
//! assert_eq!(kernels[0].params[1].offset, 8);
//! assert_eq!(kernels[0].params[1].class(), ptx::Class::Float);
//!
//! let module = ptx::parse(text)?;
//! let scale = &module.functions[0];
//! assert_eq!(scale.instrs().len(), 5);
//! assert!(matches!(scale.instrs()[3].op, ptx::ir::Op::Atom { op: ptx::ir::AtomOp::Add, .. }));
//! assert_eq!(ptx::cfg::Cfg::new(&module, scale).blocks.len(), 1);
//! # Ok::<(), ptx::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cfg;
mod entry;
mod error;
pub mod fatbin;
mod globals;
pub mod inline;
pub mod ir;
mod lex;
pub mod link;
pub mod mangled;
mod parse;
mod print;
pub mod simplify;
mod split;
pub mod ssa;
pub mod variables;

pub use entry::{Class, Param, ParamType, Signature, entries};
pub use error::Error;
pub use globals::{GlobalKind, GlobalVariable, globals};
pub use parse::{parse, parse_with_opcodes};
pub use split::Parts;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
