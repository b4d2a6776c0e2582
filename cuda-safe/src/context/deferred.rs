//! The deferred-free list: resources that were dropped but can't be freed without waiting for the device.
//!
//! Freeing pinned memory, unloading a module, and `cuMemFree` wait for *all* work of the device
//! (measured: each waits for a 200 ms kernel on another stream). So drops put them here, where
//! allocations find memory to use again, and [`Context::free_deferred`](crate::Context::free_deferred) frees
//! the rest when the caller is ready to wait.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_sys::{CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUlibrary, CUmemoryPool, CUmodule};

use super::ContextInner;
use super::deferred_list::DeferredList;
use crate::error::Result;
use crate::memory::{Allocation, HostVec, pages, stop_waiting};
use crate::quiet::Token;
use crate::stream::{Stream, StreamInner};

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
    /// An object that a host function has dropped, since the driver can't be called on that thread. Freeing it waits for
    /// nothing.
    Dropped(Dropped),
}

/// What a host function has dropped.
pub(crate) enum Dropped {
    Memory(Box<Allocation>),
    Stream(Box<StreamInner>),
    Event(CUevent),
    Graph(CUgraph),
    Exec(CUgraphExec),
    Pool(CUmemoryPool),
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
    /// How many items a host function has dropped, counted in the same way.
    dropped: AtomicUsize,
    /// How many bytes of pinned memory lie here, about, with those of registered vectors.
    pinned: AtomicUsize,
}

/// How much dropped pinned memory a context keeps for later buffers.
const MOST_PINNED: usize = 64 << 20;

impl Deferred {
    fn is_for_calls(&self) -> bool {
        matches!(self, Self::Lent { .. } | Self::Retired(_))
    }

    fn is_dropped(&self) -> bool {
        matches!(self, Self::Dropped(_))
    }

    /// Returns how many bytes of pinned memory it is.
    fn pinned_bytes(&self) -> usize {
        match self {
            Self::Pinned { bytes, .. } | Self::PinnedInFlight { bytes, .. } => *bytes,
            Self::Registered(vector) => vector.bytes(),
            _ => 0,
        }
    }
}

impl Drop for DeferredFrees {
    /// Nobody has waited for the device, so it may still use the memory that a token keeps alive: the token is leaked.
    fn drop(&mut self) {
        for item in self.items.drain() {
            use Deferred::{Dropped, Lent, Retired, Token};
            if matches!(item, Token(_) | Retired(_) | Lent { .. } | Dropped(_)) {
                std::mem::forget(item);
            }
        }
    }
}

impl DeferredFrees {
    pub(crate) fn put(&self, item: Deferred) {
        if item.is_for_calls() {
            self.for_calls.fetch_add(1, Ordering::Release);
        }
        if item.is_dropped() {
            self.dropped.fetch_add(1, Ordering::Release);
        }
        self.pinned.fetch_add(item.pinned_bytes(), Ordering::Relaxed);
        self.items.put(item);
    }

    /// Frees what host functions have dropped. Waits for nothing.
    #[inline]
    pub(crate) fn free_dropped(&self, context: &ContextInner) {
        while self.dropped.load(Ordering::Acquire) > 0 {
            let Some(item) = self.items.take(Deferred::is_dropped) else { return };
            self.dropped.fetch_sub(1, Ordering::Relaxed);
            context.keep_drop_result(free(item, context));
        }
    }

    /// Frees dropped pinned memory if there is more than a context keeps, which **waits for the device**; not where that
    /// would disturb a capture or a thread that waits for the graph lock. The context keeps errors.
    pub(crate) fn bound_pinned(&self, context: &ContextInner) {
        if self.pinned.load(Ordering::Relaxed) <= MOST_PINNED
            || context.captures.any()
            || context.lent.may_be_captured()
            || context.graph_lock.is_held_here()
        {
            return;
        }
        let freed = context.while_current(|| {
            while context.state.is_usable()
                && let Some(item) = self.items.take(|item| item.pinned_bytes() > 0)
            {
                self.pinned.fetch_sub(item.pinned_bytes(), Ordering::Relaxed);
                // Each of them, since another thread may have dropped this one after the last wait.
                if matches!(item, Deferred::Registered(_))
                    && let Err(error) = context.wait_for_all()
                {
                    self.put(item);
                    return Err(error);
                }
                context.keep_drop_result(free(item, context));
            }
            Ok(())
        });
        context.keep_drop_result(freed);
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
            use Deferred::{Dropped, Lent, Retired, Token};
            matches!(item, Token(_) | Retired(_) | Lent { .. } | Dropped(_))
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
            Deferred::Pinned { start, bytes } => {
                self.pinned.fetch_sub(bytes, Ordering::Relaxed);
                Some((start, bytes))
            }
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
        // Their drops may leave more here.
        self.free_dropped(context);
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
            let dropped = items.iter().filter(|item| item.is_dropped()).count();
            self.dropped.fetch_sub(dropped, Ordering::Relaxed);
            let pinned = items.iter().map(Deferred::pinned_bytes).sum();
            self.pinned.fetch_sub(pinned, Ordering::Relaxed);
            for item in items {
                if !context.state.is_usable() {
                    break;
                }
                let freed = match item {
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
                    item => free(item, context),
                };
                first_error =
                    context.first_error(std::mem::replace(&mut first_error, Ok(())), freed);
            }
            Ok(())
        })?;
        first_error
    }
}

/// Frees an item. The device was waited for, or the free waits.
fn free(item: Deferred, context: &ContextInner) -> Result<()> {
    match item {
        Deferred::Pinned { start, bytes } | Deferred::PinnedInFlight { start, bytes } => {
            // SAFETY: the deferred-free list owned this pinned memory, and was given its size with it.
            unsafe { pages::free(context, start, bytes) }
        }
        Deferred::Device { start, .. } | Deferred::Unordered { start } => {
            // SAFETY: the deferred-free list owned this allocation. The call waits for the users of memory from
            // `cuMemAlloc`; for those of the other the caller has waited for the device.
            unsafe { call!(context, cuMemFree_v2(start)) }
        }
        Deferred::Lent { token, .. } | Deferred::Token(token) | Deferred::Retired(token) => {
            drop(token);
            Ok(())
        }
        Deferred::Registered(vector) => {
            let start = vector.start().as_ptr().cast();
            // SAFETY: the deferred-free list owned this memory, which is registered; the caller has waited for the device.
            unsafe { call!(context, cuMemHostUnregister(start)) }.map(|()| vector.free())
        }
        Deferred::Module(module) => {
            // SAFETY: no handle to the module is left; the call waits for its kernels.
            unsafe { call!(context, cuModuleUnload(module)) }
        }
        Deferred::Library(library) => {
            // SAFETY: as for a module.
            unsafe { call!(context, cuLibraryUnload(library)) }
        }
        Deferred::Dropped(dropped) => free_dropped(dropped, context),
    }
}

/// Frees what a host function has dropped, as the drop would have.
fn free_dropped(dropped: Dropped, context: &ContextInner) -> Result<()> {
    match dropped {
        Dropped::Memory(memory) => drop(memory),
        Dropped::Stream(stream) => drop(stream),
        Dropped::Event(event) => {
            stop_waiting(event);
            // SAFETY: the event was the list's, and nothing waits for it any more.
            unsafe { call!(context, cuEventDestroy_v2(event)) }?;
        }
        // SAFETY: the graph was the list's.
        Dropped::Graph(graph) => unsafe { call!(context, cuGraphDestroy(graph)) }?,
        // SAFETY: as above. A launch that is still running finishes.
        Dropped::Exec(exec) => unsafe { call!(context, cuGraphExecDestroy(exec)) }?,
        // SAFETY: as above. Memory that is in use keeps the pool until it is freed.
        Dropped::Pool(pool) => unsafe { call!(context, cuMemPoolDestroy(pool)) }?,
    }
    Ok(())
}
