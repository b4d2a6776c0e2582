//! Copies from and to memory that graphs use too.
//!
//! Using such memory takes the context's graph lock, and no thread waits for the device while it holds
//! the lock: other threads that launch graphs would wait too, perhaps for ever, if the device waits for a
//! host function that waits for them. So the bytes go through device memory that no graph knows, or,
//! if they are few or there is no more memory, through one block at a time.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{BLOCK_BYTES, Target, copy_to_block, read_block};
use crate::error::Result;
use crate::memory::pool::is_out_of_memory;
use crate::memory::{Access, Allocation, enqueue};
use crate::stream::Stream;

/// Returns device memory of `bytes` bytes that no graph uses; `None` if there is not that much.
pub(crate) fn scratch(stream: &Stream, bytes: usize) -> Result<Option<Arc<Allocation>>> {
    match Allocation::new(stream, bytes) {
        Ok(scratch) => Ok(Some(scratch)),
        Err(error) if is_out_of_memory(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Copies `source` to the device. Returns when it was read.
pub(super) fn upload(
    stream: &Stream,
    allocation: &Arc<Allocation>,
    offset: usize,
    source: &[u8],
) -> Result<()> {
    if let Some(scratch) = scratch(stream, source.len())? {
        super::upload(stream, &scratch, 0, source)?;
        return super::copy_on_device(stream, (allocation, offset), (&scratch, 0), source.len());
    }
    // Small ones, which wait for nothing. One lock for all: no other use sees some of them alone.
    let _held = stream.inner().context.graph_lock.take_for_all()?;
    source.chunks(super::SMALL_BYTES).enumerate().try_for_each(|(index, chunk)| {
        super::upload(stream, allocation, offset + index * super::SMALL_BYTES, chunk)
    })
}

/// Copies from the device into `target` and waits.
pub(super) fn download(
    stream: &Stream,
    allocation: &Arc<Allocation>,
    offset: usize,
    target: Target<'_>,
) -> Result<()> {
    let bytes = target.bytes.len();
    if bytes > BLOCK_BYTES
        && let Some(scratch) = scratch(stream, bytes)?
    {
        super::copy_on_device(stream, (&scratch, 0), (allocation, offset), bytes)?;
        return super::download(stream, &scratch, 0, target);
    }
    let chunks = target.bytes.chunks_mut(BLOCK_BYTES).enumerate();
    for (index, chunk) in chunks {
        download_block(stream, allocation, offset + index * BLOCK_BYTES, chunk)?;
    }
    Ok(())
}

/// At most a block's bytes: enqueued under the graph lock, waited for outside of it.
fn download_block(
    stream: &Stream,
    allocation: &Arc<Allocation>,
    offset: usize,
    target: &mut [MaybeUninit<u8>],
) -> Result<()> {
    let inner = stream.inner();
    let context = &inner.context;
    context.counters.staged_bytes.fetch_add(target.len() as u64, Ordering::Relaxed);
    let block = context.staging.acquire(context)?;
    let from = allocation.device_ptr() + offset as u64;
    // Uses numbered before the copy are done when the copy is.
    let mut before = 0;
    let range = offset..offset + target.len();
    let copied = enqueue(stream, [(allocation, range, Access::Read)], |inner| {
        before = inner.enqueued();
        copy_to_block(inner, &block, from, target.len()).and_then(|()| block.record(inner))
    });
    if let Err(error) = copied.and_then(|()| block.wait(context)) {
        // The device may still write to the block.
        context.staging.discard(context, block);
        return Err(error);
    }
    read_block(&block, target);
    context.staging.release(block);
    inner.complete(before);
    inner.context.check_fault()?;
    Ok(())
}
