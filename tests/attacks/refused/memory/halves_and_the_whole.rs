//! Goes on using a view that was split.
//!
//! - row: a view does not outlive its buffer
//! - targets: `DeviceSliceMut::split_at_mut`, `DeviceBuffer::as_slice_mut`
//! - must: not compile E0382 "moved value"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream, x: &mut DeviceBuffer<f32>) -> Result<()> {
    let whole = x.as_slice_mut();
    let (mut left, _right) = whole.split_at_mut(4)?;
    let _ = whole.to_vec(stream)?; //~ refused
    left.fill(stream, 2.0)
}
