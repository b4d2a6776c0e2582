//! Reads through a guard of a buffer that was dropped.
//!
//! - row: while a guard lives nothing that conflicts
//! - targets: `UnifiedBuffer::host`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{Result, UnifiedBuffer};

pub fn attack(x: UnifiedBuffer<u32>) -> Result<u32> {
    let seen = x.host()?;
    drop(x); //~ refused
    Ok(seen[0])
}
