//! Arrays on the device that a mesh owns or borrows.

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut};

/// Elements in device memory, owned or borrowed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Array<'a, T: Copy + 'static> {
    /// The buffer belongs to the mesh.
    Owned(DeviceBuffer<T>),
    /// The elements belong to the caller, who can't change them while the mesh exists.
    Borrowed(DeviceSlice<'a, T>),
}

impl<T: Copy + 'static> Array<'_, T> {
    /// Returns the elements.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        match self {
            Self::Owned(buffer) => buffer.as_slice(),
            Self::Borrowed(slice) => *slice,
        }
    }

    /// Returns the elements for writing, if they are owned.
    pub fn as_slice_mut(&mut self) -> Option<DeviceSliceMut<'_, T>> {
        match self {
            Self::Owned(buffer) => Some(buffer.as_slice_mut()),
            Self::Borrowed(_) => None,
        }
    }
}

impl<T: Copy + 'static> From<DeviceBuffer<T>> for Array<'_, T> {
    fn from(buffer: DeviceBuffer<T>) -> Self {
        Self::Owned(buffer)
    }
}

impl<'a, T: Copy + 'static> From<&'a DeviceBuffer<T>> for Array<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        Self::Borrowed(buffer.as_slice())
    }
}

impl<'a, T: Copy + 'static> From<DeviceSlice<'a, T>> for Array<'a, T> {
    fn from(slice: DeviceSlice<'a, T>) -> Self {
        Self::Borrowed(slice)
    }
}
