//! Takes a view of memory by a handle to its allocation, which borrows no buffer, as elements of any type.
//!
//! - row: `Allocation::view`
//! - targets: `DeviceBuffer::allocation`, `DeviceBuffer::fill`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<()> {
    let memory = x.allocation().clone();
    let view = memory.view::<bool>(0..4)?; //~ refused
    x.fill(stream, 7)?;
    drop(view); //~ refused
    Ok(())
}
