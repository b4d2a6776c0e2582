//! The allocations that views of lent memory lie in.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Allocation;
use crate::context::ContextInner;
use crate::error::Result;
use crate::stream::Stream;

/// How many allocations a stream keeps between calls.
const MOST_IDLE: usize = 16;

/// The memory that the views of a call lie in.
#[derive(Default)]
pub(crate) struct Views {
    /// Those of this call, then idle ones of earlier calls.
    list: Vec<View>,
    /// How many are of this call.
    used: usize,
}

pub(crate) struct View {
    /// Owned, and at a fixed place: views refer to it while the list grows.
    allocation: NonNull<Arc<Allocation>>,
    pub(crate) addresses: Range<u64>,
    pub(crate) writes: bool,
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
    pub(crate) unsafe fn end(&mut self, context: &ContextInner) -> Result<()> {
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
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn of_call(&self) -> &[View] {
        self.list.get(..self.used).unwrap_or_default()
    }

    /// Adds a view, and returns its place.
    #[inline]
    pub(crate) fn add(
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
