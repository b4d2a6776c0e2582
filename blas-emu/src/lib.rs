//! Stand-ins for cuBLAS, cuBLASLt, cuFFT and cuRAND, NVIDIA's libraries of linear algebra, Fourier transforms and random
//! numbers.
//!
//! It has their C functions over the CUDA driver API alone. So programs that call them run and are tested on a machine
//! without a GPU, on the software device of `cuda-emu`; and on GPUs it is a second opinion to the real libraries. Those
//! ship machine code, which no device that executes PTX can run.
//!
#![doc = include_str!("../README.md")]

mod call;
pub mod cublas;
pub mod cublaslt;
mod cuda;
pub mod cufft;
pub mod curand;
mod kernels;
mod xorwow;

use core::ffi::{CStr, c_void};

use cuda_sys::Driver;

/// Sets the driver that the functions call, for the rest of the process. Returns `false` if another one is in use already.
///
/// If the program sets none, the first call loads the system's driver, or the library that `CUDA_DRIVER` names.
pub fn use_driver(driver: &'static Driver) -> bool {
    cuda::set_driver(driver)
}

/// Returns the address of a function of the libraries, with the C ABI that NVIDIA's header declares; null for a name that
/// this crate lacks.
#[must_use]
pub fn resolve(name: &CStr) -> *const c_void {
    let Ok(name) = name.to_str() else { return core::ptr::null() };
    let found = TABLES
        .iter()
        .flat_map(|(_, table)| *table)
        .flat_map(|list| *list)
        .find(|(known, _)| *known == name);
    found.map_or(core::ptr::null(), |(_, address)| address.0)
}

/// Returns the text of the last error of a function of this crate on this thread: what was wrong with which argument, or
/// which call of the driver failed. It is empty if there was none.
#[must_use]
pub fn last_error() -> String {
    call::last()
}

/// Unloads the kernels; returns what failed. For tests that want nothing to be left.
#[doc(hidden)]
pub fn unload() -> Result<(), String> {
    cuda::Cuda::known().map_or(Ok(()), kernels::unload).map_err(|error| error.text)
}

/// Returns the names of the driver's functions that have failed since the last call, on all threads: the libraries report only
/// codes.
#[doc(hidden)]
pub fn take_failed_calls() -> Vec<String> {
    cuda::take_failed()
}

/// The functions of each library.
#[doc(hidden)]
pub const TABLES: &[(&str, &[List])] = &[
    ("cuBLAS", cublas::TABLE),
    ("cuBLASLt", cublaslt::TABLE),
    ("cuFFT", cufft::TABLE),
    ("cuRAND", curand::TABLE),
];

/// Functions with their names.
#[doc(hidden)]
pub type List = &'static [(&'static str, Address)];

/// The address of a function.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Address(pub *const c_void);

// SAFETY: the address of a function is only a number.
unsafe impl Sync for Address {}
