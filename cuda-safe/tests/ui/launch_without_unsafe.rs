//! A kernel is foreign code: launching one is unsafe, however it is spelled.

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Stream, launch};

fn method(kernel: &Kernel, stream: &Stream, out: &mut DeviceBuffer<f32>) {
    let _ = kernel.launch(stream, LaunchConfig::cover(8, 128), (out, 8u64));
}

fn spelled_as_in_cuda(kernel: Kernel, stream: Stream, out: &mut DeviceBuffer<f32>) {
    let _ = launch!(kernel<<<1, 128, 0, stream>>>(out, 8u64));
}

fn raw_memory(stream: &Stream) {
    let _ = DeviceBuffer::<f32>::from_raw(stream, 0x1000, 8, None);
}

fn early() -> LaunchConfig {
    LaunchConfig::cover(8, 128).programmatic()
}

fn main() {}
