//! Factors, on the host or on the device.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Allocation, DeviceSlice};

use super::call::is_aligned;
use crate::element::Element;
use crate::error::{Error, Result};

/// A factor of type `S`: a number, or a [`DeviceScalar`]. The trait is sealed.
///
/// cuBLAS takes all factors of a call from the host or all from the device, so they have one type.
pub trait Scalar<S: Element>: sealed::Pointed {}

pub(crate) mod sealed {
    use std::ops::Range;
    use std::sync::Arc;

    use cuda_safe::Allocation;

    use super::c_void;

    /// What a call passes to cuBLAS.
    pub trait Pointed: Copy {
        /// Whether the address is one of the device.
        const ON_DEVICE: bool;

        /// The address of the factor, which is read while the call is made, or on the device when its work runs.
        fn pointer(&self) -> *const c_void;

        /// Returns whether it is known to be 0.
        #[cfg(feature = "cublaslt")]
        fn is_zero(&self) -> bool;

        /// Returns the memory of a factor on the device, which the work reads.
        fn memory(&self) -> Option<(&Arc<Allocation>, Range<usize>)>;
    }
}

/// A factor where it is read: cuBLAS loads a complex number on the host as one vector, and C aligns it to its 16 bytes. Rust
/// aligns it to 8.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Aligned<P>(pub(crate) P);

impl<S: Element> Scalar<S> for S {}

impl<S: Element> sealed::Pointed for S {
    const ON_DEVICE: bool = false;

    #[inline]
    fn pointer(&self) -> *const c_void {
        (&raw const *self).cast()
    }

    #[cfg(feature = "cublaslt")]
    fn is_zero(&self) -> bool {
        bytemuck::bytes_of(self).iter().all(|byte| *byte == 0)
    }

    #[inline]
    fn memory(&self) -> Option<(&Arc<Allocation>, Range<usize>)> {
        None
    }
}

/// A factor in device memory, which the work reads when it runs.
#[derive(Debug, Clone, Copy)]
pub struct DeviceScalar<'a, S> {
    data: DeviceSlice<'a, S>,
}

impl<'a, S: Element> DeviceScalar<'a, S> {
    /// Takes the first element of `data`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none, or its address is no multiple of its size.
    pub fn new(data: impl Into<DeviceSlice<'a, S>>) -> Result<Self> {
        let data = data.into();
        if data.is_empty() {
            return Err(Error::invalid("scalar", "data", "has no element"));
        }
        if !is_aligned::<S>(data.device_ptr()) {
            let message = "lies at an address that is no multiple of its element's size";
            return Err(Error::invalid("scalar", "data", message));
        }
        Ok(Self { data: data.slice(..1)? })
    }
}

impl<S: Element> Scalar<S> for DeviceScalar<'_, S> {}

impl<S: Element> sealed::Pointed for DeviceScalar<'_, S> {
    const ON_DEVICE: bool = true;

    #[inline]
    fn pointer(&self) -> *const c_void {
        self.data.device_ptr() as *const c_void
    }

    #[cfg(feature = "cublaslt")]
    fn is_zero(&self) -> bool {
        false
    }

    #[inline]
    fn memory(&self) -> Option<(&Arc<Allocation>, Range<usize>)> {
        Some((self.data.allocation(), self.data.byte_range()))
    }
}
