//! Memory that is written is written through one view at a time.

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Result, Stream};

fn two_for_writing(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
    let mut first = buffer.slice_mut(..4)?;
    let mut second = buffer.slice_mut(4..)?;
    first.fill(stream, 1.0)?;
    second.fill(stream, 2.0)
}

fn one_for_each(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
    let read = buffer.as_slice();
    buffer.as_slice_mut().copy_from(stream, read)
}

fn parts_and_whole(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
    let (mut low, _high) = buffer.split_at_mut(4)?;
    buffer.upload(stream, &[0.0; 8])?;
    low.fill(stream, 1.0)
}

fn two_arguments(kernel: &Kernel, stream: &Stream, buffer: &mut DeviceBuffer<f32>) -> Result<()> {
    // SAFETY: does not compile.
    unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (&*buffer, &mut *buffer)) }
}

fn consumed(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
    let mut view = buffer.as_slice_mut();
    let (_low, _high) = view.split_at_mut(4)?;
    view.fill(stream, 1.0)
}

fn main() {}
