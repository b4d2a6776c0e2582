//! Calls `f32` `u64` beside a declaration, so that a kernel would write 8 bytes to each element of 4.
//!
//! - row: a declaration means the same whatever names are in scope
//! - targets: `kernels!`, `LaunchConfig::cover`
//! - must: not compile E0277 "the kernel writes `u64`s to device memory here"

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, kernels};

#[allow(non_camel_case_types, dead_code)]
type u64 = f32;

kernels! {
    pub struct Checked;
    unsafe in "" {
        safe fn up(n: u32, x: &mut [u64]) where n <= x.len();
    }
}

pub fn attack(kernels: &Checked, stream: &Stream, x: &mut DeviceBuffer<f32>) -> Result<()> {
    let launch = LaunchConfig::cover(32, 32);
    kernels.up(stream, launch, 16, x)?; //~ refused
    stream.synchronize()
}
