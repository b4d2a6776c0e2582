//! Takes a second guard, and gives the buffer to the device, while a guard for writing lives.
//!
//! - row: while a guard lives nothing that conflicts
//! - targets: `UnifiedBuffer::host_mut`
//! - must: not compile E0499 "more than once at a time"

use cuda_safe::{Result, UnifiedBuffer};

pub fn attack(x: &mut UnifiedBuffer<u32>) -> Result<()> {
    let mut one = x.host_mut()?;
    let mut two = x.host_mut()?; //~ refused
    two[0] = 2; //~ refused
    one[0] = 1;
    Ok(())
}
