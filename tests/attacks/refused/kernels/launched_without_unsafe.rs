//! Launches foreign code, and says of a kernel that it may overlap with the one before.
//!
//! - row: `Kernel::launch`, `launch!`
//! - row: `Launch::programmatic`
//! - row: a programmatic launch is the caller's
//! - targets: `Kernel::launch`, `Launch::programmatic`, `launch!`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, Kernel, Launch, Stream, launch};

pub fn attack(kernel: Kernel, stream: Stream, x: &mut DeviceBuffer<f32>) {
    let _ = kernel.launch(&stream, Launch::cover(8, 128), (&mut *x, 8u64)); //~ refused
    let _ = Launch::cover(8, 128).programmatic(); //~ refused
    let _ = launch!(kernel<<<1, 128, 0, stream>>>(&mut *x, 8u64)); //~ refused
}
