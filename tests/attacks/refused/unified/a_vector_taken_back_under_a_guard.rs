//! Takes a registered vector back while a guard reads it.
//!
//! - row: a registered vector comes back only
//! - targets: `UnifiedBuffer::into_vec`, `UnifiedBuffer::host`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{Result, UnifiedBuffer};

pub fn attack(x: UnifiedBuffer<u32>) -> Result<u32> {
    let seen = x.host()?;
    let _ = x.into_vec().is_ok(); //~ refused
    Ok(seen[0])
}
