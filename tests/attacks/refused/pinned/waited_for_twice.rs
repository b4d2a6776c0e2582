//! Takes the buffer of a transfer twice.
//!
//! - row: the host can't touch a pinned buffer
//! - targets: `Transfer::wait`, `Transfer::is_done`
//! - must: not compile E0382 "moved value"

use cuda_safe::{PinnedBuffer, Result, Transfer};

pub fn attack(transfer: Transfer<f32>) -> Result<PinnedBuffer<f32>> {
    let buffer = transfer.wait()?;
    let _ = transfer.is_done()?; //~ refused
    let _ = transfer.wait()?; //~ refused
    Ok(buffer)
}
