//! Nothing but the examples of pages on kernels in Rust, as documentation tests.

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust-kernels.md")]
struct GuideDoctests;

/// Compiles and runs the example of the macros' page.
#[cfg(doctest)]
#[doc = include_str!("../../../gpu-phases-macros/README.md")]
struct MacrosDoctests;
