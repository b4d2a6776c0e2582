//! Borrowed views of device memory, the arguments of kernels and copies.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit, Pod};
use cuda_sys::CUdeviceptr;

use super::allocation::Allocation;
use super::{copy, fit};
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::trace::event;

/// A view of `len` elements on the device that may be read.
///
/// It borrows the buffer: the buffer can't be written, or dropped, while the view lives. The device's accesses are
/// ordered by the stream that uses the view, not by the view's lifetime.
pub struct DeviceSlice<'a, T> {
    allocation: &'a Arc<Allocation>,
    offset: usize,
    len: usize,
    marker: PhantomData<&'a [T]>,
}

/// A view of `len` elements on the device that may be written. It borrows the buffer exclusively.
pub struct DeviceSliceMut<'a, T> {
    allocation: &'a Arc<Allocation>,
    offset: usize,
    len: usize,
    marker: PhantomData<&'a mut [T]>,
}

// A view is Send and Sync as the host's slices are: `&Arc<Allocation>` is both, and the marker
// brings the element's bounds.

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

/// The methods of both kinds of views.
macro_rules! view {
    ($view:ident) => {
        impl<'a, T: Copy + 'static> $view<'a, T> {
            /// Returns the elements from `offset` bytes on. Callers have checked bounds and alignment.
            #[inline]
            pub(crate) fn new(allocation: &'a Arc<Allocation>, offset: usize, len: usize) -> Self {
                debug_assert!(offset + len * size_of::<T>() <= allocation.size_bytes());
                Self { allocation, offset, len, marker: PhantomData }
            }

            /// Returns the number of elements.
            #[must_use]
            #[inline]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Returns whether there are no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Returns the size in bytes.
            #[must_use]
            #[inline]
            pub fn size_bytes(&self) -> usize {
                self.len * size_of::<T>()
            }

            /// Returns the device address of the first element; 0 for a view of an empty buffer.
            #[must_use]
            #[inline]
            pub fn device_ptr(&self) -> CUdeviceptr {
                self.allocation.device_ptr() + self.offset as u64
            }

            /// Returns the allocation that the view lies in.
            #[must_use]
            #[inline]
            pub fn allocation(&self) -> &'a Arc<Allocation> {
                self.allocation
            }

            /// Returns the bytes of the allocation that the view covers.
            #[must_use]
            #[inline]
            pub fn byte_range(&self) -> Range<usize> {
                self.offset..self.offset + self.size_bytes()
            }

            /// Copies the elements to a new vector. Waits until it is filled.
            ///
            /// [`download`](Self::download) to memory that was written before is faster: the pages
            /// of a new vector have to be provided by the system first.
            ///
            /// # Errors
            /// The error that the driver returns, or the error of earlier work on the stream.
            #[doc(alias = "cuMemcpyDtoH")]
            pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>>
            where
                T: AnyBitPattern,
            {
                let mut host = Vec::with_capacity(self.len);
                let target = copy::Target::fresh(&mut host.spare_capacity_mut()[..self.len]);
                event!(TRACE, bytes = self.size_bytes(), stream = stream.id(), "download");
                copy::download(stream, self.allocation, self.offset, target)?;
                // SAFETY: `download` has written all `len` elements, and any bytes are a `T`.
                unsafe { host.set_len(self.len) };
                Ok(host)
            }

            /// Copies the elements into `target`. Waits until it is written.
            ///
            /// From 8 MiB on several threads take part:
            /// [`Context::set_copy_threads`](crate::Context::set_copy_threads).
            ///
            /// # Errors
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the lengths differ; otherwise
            /// the error that the driver returns, or the error of earlier work on the stream.
            #[doc(alias = "cuMemcpyDtoH")]
            pub fn download(&self, stream: &Stream, target: &mut [T]) -> Result<()>
            where
                T: AnyBitPattern,
            {
                same_length("download", self.len, target.len())?;
                event!(TRACE, bytes = self.size_bytes(), stream = stream.id(), "download");
                copy::download(stream, self.allocation, self.offset, copy::Target::of(target))
            }

            #[inline]
            fn bounds(&self, range: impl RangeBounds<usize>) -> Result<Range<usize>> {
                let start = match range.start_bound() {
                    Bound::Included(start) => Some(*start),
                    Bound::Excluded(before) => before.checked_add(1),
                    Bound::Unbounded => Some(0),
                };
                let end = match range.end_bound() {
                    Bound::Included(last) => last.checked_add(1),
                    Bound::Excluded(end) => Some(*end),
                    Bound::Unbounded => Some(self.len),
                };
                match (start, end) {
                    (Some(start), Some(end)) if start <= end && end <= self.len => Ok(start..end),
                    (start, end) => Err(Error::invalid(format!(
                        "the range {}..{} is not within 0..{}",
                        start.unwrap_or(usize::MAX),
                        end.unwrap_or(usize::MAX),
                        self.len
                    ))),
                }
            }

            fn recast<U>(&self) -> Result<usize> {
                fit::elements::<U>("cast", self.device_ptr(), self.size_bytes())
            }
        }

        impl<T> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($view))
                    .field("element", &std::any::type_name::<T>())
                    .field("len", &self.len)
                    .field("offset", &self.offset)
                    .field("allocation", self.allocation)
                    .finish()
            }
        }
    };
}

view!(DeviceSlice);
view!(DeviceSliceMut);

impl<'a, T: Copy + 'static> DeviceSlice<'a, T> {
    /// Returns the elements in `range`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it reaches past the end.
    #[inline]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'a, T>> {
        let range = self.bounds(range)?;
        let offset = self.offset + range.start * size_of::<T>();
        Ok(DeviceSlice::new(self.allocation, offset, range.len()))
    }

    /// Returns the first `middle` elements and the others.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `middle` is past the end.
    pub fn split_at(&self, middle: usize) -> Result<(DeviceSlice<'a, T>, DeviceSlice<'a, T>)> {
        Ok((self.slice(..middle)?, self.slice(middle..)?))
    }

    /// Returns the same bytes as elements of another type.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the size is not a multiple of the new
    /// element's or the address is not aligned for it.
    pub fn cast<U: AnyBitPattern>(&self) -> Result<DeviceSlice<'a, U>>
    where
        T: NoUninit,
    {
        Ok(DeviceSlice::new(self.allocation, self.offset, self.recast::<U>()?))
    }
}

impl<'a, T: Copy + 'static> DeviceSliceMut<'a, T> {
    /// Returns a view for reading, for as long as this one is borrowed.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(self.allocation, self.offset, self.len)
    }

    /// Returns a view for writing, for as long as this one is borrowed.
    pub fn reborrow(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(self.allocation, self.offset, self.len)
    }

    /// Returns the elements in `range`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it reaches past the end.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.reborrow().part(range)
    }

    /// As [`slice_mut`](Self::slice_mut), for as long as this view was borrowed.
    pub(super) fn part(self, range: impl RangeBounds<usize>) -> Result<Self> {
        let range = self.bounds(range)?;
        let offset = self.offset + range.start * size_of::<T>();
        Ok(DeviceSliceMut::new(self.allocation, offset, range.len()))
    }

    /// Returns the first `middle` elements and the others, each to be written independently.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `middle` is past the end.
    #[inline]
    pub fn split_at_mut(
        self,
        middle: usize,
    ) -> Result<(DeviceSliceMut<'a, T>, DeviceSliceMut<'a, T>)> {
        let range = self.bounds(middle..)?;
        let offset = self.offset + middle * size_of::<T>();
        // Disjoint, and `self` is consumed: no byte is in two views for writing.
        Ok((
            DeviceSliceMut::new(self.allocation, self.offset, middle),
            DeviceSliceMut::new(self.allocation, offset, range.len()),
        ))
    }

    /// Returns the same bytes as elements of another type.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the size is not a multiple of the new
    /// element's or the address is not aligned for it.
    pub fn cast_mut<U: Pod>(self) -> Result<DeviceSliceMut<'a, U>>
    where
        T: Pod,
    {
        Ok(DeviceSliceMut::new(self.allocation, self.offset, self.recast::<U>()?))
    }

    /// Copies `source` to the device, in `stream`'s order. Returns when `source` was read.
    ///
    /// From 8 MiB on several threads take part:
    /// [`Context::set_copy_threads`](crate::Context::set_copy_threads).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the lengths differ; otherwise the error that the
    /// driver returns.
    #[doc(alias = "cuMemcpyHtoD")]
    pub fn upload(&mut self, stream: &Stream, source: &[T]) -> Result<()>
    where
        T: NoUninit,
    {
        same_length("upload", self.len, source.len())?;
        event!(TRACE, bytes = self.size_bytes(), stream = stream.id(), "upload");
        copy::upload(stream, self.allocation, self.offset, bytemuck::cast_slice(source))
    }

    /// Copies from elsewhere on the device, in `stream`'s order.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the lengths differ; otherwise the error that the
    /// driver returns.
    #[doc(alias = "cuMemcpyDtoD")]
    pub fn copy_from<'b>(
        &mut self,
        stream: &Stream,
        source: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<()> {
        let source = source.into();
        same_length("copy", self.len, source.len)?;
        let to = (self.allocation, self.offset);
        let from = (source.allocation, source.offset);
        event!(TRACE, bytes = source.size_bytes(), stream = stream.id(), "copy on the device");
        copy::copy_on_device(stream, to, from, source.size_bytes())
    }

    /// Writes `value` to every element, in `stream`'s order.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuMemset")]
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()>
    where
        T: NoUninit,
    {
        if self.size_bytes() == 0 {
            return Ok(());
        }
        let pattern = bytemuck::bytes_of(&value);
        event!(TRACE, bytes = self.size_bytes(), stream = stream.id(), "fill");
        copy::fill(stream, self.allocation, self.offset, pattern, self.len)
    }
}

pub(crate) fn same_length(what: &str, device: usize, host: usize) -> Result<()> {
    if device == host {
        return Ok(());
    }
    Err(Error::invalid(format!("{what}: {device} elements on one side and {host} on the other")))
}

impl<'b, T: Copy + 'static> From<&'b DeviceSlice<'_, T>> for DeviceSlice<'b, T> {
    fn from(view: &'b DeviceSlice<'_, T>) -> Self {
        *view
    }
}

impl<'b, T: Copy + 'static> From<&'b DeviceSliceMut<'_, T>> for DeviceSlice<'b, T> {
    fn from(view: &'b DeviceSliceMut<'_, T>) -> Self {
        view.as_slice()
    }
}

impl<'b, T: Copy + 'static> From<&'b mut DeviceSliceMut<'_, T>> for DeviceSliceMut<'b, T> {
    fn from(view: &'b mut DeviceSliceMut<'_, T>) -> Self {
        view.reborrow()
    }
}
