//! A view for writing is neither copied nor written through a shared reference.

use cuda_safe::{DeviceBuffer, DeviceSliceMut, Stream};

fn cloned<'a>(view: &DeviceSliceMut<'a, f32>) -> DeviceSliceMut<'a, f32> {
    view.clone()
}

fn written_where_shared(buffer: &DeviceBuffer<f32>, stream: &Stream) {
    let _ = buffer.as_slice().fill(stream, 1.0);
    let _ = buffer.as_slice().upload(stream, &[1.0]);
}

fn main() {}
