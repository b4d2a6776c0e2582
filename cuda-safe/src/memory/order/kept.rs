//! Memory that is used later without a borrow, such as what a recorded launch has read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::memory::Allocation;
use crate::stream::Stream;

/// Keeps an allocation for uses without a borrow; made by [`Allocation::keep`].
///
/// While it lives, every use of the memory takes the context's graph lock, as for memory that a graph
/// uses, and so does a guard of the host's. A use without a borrow so runs wholly before or wholly after
/// any other. If it is leaked, later uses go on taking the lock.
///
/// A user of the memory compares the [version](Self::version) within the use: a [`KernelArg`] does so
/// in `uses`, after it has reported the memory to the visitor, since the lock is held from there on until
/// the use is recorded.
///
/// [`KernelArg`]: crate::KernelArg
pub struct KeptMemory {
    allocation: Arc<Allocation>,
}

impl KeptMemory {
    /// Returns the allocation.
    #[must_use]
    pub fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// Returns the number of the newest write of any byte of `range`; see [`Allocation::version`].
    #[must_use]
    pub fn version(&self, range: Range<usize>) -> u64 {
        self.allocation.version(range)
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        self.allocation.shared.release();
    }
}

impl fmt::Debug for KeptMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptMemory").field("allocation", &self.allocation).finish()
    }
}

impl Allocation {
    /// Keeps the memory for uses without a borrow on streams of the context of `stream`.
    ///
    /// The caller has borrowed, at this moment, what it will use. So no use that conflicts is between its
    /// ordering and its recording, and later ones find the memory kept.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the memory belongs to another context, whose
    /// lock the uses would not take.
    pub fn keep(self: &Arc<Self>, stream: &Stream) -> Result<KeptMemory> {
        if !Arc::ptr_eq(&self.home_stream().inner().context, &stream.inner().context) {
            return Err(Error::invalid(
                "memory of another context can't be kept for later, since nobody could keep others from \
                 writing it meanwhile",
            )
            .with_hint("copy it to memory of the stream's context first"));
        }
        self.shared.keep();
        Ok(KeptMemory { allocation: self.clone() })
    }
}
