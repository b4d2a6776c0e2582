//! Safe NVRTC: CUDA C++ text in, a device image out, at run time and without a GPU.
//!
//! ```no_run
//! let image = cuda_safe_nvrtc::Program::new("__global__ void scale(float* x, float a) { x[threadIdx.x] *= a; }")
//!     .compile(cuda_safe_nvrtc::Arch::sm(9, 0))?;
//! for kernel in &image.kernels {
//!     println!("{} takes {} parameters", kernel.name, kernel.params.len());
//! }
//! # Ok::<(), cuda_safe_nvrtc::Error>(())
//! ```
//!
//! [`Nvrtc::find`] finds the library where CUDA, pip, conda or this project installed it. The library is
//! loaded only to compile: images are kept in the user's [`Cache`], and a program whose images are
//! there never loads it. A failed compile displays the compiler's log.
//!
//! # Environment
//! | variable | meaning |
//! |---|---|
//! | `CUDA_NVRTC` | the library, or its folder: nothing else is searched |
//! | `CUDA_KERNEL_CACHE` | the cache's folder; `off` for none |
//! | `CUDA_SETUP_DIR` | the folder that `cargo xtask setup` filled |
//!
//! A library that these or the system's variables (`LD_LIBRARY_PATH`, `CUDA_PATH`, `CUDA_HOME`) name is trusted. A
//! library that is found without them is used only if it and every folder and link of its path belong to the user or
//! root and nobody else may write there; `docs/trust.md` in the repository has the whole policy. A process with raised
//! rights (such as set-user-ID) reads none of these variables.
#![deny(unsafe_code)]

mod arch;
mod cache;
mod closure;
mod codec;
mod compile;
mod diagnostic;
mod error;
mod find;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hint;
mod image;
mod library;
mod link;
mod linkage;
mod options;
mod program;
mod remembered;
mod scan;
mod stubs;
mod trust;

pub use arch::{Arch, ParseArchError};
pub use cache::{Cache, CacheStats, CacheStatus, Uncached};
pub use cuda_sys::nvrtcResult;
pub use diagnostic::{Diagnostic, Severity};
pub use error::{Attempt, CompileError, Error, LibraryError, LinkError, NotFound};
#[cfg(feature = "libraries")]
pub use find::libraries;
pub use find::nccl::nccl_path;
pub use image::Image;
pub use library::{Nvrtc, NvrtcVersion};
pub use link::Linker;
pub use options::{Options, Std};
pub use program::Program;
pub use ptx::{Class, Param, ParamType, Signature};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
