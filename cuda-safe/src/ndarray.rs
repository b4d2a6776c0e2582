//! Device buffers from and to `ndarray` arrays.

use bytemuck::{AnyBitPattern, NoUninit};
use ndarray::{Array, ArrayRef, Dimension, IntoDimension};

use crate::error::{Error, Result};
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

impl<T: Copy + 'static> DeviceBuffer<T> {
    /// Creates a buffer with a copy of `array`'s elements in row-major order, whatever its own layout.
    ///
    /// # Errors
    /// As [`DeviceBuffer::from_slice`].
    pub fn from_array<D: Dimension>(stream: &Stream, array: &ArrayRef<T, D>) -> Result<Self>
    where
        T: NoUninit,
    {
        match array.as_slice() {
            Some(elements) => Self::from_slice(stream, elements),
            None => {
                let elements: Vec<T> = array.iter().copied().collect();
                Self::from_slice(stream, &elements)
            }
        }
    }

    /// Copies the elements to a new array of this shape, in row-major order. Waits until it is
    /// filled.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the shape has another number of
    /// elements; otherwise as [`DeviceBuffer::to_vec`].
    pub fn to_array<D: IntoDimension>(&self, stream: &Stream, shape: D) -> Result<Array<T, D::Dim>>
    where
        T: AnyBitPattern,
    {
        let shape = shape.into_dimension();
        if shape.size_checked() != Some(self.len()) {
            let len = self.len();
            return Err(Error::invalid(format!("{len} elements don't have the shape {shape:?}")));
        }
        Array::from_shape_vec(shape, self.to_vec(stream)?)
            .map_err(|error| Error::invalid(error.to_string()))
    }
}
