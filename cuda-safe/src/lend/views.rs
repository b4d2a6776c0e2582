//! Views of memory that is lent for a call.

use std::ops::Range;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::LentStream;
use crate::error::{Error, Result};
use crate::memory::{Allocation, DeviceSlice, DeviceSliceMut, View, fit};

impl LentStream {
    /// Returns a view of `len` elements that are lent for the call, for the device to read.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the size overflows, the address is null though there are
    /// elements, or is not aligned for them, or if a view for writing of this call overlaps.
    ///
    /// # Safety
    /// Until the call of [`Context::lend`](crate::Context::lend) returns, `start` is the address of `len` elements of
    /// memory that work on the stream may use, whose bytes are valid for `T` when work that is enqueued from now on
    /// runs, and that no other work writes which is not ordered with the stream.
    pub unsafe fn slice_from_raw<T: Copy + 'static>(
        &self,
        start: CUdeviceptr,
        len: usize,
    ) -> Result<DeviceSlice<'_, T>> {
        let allocation = self.lend_memory::<T>(start, len, false)?;
        Ok(DeviceSlice::new(allocation, 0, len))
    }

    /// Returns a view of `len` elements that are lent for the call, for the device to write.
    ///
    /// # Errors
    /// As [`slice_from_raw`](Self::slice_from_raw), and if any view of this call overlaps. A view counts until the call
    /// ends: [reborrow](DeviceSliceMut::reborrow) it to use it again.
    ///
    /// # Safety
    /// As [`slice_from_raw`](Self::slice_from_raw); and no other work uses the memory which is not ordered with the
    /// stream.
    pub unsafe fn slice_from_raw_mut<T: Copy + 'static>(
        &self,
        start: CUdeviceptr,
        len: usize,
    ) -> Result<DeviceSliceMut<'_, T>> {
        let allocation = self.lend_memory::<T>(start, len, true)?;
        Ok(DeviceSliceMut::new(allocation, 0, len))
    }

    pub(crate) fn lend_memory<T>(
        &self,
        start: CUdeviceptr,
        len: usize,
        writes: bool,
    ) -> Result<&Arc<Allocation>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|bytes| start.checked_add(*bytes as u64).is_some())
            .ok_or_else(|| Error::invalid("the lent memory would reach past the end of memory"))?;
        if bytes > 0 {
            if start == 0 {
                return Err(Error::invalid(format!("the address of {len} lent elements is null")));
            }
            fit::aligned::<T>("the lent memory", start)?;
        }
        let start = if bytes == 0 { 0 } else { start };
        self.lend_range(start, bytes, writes)
    }

    /// Lends a range of addresses, which does not overflow.
    #[inline]
    pub(crate) fn lend_range(
        &self,
        start: CUdeviceptr,
        bytes: usize,
        writes: bool,
    ) -> Result<&Arc<Allocation>> {
        let addresses = start..start + bytes as u64;
        let mut views = self.kept.views.borrow_mut();
        for View { addresses: known, writes: written, .. } in views.of_call() {
            if (writes || *written) && known.start < addresses.end && addresses.start < known.end {
                return Err(overlap(known, &addresses));
            }
        }
        let place = views.add(addresses, self, writes);
        // SAFETY: the list drops its views when `close` consumes `self`, and the returned reference borrows `self`.
        Ok(unsafe { place.as_ref() })
    }
}

#[cold]
fn overlap(known: &Range<u64>, added: &Range<u64>) -> Error {
    Error::invalid(format!(
        "lent memory overlaps, and one of the two is written: {:#x}..{:#x} and {:#x}..{:#x}",
        known.start, known.end, added.start, added.end
    ))
}
