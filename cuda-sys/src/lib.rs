//! Raw bindings to the CUDA driver and NVRTC, loaded at run time.
//!
#![doc = include_str!("../README.md")]

mod bindings;
mod codes;
mod driver;
mod environment;
mod error;
#[cfg(feature = "libraries")]
mod libraries;
mod library;
#[cfg(feature = "nccl")]
pub mod nccl;
#[cfg(feature = "noop")]
pub mod noop;
mod nvjitlink;
mod nvrtc;
mod table;
mod texts;

pub use bindings::driver::*;
pub use bindings::nvrtc::*;
pub use driver::Driver;
pub use environment::environment;
pub use error::{Attempt, MissingLibrary, MissingSymbol};
#[cfg(feature = "libraries")]
pub use libraries::{cublas, cublaslt, cufft, curand};
pub use nvjitlink::{NvJitLink, nvJitLink, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult};
pub use nvrtc::Nvrtc;
pub use table::Symbol;

// Where the generated tables look for the types whose methods they are.
#[cfg(feature = "libraries")]
use libraries::{cublas::Cublas, cublaslt::CublasLt, cufft::Cufft, curand::Curand};

/// The legacy NULL stream, by name (`CU_STREAM_LEGACY`, a cast in C).
pub const CU_STREAM_LEGACY: CUstream = core::ptr::without_provenance_mut(1);
/// The calling thread's own stream (`CU_STREAM_PER_THREAD`, a cast in C).
pub const CU_STREAM_PER_THREAD: CUstream = core::ptr::without_provenance_mut(2);
