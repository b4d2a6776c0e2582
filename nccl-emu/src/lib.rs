//! A stand-in for NCCL, NVIDIA's library of collective communication, for the ranks of one process.
//!
//! It has the C functions of `nccl.h` over the CUDA driver API alone. So programs for several GPUs run and are tested on a
//! machine without one, on the software device of `cuda-emu`; and on GPUs it is a second opinion to the real library.
//! NCCL itself can't create communicators on a software device: it needs machine code and private tables of the driver.
//!
#![doc = include_str!("../README.md")]

pub mod api;
mod args;
mod comm;
mod cuda;
mod error;
mod group;
mod kernel;
mod kernels;
mod live;
mod meeting;
mod plan;
mod rank;
pub mod types;

use core::ffi::{CStr, c_void};

use cuda_sys::Driver;

/// Sets the driver that the functions call, for the rest of the process. Returns `false` if another one is in use already.
///
/// If the program sets none, the first call loads the system's driver, or the library that `CUDA_DRIVER` names.
pub fn use_driver(driver: &'static Driver) -> bool {
    cuda::set_driver(driver)
}

/// Sets the size of the staging memory between two ranks, for communicators that are created from now on; 0 is the value of
/// `NCCL_BUFFSIZE`, or 4 MiB. A message that is larger passes in several chunks, so tests of large messages can be small.
pub fn set_buffer_size(bytes: usize) {
    rank::set_buffer_size(bytes);
}

/// Returns the address of a function of `nccl.h`, with the C ABI that the header declares; null for a name that this crate
/// lacks.
#[must_use]
pub fn resolve(name: &CStr) -> *const c_void {
    name.to_str().map_or(core::ptr::null(), api::address)
}
