//! A buffer goes to other threads as a `Vec` of its elements would.

use cuda_safe::{DeviceBuffer, DeviceSliceMut, PinnedBuffer};

fn send<T: Send>() {}
fn sync<T: Sync>() {}

fn buffers() {
    send::<DeviceBuffer<*const u8>>();
    sync::<DeviceBuffer<std::cell::Cell<u8>>>();
    send::<DeviceSliceMut<'static, *const u8>>();
    send::<PinnedBuffer<*const u8>>();
}

fn main() {
    send::<DeviceBuffer<f32>>();
    sync::<DeviceBuffer<f32>>();
}
