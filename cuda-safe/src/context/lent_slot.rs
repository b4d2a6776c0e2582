//! A place for one thing, which threads leave and take without a lock.

use std::marker::PhantomData;
use std::ptr;

use crate::sync::atomic::{AtomicPtr, Ordering};

pub(super) struct Slot<T> {
    /// Leaked from a box; null if nothing is here.
    left: AtomicPtr<T>,
    /// Gives things to other threads, as a mutex does.
    marker: PhantomData<crate::sync::Lock<T>>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { left: AtomicPtr::new(ptr::null_mut()), marker: PhantomData }
    }
}

impl<T> Slot<T> {
    /// Takes what was left.
    #[inline]
    pub(super) fn take(&self) -> Option<Box<T>> {
        self.exchange(ptr::null_mut())
    }

    /// Leaves a thing, and returns what was left before.
    #[inline]
    pub(super) fn leave(&self, thing: Box<T>) -> Option<Box<T>> {
        self.exchange(Box::into_raw(thing))
    }

    #[inline]
    fn exchange(&self, new: *mut T) -> Option<Box<T>> {
        let taken = self.left.swap(new, Ordering::AcqRel);
        // SAFETY: if it is not null, `leave` has leaked it from a box, and the swap has given it to this caller alone.
        (!taken.is_null()).then(|| unsafe { Box::from_raw(taken) })
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
