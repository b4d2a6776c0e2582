//! Owned, typed device memory.

use std::any::Any;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};
use cuda_sys::CUdeviceptr;

use super::allocation::Allocation;
use super::copy::shaped::{Extent, PitchedLayout};
use super::facade::buffer_facade;
use super::fit;
use super::host::pinned::PinnedBuffer;
use super::host::transfer::Transfer;
use super::pools::Pool;
use super::slice::{DeviceSlice, DeviceSliceMut};
use crate::consume::ConsumeError;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// `len` elements of device memory.
///
/// Its home stream is the stream of its creation: it is allocated and freed in that stream's order, and uses there cost
/// nothing. It may be used on any other stream of the context; the crate then makes the streams wait for each other
/// where uses conflict.
///
/// Elements are plain data by `bytemuck`'s traits: uploading needs [`NoUninit`], downloading
/// [`AnyBitPattern`], zeroing [`Zeroable`]; memory not yet written is `MaybeUninit<T>`.
///
/// Dropping it enqueues a free on its home stream, after every use; the host does not wait.
///
/// ```no_run
/// # fn main() -> cuda_safe::Result<()> {
/// use cuda_safe::{Context, DeviceBuffer};
/// let stream = Context::new(0)?.stream()?;
/// let mut buffer = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0, 3.0])?;
/// buffer.slice_mut(1..)?.fill(&stream, 5.0)?;
/// assert_eq!(buffer.to_vec(&stream)?, [1.0, 5.0, 5.0]);
/// # Ok(()) }
/// ```
pub struct DeviceBuffer<T> {
    allocation: Arc<Allocation>,
    len: usize,
    marker: PhantomData<T>,
}

/// Returns the bytes of `len` elements.
fn bytes_of<T>(len: usize) -> Result<usize> {
    fit::bytes::<T>("device memory", len, fit::DEVICE_ALIGN)
}

buffer_facade!(
    DeviceBuffer,
    "Returns the stream in whose order the buffer was allocated and will be freed."
);

impl<T: Copy + 'static> DeviceBuffer<T> {
    fn allocate(stream: &Stream, len: usize) -> Result<Self> {
        let allocation = Allocation::new(stream, bytes_of::<T>(len)?)?;
        Ok(Self { allocation, len, marker: PhantomData })
    }

    pub(super) fn allocate_in(pool: &Pool, stream: &Stream, len: usize) -> Result<Self> {
        let allocation = Allocation::new_in(pool, stream, bytes_of::<T>(len)?)?;
        Ok(Self { allocation, len, marker: PhantomData })
    }

    /// Returns the buffer of `len` elements that are all of an allocation.
    #[cfg(feature = "dlpack")]
    pub(crate) fn over(allocation: Arc<Allocation>, len: usize) -> Self {
        Self { allocation, len, marker: PhantomData }
    }

    /// Fails if another handle to the memory exists.
    #[cfg(feature = "dlpack")]
    pub(crate) fn is_only_handle(&mut self) -> Result<()> {
        self.allocation.is_only_handle()
    }

    /// Returns the memory of the buffer.
    #[cfg(feature = "dlpack")]
    pub(crate) fn into_allocation(self) -> Arc<Allocation> {
        self.allocation
    }

    /// Creates a buffer of `len` elements, all zero.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if elements need more than 256 bytes of alignment, which is what
    /// drivers guarantee; [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or the error that the driver returns.
    #[doc(alias = "cuMemAllocAsync")]
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self>
    where
        T: Zeroable,
    {
        let buffer = Self::allocate(stream, len)?;
        super::copy::fill(stream, &buffer.allocation, 0, &[0], buffer.allocation.size_bytes())?;
        Ok(buffer)
    }

    /// Creates a buffer with a copy of `source`. Returns when `source` was read.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if elements need more than 256 bytes of alignment, which is what
    /// drivers guarantee; [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or the error that the driver returns.
    #[doc(alias = "cuMemcpyHtoD")]
    pub fn from_slice(stream: &Stream, source: &[T]) -> Result<Self>
    where
        T: NoUninit,
    {
        let mut buffer = Self::allocate(stream, source.len())?;
        buffer.as_slice_mut().upload(stream, source)?;
        Ok(buffer)
    }

    /// Adopts device memory.
    ///
    /// With `token: None` the memory is owned: it must come from stream-ordered allocation, and
    /// `cuMemFreeAsync` on `home` frees it. With a token it is borrowed: the token is dropped
    /// when the last buffer or view of it is gone, after `home` was made to wait for all uses on
    /// other streams. Work on `home` may be unfinished then, so whatever the token frees must be
    /// freed in `home`'s order, or after waiting for it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the size overflows, the address is
    /// null though there are elements, or is not aligned for them, or if `home` records a graph.
    ///
    /// # Safety
    /// `start` must be the address of `len` elements of device memory that work on `home`'s device
    /// may use, whose bytes are valid for `T` at the latest when work enqueued later on `home`
    /// runs, that nothing else writes while this buffer or views of it use it, and that stay
    /// allocated until then as described.
    pub unsafe fn from_raw(
        home: &Stream,
        start: CUdeviceptr,
        len: usize,
        token: Option<Box<dyn Any + Send + Sync>>,
    ) -> Result<Self> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|bytes| start.checked_add(*bytes as u64).is_some())
            .ok_or_else(|| Error::invalid("the buffer would reach past the end of memory"))?;
        if bytes > 0 {
            if start == 0 {
                let what = format!("the address of {len} elements is null");
                return Err(Error::invalid(what));
            }
            fit::aligned::<T>("the buffer", start)?;
        }
        // Other streams wait for the home stream, so it must not be capturing.
        home.inner().not_capturing("DeviceBuffer::from_raw")?;
        home.inner().usable_here()?;
        let allocation = match token {
            Some(token) => Allocation::borrowed(start, bytes, home, token),
            None => Allocation::adopted(start, bytes, home),
        };
        Ok(Self { allocation, len, marker: PhantomData })
    }

    /// Gives up the memory: `cuMemFreeAsync` on the home stream is the caller's to call. Memory behind a
    /// [`Gate`](crate::Gate) that is not open for good, such as that of collectives, is given up when its uses have ended, for
    /// which the host waits.
    ///
    /// # Errors
    /// The error holds the buffer and names the reason: it is borrowed, it did not come from stream-ordered allocation,
    /// another handle to the [`Allocation`] exists, or the driver returned an error for a wait for uses on other
    /// streams.
    pub fn into_raw(self) -> Result<CUdeviceptr, ConsumeError<Self>> {
        let len = self.len;
        self.allocation.release().map_err(|refused| {
            refused.map(|allocation| Self { allocation, len, marker: PhantomData })
        })
    }

    /// Returns two views for writing: the first `middle` elements, and the others.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `middle` is past the end.
    pub fn split_at_mut(
        &mut self,
        middle: usize,
    ) -> Result<(DeviceSliceMut<'_, T>, DeviceSliceMut<'_, T>)> {
        self.as_slice_mut().split_at_mut(middle)
    }

    /// Copies `source` to the buffer, in `stream`'s order. Returns when `source` was read.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::upload`].
    pub fn upload(&mut self, stream: &Stream, source: &[T]) -> Result<()>
    where
        T: NoUninit,
    {
        self.as_slice_mut().upload(stream, source)
    }

    /// Copies the buffer into `target`. Waits until `target` is written.
    ///
    /// # Errors
    /// As [`DeviceSlice::download`].
    pub fn download(&self, stream: &Stream, target: &mut [T]) -> Result<()>
    where
        T: AnyBitPattern,
    {
        self.as_slice().download(stream, target)
    }

    /// Copies the buffer to a new vector. Waits until it is filled.
    ///
    /// # Errors
    /// As [`DeviceSlice::to_vec`].
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>>
    where
        T: AnyBitPattern,
    {
        self.as_slice().to_vec(stream)
    }

    /// Copies `source` to the buffer, in `stream`'s order, without waiting; `source` comes back from
    /// [`Transfer::wait`].
    ///
    /// # Errors
    /// As [`DeviceSliceMut::upload_pinned`].
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn upload_pinned(&mut self, stream: &Stream, source: PinnedBuffer<T>) -> Result<Transfer<T>>
    where
        T: NoUninit,
    {
        self.as_slice_mut().upload_pinned(stream, source)
    }

    /// Copies the buffer to `target`, in `stream`'s order, without waiting; `target` comes back,
    /// written, from [`Transfer::wait`].
    ///
    /// # Errors
    /// As [`DeviceSlice::download_pinned`].
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn download_pinned(&self, stream: &Stream, target: PinnedBuffer<T>) -> Result<Transfer<T>>
    where
        T: AnyBitPattern,
    {
        self.as_slice().download_pinned(stream, target)
    }

    /// Writes `value` to every element, in `stream`'s order.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::fill`].
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()>
    where
        T: NoUninit,
    {
        self.as_slice_mut().fill(stream, value)
    }

    /// Copies a rectangle or a box from the host, in `stream`'s order. Returns when it was read.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::upload_3d`].
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    pub fn upload_3d(
        &mut self,
        stream: &Stream,
        to: PitchedLayout,
        source: &[T],
        from: PitchedLayout,
        extent: impl Into<Extent>,
    ) -> Result<()>
    where
        T: NoUninit,
    {
        self.as_slice_mut().upload_3d(stream, to, source, from, extent)
    }

    /// Copies a rectangle or a box to the host. Waits until it is written.
    ///
    /// # Errors
    /// As [`DeviceSlice::download_3d`].
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    pub fn download_3d(
        &self,
        stream: &Stream,
        from: PitchedLayout,
        target: &mut [T],
        to: PitchedLayout,
        extent: impl Into<Extent>,
    ) -> Result<()>
    where
        T: AnyBitPattern,
    {
        self.as_slice().download_3d(stream, from, target, to, extent)
    }

    /// Copies a rectangle or a box from elsewhere on the device, in `stream`'s order.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::copy_3d_from`].
    pub fn copy_3d_from<'b>(
        &mut self,
        stream: &Stream,
        to: PitchedLayout,
        source: impl Into<DeviceSlice<'b, T>>,
        from: PitchedLayout,
        extent: impl Into<Extent>,
    ) -> Result<()> {
        self.as_slice_mut().copy_3d_from(stream, to, source, from, extent)
    }

    /// Creates a buffer with a copy of this one's elements; its home stream is `stream`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or the error that the driver returns.
    pub fn try_clone(&self, stream: &Stream) -> Result<Self> {
        let mut copy = Self::allocate(stream, self.len)?;
        copy.copy_from(stream, self)?;
        Ok(copy)
    }

    /// Returns the same memory as elements of another type.
    ///
    /// # Errors
    /// The error holds the buffer and names the reason: its size is not a multiple of the new
    /// element's, or its address is not aligned for it.
    pub fn cast<U: Pod>(self) -> Result<DeviceBuffer<U>, ConsumeError<Self>>
    where
        T: Pod,
    {
        match self.as_slice().cast::<U>().map(|view| view.len()) {
            Ok(len) => Ok(DeviceBuffer { allocation: self.allocation, len, marker: PhantomData }),
            Err(error) => Err(ConsumeError::new(self, error)),
        }
    }

    /// Enqueues the free now, as a drop does, and says whether that went well; a drop leaves an
    /// error for [`Context::take_drop_errors`](crate::Context::take_drop_errors). Does not wait.
    ///
    /// # Errors
    /// The error holds the buffer and names the reason: another handle to the [`Allocation`] exists, or the driver's
    /// error.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn close(self) -> Result<(), ConsumeError<Self>> {
        let len = self.len;
        self.allocation.close().map_err(|refused| {
            refused.map(|allocation| Self { allocation, len, marker: PhantomData })
        })
    }
}

impl<T: Copy + 'static> DeviceBuffer<MaybeUninit<T>> {
    /// Creates a buffer of `len` elements that are not written yet: `cudaMalloc` without a memset.
    ///
    /// A kernel takes it where it takes `&mut [MaybeUninit<f32>]`, or by
    /// [`Kernel::launch`](crate::Kernel::launch) where it takes `float*`; then
    /// [`assume_init`](Self::assume_init) makes it an ordinary buffer.
    ///
    /// ```no_run
    /// # use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Result, Stream};
    /// # fn iota(kernel: &Kernel, stream: &Stream) -> Result<DeviceBuffer<f32>> {
    /// let mut buffer = DeviceBuffer::uninit(stream, 1000)?;
    /// // SAFETY: `iota(float*, unsigned n)` writes n elements, which are all there are.
    /// unsafe {
    ///     kernel.launch(stream, LaunchConfig::cover(1000, 256), (&mut buffer, 1000u32))?;
    ///     Ok(buffer.assume_init())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`zeroed`](DeviceBuffer::zeroed).
    #[doc(alias = "cuMemAllocAsync")]
    pub fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        Self::allocate(stream, len)
    }

    /// Returns the same buffer, its elements taken as written.
    ///
    /// # Safety
    /// Work enqueued by now must write every element, in an order that later uses come after.
    #[must_use]
    pub unsafe fn assume_init(self) -> DeviceBuffer<T> {
        DeviceBuffer { allocation: self.allocation, len: self.len, marker: PhantomData }
    }

    /// Copies `source` to the buffer: then every element is written.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::upload`], and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that records unless
    /// the buffer was allocated in the same capture: the graph may never run. The buffer is freed.
    pub fn init_from(self, stream: &Stream, source: &[T]) -> Result<DeviceBuffer<T>>
    where
        T: NoUninit,
    {
        let DeviceBuffer { allocation, len, .. } = self;
        // Memory of a graph exists only while the graph runs, and bodies of conditional nodes can't use it.
        if !allocation.is_of_graph() {
            stream.inner().not_capturing("the first write of memory from outside of the graph")?;
        }
        let mut buffer = DeviceBuffer { allocation, len, marker: PhantomData };
        buffer.upload(stream, source)?;
        Ok(buffer)
    }
}

#[cfg(feature = "testing")]
impl<B: Copy + 'static> DeviceBuffer<B> {
    /// Returns the same memory as `len` elements of `T`.
    ///
    /// # Errors
    /// The memory has another size, or is not aligned for `T`.
    ///
    /// # Safety
    /// The buffer's bytes are `len` values of `T`.
    pub(crate) unsafe fn into_elements<T: Copy + 'static>(
        self,
        len: usize,
    ) -> Result<DeviceBuffer<T>> {
        if len.checked_mul(size_of::<T>()) != self.len.checked_mul(size_of::<B>()) {
            return Err(Error::invalid("the memory has another size than its elements"));
        }
        fit::aligned::<T>("the buffer", self.allocation.device_ptr())?;
        Ok(DeviceBuffer { allocation: self.allocation, len, marker: PhantomData })
    }

    /// Copies the bytes of the elements, padding included, to a new vector. Those that nothing has written are any.
    ///
    /// # Errors
    /// As [`DeviceBuffer::to_vec`].
    pub(crate) fn to_bytes(&self, stream: &Stream) -> Result<Vec<u8>> {
        let (allocation, marker) = (self.allocation.clone(), PhantomData);
        let len = self.allocation.size_bytes();
        DeviceBuffer::<u8> { allocation, len, marker }.to_vec(stream)
    }
}
