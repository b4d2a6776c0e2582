//! The deferred-free list: resources that were dropped but can't be freed without waiting for the device.
//!
//! Freeing pinned memory, unloading a module, and `cuMemFree` wait for *all* work of the device
//! (measured: each waits for a 200 ms kernel on another stream). So drops put them here, where
//! allocations find memory to use again, and [`Context::free_deferred`](crate::Context::free_deferred) frees
//! the rest when the caller is ready to wait.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_sys::{CUdeviceptr, CUlibrary, CUmodule};

use super::ContextInner;
use super::deferred_list::DeferredList;
use crate::error::Result;
use crate::memory::{HostVec, pages};
use crate::quiet::Token;
use crate::stream::Stream;

/// Something dropped, owned by the deferred-free list.
pub(crate) enum Deferred {
    /// Pinned host memory that no transfer uses any more: free to be used again at once.
    Pinned { start: NonNull<u8>, bytes: usize },
    /// Pinned host memory that a transfer may still use: only a wait for the device frees it.
    PinnedInFlight { start: NonNull<u8>, bytes: usize },
    /// Device memory from `cuMemAlloc`. Work on the stream with this number may be unfinished, and
    /// all other uses are ordered before later work on that stream.
    Device { start: CUdeviceptr, bytes: usize, stream: u64 },
    /// A module whose kernels may still be running.
    Module(CUmodule),
    /// The same for a kernel of a module that was loaded lazily.
    Library(CUlibrary),
    /// Stream-ordered memory that a stream other than its own may still use: the waits that order
    /// its free could not be enqueued. `cuMemFree` does not wait for users of such memory. Managed
    /// memory too.
    Unordered { start: CUdeviceptr },
    /// Owner tokens of foreign memory that was dropped in the same way, and pinned memory of another context that a
    /// transfer of this one may still use.
    Token(Token),
    /// The owner of memory that was given away for longer than a call, on the stream `home`, which can't be used now. It
    /// is dropped when that stream is lent again and waits for the uses, or after a wait for the device.
    Lent { token: Token, home: Stream, uses: Vec<(Stream, u64)> },
    /// What a graph of other code has kept, and what uses memory no more.
    Retired(Token),
    /// A registered vector. It is leaked if it can't be unregistered.
    Registered(HostVec),
}

// SAFETY: the pointers are owned by the deferred-free list alone and the driver's handles are not tied to threads.
unsafe impl Send for Deferred {}

/// A stream number that no stream has: memory on which no stream may build.
pub(crate) const NO_STREAM: u64 = 0;

#[derive(Default)]
pub(crate) struct DeferredFrees {
    items: DeferredList<Deferred>,
    /// How many items the next call of `lend` may drop, so that a call takes no lock if there are none. It is raised
    /// before such an item is put here.
    for_calls: AtomicUsize,
}

impl Deferred {
    fn is_for_calls(&self) -> bool {
        matches!(self, Self::Lent { .. } | Self::Retired(_))
    }
}

impl Drop for DeferredFrees {
    /// Nobody has waited for the device, so it may still use the memory that a token keeps alive: the token is leaked.
    fn drop(&mut self) {
        for item in self.items.drain() {
            use Deferred::{Lent, Retired, Token};
            if let Token(kept) | Retired(kept) | Lent { token: kept, .. } = item {
                std::mem::forget(kept);
            }
        }
    }
}

impl DeferredFrees {
    pub(crate) fn put(&self, item: Deferred) {
        if item.is_for_calls() {
            self.for_calls.fetch_add(1, Ordering::Release);
        }
        self.items.put(item);
    }

    /// Takes an item that the next call of `lend` drops.
    fn take_for_call(&self, wanted: impl Fn(&Deferred) -> bool) -> Option<Deferred> {
        if self.for_calls.load(Ordering::Acquire) == 0 {
            return None;
        }
        let item = self.items.take(wanted)?;
        self.for_calls.fetch_sub(1, Ordering::Relaxed);
        Some(item)
    }

    pub(crate) fn len(&self) -> u64 {
        self.items.len() as u64
    }

    /// Returns whether an owner of foreign memory lies here, which may itself hold anything.
    pub(crate) fn holds_tokens(&self) -> bool {
        self.items.any(|item| {
            matches!(item, Deferred::Token(_) | Deferred::Retired(_) | Deferred::Lent { .. })
        })
    }

    /// Drops owners of memory that was given away on `stream`, which is lent again: it waits for the uses first.
    pub(crate) fn give_back(&self, stream: &Stream) -> Result<()> {
        while let Some(item) =
            self.take_for_call(|item| matches!(item, Deferred::Lent { home, .. } if home == stream))
        {
            if let Deferred::Lent { uses, .. } = &item
                && let Err(error) = uses.iter().try_for_each(|(other, sequence)| {
                    stream.inner().wait_for(other.inner(), *sequence)
                })
            {
                self.put(item);
                return Err(error);
            }
            drop(item);
        }
        Ok(())
    }

    /// Drops what graphs of other code have kept and need no more.
    pub(crate) fn drop_retired(&self) {
        while let Some(item) = self.take_for_call(|item| matches!(item, Deferred::Retired(_))) {
            drop(item);
        }
    }

    /// Returns pinned memory of at least `bytes` and at most twice that, if some lies here.
    pub(crate) fn take_pinned(&self, wanted: usize) -> Option<(NonNull<u8>, usize)> {
        let taken = self.items.take(|item| {
            matches!(item, Deferred::Pinned { bytes, .. }
                if *bytes >= wanted && *bytes / 2 <= wanted)
        });
        match taken? {
            Deferred::Pinned { start, bytes } => Some((start, bytes)),
            other => {
                self.put(other);
                None
            }
        }
    }

    /// Returns device memory of exactly `wanted` bytes that work on `stream` may use at once: whatever still uses it is
    /// ordered before that work.
    pub(crate) fn take_device(&self, wanted: usize, on: u64) -> Option<CUdeviceptr> {
        let taken = self.items.take(|item| {
            matches!(item, Deferred::Device { bytes, stream, .. }
                if *bytes == wanted && *stream == on)
        });
        match taken? {
            Deferred::Device { start, .. } => Some(start),
            other => {
                self.put(other);
                None
            }
        }
    }

    /// Frees everything. Each of the frees waits for the device, or the device is waited for before,
    /// so none pulls memory away from work that is still running.
    pub(crate) fn empty(&self, context: &ContextInner) -> Result<()> {
        context.state.usable()?;
        if self.len() == 0 {
            return Ok(());
        }
        let mut first_error = Ok(());
        context.while_current(|| {
            let waits = |item: &Deferred| {
                use Deferred::{Lent, Registered, Token, Unordered};
                matches!(item, Unordered { .. } | Token(_) | Lent { .. } | Registered(_))
            };
            let items = self.items.take_all(|items| {
                if !items.iter().any(waits) {
                    return Ok(());
                }
                context.wait_for_all()
            })?;
            let for_calls = items.iter().filter(|item| item.is_for_calls()).count();
            self.for_calls.fetch_sub(for_calls, Ordering::Relaxed);
            for item in items {
                if !context.state.is_usable() {
                    break;
                }
                let freed = match item {
                    Deferred::Pinned { start, bytes }
                    | Deferred::PinnedInFlight { start, bytes } => {
                        // SAFETY: the deferred-free list owns this pinned memory, and was given its size with it.
                        unsafe { pages::free(context, start, bytes) }
                    }
                    Deferred::Device { start, .. } | Deferred::Unordered { start } => {
                        // SAFETY: the deferred-free list owns this allocation. The call waits for the
                        // users of memory from `cuMemAlloc`; for those of the other the device was
                        // waited for above.
                        unsafe { call!(context, cuMemFree_v2(start)) }
                    }
                    Deferred::Lent { token, home, uses } => {
                        // Streams of other contexts are not waited for above.
                        let finish = |(stream, far): &(Stream, u64)| stream.inner().finish(*far);
                        let finished = uses.iter().try_for_each(finish);
                        match finished {
                            Ok(()) => drop(token),
                            // A later call waits again.
                            Err(_) => self.put(Deferred::Lent { token, home, uses }),
                        }
                        finished
                    }
                    Deferred::Token(kept) | Deferred::Retired(kept) => {
                        drop(kept);
                        Ok(())
                    }
                    Deferred::Registered(vector) => {
                        let start = vector.start().as_ptr().cast();
                        // SAFETY: the deferred-free list owns this memory, which is registered; the device was
                        // waited for above.
                        unsafe { call!(context, cuMemHostUnregister(start)) }
                            .map(|()| vector.free())
                    }
                    Deferred::Module(module) => {
                        // SAFETY: no handle to the module is left; the call waits for its kernels.
                        unsafe { call!(context, cuModuleUnload(module)) }
                    }
                    Deferred::Library(library) => {
                        // SAFETY: as for a module.
                        unsafe { call!(context, cuLibraryUnload(library)) }
                    }
                };
                first_error =
                    context.first_error(std::mem::replace(&mut first_error, Ok(())), freed);
            }
            Ok(())
        })?;
        first_error
    }
}
