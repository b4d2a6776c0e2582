//! Writes a buffer while a view that was cut and cast reads it.
//!
//! - row: a view does not outlive its buffer
//! - targets: `DeviceBuffer::slice`, `DeviceSlice::cast`, `DeviceSlice::split_at`
//! - must: not compile E0502 "cannot borrow"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<Vec<u8>> {
    let part = x.slice(1..5)?.cast::<u8>()?.split_at(8)?.1;
    x.fill(stream, 1)?; //~ refused
    part.to_vec(stream)
}
