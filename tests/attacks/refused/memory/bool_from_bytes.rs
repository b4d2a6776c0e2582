//! Reads bytes of the device as `bool`, which not all bytes are.
//!
//! - row: no byte is read as a type that it may not be
//! - targets: `DeviceSlice::cast`, `DeviceBuffer::as_slice`
//! - must: not compile E0277 "AnyBitPattern"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream, bytes: &DeviceBuffer<u8>) -> Result<()> {
    let _ = bytes.as_slice().cast::<bool>()?; //~ refused
    bytes.to_vec(stream).map(drop)
}
