//! The state of the no-op driver: current contexts, fresh numbers, host memory.

use core::cell::RefCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::{CUcontext, CUdeviceptr, CUresult};

/// Device memory that the device claims to have, in bytes.
pub(super) const TOTAL_MEMORY: usize = 80 << 30;

/// The handle of the device's primary context.
pub(super) const PRIMARY: CUcontext = ptr::without_provenance_mut(0x10);

/// How often the primary context is retained.
pub(super) static RETAINED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The thread's stack of current contexts.
    static STACK: RefCell<Vec<CUcontext>> = const { RefCell::new(Vec::new()) };
}

/// Uses the thread's stack; an error while the thread is ending and has none any more.
pub(super) fn contexts(
    act: impl FnOnce(&mut Vec<CUcontext>) -> Result<(), CUresult>,
) -> Result<(), CUresult> {
    STACK
        .try_with(|stack| match stack.try_borrow_mut() {
            Ok(mut stack) => act(&mut stack),
            Err(_) => Err(CUresult::CUDA_ERROR_UNKNOWN),
        })
        .unwrap_or(Err(CUresult::CUDA_ERROR_DEINITIALIZED))
}

/// Returns the context on top of the thread's stack.
///
/// # Errors
/// `CUDA_ERROR_INVALID_CONTEXT` if there is none.
pub(super) fn current() -> Result<CUcontext, CUresult> {
    let mut top = ptr::null_mut();
    contexts(|stack| {
        top = stack.last().copied().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        Ok(())
    })?;
    Ok(top)
}

/// Creates a handle that no object had before; its low 8 bits are free for the object's own use.
pub(super) fn fresh<T>() -> *mut T {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    ptr::without_provenance_mut(NEXT.fetch_add(0x100, Ordering::Relaxed))
}

/// Returns a range of device addresses that no allocation had before, aligned to 256 bytes.
pub(super) fn allocate(bytes: usize) -> Result<CUdeviceptr, CUresult> {
    static NEXT: AtomicU64 = AtomicU64::new(0x7000_0000_0000);
    match bytes {
        0 => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        1..=TOTAL_MEMORY => {
            let size = (bytes as u64).next_multiple_of(256);
            Ok(NEXT.fetch_add(size, Ordering::Relaxed))
        }
        _ => Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
    }
}

/// Host memory begins one page into its allocation; the page before holds its size.
const PAGE: usize = 4096;

fn host_layout(bytes: usize) -> Result<Layout, CUresult> {
    let size = bytes.checked_add(PAGE).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    Layout::from_size_align(size, PAGE).map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

/// Host memory, page-aligned and zeroed.
pub(super) fn allocate_host(bytes: usize) -> Result<*mut c_void, CUresult> {
    if bytes == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let layout = host_layout(bytes)?;
    // SAFETY: the layout is at least a page large.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    // SAFETY: the allocation begins with a whole page of its own, aligned for a `usize`.
    unsafe { start.cast::<usize>().write(bytes) };
    // SAFETY: the allocation is longer than a page.
    Ok(unsafe { start.add(PAGE) }.cast())
}

/// Frees memory of [`allocate_host`].
///
/// # Safety
/// `memory` comes from [`allocate_host`] and is not used any more.
pub(super) unsafe fn free_host(memory: *mut c_void) -> Result<(), CUresult> {
    // SAFETY: the caller's pointer is a page behind the start of its allocation.
    let start = unsafe { memory.cast::<u8>().sub(PAGE) };
    // SAFETY: the allocation begins with the size that `allocate_host` wrote.
    let bytes = unsafe { start.cast::<usize>().read() };
    let layout = host_layout(bytes)?;
    // SAFETY: this is the start and the layout of the allocation, and the caller gives it up.
    unsafe { dealloc(start, layout) };
    Ok(())
}

/// Writes a result.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE` for a null pointer.
///
/// # Safety
/// `at` is null or valid for the write.
pub(super) unsafe fn put<T>(at: *mut T, value: T) -> Result<(), CUresult> {
    if at.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, hence valid for the write.
    unsafe { at.write(value) };
    Ok(())
}

/// Writes as much of `text` as fits into `len` bytes with its final NUL.
///
/// # Safety
/// `at` is null or valid for a write of `len` bytes.
pub(super) unsafe fn put_text(at: *mut c_char, len: c_int, text: &str) -> Result<(), CUresult> {
    let room = usize::try_from(len).unwrap_or(0);
    if at.is_null() || room == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let length = text.len().min(room - 1);
    // SAFETY: `length` is below `room`, and `at` is valid for `room` bytes.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), at.cast(), length) };
    // SAFETY: as above; this is the byte after the text.
    unsafe { at.add(length).write(0) };
    Ok(())
}
