//! Copies between the host's slices and the device, through the staging ring.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use cuda_sys::CUdeviceptr;

use super::allocation::Allocation;
use super::enqueue::enqueue;
use super::staging::{BLOCK_BYTES, StagingBlock};
use super::uses::Access;
use crate::error::Result;
use crate::stream::{Stream, StreamInner};

/// Uploads up to this size are packed into a block that the stream keeps, several to a block.
const SMALL_BYTES: usize = BLOCK_BYTES / 8;

/// Where packed uploads start: what the copy engine likes, and any element is aligned to.
const PACK_ALIGN: usize = 256;

/// How many blocks one download keeps in flight.
const DOWNLOAD_BLOCKS: usize = 4;

/// Copies `source` to the device. Returns when `source` was read, not when the copy is done.
pub(super) fn upload(
    stream: &Stream,
    allocation: &Arc<Allocation>,
    offset: usize,
    source: &[u8],
) -> Result<()> {
    if source.is_empty() {
        return Ok(());
    }
    let range = offset..offset + source.len();
    let to = allocation.address() + offset as u64;
    enqueue(stream, [(allocation, range, Access::Write)], |inner| {
        let counted = source.len() as u64;
        inner.context.counters.staged_bytes.fetch_add(counted, Ordering::Relaxed);
        if source.len() <= SMALL_BYTES {
            return upload_small(inner, to, source);
        }
        let mut to = to;
        for chunk in source.chunks(BLOCK_BYTES) {
            let block = inner.context.staging.acquire(&inner.context)?;
            let copied = copy_from_block(inner, &block, 0, to, chunk);
            // Also after a failure: the copy may have been enqueued all the same.
            inner.context.staging.retire(inner, block);
            copied?;
            to += chunk.len() as u64;
        }
        Ok(())
    })
}

/// The block that a stream packs small uploads into.
pub(crate) struct Packing {
    pub(crate) block: StagingBlock,
    /// Bytes that uploads have taken.
    used: usize,
    /// The stream's number that covers the newest of them.
    newest: u64,
}

/// One memcpy and one enqueue, except that a full block is handed back with one event.
fn upload_small(inner: &StreamInner, to: CUdeviceptr, source: &[u8]) -> Result<()> {
    let mut current = inner.upload.lock().unwrap_or_else(PoisonError::into_inner);
    let packing = match &mut *current {
        Some(packing) if packing.used + source.len() <= BLOCK_BYTES => packing,
        full => {
            if let Some(full) = full.take() {
                inner.context.staging.retire(inner, full.block);
            }
            let block = inner.context.staging.acquire(&inner.context)?;
            full.insert(Packing { block, used: 0, newest: 0 })
        }
    };
    // If the host has seen all of it done, start again where the cache is warm.
    if inner.has_completed(packing.newest) {
        packing.used = 0;
    }
    let at = packing.used;
    packing.used = (at + source.len()).next_multiple_of(PACK_ALIGN);
    let copied = copy_from_block(inner, &packing.block, at, to, source);
    packing.newest = inner.next_number();
    copied
}

/// Copies `source` into the block at `at`, and enqueues the copy from there to the device.
fn copy_from_block(
    inner: &StreamInner,
    block: &StagingBlock,
    at: usize,
    to: CUdeviceptr,
    source: &[u8],
) -> Result<()> {
    debug_assert!(at + source.len() <= BLOCK_BYTES);
    // SAFETY: `at + source.len()` is within the block (callers see to it), which is ours alone. The
    // device reads only parts below `at`, or, where the caller starts over, none any more. The
    // block overlaps no slice of a caller's.
    let from = unsafe {
        let from = block.start().add(at).as_ptr();
        std::ptr::copy_nonoverlapping(source.as_ptr(), from, source.len());
        from
    };
    // SAFETY: the block stays untouched until its event, recorded later on this stream, is done;
    // the destination lies in an allocation that the caller holds.
    let result = unsafe {
        inner.state().sys.cuMemcpyHtoDAsync_v2(
            to,
            from.cast_const().cast(),
            source.len(),
            inner.raw,
        )
    };
    inner.answer("cuMemcpyHtoDAsync", result)
}

/// Copies from the device into `target` and waits: when it returns `Ok`, all of `target` is
/// written. After an error nothing of the device's is still writing to it.
pub(super) fn download(
    stream: &Stream,
    allocation: &Arc<Allocation>,
    offset: usize,
    target: &mut [MaybeUninit<u8>],
) -> Result<()> {
    if target.is_empty() {
        return Ok(());
    }
    let range = offset..offset + target.len();
    let from = allocation.address() + offset as u64;
    enqueue(stream, [(allocation, range, Access::Read)], |inner| {
        let counted = target.len() as u64;
        inner.context.counters.staged_bytes.fetch_add(counted, Ordering::Relaxed);
        // Everything numbered by now comes before the copy, so it is done when the copy is.
        let before = inner.enqueued();
        let mut in_flight = InFlight { stream: inner, blocks: Vec::new() };
        let mut enqueued = 0;
        let mut written = 0;
        while written < target.len() {
            while enqueued < target.len() && in_flight.blocks.len() < DOWNLOAD_BLOCKS {
                let bytes = BLOCK_BYTES.min(target.len() - enqueued);
                in_flight.enqueue(from + enqueued as u64, bytes)?;
                enqueued += bytes;
            }
            written += in_flight.finish_oldest(&mut target[written..])?;
        }
        inner.complete(before);
        Ok(())
    })
}

/// Blocks that the device may be writing. Dropping it gives those up to the bin, where only a wait
/// for the device frees them.
struct InFlight<'a> {
    stream: &'a StreamInner,
    /// Oldest first: block and bytes.
    blocks: Vec<(StagingBlock, usize)>,
}

impl InFlight<'_> {
    fn enqueue(&mut self, from: CUdeviceptr, bytes: usize) -> Result<()> {
        let inner = self.stream;
        let block = inner.context.staging.acquire(&inner.context)?;
        let to = block.start().as_ptr().cast();
        // SAFETY: the block has room for `bytes` and is touched by nobody until its event is done;
        // the source lies in an allocation that the caller holds.
        let result = unsafe { inner.state().sys.cuMemcpyDtoHAsync_v2(to, from, bytes, inner.raw) };
        let copied = inner.answer("cuMemcpyDtoHAsync", result).and_then(|()| block.record(inner));
        self.blocks.push((block, bytes));
        copied
    }

    fn finish_oldest(&mut self, target: &mut [MaybeUninit<u8>]) -> Result<usize> {
        let Some((block, bytes)) = self.blocks.first() else { return Ok(0) };
        let bytes = *bytes;
        block.wait(&self.stream.context)?;
        debug_assert!(bytes <= target.len());
        // SAFETY: the event is done, so the device has written `bytes` bytes to the block and
        // writes no more; `target` is at least as long (it starts where the block's part starts).
        unsafe {
            let from = block.start().as_ptr().cast_const();
            std::ptr::copy_nonoverlapping(from, target.as_mut_ptr().cast(), bytes);
        }
        let (block, _) = self.blocks.remove(0);
        self.stream.context.staging.release(block);
        Ok(bytes)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        for (block, _) in self.blocks.drain(..) {
            self.stream.context.staging.discard(&self.stream.context, block);
        }
    }
}

/// Copies within the device, in `stream`'s order.
pub(super) fn copy_on_device(
    stream: &Stream,
    (to, to_offset): (&Arc<Allocation>, usize),
    (from, from_offset): (&Arc<Allocation>, usize),
    bytes: usize,
) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let uses = [
        (from, from_offset..from_offset + bytes, Access::Read),
        (to, to_offset..to_offset + bytes, Access::Write),
    ];
    let to = to.address() + to_offset as u64;
    let from = from.address() + from_offset as u64;
    enqueue(stream, uses, |inner| {
        // SAFETY: both ranges lie in allocations that the caller holds.
        let result = unsafe { inner.state().sys.cuMemcpyDtoDAsync_v2(to, from, bytes, inner.raw) };
        inner.answer("cuMemcpyDtoDAsync", result)
    })
}

/// Fills a range with a repeated pattern of `pattern.len()` bytes, in `stream`'s order.
pub(super) fn fill(
    stream: &Stream,
    allocation: &Arc<Allocation>,
    offset: usize,
    pattern: &[u8],
    count: usize,
) -> Result<()> {
    let bytes = pattern.len() * count;
    if bytes == 0 {
        return Ok(());
    }
    let to = allocation.address() + offset as u64;
    enqueue(stream, [(allocation, offset..offset + bytes, Access::Write)], |inner| {
        let sys = inner.state().sys;
        let stream = inner.raw;
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            // SAFETY: the range lies in an allocation that the caller holds.
            let result = unsafe { sys.cuMemsetD8Async(to, pattern[0], bytes, stream) };
            return inner.answer("cuMemsetD8Async", result);
        }
        if let Ok(pattern) = <[u8; 2]>::try_from(pattern) {
            let value = u16::from_ne_bytes(pattern);
            if to.is_multiple_of(2) {
                // SAFETY: as above, and the address is aligned.
                let result = unsafe { sys.cuMemsetD16Async(to, value, count, stream) };
                return inner.answer("cuMemsetD16Async", result);
            }
        }
        let (words, rest) = pattern.as_chunks::<4>();
        if rest.is_empty() && words.iter().all(|word| *word == words[0]) {
            let value = u32::from_ne_bytes(words[0]);
            if to.is_multiple_of(4) {
                // SAFETY: as above, and the address is aligned.
                let result = unsafe { sys.cuMemsetD32Async(to, value, bytes / 4, stream) };
                return inner.answer("cuMemsetD32Async", result);
            }
        }
        fill_by_doubling(inner, to, pattern, bytes)
    })
}

/// Any other pattern: uploaded once, then copied onto itself with doubling length.
fn fill_by_doubling(
    inner: &StreamInner,
    to: CUdeviceptr,
    pattern: &[u8],
    bytes: usize,
) -> Result<()> {
    // Start with some kilobytes so that few copies are short.
    let repeat = (SMALL_BYTES / 16 / pattern.len()).max(1);
    let first = pattern.repeat(repeat);
    let mut filled = first.len().min(bytes);
    for (part, chunk) in first[..filled].chunks(SMALL_BYTES).enumerate() {
        upload_small(inner, to + (part * SMALL_BYTES) as u64, chunk)?;
    }
    while filled < bytes {
        let next = filled.min(bytes - filled);
        let end = to + filled as u64;
        // SAFETY: both ranges lie in the caller's allocation and don't overlap.
        let result = unsafe { inner.state().sys.cuMemcpyDtoDAsync_v2(end, to, next, inner.raw) };
        inner.answer("cuMemcpyDtoDAsync", result)?;
        filled += next;
    }
    Ok(())
}
