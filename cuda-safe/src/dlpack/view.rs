//! Tensors as views and buffers.

use std::sync::Arc;

use super::element::TensorElement;
use super::tensor::{Checked, Raw, Tensor, TensorRef, check, check_compact};
use crate::consume::ConsumeError;
use crate::error::{Error, Result};
use crate::lend::LentStream;
use crate::memory::{Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut};

/// The elements of a tensor that are not one behind the other; from [`LentStream::view_strided`].
#[derive(Debug, Clone)]
pub struct StridedSlice<'a, T> {
    data: DeviceSlice<'a, T>,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl<'a, T: Copy + 'static> StridedSlice<'a, T> {
    /// Returns all elements from the first of the tensor to its last, also those in between that are none of the
    /// tensor's.
    #[must_use]
    pub fn data(&self) -> DeviceSlice<'a, T> {
        self.data
    }

    /// Returns the extents.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the strides, in elements: the element of index `i` is `data()[Σ i[d] * strides()[d]]`.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }
}

impl LentStream {
    /// Returns a view of a tensor's elements, for the device to read. A tensor of n × 3 numbers is also one of n
    /// `[T; 3]`, and one of complex numbers is one of `[f32; 2]` or `[f64; 2]`. Booleans are `u8`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) names what does not fit: the device, the type, the shape, the
    /// address, strides of elements that are not compact, or an overlap with a view for writing of this call.
    pub fn view<'v, T: TensorElement>(
        &'v self,
        tensor: impl Into<TensorRef<'v>>,
    ) -> Result<DeviceSlice<'v, T>> {
        let tensor = tensor.into();
        let (allocation, len) = match self.lend_compact::<T>(tensor, false) {
            Some(lent) => lent?,
            None => {
                self.lend_tensor::<T>(tensor, true, false).map(|(lent, fits)| (lent, fits.len))?
            }
        };
        Ok(DeviceSlice::new(allocation, 0, len))
    }

    /// As [`view`](Self::view), of elements that need not be compact. Strides that are negative are refused.
    ///
    /// # Errors
    /// As [`view`](Self::view), but for strides.
    pub fn view_strided<'v, T: TensorElement>(
        &'v self,
        tensor: impl Into<TensorRef<'v>>,
    ) -> Result<StridedSlice<'v, T>> {
        let (allocation, checked) = self.lend_tensor::<T>(tensor.into(), false, false)?;
        let data = DeviceSlice::new(allocation, 0, checked.span);
        let (shape, strides) = checked.dimensions();
        Ok(StridedSlice { data, shape, strides })
    }

    /// Returns a view of a tensor's elements, for the device to write.
    ///
    /// # Errors
    /// As [`view`](Self::view); and if the tensor has the read-only flag, which those of
    /// [`Exchange::borrow`](crate::dlpack::Exchange::borrow) lack, or overlaps any view of this call. A view counts until
    /// the call ends: [reborrow](DeviceSliceMut::reborrow) it to use it again.
    pub fn view_mut<'v, T: TensorElement>(
        &'v self,
        tensor: impl Into<TensorRef<'v>>,
    ) -> Result<DeviceSliceMut<'v, T>> {
        let tensor = tensor.into();
        writable(tensor.read_only)?;
        let (allocation, len) = match self.lend_compact::<T>(tensor, true) {
            Some(lent) => lent?,
            None => {
                self.lend_tensor::<T>(tensor, true, true).map(|(lent, fits)| (lent, fits.len))?
            }
        };
        Ok(DeviceSliceMut::new(allocation, 0, len))
    }

    /// Lends the memory of a compact tensor, of which no owner need know; `None` for others and for what does not fit.
    #[inline]
    fn lend_compact<T: TensorElement>(
        &self,
        tensor: TensorRef<'_>,
        writes: bool,
    ) -> Option<Result<(&Arc<Allocation>, usize)>> {
        if tensor.owner.is_some() {
            return None;
        }
        let (start, len) = check_compact::<T>(tensor.tensor, self.inner().state().ordinal)?;
        let lent = self.lend_range(start, len * size_of::<T>(), writes);
        Some(lent.map(|allocation| (allocation, len)))
    }

    #[cold]
    fn lend_tensor<'t, T: TensorElement>(
        &self,
        tensor: TensorRef<'t>,
        compact: bool,
        writes: bool,
    ) -> Result<(&Arc<Allocation>, Checked<'t>)> {
        let checked = check::<T>(tensor.tensor, self.inner().state().ordinal)?;
        if compact {
            checked.is_compact()?;
        }
        let allocation = self.lend_memory::<T>(checked.start, checked.span, writes)?;
        if let Some(owner) = tensor.owner {
            owner.note_view(allocation);
        }
        Ok((allocation, checked))
    }
}

fn writable(read_only: bool) -> Result<()> {
    match read_only {
        true => Err(Error::invalid("the tensor's producer has marked it as read-only")),
        false => Ok(()),
    }
}

impl Tensor {
    /// Keeps the tensor's memory for longer than a call, as a buffer whose home stream is `lent`. Before the tensor's
    /// deleter runs, that stream waits for all uses of the buffer on other streams.
    ///
    /// If the buffer is dropped while its home stream is not lent to the thread, the deleter runs at once if no other
    /// stream has used the buffer or the home stream is the legacy stream; otherwise when the stream is lent again, or in
    /// [`Context::free_deferred`](crate::Context::free_deferred).
    ///
    /// # Errors
    /// The error holds the tensor. As [`LentStream::view_mut`].
    pub fn into_buffer<T: TensorElement>(
        self,
        lent: &LentStream,
    ) -> Result<DeviceBuffer<T>, ConsumeError<Self>> {
        let (start, len) = match self.can_be_kept::<T>(lent) {
            Ok(kept) => kept,
            Err(error) => return Err(ConsumeError::new(self, error)),
        };
        let (raw, ended) = self.into_parts();
        if let Err(error) = ended {
            return Err(ConsumeError::new(Self::from_raw_parts(raw), error));
        }
        let bytes = len * size_of::<T>();
        let token: Box<Raw> = Box::new(raw);
        let allocation = Allocation::borrowed(start, bytes, lent, token);
        Ok(DeviceBuffer::over(allocation, len))
    }

    /// Returns where the elements are, and how many.
    fn can_be_kept<T: TensorElement>(&self, lent: &LentStream) -> Result<(u64, usize)> {
        let tensor = TensorRef::from(self);
        writable(tensor.read_only)?;
        lent.inner().usable_here()?;
        let checked = check::<T>(tensor.tensor, lent.inner().state().ordinal)?;
        checked.is_compact()?;
        // After this call no other view of the same call may show the memory.
        lent.lend_memory::<T>(checked.start, checked.len, true)?;
        Ok((checked.start, checked.len))
    }
}
