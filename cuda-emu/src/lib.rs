//! A CUDA device in software: the driver's functions in Rust over a PTX executor.
//!
//! Programs that use the CUDA driver API run on it, on any machine: through [`driver`] in the same
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
//! The name of the device says that it is software. It executes PTX and no machine code, and refuses
//! a function with missing instructions by name when the function is fetched. `SUPPORT.md` lists the
//! supported functions of the driver API, and `INSTRUCTIONS.md` the instructions that are missing.
//!
//! The device is stricter than a GPU. Gaps lie between allocations, and every access is checked for
//! bounds, alignment, lifetime and space. A fault report names the kernel, block, thread, access,
//! address and source line ([`fault_report`]).
//!
//! Integer instructions, and float instructions with a rounding modifier, give the bits of a GPU.
//! Bare `mul` and `add` are each rounded; where ptxas fuses them, a GPU differs in the last bit
//! (`--fmad=false` makes NVRTC write the modifiers). `CUDA_EMU_CONTRACT=always` fuses them here too
//! ([`Contraction`]). Approximate instructions stay within the bounds that the PTX manual states.
//!
//! Every setting is a variable `CUDA_EMU_…` and a field of [`Config`].

mod arith;
mod config;
mod driver;
pub mod exec;
mod matrix;
mod profile;
mod report;
mod run;
pub mod space;
mod tangents;
mod texture;

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

pub use config::{Checks, Config, Contraction, Failure};
pub use driver::{
    Interleaving, Ledger, Moment, Observation, ObserveError, Watch, fault_report, interleaving,
    ledger, observe, reseed, resolve, support, tangents, watch,
};
pub use exec::check::finding::{Check, Finding, checked_kernels, findings};
pub use profile::Profile;
pub use run::{Found, KernelRun, ReachedAt, RunReport, run_report};
pub use space::tangent::lost::Lost;
pub use tangents::{Real, TangentError, Tangents};

/// Returns the software device as a driver for the crates above `cuda-sys`: always the same table.
#[must_use]
pub fn driver() -> &'static cuda_sys::Driver {
    static DRIVER: OnceLock<&'static cuda_sys::Driver> = OnceLock::new();
    // SAFETY: `resolve` returns, for each name, a function of this crate that has the C ABI of
    // `cuda.h` and may be called from any thread, or null.
    DRIVER.get_or_init(|| unsafe { cuda_sys::Driver::from_resolver(&resolver()) })
}

/// Returns a resolver for [`cuda_sys::Driver::from_resolver`]: from the exported name of a driver
/// function to its address, or null.
pub fn resolver() -> impl Fn(&CStr) -> *const c_void {
    resolve
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
