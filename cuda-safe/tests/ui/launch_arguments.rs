//! What is no kernel argument: host memory, and structures that nobody vouches for.

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Stream};

#[derive(Clone, Copy)]
struct Params {
    gravity: f32,
}

fn host_slice(kernel: &Kernel, stream: &Stream, x: &[f32]) {
    // SAFETY: does not compile.
    let _ = unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (x,)) };
}

fn structure(kernel: &Kernel, stream: &Stream) {
    // SAFETY: does not compile.
    let _ = unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (Params { gravity: 9.8 },)) };
}

fn owned_buffer(kernel: &Kernel, stream: &Stream, x: DeviceBuffer<f32>) {
    // SAFETY: does not compile.
    let _ = unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (x,)) };
}

fn main() {}
