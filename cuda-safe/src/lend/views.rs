//! Views of memory that is lent for a call.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::LentStream;
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::memory::{Allocation, DeviceSlice, DeviceSliceMut, fit};
use crate::stream::Stream;

/// How many allocations a stream keeps between calls.
const MOST_IDLE: usize = 16;

/// The memory that the views of a call lie in.
#[derive(Default)]
pub(super) struct Views {
    /// Those of this call, then idle ones of earlier calls.
    list: Vec<View>,
    /// How many are of this call.
    used: usize,
}

struct View {
    /// Owned, and at a fixed place: views refer to it while the list grows.
    allocation: NonNull<Arc<Allocation>>,
    addresses: Range<u64>,
    writes: bool,
}

impl View {
    fn new(allocation: Arc<Allocation>, writes: bool) -> Self {
        let start = allocation.device_ptr();
        let addresses = start..start + allocation.size_bytes() as u64;
        Self { allocation: NonNull::from(Box::leak(Box::new(allocation))), addresses, writes }
    }

    /// Makes it a view of other memory.
    ///
    /// # Safety
    /// It is a view of an earlier call, at whose end its allocation was [idle](Allocation::is_idle).
    #[inline]
    unsafe fn renew(&mut self, addresses: Range<u64>, writes: bool) -> NonNull<Arc<Allocation>> {
        let (start, bytes) = (addresses.start, addresses.end - addresses.start);
        (self.addresses, self.writes) = (addresses, writes);
        // SAFETY: nothing has referred to it since the end of that call, says the caller.
        unsafe { self.allocation_mut().lend_again(start, bytes as usize) };
        self.allocation
    }

    /// Returns the allocation when the call is over.
    ///
    /// # Safety
    /// The call of the view has ended: references that borrow its `LentStream` are gone.
    #[inline]
    unsafe fn allocation_mut(&mut self) -> &mut Arc<Allocation> {
        // SAFETY: leaked by `new`, freed by the drop, and nothing else refers to it, says the caller.
        unsafe { self.allocation.as_mut() }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: leaked by `new`, and freed by this alone.
        drop(unsafe { Box::from_raw(self.allocation.as_ptr()) });
    }
}

impl Views {
    /// Ends the lending of all memory, and returns the first error. The context keeps later ones. Memory that nothing
    /// refers to stays for views of later calls.
    ///
    /// # Safety
    /// The call is over: references that borrow its `LentStream` are gone.
    #[inline]
    pub(super) unsafe fn end(&mut self, context: &ContextInner) -> Result<()> {
        let of_call = self.list.get_mut(..self.used).unwrap_or_default();
        self.used = 0;
        // SAFETY: the caller's promise.
        let idle = of_call.iter_mut().all(|view| unsafe { view.allocation_mut() }.is_idle());
        if idle && self.list.len() <= MOST_IDLE {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.end_some(context) }
    }

    /// # Safety
    /// As [`end`](Self::end).
    #[cold]
    unsafe fn end_some(&mut self, context: &ContextInner) -> Result<()> {
        let mut ended = Ok(());
        self.list.retain_mut(|view| {
            // SAFETY: the caller's promise.
            let allocation = unsafe { view.allocation_mut() };
            let idle = allocation.is_idle();
            if !idle {
                let error = allocation.end_lending();
                ended = context.first_error(std::mem::replace(&mut ended, Ok(())), error);
            }
            idle
        });
        self.list.truncate(MOST_IDLE);
        ended
    }

    /// Returns how many allocations there are, each of which holds the stream.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    fn of_call(&self) -> &[View] {
        self.list.get(..self.used).unwrap_or_default()
    }

    /// Adds a view, and returns its place.
    #[inline]
    fn add(
        &mut self,
        addresses: Range<u64>,
        stream: &Stream,
        writes: bool,
    ) -> NonNull<Arc<Allocation>> {
        let place = match self.list.get_mut(self.used) {
            // SAFETY: behind those of this call lie views of earlier calls, of which `end` has left idle ones.
            Some(idle) => unsafe { idle.renew(addresses, writes) },
            None => self.add_new(addresses, stream, writes),
        };
        self.used += 1;
        place
    }

    #[cold]
    fn add_new(
        &mut self,
        addresses: Range<u64>,
        stream: &Stream,
        writes: bool,
    ) -> NonNull<Arc<Allocation>> {
        let bytes = (addresses.end - addresses.start) as usize;
        let view = View::new(Allocation::lent(addresses.start, bytes, stream), writes);
        let place = view.allocation;
        self.list.push(view);
        place
    }
}

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
