//! Vectors.

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut};

use crate::element::Element;
use crate::error::{Error, Result};

/// A vector on the device that may be read: all elements of a slice, or every `step`-th.
#[derive(Debug, Clone, Copy)]
pub struct Vector<'a, T> {
    pub(crate) data: DeviceSlice<'a, T>,
    pub(crate) len: usize,
    pub(crate) step: usize,
}

/// A vector on the device that may be written. It borrows the memory exclusively.
#[derive(Debug)]
pub struct VectorMut<'a, T> {
    pub(crate) data: DeviceSliceMut<'a, T>,
    pub(crate) len: usize,
    pub(crate) step: usize,
}

/// Returns the number of elements from the first to the last one.
fn span(available: usize, len: usize, step: usize) -> Result<usize> {
    if step == 0 {
        return Err(Error::invalid("vector", "step", "is 0"));
    }
    let span = match len {
        0 => Some(0),
        _ => (len - 1).checked_mul(step).and_then(|last| last.checked_add(1)),
    };
    span.filter(|span| *span <= available).ok_or_else(|| {
        Error::invalid(
            "vector",
            "data",
            format!("has {available} elements; {len} at a distance of {step} do not fit"),
        )
    })
}

impl<'a, T: Element> Vector<'a, T> {
    /// Views all elements.
    #[must_use]
    pub fn new(data: impl Into<DeviceSlice<'a, T>>) -> Self {
        let data = data.into();
        Self { data, len: data.len(), step: 1 }
    }

    /// Views `len` elements at a distance of `step` elements, from the first on.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not enough elements, or `step` is 0.
    pub fn with_step(data: impl Into<DeviceSlice<'a, T>>, len: usize, step: usize) -> Result<Self> {
        let data = data.into();
        let span = span(data.len(), len, step)?;
        Ok(Self { data: data.slice(..span)?, len, step })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<'a, T: Element> VectorMut<'a, T> {
    /// Views all elements.
    #[must_use]
    pub fn new(data: impl Into<DeviceSliceMut<'a, T>>) -> Self {
        let data = data.into();
        let len = data.len();
        Self { data, len, step: 1 }
    }

    /// Views `len` elements at a distance of `step` elements, from the first on.
    ///
    /// # Errors
    /// As [`Vector::with_step`].
    pub fn with_step(
        data: impl Into<DeviceSliceMut<'a, T>>,
        len: usize,
        step: usize,
    ) -> Result<Self> {
        let data = data.into();
        let span = span(data.len(), len, step)?;
        let (data, _) = data.split_at_mut(span)?;
        Ok(Self { data, len, step })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a view that ends before this one.
    pub fn reborrow(&mut self) -> VectorMut<'_, T> {
        VectorMut { data: self.data.reborrow(), len: self.len, step: self.step }
    }
}

impl<'a, T: Element> From<&'a DeviceBuffer<T>> for Vector<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        Self::new(buffer)
    }
}

impl<'a, T: Element> From<DeviceSlice<'a, T>> for Vector<'a, T> {
    fn from(slice: DeviceSlice<'a, T>) -> Self {
        Self::new(slice)
    }
}

impl<'a, T: Element> From<&'a mut DeviceBuffer<T>> for VectorMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        Self::new(buffer)
    }
}

impl<'a, T: Element> From<DeviceSliceMut<'a, T>> for VectorMut<'a, T> {
    fn from(slice: DeviceSliceMut<'a, T>) -> Self {
        Self::new(slice)
    }
}

impl<'a, T: Element> From<&'a VectorMut<'_, T>> for Vector<'a, T> {
    fn from(vector: &'a VectorMut<'_, T>) -> Self {
        Self { data: vector.data.as_slice(), len: vector.len, step: vector.step }
    }
}
