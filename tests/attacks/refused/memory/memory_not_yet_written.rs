//! Reads memory that is not written yet, as bytes and as elements.
//!
//! - row: no byte is read as a type that it may not be
//! - targets: `DeviceBuffer::uninit`, `DeviceBuffer::to_vec`, `DeviceSlice::cast`
//! - must: not compile E0277 "NoUninit"

use std::mem::MaybeUninit;

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream) -> Result<()> {
    let x = DeviceBuffer::<MaybeUninit<f32>>::uninit(stream, 16)?;
    let _ = x.as_slice().cast::<u8>()?.to_vec(stream)?; //~ refused
    x.try_clone(stream).map(drop)
}
