//! Takes two views of the same bytes that can both be written.
//!
//! - row: a view does not outlive its buffer
//! - targets: `DeviceBuffer::as_slice_mut`, `DeviceBuffer::slice_mut`
//! - must: not compile E0499 "more than once at a time"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream) -> Result<()> {
    let mut buffer = DeviceBuffer::<f32>::zeroed(stream, 16)?;
    let mut one = buffer.as_slice_mut();
    let mut two = buffer.slice_mut(4..8)?; //~ refused
    one.fill(stream, 1.0)?;
    two.fill(stream, 2.0)?; //~ refused
    Ok(())
}
