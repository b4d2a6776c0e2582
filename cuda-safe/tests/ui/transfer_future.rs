//! An awaited transfer owns its buffer until it is done, and for good if it is dropped before.

use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, Stream};

async fn touched_while_in_flight(
    stream: &Stream,
    buffer: &DeviceBuffer<f32>,
    target: PinnedBuffer<f32>,
) -> Result<f32> {
    let transfer = buffer.download_pinned(stream, target)?;
    let early = target[0];
    transfer.await?;
    Ok(early)
}

fn dropped_in_flight_and_read(
    stream: &Stream,
    buffer: &DeviceBuffer<f32>,
    target: PinnedBuffer<f32>,
) -> Result<f32> {
    let transfer = buffer.download_pinned(stream, target)?;
    drop(transfer);
    Ok(target[0])
}

async fn dropped_in_flight_and_used_again(
    stream: &Stream,
    buffer: &mut DeviceBuffer<f32>,
    source: PinnedBuffer<f32>,
) -> Result<()> {
    drop(buffer.upload_pinned(stream, source)?);
    buffer.upload_pinned(stream, source)?.await.map(drop)
}

async fn awaited_twice(
    stream: &Stream,
    buffer: &DeviceBuffer<f32>,
    target: PinnedBuffer<f32>,
) -> Result<()> {
    let transfer = buffer.download_pinned(stream, target)?;
    transfer.await?;
    transfer.await.map(drop)
}

fn main() {}
