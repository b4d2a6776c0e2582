//! A copy that goes on after the call owns its pinned buffer: a slice of one would be seen, or gone,
//! while the device uses it.

use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, Stream};

fn into_a_slice(
    stream: &Stream,
    buffer: &DeviceBuffer<f32>,
    mut pinned: PinnedBuffer<f32>,
) -> Result<()> {
    buffer.as_slice().download_pinned(stream, &mut pinned[..])?;
    Ok(())
}

fn from_a_slice(
    stream: &Stream,
    buffer: &mut DeviceBuffer<f32>,
    pinned: PinnedBuffer<f32>,
) -> Result<()> {
    buffer.as_slice_mut().upload_pinned(stream, &pinned[..])?;
    Ok(())
}

fn into_a_borrowed_buffer(
    stream: &Stream,
    buffer: &DeviceBuffer<f32>,
    mut pinned: PinnedBuffer<f32>,
) -> Result<()> {
    buffer.download_pinned(stream, &mut pinned)?;
    Ok(())
}

fn main() {}
