//! Fills: a memset where the driver has one for the pattern.

use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::{SMALL_BYTES, enqueue_on_device, upload_small};
use crate::error::Result;
use crate::memory::{Access, Allocation, enqueue};
use crate::stream::{Stream, StreamInner};

/// Fills a range with a repeated pattern of `pattern.len()` bytes, in `stream`'s order.
pub(crate) fn fill(
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
    let to = allocation.device_ptr() + offset as u64;
    if let Some(capture) = &stream.inner().capture
        && !has_memset(pattern, to)
    {
        return super::recorded::fill(stream, &**capture, allocation, offset, (pattern, bytes));
    }
    enqueue(stream, [(allocation, offset..offset + bytes, Access::Write)], |inner| {
        if !has_memset(pattern, to) {
            return fill_by_doubling(inner, to, pattern, bytes, !allocation.is_captured());
        }
        // On an ordinary stream the driver takes memsets whatever is current. A node may keep it.
        match inner.capture {
            None => memset(inner, to, pattern, count),
            Some(_) => inner.context.with_current(|| memset(inner, to, pattern, count)),
        }
    })
}

/// Enqueues a memset for a pattern that the driver has one for.
fn memset(inner: &StreamInner, to: CUdeviceptr, pattern: &[u8], count: usize) -> Result<()> {
    let (stream, bytes) = (inner.raw, pattern.len() * count);
    if pattern.iter().all(|byte| *byte == pattern[0]) {
        // SAFETY: the range lies in an allocation that the caller holds.
        return unsafe { call!(inner, cuMemsetD8Async(to, pattern[0], bytes, stream)) };
    }
    if let Ok(pattern) = <[u8; 2]>::try_from(pattern) {
        let value = u16::from_ne_bytes(pattern);
        // SAFETY: as above, and the address is aligned, as `has_memset` says.
        return unsafe { call!(inner, cuMemsetD16Async(to, value, count, stream)) };
    }
    let value = u32::from_ne_bytes(pattern.first_chunk().copied().unwrap_or_default());
    // SAFETY: as above.
    unsafe { call!(inner, cuMemsetD32Async(to, value, bytes / 4, stream)) }
}

/// Returns whether the driver has a memset for the pattern at this address.
fn has_memset(pattern: &[u8], to: CUdeviceptr) -> bool {
    let (words, rest) = pattern.as_chunks::<4>();
    pattern.iter().all(|byte| *byte == pattern[0])
        || pattern.len() == 2 && to.is_multiple_of(2)
        || rest.is_empty() && words.iter().all(|word| *word == words[0]) && to.is_multiple_of(4)
}

/// Any other pattern: uploaded once, then copied onto itself with doubling length.
fn fill_by_doubling(
    inner: &StreamInner,
    to: CUdeviceptr,
    pattern: &[u8],
    bytes: usize,
    may_wait: bool,
) -> Result<()> {
    // Start with some kilobytes so that few copies are short.
    let repeat = (SMALL_BYTES / 16 / pattern.len()).max(1);
    let first = pattern.repeat(repeat);
    let mut filled = first.len().min(bytes);
    for (part, chunk) in first[..filled].chunks(SMALL_BYTES).enumerate() {
        upload_small(inner, to + (part * SMALL_BYTES) as u64, chunk, may_wait)?;
    }
    while filled < bytes {
        let next = filled.min(bytes - filled);
        let end = to + filled as u64;
        // SAFETY: both ranges lie in the caller's allocation and don't overlap.
        unsafe { enqueue_on_device(inner, end, to, next) }?;
        filled += next;
    }
    Ok(())
}
