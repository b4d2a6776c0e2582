//! Uses the streams that a buffer and a mark lend after dropping both.
//!
//! - row: all types may go to other threads that their contents allow
//! - targets: `DeviceBuffer::home_stream`, `Mark::stream`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{DeviceBuffer, Mark, Result};

pub fn attack(x: DeviceBuffer<u32>, mark: Mark) -> Result<bool> {
    let (home, of_mark) = (x.home_stream(), mark.stream());
    drop(x); //~ refused
    drop(mark); //~ refused
    Ok(home == of_mark)
}
