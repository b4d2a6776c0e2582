//! Uploads and fills on streams that record. The graph runs later and more than once, so it gets separate pinned memory
//! to copy from.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::context::{ContextInner, Counted, Deferred};
use crate::error::Result;
use crate::memory::{Access, Allocation, AnyCapture, enqueue, pages};
use crate::quiet::Kept;
use crate::stream::Stream;

/// Pinned memory that a graph uses.
pub(crate) struct Staged {
    context: Arc<ContextInner>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the host writes the memory before the graph is recorded, or never, and does not access it afterwards; the
// driver ties it to no thread.
unsafe impl Send for Staged {}
// SAFETY: as above.
unsafe impl Sync for Staged {}

impl Staged {
    /// Allocates memory that is not written yet. `bytes` must not be 0.
    pub(crate) fn new(context: &Arc<ContextInner>, bytes: usize) -> Result<Arc<Self>> {
        let start = pages::allocate(context, bytes)?;
        context.census.add(Counted::Pinned);
        Ok(Arc::new(Self { context: context.clone(), start, bytes }))
    }

    /// Returns the address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.context.census.remove(Counted::Pinned);
        if self.context.state.may_defer() {
            // A launch of the graph may still be using it.
            self.context
                .deferred
                .put(Deferred::PinnedInFlight { start: self.start, bytes: self.bytes });
        }
    }
}

/// Records a copy of what `source` holds now.
pub(super) fn upload(
    stream: &Stream,
    capture: &dyn AnyCapture,
    allocation: &Arc<Allocation>,
    offset: usize,
    source: &[u8],
) -> Result<()> {
    // The capture is entered before anything is allocated: the recording may have ended.
    capture.enter(stream.inner())?.captures()?;
    let context = &stream.inner().context;
    let pinned = Staged::new(context, source.len())?;
    let start = pinned.start();
    // SAFETY: the memory has room for the source and is only ours.
    unsafe { start.as_ptr().copy_from_nonoverlapping(source.as_ptr(), source.len()) };
    context.counters.staged_bytes.fetch_add(source.len() as u64, Ordering::Relaxed);
    // Before the copy is recorded: the capture may end, in another thread, right after it was. Also if
    // recording fails, since part of it may have been recorded nevertheless.
    capture.keep_resource(Kept::new(pinned))?;
    let to = allocation.device_ptr() + offset as u64;
    let range = offset..offset + source.len();
    enqueue(stream, [(allocation, range, Access::Write)], |inner| {
        // SAFETY: the graph keeps the source, and goes before it; the target lies in an allocation that
        // the caller holds and the graph keeps.
        unsafe { super::enqueue_to_device(inner, to, start.as_ptr(), source.len()) }
    })
}

/// Records a fill with a pattern that the driver has no memset for: the pattern is uploaded some
/// times, then copied with doubling length.
pub(super) fn fill(
    stream: &Stream,
    capture: &dyn AnyCapture,
    allocation: &Arc<Allocation>,
    offset: usize,
    (pattern, bytes): (&[u8], usize),
) -> Result<()> {
    let repeat = (4096 / pattern.len()).max(1);
    let first = pattern.repeat(repeat);
    let mut filled = first.len().min(bytes);
    upload(stream, capture, allocation, offset, &first[..filled])?;
    while filled < bytes {
        let next = filled.min(bytes - filled);
        super::copy_on_device(stream, (allocation, offset + filled), (allocation, offset), next)?;
        filled += next;
    }
    Ok(())
}
