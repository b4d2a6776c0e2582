//! The memory by which blocks of Rust kernels pass values on, for launches on one stream.

use cuda_sys::CUdeviceptr;

use super::StreamInner;
use crate::error::Result;

/// The least that is allocated.
const LEAST_BYTES: usize = 4096;
/// Launches that one piece is for: no tag of theirs is there twice.
const MOST_LAUNCHES: u32 = u32::MAX - 1;

/// Pieces of memory, the newest one last. All live until the stream is dropped: a thread may be about to launch with
/// one.
#[derive(Default)]
pub(crate) struct CarryMemory(Vec<Piece>);

struct Piece {
    start: CUdeviceptr,
    bytes: usize,
    launches: u32,
}

impl CarryMemory {
    /// Returns memory for the next launch on the stream, which has used it alone. The memory begins with zeros. `None`
    /// on devices without pools.
    pub(crate) fn for_launch(
        &mut self,
        stream: &StreamInner,
        bytes: usize,
    ) -> Result<Option<CUdeviceptr>> {
        let fits = |piece: &Piece| piece.bytes >= bytes && piece.launches < MOST_LAUNCHES;
        if !self.0.last().is_some_and(fits) {
            let bytes = bytes.next_power_of_two().max(LEAST_BYTES);
            let Some(start) = stream.context.pool.zeroed(stream, bytes)? else {
                return Ok(None);
            };
            self.0.push(Piece { start, bytes, launches: 0 });
        }
        Ok(self.0.last_mut().map(|piece| {
            piece.launches += 1;
            piece.start
        }))
    }

    /// Frees all in the stream's order.
    pub(super) fn free(&mut self, stream: &StreamInner) {
        for piece in self.0.drain(..) {
            // SAFETY: the piece was allocated in the stream's order and is used by launches there alone. No later one
            // is made.
            let freed = unsafe { stream.context.pool.free(stream, piece.start) };
            stream.context.keep_drop_result(freed);
        }
    }
}
