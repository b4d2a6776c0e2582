//! Downloads what may be no `bool` to pinned memory.
//!
//! - row: no byte is read as a type that it may not be
//! - targets: `DeviceBuffer::download_pinned`
//! - must: not compile E0277 "AnyBitPattern"

use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, Stream};

pub fn attack(stream: &Stream, x: &DeviceBuffer<bool>, target: PinnedBuffer<bool>) -> Result<()> {
    x.download_pinned(stream, target)?.wait()?; //~ refused
    stream.synchronize()
}
