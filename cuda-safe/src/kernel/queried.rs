//! Structures of libraries on a device, as kernels in Rust query them.

use std::ops::Range;
use std::sync::Arc;

use gpu_phases::structure::Structure;
use gpu_phases::target::Queries;

use crate::error::Result;
use crate::memory::{Access, Allocation};
use crate::stream::Stream;

/// Receives the memory that a structure reaches: a range of bytes of an allocation, and how it is used.
pub type UseOf<'v> = &'v mut dyn FnMut(&Arc<Allocation>, Range<usize>, Access) -> Result<()>;

/// A structure on a device: what [`DeviceStructure`] says of it, whatever its type on the CPU.
///
/// # Safety
/// As [`DeviceStructure`].
pub unsafe trait Reaches {
    /// Reports the memory that a kernel can reach through the structure.
    ///
    /// # Errors
    /// Whatever the visitor returns, or why the structure can't be used.
    fn reaches(&self, visitor: UseOf<'_>) -> Result<()>;

    /// Fails if queries use other values than [`Structure::SOURCES`] lead to: those of points before they changed.
    /// Launches that are recorded for gradients by the sources call it.
    ///
    /// # Errors
    /// What to do before the launch.
    fn is_current(&self, stream: &Stream) -> Result<()> {
        let _ = stream;
        Ok(())
    }
}

/// A library's structure on a device, for kernels whose parameter is `&S`: launches take a reference to it.
///
/// # Safety
/// [`DeviceStructure::write`] writes the bytes of a value of the C++ type of `S`. What it points to stays as it is while it
/// is borrowed, but for work that is ordered by the memory that [`Reaches::reaches`] reports, which is all that queries read.
pub unsafe trait DeviceStructure<S: Structure>: Reaches {
    /// Writes the value that the kernel is given: [`Structure::SIZE`] bytes.
    fn write(&self, bytes: &mut [u8]);
}

impl<'a, S: Structure, V: DeviceStructure<S>> Queries<'a, S, &'a V> for &Stream {
    #[inline]
    fn query(self, structure: &'a V) -> &'a dyn DeviceStructure<S> {
        structure
    }
}
