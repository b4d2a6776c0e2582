//! The examples of pages on kernels in Rust, as documentation tests, and the crates that the test of packs builds a program
//! with.

pub use {cuda_emu, cuda_safe};

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
struct GuideDoctests;

/// Compiles and runs the example of the macros' page.
#[cfg(doctest)]
#[doc = include_str!("../../../gpu-phases-macros/README.md")]
struct MacrosDoctests;
