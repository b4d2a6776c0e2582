//! A pinned buffer belongs to its transfer until that is waited for.

use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, Result, Stream};

fn read_while_it_is_written(
    context: &Context,
    stream: &Stream,
    buffer: &DeviceBuffer<f32>,
) -> Result<f32> {
    let target = PinnedBuffer::<f32>::zeroed(context, 8)?;
    let transfer = buffer.as_slice().download_pinned(stream, target)?;
    let early = target[0];
    transfer.wait()?;
    Ok(early)
}

fn written_while_it_is_read(
    stream: &Stream,
    buffer: &mut DeviceBuffer<f32>,
    mut source: PinnedBuffer<f32>,
) -> Result<()> {
    let transfer = buffer.as_slice_mut().upload_pinned(stream, source)?;
    source[0] = 1.0;
    transfer.wait().map(drop)
}

fn waited_for_twice(
    stream: &Stream,
    buffer: &mut DeviceBuffer<f32>,
    source: PinnedBuffer<f32>,
) -> Result<()> {
    let transfer = buffer.as_slice_mut().upload_pinned(stream, source)?;
    transfer.wait()?;
    transfer.wait().map(drop)
}

fn main() {}
