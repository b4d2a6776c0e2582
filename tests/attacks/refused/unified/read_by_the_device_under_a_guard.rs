//! Lets the device read a buffer that the host writes.
//!
//! - row: when the host reads, all writes are done
//! - targets: `UnifiedBuffer::host_mut`, `UnifiedBuffer::as_slice`
//! - must: not compile E0502 "cannot borrow"

use cuda_safe::{Result, Stream, UnifiedBuffer};

pub fn attack(stream: &Stream, x: &mut UnifiedBuffer<u32>) -> Result<()> {
    let mut guard = x.host_mut()?;
    let _ = x.as_slice().to_vec(stream)?; //~ refused
    guard[0] = 1;
    Ok(())
}
