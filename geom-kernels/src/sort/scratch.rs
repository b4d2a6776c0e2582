//! Device memory that a call needs while it runs: from the pool, or the caller's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, DeviceSliceMut, Error, Result, Sequence, Stream};

use crate::part::scratch;

/// Pieces of scratch begin at multiples of this many bytes.
const ALIGN: usize = 256;

/// The bytes of scratch that `n` elements of `size` bytes take.
pub(super) fn bytes(n: usize, size: usize) -> usize {
    n.saturating_mul(size).div_ceil(ALIGN).saturating_mul(ALIGN)
}

/// Where scratch comes from.
#[derive(Debug, Default)]
pub(super) enum Source<'s> {
    #[default]
    Pool,
    /// Locked while a call is enqueued: between its kernels no other call may use it.
    Given(Mutex<DeviceSliceMut<'s, u8>>),
}

impl<'s> Source<'s> {
    /// Scratch for one call, of `bytes` bytes.
    pub(super) fn take<'a>(&'a self, stream: &'a Stream, bytes: usize) -> Result<Scratch<'a, 's>> {
        let Self::Given(slice) = self else {
            // SAFETY: the buffer stays in this module, whose kernels read of it only what they, or a
            // fill, have written before, and nobody copies it to the host.
            return Ok(Scratch::Own(unsafe { scratch::<u8>(stream, bytes)? }));
        };
        let guard = slice.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.len() < bytes {
            let message = format!("{} bytes of scratch, but {bytes} are needed", guard.len());
            return Err(Error::invalid(message)
                .with_hint("the functions of `Sort` whose names end in `_scratch` tell how many"));
        }
        let sequence = stream.sequence(guard.allocation());
        Ok(Scratch::Given(guard, sequence))
    }
}

/// The scratch of one call, until all of it is enqueued.
#[derive(Debug)]
pub(super) enum Scratch<'a, 's> {
    Own(DeviceBuffer<u8>),
    /// With the turn: a graph that was recorded with this scratch may be launched by another thread.
    Given(
        MutexGuard<'a, DeviceSliceMut<'s, u8>>,
        #[expect(dead_code, reason = "held")] Sequence<'a>,
    ),
}

impl Scratch<'_, '_> {
    pub(super) fn pieces(&mut self) -> Pieces<'_> {
        Pieces(Some(match self {
            Self::Own(buffer) => buffer.as_slice_mut(),
            Self::Given(guard, _) => guard.reborrow(),
        }))
    }
}

/// What is left of a call's scratch.
#[derive(Debug)]
pub(super) struct Pieces<'a>(Option<DeviceSliceMut<'a, u8>>);

impl<'a> Pieces<'a> {
    /// The next `n` elements.
    pub(super) fn take<T: Pod>(&mut self, n: usize) -> Result<DeviceSliceMut<'a, T>> {
        let rest = self.0.take().ok_or_else(|| Error::invalid("no scratch is left"))?;
        let (piece, rest) = rest.split_at_mut(bytes(n, size_of::<T>()))?;
        self.0 = Some(rest);
        let length = n * size_of::<T>();
        let (piece, _) = piece.split_at_mut(length)?;
        piece.cast_mut()
    }
}
