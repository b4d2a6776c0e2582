//! Uses the crate in the closure of `Stream::enqueue`, which runs with its locks held.
//!
//! - row: the closures of `Stream::enqueue`
//! - row: `Stream::enqueue`
//! - targets: `Stream::enqueue`, `DeviceBuffer::fill`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> Result<()> {
    let _ = stream.enqueue((&mut *x,), |_| y.fill(stream, 1.0)); //~ refused
    x.fill(stream, 2.0)
}
