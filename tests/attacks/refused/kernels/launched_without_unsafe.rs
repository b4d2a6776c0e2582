//! Launches foreign code, and says of a kernel that it may overlap with the one before.
//!
//! - row: `Kernel::launch`, `launch!`
//! - row: `LaunchConfig::programmatic`
//! - row: a programmatic launch is the caller's
//! - targets: `Kernel::launch`, `LaunchConfig::programmatic`, `launch!`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Stream, launch};

pub fn attack(kernel: Kernel, stream: Stream, x: &mut DeviceBuffer<f32>) {
    let _ = kernel.launch(&stream, LaunchConfig::cover(8, 128), (&mut *x, 8u64)); //~ refused
    let _ = LaunchConfig::cover(8, 128).programmatic(); //~ refused
    let _ = launch!(kernel<<<1, 128, 0, stream>>>(&mut *x, 8u64)); //~ refused
}
