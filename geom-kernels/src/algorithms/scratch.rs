//! Scratch memory of a call: from the pool, or the caller's.

use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use cuda_safe::{Allocation, DeviceSliceMut, Error, Result, Stream};

use crate::part::{enqueues, scratch};

/// Pieces of scratch begin at multiples of this many bytes.
const ALIGN: usize = 256;

/// Returns the bytes of scratch that `n` elements of `size` bytes take.
pub(super) fn bytes(n: usize, size: usize) -> usize {
    n.saturating_mul(size).div_ceil(ALIGN).saturating_mul(ALIGN)
}

/// The source of scratch memory.
#[derive(Debug, Default)]
pub(super) enum Source<'s> {
    #[default]
    Pool,
    Given(Given<'s>),
}

/// Scratch memory of the caller.
#[derive(Debug)]
pub(super) struct Given<'s> {
    allocation: Arc<Allocation>,
    /// The lock is held while a call is enqueued: no other call may use the memory between its kernels.
    memory: Mutex<DeviceSliceMut<'s, u8>>,
}

impl<'s> Source<'s> {
    /// Scratch memory of the caller.
    pub(super) fn given(memory: DeviceSliceMut<'s, u8>) -> Self {
        let allocation = memory.allocation().clone();
        Self::Given(Given { allocation, memory: Mutex::new(memory) })
    }

    /// Runs one call with `bytes` bytes of scratch memory. No launch of a graph that uses `memory` comes between two
    /// of its kernels.
    pub(super) fn with<T>(
        &self,
        stream: &Stream,
        memory: &[Arc<Allocation>],
        bytes: usize,
        enqueue: impl FnOnce(Pieces<'_>) -> Result<T>,
    ) -> Result<T> {
        let Self::Given(Given { allocation, memory: given }) = self else {
            return enqueues(stream, memory).run(|| {
                // SAFETY: the buffer stays in this module, whose kernels read only bytes of it that they, or a fill,
                // have written before, and no code copies it to the host.
                let mut own = unsafe { scratch::<u8>(stream, bytes)? };
                enqueue(Pieces(Some(own.as_slice_mut())))
            });
        };
        let mut enqueue = Some(enqueue);
        loop {
            // A graph that was recorded with this memory may be launched by another thread. The graph lock comes
            // before the lock of the memory: the caller may hold it already.
            let captured = allocation.is_captured();
            let done = enqueues(stream, memory.iter().chain([allocation])).run(|| {
                let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
                if !captured && allocation.is_captured() {
                    // Another thread has recorded a graph with the memory meanwhile, so the graph lock is needed.
                    return Ok(None);
                }
                if given.len() < bytes {
                    let message =
                        format!("{} bytes of scratch, but {bytes} are needed", given.len());
                    return Err(Error::invalid(message).with_hint(
                        "the functions of `Algorithms` whose names end in `_scratch` tell how many",
                    ));
                }
                let pieces = Pieces(Some(given.reborrow()));
                enqueue.take().map(|enqueue| enqueue(pieces)).transpose()
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }
}

/// The unused rest of a call's scratch.
#[derive(Debug)]
pub(super) struct Pieces<'a>(Option<DeviceSliceMut<'a, u8>>);

impl<'a> Pieces<'a> {
    /// Returns the next `n` elements.
    pub(super) fn take<T: Pod>(&mut self, n: usize) -> Result<DeviceSliceMut<'a, T>> {
        let rest = self.0.take().ok_or_else(|| Error::invalid("no scratch is left"))?;
        let (piece, rest) = rest.split_at_mut(bytes(n, size_of::<T>()))?;
        self.0 = Some(rest);
        let length = n * size_of::<T>();
        let (piece, _) = piece.split_at_mut(length)?;
        piece.cast_mut()
    }
}
