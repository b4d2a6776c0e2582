//! Methods that all buffers of typed elements share: address and length, and views of them.

/// Implements it for a buffer with an `allocation`, of which `len` elements are all. `$home` documents its
/// home stream.
macro_rules! buffer_facade {
    ($buffer:ident, $home:literal) => {
        impl<T: Copy + 'static> $buffer<T> {
            /// Returns the device address of the first element; 0 if there are none.
            ///
            /// This crate does not order accesses to it by raw calls.
            #[must_use]
            pub fn device_ptr(&self) -> CUdeviceptr {
                self.allocation.device_ptr()
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
            pub fn size_bytes(&self) -> usize {
                self.allocation.size_bytes()
            }

            /// Returns the bytes of the allocation that the buffer covers: all of them.
            #[must_use]
            #[inline]
            pub fn byte_range(&self) -> std::ops::Range<usize> {
                0..self.allocation.size_bytes()
            }

            #[doc = $home]
            #[must_use]
            pub fn home_stream(&self) -> &Stream {
                self.allocation.home_stream()
            }

            /// Returns the memory behind the buffer.
            #[must_use]
            #[inline]
            pub fn allocation(&self) -> &Arc<Allocation> {
                &self.allocation
            }

            /// Returns a view of all elements, for the device to read.
            #[must_use]
            #[inline]
            pub fn as_slice(&self) -> DeviceSlice<'_, T> {
                DeviceSlice::new(&self.allocation, 0, self.len)
            }

            /// Returns a view of all elements, for the device to write.
            #[must_use]
            #[inline]
            pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
                DeviceSliceMut::new(&self.allocation, 0, self.len)
            }

            /// Returns a view of the elements in `range`, for the device to read.
            ///
            /// # Errors
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it reaches past the end.
            pub fn slice(
                &self,
                range: impl std::ops::RangeBounds<usize>,
            ) -> Result<DeviceSlice<'_, T>> {
                self.as_slice().slice(range)
            }

            /// Returns a view of the elements in `range`, for the device to write.
            ///
            /// # Errors
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it reaches past the end.
            pub fn slice_mut(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
            ) -> Result<DeviceSliceMut<'_, T>> {
                self.as_slice_mut().part(range)
            }

            /// Copies from elsewhere on the device, in `stream`'s order.
            ///
            /// # Errors
            /// As [`DeviceSliceMut::copy_from`].
            #[doc(alias = "cuMemcpyAsync")]
            pub fn copy_from<'b>(
                &mut self,
                stream: &Stream,
                source: impl Into<DeviceSlice<'b, T>>,
            ) -> Result<()> {
                self.as_slice_mut().copy_from(stream, source)
            }
        }

        impl<'a, T: Copy + 'static> From<&'a $buffer<T>> for DeviceSlice<'a, T> {
            fn from(buffer: &'a $buffer<T>) -> Self {
                buffer.as_slice()
            }
        }

        impl<'a, T: Copy + 'static> From<&'a mut $buffer<T>> for DeviceSliceMut<'a, T> {
            fn from(buffer: &'a mut $buffer<T>) -> Self {
                buffer.as_slice_mut()
            }
        }

        impl<T> std::fmt::Debug for $buffer<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($buffer))
                    .field("element", &std::any::type_name::<T>())
                    .field("len", &self.len)
                    .field("allocation", &self.allocation)
                    .finish()
            }
        }
    };
}

pub(super) use buffer_facade;
