//! Uploads elements with padding, and references.
//!
//! - row: no byte is read as a type that it may not be
//! - targets: `DeviceBuffer::from_slice`, `DeviceSliceMut::fill`
//! - must: not compile E0277 "NoUninit"

use cuda_safe::{DeviceBuffer, Result, Stream};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Padded(pub u8, pub u32);

pub fn attack(stream: &Stream, x: &mut DeviceBuffer<Padded>, y: &DeviceBuffer<Padded>) -> Result<()> {
    let _ = DeviceBuffer::from_slice(stream, &[Padded(1, 2)])?; //~ refused
    let _ = DeviceBuffer::from_slice(stream, &[&1u32])?; //~ refused
    x.as_slice_mut().fill(stream, Padded(1, 2))?; //~ refused
    x.copy_from(stream, y)
}
