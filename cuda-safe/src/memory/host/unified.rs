//! Memory that host and device both use, by one buffer: managed, pinned and mapped, or registered.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};
use cuda_sys::{CUdevice_attribute, CUdeviceptr, CUmemLocation, CUmemLocationType};

use super::host_borrow::HostBorrow;
use super::variable::VariableBorrow;
use super::visible::HostVec;
use crate::consume::ConsumeError;
use crate::error::{Error, Result};
use crate::memory::facade::buffer_facade;
use crate::memory::{Access, Allocation, DeviceSlice, DeviceSliceMut, enqueue, fit};
use crate::stream::Stream;

/// `len` elements of memory that host and device both access.
///
/// Kernels and copies take it like a [`DeviceBuffer`](crate::DeviceBuffer), on any stream of the
/// context, in the same order. The host accesses it through a guard: [`host`](Self::host) waits for all writes,
/// [`host_mut`](Self::host_mut) for all uses. While a guard lives, no conflicting work can be enqueued: the borrow
/// prevents it, and work that does not borrow the buffer, such as a graph, returns an error.
///
/// | made by | lies | good for |
/// |---|---|---|
/// | [`managed`](Self::managed) | where it was touched last, in pages that move | data that host and device use in turn |
/// | [`pinned`](Self::pinned) | on the host, used over the bus | small results and flags, data read once |
/// | [`register`](Self::register) | on the host: a vector that exists | the same without a copy |
///
/// Unlike device memory, every use is recorded, also on the home stream.
///
/// Dropping it does not wait: the memory lies in the context's deferred-free list until
/// [`Context::free_deferred`](crate::Context::free_deferred) frees it.
///
/// ```no_run
/// # use cuda_safe::{Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};
/// # fn count(kernel: &Kernel, stream: &Stream) -> Result<u32> {
/// let mut counts = UnifiedBuffer::<u32>::pinned(stream, 2)?;
/// counts.host_mut()?[0] = 7;
/// // SAFETY: `count(unsigned*)` adds to the first two words.
/// unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (&mut counts,)) }?;
/// let counts = counts.host()?; // waits for the kernel, and for nothing else
/// Ok(counts[0] + counts[1])
/// # }
/// ```
pub struct UnifiedBuffer<T> {
    allocation: Arc<Allocation>,
    len: usize,
    marker: PhantomData<T>,
}

/// The elements of a [`UnifiedBuffer`], or of a managed [`Global`](crate::Global), for the host to read.
///
/// While it lives the device may read them, too, but not write. If it is leaked, as by
/// [`std::mem::forget`], the device never writes them again: such uses are errors.
#[must_use]
pub struct HostRef<'a, T> {
    // No reference: it would have to be valid until the end of a function that takes the guard,
    // but the device may write when the guard is dropped in there.
    elements: NonNull<[T]>,
    _look: Look<'a>,
    marker: PhantomData<&'a [T]>,
}

/// The elements of a [`UnifiedBuffer`], or of a managed [`Global`](crate::Global), for the host to write.
///
/// While it lives the device uses them for nothing. If it is leaked, as by [`std::mem::forget`],
/// the buffer is of no more use: every later use is an error.
#[must_use]
pub struct HostMut<'a, T> {
    // A pointer instead of a reference, as in `HostRef`.
    elements: NonNull<[T]>,
    _look: Look<'a>,
    marker: PhantomData<&'a mut [T]>,
}

/// What a guard borrows.
#[expect(dead_code, reason = "held until the guard is dropped")]
enum Look<'a> {
    Buffer(HostBorrow<'a>),
    Variable(VariableBorrow<'a>),
}

impl Allocation {
    /// Returns the `len` elements at `start` of a module's managed variables, for the host to read.
    ///
    /// # Safety
    /// The bytes are a managed variable, which lives as long as the result, and the host may access it while kernels
    /// run that do not use it.
    pub(crate) unsafe fn host_variable<T: AnyBitPattern>(
        &self,
        start: usize,
        len: usize,
    ) -> Result<HostRef<'_, T>> {
        let (elements, _look) = self.look_at_variable(start, len, Access::Read)?;
        Ok(HostRef { elements, _look, marker: PhantomData })
    }

    /// As [`host_variable`](Self::host_variable), for the host to write.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn host_variable_mut<T: AnyBitPattern + NoUninit>(
        &self,
        start: usize,
        len: usize,
    ) -> Result<HostMut<'_, T>> {
        let (elements, _look) = self.look_at_variable(start, len, Access::Write)?;
        Ok(HostMut { elements, _look, marker: PhantomData })
    }

    fn look_at_variable<T>(
        &self,
        start: usize,
        len: usize,
        access: Access,
    ) -> Result<(NonNull<[T]>, Look<'_>)> {
        let bytes = len.checked_mul(size_of::<T>());
        let Some(end) = bytes.and_then(|bytes| start.checked_add(bytes)) else {
            return Err(Error::invalid("the variable is larger than memory"));
        };
        let (start, borrow) = self.wait_for_variable(start..end, access)?;
        Ok((NonNull::slice_from_raw_parts(start.cast(), len), Look::Variable(borrow)))
    }
}

// SAFETY: as a `&[T]`.
unsafe impl<T: Sync> Send for HostRef<'_, T> {}
// SAFETY: as a `&[T]`.
unsafe impl<T: Sync> Sync for HostRef<'_, T> {}
// SAFETY: as a `&mut [T]`.
unsafe impl<T: Send> Send for HostMut<'_, T> {}
// SAFETY: as a `&mut [T]`.
unsafe impl<T: Sync> Sync for HostMut<'_, T> {}

buffer_facade!(UnifiedBuffer, "Returns the stream that the buffer was made with.");

impl<T: Copy + 'static> UnifiedBuffer<T> {
    /// Allocates managed memory for `len` elements, all zero. Its pages move to the device or host that accesses them.
    /// [`prefetch_to_device`](Self::prefetch_to_device) and
    /// [`prefetch_to_host`](Self::prefetch_to_host) move them ahead.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) where the host may not touch managed memory
    /// while *any* kernel runs, as on Windows: waiting for this buffer's uses would not do there.
    /// Otherwise the error that the driver returns.
    #[doc(alias = "cuMemAllocManaged")]
    #[doc(alias = "cudaMallocManaged")]
    pub fn managed(stream: &Stream, len: usize) -> Result<Self>
    where
        T: Zeroable,
    {
        let inner = stream.inner();
        inner.state().usable()?;
        inner.not_capturing("UnifiedBuffer::managed")?;
        inner.not_lent("UnifiedBuffer::managed")?;
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        if inner.context.device.raw_attribute(attribute)? == 0 {
            return Err(Error::invalid(
                "on this device the host must not touch managed memory while any kernel runs \
                 (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0)",
            )
            .with_hint("use UnifiedBuffer::pinned, or a DeviceBuffer and copies"));
        }
        let bytes = fit::bytes::<T>("managed memory", len, fit::DEVICE_ALIGN)?;
        let allocation = Allocation::managed(stream, bytes)?;
        crate::memory::copy::fill(stream, &allocation, 0, &[0], allocation.size_bytes())?;
        Ok(Self { allocation, len, marker: PhantomData })
    }

    /// Allocates pinned host memory for `len` elements, all zero, that the device uses over the bus.
    ///
    /// # Errors
    /// The error that the driver returns, such as `CUDA_ERROR_OUT_OF_MEMORY` when the host has no more.
    #[doc(alias = "cuMemHostAlloc")]
    #[doc(alias = "cudaHostAllocMapped")]
    pub fn pinned(stream: &Stream, len: usize) -> Result<Self>
    where
        T: Zeroable,
    {
        stream.inner().state().usable()?;
        stream.inner().not_capturing("UnifiedBuffer::pinned")?;
        stream.inner().not_lent("UnifiedBuffer::pinned")?;
        let bytes = fit::in_pages::<T>("memory that the host sees", len)?;
        let allocation = Allocation::pinned(stream, bytes)?;
        fit::aligned::<T>("pinned memory", allocation.device_ptr())?;
        Ok(Self { allocation, len, marker: PhantomData })
    }

    /// Pins the elements of `vector` where they are, for the device to use over the bus.
    /// [`into_vec`](Self::into_vec) gives the vector back.
    ///
    /// Registering costs about as much as copying the elements once (measured: 14 ms for 256 MiB).
    ///
    /// # Errors
    /// The error that the driver returns; the vector is then dropped.
    #[doc(alias = "cuMemHostRegister")]
    pub fn register(stream: &Stream, vector: Vec<T>) -> Result<Self>
    where
        T: NoUninit,
    {
        stream.inner().state().usable()?;
        stream.inner().not_capturing("UnifiedBuffer::register")?;
        stream.inner().not_lent("UnifiedBuffer::register")?;
        let (len, bytes) = (vector.len(), size_of_val(&vector[..]));
        let allocation = Allocation::registered(stream, HostVec::new(vector), bytes)?;
        // The vector is aligned; the device may know it by another address.
        fit::aligned::<T>("the registered vector", allocation.device_ptr())?;
        Ok(Self { allocation, len, marker: PhantomData })
    }

    /// Gives the vector of a registered buffer back, with what the device wrote. Waits for the
    /// buffer's uses; the driver's unregistering then **waits for all work of the device**.
    ///
    /// # Errors
    /// The error holds the buffer and names the reason: it was not registered, something else such as
    /// a graph holds its allocation, or what the driver returned.
    #[doc(alias = "cuMemHostUnregister")]
    pub fn into_vec(self) -> Result<Vec<T>, ConsumeError<Self>>
    where
        T: AnyBitPattern,
    {
        let len = self.len;
        // SAFETY: only `register` makes registered memory, of a `Vec<T>` of this length.
        let vector = unsafe { self.allocation.into_vec(len) };
        vector.map_err(|refused| {
            refused.map(|allocation| Self { allocation, len, marker: PhantomData })
        })
    }

    /// Returns the elements, for the host to read. Waits until every write on any stream is done, and for
    /// nothing else: of a stream that wrote, for what it has enqueued by now.
    ///
    /// # Errors
    /// The error of the work waited for; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a
    /// guard for writing was leaked.
    pub fn host(&self) -> Result<HostRef<'_, T>>
    where
        T: AnyBitPattern,
    {
        let (elements, look) = self.borrow(Access::Read)?;
        let _look = Look::Buffer(look);
        Ok(HostRef { elements, _look, marker: PhantomData })
    }

    /// Returns the elements, for the host to write. Waits until every use on any stream is done, and for
    /// nothing else: of a stream that used them, for what it has enqueued by now.
    ///
    /// # Errors
    /// The error of the work waited for; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a
    /// guard was leaked.
    pub fn host_mut(&mut self) -> Result<HostMut<'_, T>>
    where
        T: AnyBitPattern + NoUninit,
    {
        let (elements, look) = self.borrow(Access::Write)?;
        let _look = Look::Buffer(look);
        Ok(HostMut { elements, _look, marker: PhantomData })
    }

    fn borrow(&self, access: Access) -> Result<(NonNull<[T]>, HostBorrow<'_>)> {
        let Some(visible) = self.allocation.host_side() else {
            // Every constructor makes memory that the host can access, so this is not reached.
            return Err(Error::invalid("the host does not see this memory"));
        };
        let look = self.allocation.wait_for_host(visible, access)?;
        if access == Access::Write {
            self.allocation.note_write(0..self.size_bytes());
        }
        let start = match self.size_bytes() {
            0 => NonNull::dangling(),
            _ => visible.start().cast(),
        };
        Ok((NonNull::slice_from_raw_parts(start, self.len), look))
    }

    /// Moves the pages of managed memory to the device of `stream`, in its order, before work there
    /// touches them one by one.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is not managed; otherwise the error that the
    /// driver returns.
    #[doc(alias = "cuMemPrefetchAsync")]
    pub fn prefetch_to_device(&self, stream: &Stream) -> Result<()> {
        let device = stream.inner().state().raw;
        self.prefetch(stream, CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, device)
    }

    /// Moves the pages of managed memory to the host, in `stream`'s order.
    ///
    /// # Errors
    /// As [`prefetch_to_device`](Self::prefetch_to_device).
    #[doc(alias = "cuMemPrefetchAsync")]
    pub fn prefetch_to_host(&self, stream: &Stream) -> Result<()> {
        self.prefetch(stream, CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, CPU)
    }

    fn prefetch(&self, stream: &Stream, to: CUmemLocationType, device: i32) -> Result<()> {
        if !self.allocation.host_side().is_some_and(|side| side.is_managed()) {
            return Err(Error::invalid("only managed memory moves between host and device")
                .with_hint("make it by UnifiedBuffer::managed"));
        }
        if self.size_bytes() == 0 {
            return Ok(());
        }
        stream.inner().not_capturing("a prefetch")?;
        // Moving changes no byte. As a use it keeps the memory until it is done.
        let uses = [(&self.allocation, self.byte_range(), Access::Read)];
        enqueue(stream, uses, |inner| {
            let (start, bytes) = (self.device_ptr(), self.size_bytes());
            let mut location = CUmemLocation { type_: to, ..Default::default() };
            location.__bindgen_anon_1.id = device.max(0);
            // A copy of pages, and what the driver asks of the current context was not measured.
            inner.copying(|| {
                // SAFETY: the range is managed memory that `self` holds, and the stream is live.
                unsafe {
                    call!(
                        inner,
                        cuMemPrefetchAsync_v2(start, bytes, location, 0, inner.raw),
                        else cuMemPrefetchAsync(start, bytes, device, inner.raw)
                    )
                }
            })
        })
    }
}

/// `CU_DEVICE_CPU` as a device.
const CPU: i32 = -1;

impl<T> Deref for HostRef<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: memory of the buffer's that the guard borrows, aligned to pages or of a `Vec<T>`;
        // all bytes were written before the buffer existed, and any bytes are a `T`. All writes
        // were waited for, and `_look` keeps new ones away.
        unsafe { self.elements.as_ref() }
    }
}

impl<T> Deref for HostMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as for `HostRef`.
        unsafe { self.elements.as_ref() }
    }
}

impl<T> DerefMut for HostMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `HostRef`; reads by the device were waited for, too, and the guard borrows
        // the buffer exclusively.
        unsafe { self.elements.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for HostRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: fmt::Debug> fmt::Debug for HostMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
