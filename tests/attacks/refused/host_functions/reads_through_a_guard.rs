//! Gives a host function a guard of memory that the device may write by then.
//!
//! - row: a function owns what it uses
//! - row: while a guard lives nothing that conflicts
//! - targets: `Stream::host_function`, `UnifiedBuffer::host`
//! - must: not compile E0597 "does not live long enough"

use cuda_safe::{Result, Stream, UnifiedBuffer};

pub fn attack(stream: &Stream) -> Result<()> {
    let x = UnifiedBuffer::<u32>::pinned(stream, 4)?;
    let seen = x.host()?; //~ refused
    stream.host_function(move || println!("{}", seen[0]))?; //~ refused
    Ok(())
}
