//! Makes buffers of an address, and takes memory for written that is not.
//!
//! - row: `DeviceBuffer::from_raw`
//! - row: `DeviceBuffer::assume_init`
//! - targets: `DeviceBuffer::from_raw`, `DeviceBuffer::assume_init`, `DeviceBuffer::uninit`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream) -> Result<()> {
    let memory = DeviceBuffer::<std::mem::MaybeUninit<f32>>::uninit(stream, 16)?;
    let _ = memory.assume_init(); //~ refused
    let _ = DeviceBuffer::<f32>::from_raw(stream, 0x1000, 8, None); //~ refused
    Ok(())
}
