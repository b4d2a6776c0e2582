//! Lets the device write a buffer that the host reads.
//!
//! - row: while a guard lives nothing that conflicts
//! - targets: `UnifiedBuffer::host`, `UnifiedBuffer::as_slice_mut`
//! - must: not compile E0502 "cannot borrow"

use cuda_safe::{Result, Stream, UnifiedBuffer};

pub fn attack(stream: &Stream, mut x: UnifiedBuffer<u32>) -> Result<u32> {
    let seen = x.host()?;
    x.as_slice_mut().fill(stream, 1)?; //~ refused
    Ok(seen[0])
}
