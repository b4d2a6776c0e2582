//! Passes a buffer to a safe kernel to read and to write at once, and twice to write.
//!
//! - row: a view does not outlive its buffer, and no two views
//! - row: launching foreign code is unsafe
//! - targets: `kernels!`, `DeviceBuffer::slice_mut`
//! - must: not compile E0499 "more than once"

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, kernels};

kernels! {
    pub struct Kernels;
    unsafe in "" {
        safe fn swap(x: &mut [u32], y: &mut [u32]) where 1 <= x.len(), 1 <= y.len();
    }
}

pub fn attack(k: &Kernels, stream: &Stream, mut x: DeviceBuffer<u32>, y: &mut DeviceBuffer<u32>) -> Result<()> {
    let launch = LaunchConfig::cover(32, 32);
    k.swap(stream, launch, &mut x, &mut x)?; //~ refused
    k.swap(stream, launch, x.slice_mut(..8)?, x.slice_mut(8..)?)?; //~ refused
    k.swap(stream, launch, &mut x, y)
}
