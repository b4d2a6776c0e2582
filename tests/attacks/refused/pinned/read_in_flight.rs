//! Reads a pinned buffer that a transfer writes.
//!
//! - row: the host can't touch a pinned buffer
//! - targets: `DeviceBuffer::download_pinned`, `PinnedBuffer::zeroed`
//! - must: not compile E0382 "borrow of moved value"

use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, Result, Stream};

pub fn attack(context: &Context, stream: &Stream, x: &DeviceBuffer<f32>) -> Result<()> {
    let target = PinnedBuffer::<f32>::zeroed(context, 8)?;
    let transfer = x.download_pinned(stream, target)?;
    println!("{}", target[0]); //~ refused
    transfer.wait().map(drop)
}
