//! Reads through a view of a buffer that was dropped.
//!
//! - row: device memory is freed after the last work
//! - targets: `DeviceBuffer::as_slice`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream) -> Result<Vec<f32>> {
    let buffer = DeviceBuffer::<f32>::zeroed(stream, 16)?;
    let view = buffer.as_slice();
    drop(buffer); //~ refused
    view.to_vec(stream)
}
