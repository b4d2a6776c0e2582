//! What a context has of Rust kernels, where the feature `rust-kernels` is on; else nothing.

#[cfg(feature = "rust-kernels")]
use super::Attachment;
use super::ContextInner;
use crate::error::Result;

#[cfg(feature = "rust-kernels")]
impl ContextInner {
    /// Fails if a Rust kernel has failed here and the program has not taken the fault. Call it after each wait of the host.
    #[inline]
    pub(crate) fn check_fault(&self) -> Result<()> {
        self.rust_kernels.any().map_or(Ok(()), Attachment::check)
    }

    /// Returns whether this is the primary context, which is kept until it is closed.
    #[inline]
    pub(crate) fn is_primary(&self) -> bool {
        matches!(self.owner, super::Owner::Primary)
    }

    /// Returns how many of the handles to the context are its own.
    pub(super) fn holds_itself(&self) -> usize {
        self.rust_kernels.any().map_or(0, Attachment::holds)
    }

    /// Leaves loaded Rust kernels and the fault slot to the deferred-free list.
    ///
    /// # Safety
    /// There is no other handle to the context, none is made meanwhile, and its work is done.
    pub(super) unsafe fn put_away_rust_kernels(&self) -> Result<()> {
        let Some(kernels) = self.rust_kernels.any() else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { kernels.put_away(self) }
    }
}

#[cfg(not(feature = "rust-kernels"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
impl ContextInner {
    #[inline]
    pub(crate) fn check_fault(&self) -> Result<()> {
        Ok(())
    }

    pub(super) fn holds_itself(&self) -> usize {
        0
    }

    /// # Safety
    /// None.
    pub(super) unsafe fn put_away_rust_kernels(&self) -> Result<()> {
        Ok(())
    }
}
