//! A view borrows its buffer.

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Result, Stream};

fn returned(stream: &Stream) -> Result<DeviceSlice<'static, f32>> {
    let buffer = DeviceBuffer::zeroed(stream, 8)?;
    buffer.slice(..4)
}

fn kept(stream: &Stream) -> Result<Vec<f32>> {
    let view;
    {
        let buffer = DeviceBuffer::<f32>::zeroed(stream, 8)?;
        view = buffer.as_slice();
    }
    view.to_vec(stream)
}

fn dropped(buffer: DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
    let view = buffer.as_slice();
    drop(buffer);
    view.to_vec(stream).map(drop)
}

fn cast<'a>(mut view: DeviceSliceMut<'a, u64>) -> Result<DeviceSliceMut<'a, u32>> {
    view.reborrow().cast_mut()
}

fn main() {}
