//! Sends a buffer to another thread through a guard that must stay where it is.
//!
//! - row: all types may go to other threads that their contents allow
//! - targets: `UnifiedBuffer::host`, `UnifiedBuffer::pinned`
//! - must: not compile E0277 "cannot be"

use std::cell::Cell;

use cuda_safe::{HostRef, Result, Stream, UnifiedBuffer};

pub fn attack(stream: &Stream, cells: HostRef<'_, Cell<u32>>) -> Result<()> {
    let buffer = UnifiedBuffer::<u32>::pinned(stream, 8)?;
    let seen = buffer.host()?;
    std::thread::scope(|scope| {
        scope.spawn(|| cells.len()); //~ refused
        scope.spawn(|| seen.len());
    });
    Ok(())
}
