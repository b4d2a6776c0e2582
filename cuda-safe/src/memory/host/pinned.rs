//! Owned pinned host memory, for transfers that go on while the host does something else.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::{NoUninit, Zeroable};

use super::pages;
use crate::consume::ConsumeError;
use crate::context::{Context, ContextInner, Counted, Deferred};
use crate::error::Result;
use crate::memory::fit;
use crate::quiet::Token;

/// `len` elements of pinned (page-locked) host memory: a slice that the device copies to and from
/// directly, at the bus's full speed.
///
/// It is moved into a transfer ([`DeviceSliceMut::upload_pinned`](crate::DeviceSliceMut),
/// [`DeviceSlice::download_pinned`](crate::DeviceSlice)) and comes back when that is done, so the
/// host never sees it while the device uses it. For plain slices the ordinary uploads and
/// downloads stage through such memory themselves.
///
/// Dropping it does not free it, which would wait for the device: it lies in the context's deferred-free list
/// until a buffer of about its size is made, or [`Context::free_deferred`] frees it. The list keeps 64 MiB of pinned memory:
/// if there is more, the next allocation of pinned memory that none of it fits frees it and **waits for the device**.
pub struct PinnedBuffer<T> {
    context: Arc<ContextInner>,
    /// Dangling if `capacity` is 0.
    start: NonNull<T>,
    len: usize,
    /// Bytes that the driver allocated.
    capacity: usize,
    marker: PhantomData<T>,
}

// SAFETY: the buffer owns its memory as a `Box<[T]>` does, and the driver ties it to no thread.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T: Copy + 'static> PinnedBuffer<T> {
    /// Creates a pinned buffer of `len` elements, all zero.
    ///
    /// # Errors
    /// The error that the driver returns, such as `CUDA_ERROR_OUT_OF_MEMORY` when the host has no more.
    #[doc(alias = "cuMemHostAlloc")]
    #[doc(alias = "cuMemAllocHost")]
    pub fn zeroed(context: &Context, len: usize) -> Result<Self>
    where
        T: Zeroable,
    {
        let buffer = Self::allocate(context, len)?;
        // SAFETY: there is room for `len` elements, and zero bytes are valid ones.
        unsafe { buffer.start.as_ptr().write_bytes(0, len) };
        Ok(buffer)
    }

    /// Creates a pinned copy of `source`.
    ///
    /// # Errors
    /// As [`PinnedBuffer::zeroed`].
    pub fn from_slice(context: &Context, source: &[T]) -> Result<Self>
    where
        T: NoUninit,
    {
        let buffer = Self::allocate(context, source.len())?;
        // SAFETY: there is room for `len` elements, in memory that is only ours.
        unsafe { buffer.start.as_ptr().copy_from_nonoverlapping(source.as_ptr(), source.len()) };
        Ok(buffer)
    }

    fn allocate(context: &Context, len: usize) -> Result<Self> {
        let inner = context.inner();
        inner.state.usable()?;
        inner.deferred.free_dropped(inner);
        let bytes = fit::in_pages::<T>("pinned memory", len)?;
        let (start, capacity) = if bytes == 0 {
            (NonNull::dangling(), 0)
        } else if let Some((start, capacity)) = inner.deferred.take_pinned(bytes) {
            (start.cast(), capacity)
        } else {
            inner.deferred.bound_pinned(inner);
            (pages::allocate(inner, bytes)?.cast(), bytes)
        };
        Ok(Self::wrap(inner.clone(), start, len, capacity))
    }

    fn wrap(context: Arc<ContextInner>, start: NonNull<T>, len: usize, capacity: usize) -> Self {
        context.census.add(Counted::Pinned);
        Self { context, start, len, capacity, marker: PhantomData }
    }

    pub(in crate::memory) fn context(&self) -> &Arc<ContextInner> {
        &self.context
    }

    pub(in crate::memory) fn start(&self) -> NonNull<T> {
        self.start
    }

    /// Gives the memory up to the deferred-free list as possibly still in use by work of `user`.
    pub(in crate::memory) fn abandon(mut self, user: &ContextInner) {
        let capacity = std::mem::take(&mut self.capacity);
        if capacity == 0 || !user.state.may_defer() {
            return;
        }
        let start = self.start.cast();
        if std::ptr::eq(user, &raw const *self.context) {
            user.deferred.put(Deferred::PinnedInFlight { start, bytes: capacity });
            return;
        }
        // The memory is free only after a wait for the user's device, so its context is kept open.
        let context = self.context.clone();
        let bytes = PinnedBuffer::<u8>::wrap(context, start, 0, capacity);
        user.deferred.put(Deferred::Token(Token::new(Box::new(bytes))));
    }

    /// Frees the memory now instead of leaving it to the context's deferred-free list. **Waits for the device**
    /// if it has work to do.
    ///
    /// # Errors
    /// The error holds the buffer and what the driver returned.
    #[doc(alias = "cuMemHostUnregister")]
    #[doc(alias = "cuMemFreeHost")]
    pub fn close(mut self) -> Result<(), ConsumeError<Self>> {
        if self.capacity == 0 {
            return Ok(());
        }
        let context = &*self.context;
        let freed = context.with_current(|| {
            // SAFETY: this owns the pinned memory, which no transfer uses: it would hold it.
            unsafe { pages::free(context, self.start.cast(), self.capacity) }
        });
        match freed {
            Ok(()) => {
                self.capacity = 0;
                self.len = 0;
                Ok(())
            }
            Err(error) => Err(ConsumeError::new(self, error)),
        }
    }
}

impl<T> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised elements that only this buffer refers to; while the device
        // uses them the buffer is inside a transfer, out of reach.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        self.context.census.remove(Counted::Pinned);
        if self.capacity > 0 && self.context.state.may_defer() {
            let item = Deferred::Pinned { start: self.start.cast(), bytes: self.capacity };
            self.context.deferred.put(item);
        }
    }
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer")
            .field("element", &std::any::type_name::<T>())
            .field("len", &self.len)
            .finish()
    }
}
