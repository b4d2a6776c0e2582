//! Copies between the host's slices and the device, through the staging ring.

mod fill;
mod fresh;
pub(super) mod graph_memory;
mod helpers;
mod recorded;
pub(super) mod shaped;
mod threads;

pub(super) use fill::fill;
pub(crate) use helpers::Helpers;
pub(crate) use recorded::Staged;

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::AnyBitPattern;
use cuda_sys::CUdeviceptr;

use crate::error::Result;
use crate::memory::host::staging::{BLOCK_BYTES, StagingBlock};
use crate::memory::{Access, Allocation, enqueue};
use crate::stream::{Stream, StreamInner};

/// Uploads up to this size are packed into a block that the stream keeps, several to a block.
const SMALL_BYTES: usize = BLOCK_BYTES / 8;

/// The alignment of packed uploads: fast for the copy engine, and enough for every element.
const PACK_ALIGN: usize = 256;

/// How many blocks one download keeps in flight.
pub(super) const DOWNLOAD_BLOCKS: usize = 4;

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
    if let Some(capture) = &stream.inner().capture {
        return recorded::upload(stream, &**capture, allocation, offset, source);
    }
    if allocation.is_captured() && source.len() > SMALL_BYTES {
        return graph_memory::upload(stream, allocation, offset, source);
    }
    let range = offset..offset + source.len();
    let to = allocation.device_ptr() + offset as u64;
    enqueue(stream, [(allocation, range, Access::Write)], |inner| {
        inner.context.counters.staged_bytes.fetch_add(source.len() as u64, Ordering::Relaxed);
        if source.len() <= SMALL_BYTES {
            return upload_small(inner, to, source, !allocation.is_captured());
        }
        if source.len() >= threads::LARGE_BYTES
            && inner.plain
            && let Some(copied) = threads::upload(inner, to, source)
        {
            return copied;
        }
        let mut to = to;
        for chunk in source.chunks(BLOCK_BYTES) {
            let block = inner.context.staging.acquire(&inner.context)?;
            let copied = copy_from_block(inner, &block, 0, to, chunk);
            // The block is retired even after a failure: the copy may have been enqueued nevertheless.
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

/// One memcpy and one enqueue, except that a full block is handed back with one event. A thread that
/// holds the graph lock may not wait for the device if all blocks are in flight.
fn upload_small(inner: &StreamInner, to: CUdeviceptr, source: &[u8], may_wait: bool) -> Result<()> {
    let mut current = inner.upload.lock()?;
    let packing = match &mut *current {
        Some(packing) if packing.used + source.len() <= BLOCK_BYTES => packing,
        full => {
            if let Some(full) = full.take() {
                inner.context.staging.retire(inner, full.block);
            }
            let staging = &inner.context.staging;
            let block = match may_wait {
                true => staging.acquire(&inner.context)?,
                false => staging.acquire_now(&inner.context)?,
            };
            inner.note_packing();
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
    // SAFETY: the block stays untouched until its event, recorded later on this stream, is done; the
    // destination lies in an allocation that the caller holds.
    unsafe { enqueue_to_device(inner, to, from, source.len()) }
}

/// Enqueues a copy of `bytes` bytes of pinned memory to the device.
///
/// # Safety
/// The source has that many bytes, which stay untouched until the copy is done; the destination lies in
/// an allocation that the caller holds.
pub(super) unsafe fn enqueue_to_device(
    inner: &StreamInner,
    to: CUdeviceptr,
    from: *const u8,
    bytes: usize,
) -> Result<()> {
    inner.copying(|| {
        // SAFETY: the caller's promise.
        unsafe { call!(inner, cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, inner.raw)) }
    })
}

/// Enqueues a copy of `bytes` bytes from the device to pinned memory.
///
/// # Safety
/// The target has room for that many bytes, and nothing else accesses it until the copy is done; the source lies in an
/// allocation that the caller holds.
pub(super) unsafe fn enqueue_to_host(
    inner: &StreamInner,
    to: *mut u8,
    from: CUdeviceptr,
    bytes: usize,
) -> Result<()> {
    inner.copying(|| {
        // SAFETY: the caller's promise.
        unsafe { call!(inner, cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, inner.raw)) }
    })
}

/// Copies from the device into `target` and waits: when it returns `Ok`, all of `target` is
/// written. After an error nothing of the device's is still writing to it.
pub(super) fn download(
    stream: &Stream,
    allocation: &Arc<Allocation>,
    offset: usize,
    target: Target<'_>,
) -> Result<()> {
    let bytes = target.bytes.len();
    if bytes == 0 {
        return Ok(());
    }
    stream.inner().not_capturing("a download")?;
    if allocation.is_captured() {
        return graph_memory::download(stream, allocation, offset, target);
    }
    let from = allocation.device_ptr() + offset as u64;
    enqueue(stream, [(allocation, offset..offset + bytes, Access::Read)], |inner| {
        inner.context.counters.staged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        // All work numbered by now comes before the copy, so it is done when the copy is.
        let before = inner.enqueued();
        let Target { bytes: target, fresh } = target;
        // Other threads can't use a stream that is lent to this one.
        let large = bytes >= threads::LARGE_BYTES && inner.plain;
        if large && fresh {
            fresh::advise(target);
        }
        match if large { threads::download(inner, from, target, fresh) } else { None } {
            Some(copied) => copied?,
            None => download_alone(inner, from, target)?,
        }
        inner.complete(before);
        inner.context.check_fault()
    })
}

/// Where a download goes.
pub(super) struct Target<'a> {
    pub(super) bytes: &'a mut [MaybeUninit<u8>],
    /// Whether it was allocated just now, so that the system may have to provide its pages first.
    pub(super) fresh: bool,
}

impl<'a> Target<'a> {
    /// Returns memory that is not written yet, for elements of which any bytes are one.
    pub(super) fn fresh<T: AnyBitPattern>(elements: &'a mut [MaybeUninit<T>]) -> Self {
        let (start, bytes) = (elements.as_mut_ptr().cast(), size_of_val(elements));
        // SAFETY: the same memory as `elements`, as bytes; uninitialised bytes are allowed.
        Self { bytes: unsafe { std::slice::from_raw_parts_mut(start, bytes) }, fresh: true }
    }

    /// Elements that are overwritten.
    pub(super) fn of<T: AnyBitPattern>(elements: &'a mut [T]) -> Self {
        let (start, bytes) = (elements.as_mut_ptr().cast(), size_of_val(elements));
        // SAFETY: the same memory as `elements`, as bytes; a download writes nothing to it but bytes from
        // the device, of which any are a `T`.
        Self { bytes: unsafe { std::slice::from_raw_parts_mut(start, bytes) }, fresh: false }
    }
}

/// A download by the calling thread.
fn download_alone(
    inner: &StreamInner,
    from: CUdeviceptr,
    target: &mut [MaybeUninit<u8>],
) -> Result<()> {
    let mut in_flight = InFlight::new(inner);
    let mut chunks = target.chunks_mut(BLOCK_BYTES).enumerate();
    loop {
        while in_flight.len() < DOWNLOAD_BLOCKS
            && let Some((index, chunk)) = chunks.next()
        {
            let block = inner.context.staging.acquire(&inner.context)?;
            let from = from + (index * BLOCK_BYTES) as u64;
            let copied = copy_to_block(inner, &block, from, chunk.len());
            in_flight.push(block, chunk, copied)?;
        }
        let Some((block, chunk)) = in_flight.wait_for_oldest()? else { return Ok(()) };
        read_block(&block, chunk);
        inner.context.staging.release(block);
    }
}

/// Enqueues the copy of `bytes` bytes from the device to the start of the block.
fn copy_to_block(
    inner: &StreamInner,
    block: &StagingBlock,
    from: CUdeviceptr,
    bytes: usize,
) -> Result<()> {
    debug_assert!(bytes <= BLOCK_BYTES);
    // SAFETY: the block has room for `bytes` (callers see to it) and nothing else accesses it until its event, recorded
    // next, is done; the source lies in an allocation that the caller holds.
    unsafe { enqueue_to_host(inner, block.start().as_ptr(), from, bytes) }
}

/// Copies the start of a block, which a copy that is done has written, to `target`.
fn read_block(block: &StagingBlock, target: &mut [MaybeUninit<u8>]) {
    debug_assert!(target.len() <= BLOCK_BYTES);
    // SAFETY: the block is ours alone, the device has written at least `target.len()` bytes of it
    // and writes no more, and it overlaps no slice of a caller's.
    unsafe {
        let from = block.start().as_ptr().cast_const();
        std::ptr::copy_nonoverlapping(from, target.as_mut_ptr().cast(), target.len());
    }
}

/// Blocks that the device may be using, oldest first, each with what its copy is for. Dropping it
/// leaves them to the ring, which knows by their events when they are free.
pub(super) struct InFlight<'a, T> {
    stream: &'a StreamInner,
    blocks: VecDeque<(StagingBlock, T)>,
}

impl<'a, T> InFlight<'a, T> {
    pub(super) fn new(stream: &'a StreamInner) -> Self {
        Self { stream, blocks: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    fn newest(&mut self) -> Option<&mut T> {
        self.blocks.back_mut().map(|(_, what)| what)
    }

    /// Takes a block whose copy was enqueued, with the result of enqueuing it.
    pub(super) fn push(&mut self, block: StagingBlock, what: T, copied: Result<()>) -> Result<()> {
        let stream = self.stream;
        if copied.is_err() && !stream.state().is_usable() {
            stream.context.staging.discard(&stream.context, block);
            return copied;
        }
        // The block is recorded even after a failure: the copy may have been enqueued nevertheless.
        match block.record(stream) {
            Ok(()) => {
                self.blocks.push_back((block, what));
                copied
            }
            Err(error) => {
                stream.context.staging.discard(&stream.context, block);
                copied.and(Err(error))
            }
        }
    }

    /// Returns whether the oldest block's copy is done, so that the caller need not wait for it.
    fn is_oldest_done(&self) -> Result<bool> {
        match self.blocks.front() {
            Some((block, _)) => block.is_done(&self.stream.context),
            None => Ok(false),
        }
    }

    /// Returns the oldest block, when its copy is done.
    pub(super) fn wait_for_oldest(&mut self) -> Result<Option<(StagingBlock, T)>> {
        let Some((block, what)) = self.blocks.pop_front() else { return Ok(None) };
        match block.wait(&self.stream.context) {
            Ok(()) => Ok(Some((block, what))),
            Err(error) => {
                self.stream.context.staging.discard(&self.stream.context, block);
                Err(error)
            }
        }
    }
}

impl<T> Drop for InFlight<'_, T> {
    fn drop(&mut self) {
        for (block, _) in self.blocks.drain(..) {
            self.stream.context.staging.park(&self.stream.context, block);
        }
    }
}

/// Copies within the device, or from or to memory that the host sees, in `stream`'s order.
pub(super) fn copy_on_device(
    stream: &Stream,
    (to, to_offset): (&Arc<Allocation>, usize),
    (from, from_offset): (&Arc<Allocation>, usize),
    bytes: usize,
) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let host_sees = to.is_visible() || from.is_visible();
    let uses = [
        (from, from_offset..from_offset + bytes, Access::Read),
        (to, to_offset..to_offset + bytes, Access::Write),
    ];
    let to = to.device_ptr() + to_offset as u64;
    let from = from.device_ptr() + from_offset as u64;
    enqueue(stream, uses, |inner| match host_sees {
        // SAFETY: both ranges lie in allocations that the caller holds.
        false => unsafe { enqueue_on_device(inner, to, from, bytes) },
        // The driver takes no flag that both lie on the device.
        true => inner.context.with_current(|| {
            // SAFETY: as above, by addresses that the driver knows, so it finds out itself where they
            // are.
            unsafe { call!(inner, cuMemcpyAsync(to, from, bytes, inner.raw)) }
        }),
    })
}

/// Enqueues a copy within the device.
///
/// # Safety
/// Both ranges must lie in allocations that the caller holds.
unsafe fn enqueue_on_device(
    inner: &StreamInner,
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
) -> Result<()> {
    inner.copying(|| {
        // SAFETY: the caller's promise.
        unsafe { call!(inner, cuMemcpyDtoDAsync_v2(to, from, bytes, inner.raw)) }
    })
}
