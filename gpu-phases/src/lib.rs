//! Kernels in safe Rust.

pub mod device;
pub mod fault;
pub mod kernel;
pub mod target;
pub mod text;
pub mod trust;

pub use fault::{Fault, FaultKind};

/// The header of Rust's semantics in CUDA C++.
pub const HEADER: &str = include_str!("phases.cuh");
