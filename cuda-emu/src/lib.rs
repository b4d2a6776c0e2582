//! A CUDA device in software: the driver's functions in Rust over a PTX executor.
//!
//! Whatever uses the CUDA driver API runs on it, on any machine: through [`driver`] in the same
//! process, or, in any language, by loading `libcuda_emu.so` in place of the driver's library
//! (`CUDA_DRIVER` for the crates of this project; as `libcuda.so.1` in `LD_LIBRARY_PATH` for
//! others).
//!
//! ```
//! use cuda_sys::CUresult;
//!
//! let driver = cuda_emu::driver();
//! let mut count = 0;
//! // `count` is valid for the write.
//! let code = unsafe {
//!     driver.cuInit(0)?;
//!     driver.cuDeviceGetCount(&raw mut count)?
//! };
//! assert_eq!((code, count), (CUresult::CUDA_SUCCESS, 1));
//! # Ok::<(), cuda_sys::MissingSymbol>(())
//! ```
//!
//! It says that it is software, takes PTX and no machine code, and refuses by name what it lacks,
//! when the function is fetched. What of the driver API is there is listed in `SUPPORT.md`.
//!
//! It is stricter than a GPU: gaps lie between allocations, every access is checked for bounds,
//! alignment, lifetime and space, and a fault says which kernel, block and thread did what at which
//! address and source line ([`fault_report`]).
//!
//! Integer instructions, and float instructions with a rounding modifier, give the bits that a GPU
//! gives. Bare `mul` and `add` are each rounded; where ptxas fuses them a GPU differs in the last
//! bit (`--fmad=false` makes NVRTC write the modifiers). `CUDA_EMU_CONTRACT=always` fuses them here
//! too ([`Contraction`]). Approximate instructions stay within the bounds that the PTX manual
//! states.
//!
//! Every knob is a variable `CUDA_EMU_…` and a field of [`Config`].

mod arith;
mod config;
mod driver;
pub mod exec;
mod matrix;
pub mod space;

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

pub use config::{Checks, Config, Contraction, Failure};
pub use driver::{
    Interleaving, Ledger, Moment, Watch, fault_report, interleaving, ledger, reseed, resolve,
    support, watch,
};
pub use exec::check::finding::{Check, Finding, checked_kernels, findings};

/// The software device as a driver for the crates above `cuda-sys`: always the same table.
#[must_use]
pub fn driver() -> &'static cuda_sys::Driver {
    static DRIVER: OnceLock<&'static cuda_sys::Driver> = OnceLock::new();
    // SAFETY: `resolve` answers, for each name, a function of this crate that has the C ABI of
    // `cuda.h` and may be called from any thread, or null.
    DRIVER.get_or_init(|| unsafe { cuda_sys::Driver::from_resolver(&resolver()) })
}

/// The way in for [`cuda_sys::Driver::from_resolver`]: the address of a driver function by its
/// exported name, or null.
pub fn resolver() -> impl Fn(&CStr) -> *const c_void {
    resolve
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
