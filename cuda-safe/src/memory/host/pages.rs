//! Pinned host memory: pages of the process's own, registered with the driver.
//!
//! Pinned memory that the driver allocates disappears with its context, also if other code destroys
//! that: the next write to a slice of it crashes. These pages stay. They are as fast (measured on an H200).

use std::alloc::Layout;
use std::ptr::NonNull;

use cuda_sys::{CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CUdeviceptr};

use crate::context::ContextInner;
use crate::error::{Error, Result};

/// The alignment of all pinned memory.
pub(crate) const ALIGN: usize = 4096;

/// From this size on huge pages are asked for.
const HUGE: usize = 2 << 20;

/// Returns the layout of the memory for `bytes` bytes: whole pages, so that no other allocation is pinned with it.
fn layout(bytes: usize) -> Option<Layout> {
    let align = if bytes >= HUGE { HUGE } else { ALIGN };
    Layout::from_size_align(bytes.checked_next_multiple_of(ALIGN)?, align).ok()
}

/// Allocates pinned host memory that every context may use, not written yet. `bytes` must not be 0.
pub(crate) fn allocate(context: &ContextInner, bytes: usize) -> Result<NonNull<u8>> {
    context.state.usable()?;
    let none = || Error::invalid(format!("the host has no {bytes} bytes of memory to be pinned"));
    let layout = layout(bytes).ok_or_else(none)?;
    // SAFETY: the layout's size is not 0, since `bytes` is not.
    let start = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(none)?;
    advise(start, layout);
    let mut answered = false;
    let registered = context.with_current(|| {
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        let (address, bytes_in_pages) = (start.as_ptr().cast(), layout.size());
        answered = true;
        // SAFETY: the memory was just allocated, and stays until it is unregistered.
        unsafe { call!(context, cuMemHostRegister_v2(address, bytes_in_pages, flags)) }
            .map_err(|error| error.with_asked(format!("{bytes} bytes of pinned host memory")))
    });
    match registered {
        Ok(()) => Ok(start),
        // After a fatal error it is unknown whether the driver holds the memory, so it is leaked.
        Err(error) if answered && error.is_fatal() => Err(error),
        Err(error) => {
            // SAFETY: allocated above with this layout, and nothing else has the address.
            unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
            Err(error)
        }
    }
}

/// Frees memory of [`allocate`]. **Waits for the device.** The context must be current. If the driver doesn't
/// unregister it, it is leaked.
///
/// # Safety
/// `allocate` returned `start` for `bytes`, and nothing uses the memory any more except work of devices that this call
/// waits for.
pub(crate) unsafe fn free(context: &ContextInner, start: NonNull<u8>, bytes: usize) -> Result<()> {
    let Some(layout) = layout(bytes) else { return Ok(()) };
    // SAFETY: registered by `allocate`; the call waits for transfers.
    unsafe { call!(context, cuMemHostUnregister(start.as_ptr().cast())) }?;
    // SAFETY: allocated with this layout, and the driver has unregistered it.
    unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
    Ok(())
}

/// Returns the address by which the device uses the host's memory.
pub(crate) fn device_address(context: &ContextInner, host: NonNull<u8>) -> Result<CUdeviceptr> {
    let mut address = 0;
    context.with_current(|| {
        let start = host.as_ptr().cast();
        // SAFETY: `address` is a valid place for an address, the memory is pinned, and the context
        // is current.
        unsafe { call!(context, cuMemHostGetDevicePointer_v2(&raw mut address, start, 0)) }
    })?;
    Ok(address)
}

/// Asks for huge pages, which are pinned and reached in fewer steps. Only advice.
fn advise(start: NonNull<u8>, layout: Layout) {
    #[cfg(target_os = "linux")]
    if layout.align() >= HUGE {
        let bytes = layout.size() / HUGE * HUGE;
        // SAFETY: the range lies in memory that was just allocated; advice changes nothing in it.
        let _ = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, layout);
}
