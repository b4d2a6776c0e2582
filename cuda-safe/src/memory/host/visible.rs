//! Memory that the host sees too: how it is allocated, borrowed by the host, and freed.
//!
//! Order on the device is kept as for any other allocation, except that such memory is `shared`
//! from the start: every use is recorded, so that the host can wait for exactly those. While the
//! host borrows it, [`HostBorrows`] counts the guards, and a conflicting use is refused before the
//! driver is called. Borrows alone would not do: a graph holds the allocation, not the buffer.
//!
//! A guard first marks the memory as borrowed and then waits for the uses it finds; a launch first
//! reads the mark and then enqueues. Accesses that borrows don't separate must hold one lock over these two steps, so
//! that neither comes between those of the other.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use cuda_sys::{
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CUdeviceptr, CUmemAttach_flags,
};

use super::host_borrow::{HostBorrow, HostBorrows};
use super::pages;
use crate::consume::ConsumeError;
use crate::context::Deferred;
use crate::error::{Error, Result};
use crate::memory::allocation::{Allocation, Kind};
use crate::memory::order::ranges::Ranges;
use crate::memory::order::uses::{Access, Uses};
use crate::stream::Stream;

/// The host's side of an allocation.
pub(in crate::memory) struct Visible {
    memory: Memory,
    /// The host's address; dangling if there are no bytes.
    start: NonNull<u8>,
    host_borrows: HostBorrows,
}

// SAFETY: the allocation owns the memory, and the driver ties it to no thread.
unsafe impl Send for Visible {}
// SAFETY: as above; the address is only handed out to guards, which borrow rules and `host_borrows`
// keep apart from each other and from the device.
unsafe impl Sync for Visible {}

/// Where memory that the host sees comes from, which is how it goes.
pub(in crate::memory) enum Memory {
    /// `cuMemAllocManaged`: pages that move to the device or host that accesses them.
    Managed,
    /// Pages of the host's, registered, which the device reaches over the bus.
    Pinned,
    /// A vector registered by `cuMemHostRegister`.
    Registered(HostVec),
}

/// The memory of a vector, without its type. **Dropping it leaks the memory**: the device may use
/// it until it is unregistered; [`HostVec::free`] frees it then.
pub(crate) struct HostVec {
    start: NonNull<u8>,
    capacity: usize,
    bytes: usize,
    free: unsafe fn(NonNull<u8>, usize),
}

// SAFETY: it owns the memory as the vector did, which has no elements that run code when dropped.
unsafe impl Send for HostVec {}

impl HostVec {
    /// Takes the memory over. `Copy` elements have nothing that must be dropped.
    pub(in crate::memory) fn new<T: Copy>(vector: Vec<T>) -> Self {
        /// # Safety
        /// `start` and `capacity` are those of a `Vec<T>`, and nothing else frees it.
        unsafe fn free<T>(start: NonNull<u8>, capacity: usize) {
            // SAFETY: the caller's promise; no element is claimed to be there.
            drop(unsafe { Vec::<T>::from_raw_parts(start.cast().as_ptr(), 0, capacity) });
        }
        let mut vector = std::mem::ManuallyDrop::new(vector);
        // SAFETY: a vector's pointer is never null.
        let start = unsafe { NonNull::new_unchecked(vector.as_mut_ptr()) };
        let capacity = vector.capacity();
        let bytes = capacity.saturating_mul(size_of::<T>());
        Self { start: start.cast(), capacity, bytes, free: free::<T> }
    }

    /// Returns the size of the memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Frees the memory. Nothing of the driver's may use it any more.
    pub(crate) fn free(self) {
        // SAFETY: these are the parts of the vector that `new` took, of the type that it chose
        // `free` for; `self` is consumed, so it is freed once.
        unsafe { (self.free)(self.start, self.capacity) };
    }

    /// Returns the vector with its first `len` elements.
    ///
    /// # Safety
    /// It was made of a `Vec<T>` of at least `len` elements, whose bytes are now valid for `T`.
    unsafe fn into_vec<T: Copy>(self, len: usize) -> Vec<T> {
        // SAFETY: the caller's promise; `self` is consumed and its drop frees nothing.
        unsafe { Vec::from_raw_parts(self.start.cast().as_ptr(), len, self.capacity) }
    }
}

impl Visible {
    fn new(memory: Memory, start: NonNull<u8>) -> Self {
        Self { memory, start, host_borrows: HostBorrows::default() }
    }

    pub(in crate::memory) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(in crate::memory) fn is_managed(&self) -> bool {
        matches!(self.memory, Memory::Managed)
    }

    /// Fails if a guard is alive that doesn't go with such a use by the device.
    pub(in crate::memory) fn allows(&self, access: Access) -> Result<()> {
        self.host_borrows.allows(access).map_err(|guard| {
            Error::invalid(match guard {
                Access::Write => {
                    "the host is writing the buffer: its `host_mut()` guard is alive, or was leaked"
                }
                Access::Read => {
                    "the host is reading the buffer: its `host()` guard is alive, or was leaked"
                }
            })
        })
    }

    /// Marks the memory as borrowed by the host until the result is dropped.
    fn borrow(&self, access: Access) -> Result<HostBorrow<'_>> {
        self.host_borrows.borrow(access).ok_or_else(|| {
            Error::invalid(
                "another guard of the buffer is alive: one was leaked, since borrowing allows no \
                 other",
            )
        })
    }
}

impl Allocation {
    /// Returns the host's side, if the host sees the memory.
    pub(in crate::memory) fn host_side(&self) -> Option<&Visible> {
        match self.kind() {
            Kind::Visible(visible) => Some(visible),
            _ => None,
        }
    }

    /// Managed memory. Not written yet.
    pub(in crate::memory) fn managed(home: &Stream, bytes: usize) -> Result<Arc<Self>> {
        let mut start = 0;
        if bytes > 0 {
            let context = &home.inner().context;
            context.with_current(|| {
                let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
                // SAFETY: `start` is a valid place for an address, and the context is current.
                unsafe { call!(context, cuMemAllocManaged(&raw mut start, bytes, flags)) }
                    .map_err(|error| error.with_asked(format!("{bytes} bytes of managed memory")))
            })?;
        }
        // The address is the same on the host and the device.
        let pointer = std::ptr::with_exposed_provenance_mut(start as usize);
        let host = NonNull::new(pointer).unwrap_or(NonNull::dangling());
        Ok(Self::visible(start, bytes, home, Visible::new(Memory::Managed, host)))
    }

    /// Returns pinned memory that is mapped for the device. All bytes are zero.
    pub(in crate::memory) fn pinned(home: &Stream, bytes: usize) -> Result<Arc<Self>> {
        let context = &home.inner().context;
        if bytes == 0 {
            let nothing = Visible::new(Memory::Pinned, NonNull::dangling());
            return Ok(Self::visible(0, 0, home, nothing));
        }
        context.deferred.bound_pinned(context);
        let host = pages::allocate(context, bytes)?;
        match pages::device_address(context, host) {
            Ok(device) => {
                // SAFETY: `bytes` bytes that were just allocated, and nothing else has their address.
                unsafe { host.write_bytes(0, bytes) };
                Ok(Self::visible(device, bytes, home, Visible::new(Memory::Pinned, host)))
            }
            Err(error) => {
                context.deferred.put(Deferred::Pinned { start: host, bytes });
                Err(error)
            }
        }
    }

    /// Returns the memory of a vector whose elements take `bytes` bytes; it is freed if this fails.
    pub(in crate::memory) fn registered(
        home: &Stream,
        vector: HostVec,
        bytes: usize,
    ) -> Result<Arc<Self>> {
        let (context, host) = (&home.inner().context, vector.start());
        if bytes == 0 {
            let visible = Visible::new(Memory::Registered(vector), host);
            return Ok(Self::visible(0, 0, home, visible));
        }
        context.deferred.bound_pinned(context);
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        let mut registered = false;
        let done = context.with_current(|| {
            let start = host.as_ptr().cast();
            // SAFETY: the memory is the vector's, which stays until it is unregistered.
            unsafe { call!(context, cuMemHostRegister_v2(start, bytes, flags)) }.map_err(
                |error| error.with_asked(format!("{bytes} bytes of a vector to be registered")),
            )?;
            registered = true;
            Ok(())
        });
        match done.and_then(|()| pages::device_address(context, host)) {
            Ok(device) => {
                let visible = Visible::new(Memory::Registered(vector), host);
                Ok(Self::visible(device, bytes, home, visible))
            }
            Err(error) if registered => {
                if context.state.is_usable() {
                    context.deferred.put(Deferred::Registered(vector));
                }
                Err(error)
            }
            // After a fatal error it is unknown whether the driver holds the memory, so it is leaked.
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                vector.free();
                Err(error)
            }
        }
    }

    /// Every use is recorded from the first on, and there is none yet: making such memory is no
    /// work of a stream.
    fn visible(start: CUdeviceptr, bytes: usize, home: &Stream, visible: Visible) -> Arc<Self> {
        let allocation = Self::with_kind(start, bytes, home, Kind::Visible(visible));
        drop(allocation.shared.raise(|| Ranges::new(bytes, Uses::default())));
        allocation
    }

    /// Returns whether the host sees the memory too, so that it is not simply the device's.
    pub(crate) fn is_visible(&self) -> bool {
        self.host_side().is_some()
    }

    /// Borrows the memory for the host, after waiting for the uses that conflict: for reading the
    /// writes, for writing the reads too.
    pub(in crate::memory) fn wait_for_host<'a>(
        &self,
        visible: &'a Visible,
        access: Access,
    ) -> Result<HostBorrow<'a>> {
        let state = self.home_stream().inner().state();
        if visible.is_managed() {
            // Managed memory is freed with its context. If there is nothing to wait for, no call below would detect
            // that other code has destroyed the context.
            state.look_after_primary()?;
        }
        state.usable()?;
        let borrow = {
            // A graph that uses the memory may be launched by a thread that has not borrowed it.
            let _held = match self.is_captured() {
                true => self.home_stream().inner().context.graph_lock.take()?,
                false => None,
            };
            visible.borrow(access)?
        };
        self.finish_uses(access)?;
        Ok(borrow)
    }

    /// Makes the host wait for the uses that a use of this kind conflicts with. Returns at once if
    /// it has seen them done.
    fn finish_uses(&self, access: Access) -> Result<()> {
        self.finish_uses_of(0..self.size_bytes(), access)
    }

    /// As [`finish_uses`](Self::finish_uses), for the uses of a range.
    pub(in crate::memory) fn finish_uses_of(
        &self,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        for (stream, sequence) in self.newest_uses_of(range, access)? {
            stream.inner().finish(sequence)?;
            stream.inner().context.check_fault()?;
        }
        self.home_stream().inner().context.check_fault()?;
        self.pass_gates()
    }

    /// Gives the vector of registered memory back: waits for its uses, and for the device.
    ///
    /// # Safety
    /// The memory was registered as a `Vec<T>` with `len` elements, and any bytes are a `T`.
    pub(in crate::memory) unsafe fn into_vec<T: Copy>(
        mut self: Arc<Self>,
        len: usize,
    ) -> Result<Vec<T>, ConsumeError<Arc<Self>>> {
        if let Err(error) = self.unregister() {
            return Err(ConsumeError::new(self, error));
        }
        let kind = self.only_handle().map(|this| this.replace_kind(Kind::Released));
        match kind {
            Some(Kind::Visible(Visible { memory: Memory::Registered(vector), .. })) => {
                // SAFETY: the caller's promise; the device has written all that it will.
                Ok(unsafe { vector.into_vec(len) })
            }
            _ => {
                let error = Error::invalid("the memory is not that of a vector");
                Err(ConsumeError::new(self, error))
            }
        }
    }

    /// Unregisters the memory, if it is registered and this is the only handle.
    fn unregister(self: &mut Arc<Self>) -> Result<()> {
        let context = self.home_stream().inner().context.clone();
        context.state.usable()?;
        let Some(Visible { memory: Memory::Registered(_), start, .. }) = self.host_side() else {
            return Err(Error::invalid("the memory is not that of a vector")
                .with_hint("copy what is there: `buffer.host()?.to_vec()`"));
        };
        let start = start.as_ptr().cast();
        if self.only_handle().is_none() {
            return Err(Error::invalid(
                "another owner, such as a graph, holds the buffer's allocation",
            ));
        }
        if self.size_bytes() == 0 {
            return Ok(());
        }
        self.finish_uses(Access::Write)?;
        context.with_current(|| {
            // SAFETY: registered when this was made, and all uses of it are done.
            unsafe { call!(context, cuMemHostUnregister(start)) }
        })
    }

    /// For drop: leaves what must wait for the device to the deferred-free list.
    pub(in crate::memory) fn discard_visible(&self, visible: Visible) {
        let deferred = &self.home_stream().inner().context.deferred;
        match visible.memory {
            Memory::Registered(vector) if self.size_bytes() == 0 => vector.free(),
            _ if self.size_bytes() == 0 => {}
            Memory::Managed => deferred.put(Deferred::Unordered { start: self.device_ptr() }),
            Memory::Pinned => {
                deferred.put(Deferred::PinnedInFlight {
                    start: visible.start,
                    bytes: self.size_bytes(),
                });
            }
            Memory::Registered(vector) => deferred.put(Deferred::Registered(vector)),
        }
    }
}
