//! Calls `f32` `u64` beside a declaration, so that 16.9 would satisfy `n <= 16`.
//!
//! - row: a declaration means the same whatever names are in scope
//! - targets: `kernels!`, `LaunchConfig::cover`
//! - must: not compile E0308 "mismatched types"

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, kernels};

#[allow(non_camel_case_types, dead_code)]
type u64 = f32;

kernels! {
    pub struct Checked;
    unsafe in "" {
        safe fn up(n: u64, x: &mut [u32]) where n <= x.len();
    }
}

pub fn attack(kernels: &Checked, stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<()> {
    let launch = LaunchConfig::cover(32, 32);
    kernels.up(stream, launch, 16.9, x)?; //~ refused
    stream.synchronize()
}
