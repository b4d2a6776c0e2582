//! Fresh memory: pages that the system provides when they are first written, which costs more than
//! writing them.

use std::mem::MaybeUninit;

/// Asks for huge pages behind memory that was allocated and not yet written: one fault instead of
/// 512. Only advice: whatever the system returns, the memory is the same.
pub(super) fn advise(memory: &mut [MaybeUninit<u8>]) {
    #[cfg(target_os = "linux")]
    linux::advise(memory);
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Has the system provide the pages of `memory` in one call instead of a fault for each: where
/// there are no huge pages, that is what fresh memory costs. Of what is written already nothing
/// changes.
pub(super) fn populate(memory: &mut [MaybeUninit<u8>]) {
    #[cfg(target_os = "linux")]
    linux::populate(memory);
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicBool, Ordering};

    const HUGE_PAGE: usize = 2 << 20;

    /// The largest page that Linux uses by default on any architecture.
    const PAGE: usize = 64 << 10;

    /// Older kernels than 5.14 don't know the call.
    static CAN_POPULATE: AtomicBool = AtomicBool::new(true);

    pub(super) fn advise(memory: &mut [MaybeUninit<u8>]) {
        give_advice(memory, HUGE_PAGE, libc::MADV_HUGEPAGE);
    }

    pub(super) fn populate(memory: &mut [MaybeUninit<u8>]) {
        if CAN_POPULATE.load(Ordering::Relaxed)
            && !give_advice(memory, PAGE, libc::MADV_POPULATE_WRITE)
        {
            CAN_POPULATE.store(false, Ordering::Relaxed);
        }
    }

    /// Gives advice about the part of `memory` that lies in whole pages of `page` bytes.
    fn give_advice(memory: &mut [MaybeUninit<u8>], page: usize, advice: libc::c_int) -> bool {
        let start = memory.as_mut_ptr();
        let skipped = start.addr().next_multiple_of(page) - start.addr();
        let bytes = memory.len().saturating_sub(skipped) / page * page;
        if bytes == 0 {
            return true;
        }
        // SAFETY: `skipped + bytes` is at most the length, so the range lies in memory that is
        // borrowed exclusively here; neither advice changes what is in it.
        unsafe { libc::madvise(start.add(skipped).cast(), bytes, advice) == 0 }
    }
}
