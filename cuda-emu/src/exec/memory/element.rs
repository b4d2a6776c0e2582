//! Elements of device memory.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The element that a load or store moves for each lane.
pub(crate) trait Mem: 'static {
    const BYTES: u64;
    /// Loads, zero-extended or, for a signed element, sign-extended.
    ///
    /// # Safety
    /// The address is of live device memory and aligned to the element.
    unsafe fn load(address: u64) -> u64;
    /// Stores the lower bits.
    ///
    /// # Safety
    /// As for `load`.
    unsafe fn store(address: u64, value: u64);
}

macro_rules! mem {
    ($($name:ident: $t:ty, $atomic:ty, $extend:ty;)*) => { $(
        pub(crate) struct $name;
        impl Mem for $name {
            const BYTES: u64 = size_of::<$t>() as u64;
            #[inline(always)]
            unsafe fn load(address: u64) -> u64 {
                // SAFETY: the caller has checked that the element lies in a live region and is
                // aligned; all accesses of device memory are atomic, so that a race is not undefined.
                let cell = unsafe { <$atomic>::from_ptr(address as *mut $t) };
                cell.load(Ordering::Relaxed) as $extend as u64
            }
            #[inline(always)]
            unsafe fn store(address: u64, value: u64) {
                // SAFETY: as in `load`.
                let cell = unsafe { <$atomic>::from_ptr(address as *mut $t) };
                cell.store(value as $t, Ordering::Relaxed);
            }
        }
    )* };
}
mem! {
    U8: u8, AtomicU8, u8;
    U16: u16, AtomicU16, u16;
    U32: u32, AtomicU32, u32;
    U64: u64, AtomicU64, u64;
    S8: u8, AtomicU8, i8;
    S16: u16, AtomicU16, i16;
}

/// Loads an element of 1, 2, 4 or 8 bytes, zero-extended.
///
/// # Safety
/// As for [`Mem::load`].
pub(crate) unsafe fn load_bytes(address: u64, bytes: u64) -> u64 {
    // SAFETY: the caller's promise is the same.
    unsafe {
        match bytes {
            1 => U8::load(address),
            2 => U16::load(address),
            4 => U32::load(address),
            _ => U64::load(address),
        }
    }
}

/// Stores the lower bits to an element of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// As for [`Mem::load`].
pub(crate) unsafe fn store_bytes(address: u64, bytes: u64, value: u64) {
    // SAFETY: the caller's promise is the same.
    unsafe {
        match bytes {
            1 => U8::store(address, value),
            2 => U16::store(address, value),
            4 => U32::store(address, value),
            _ => U64::store(address, value),
        }
    }
}

/// Copies 128 (`N` = 1) or 256 (`N` = 2) bytes between device memory and registers.
///
/// # Safety
/// Both ranges are live memory, of which one is device memory; both are aligned to 4 bytes.
#[inline(always)]
pub(crate) unsafe fn copy_rows<const N: usize>(wide: bool, to: *mut u8, from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    if wide {
        for row in 0..N {
            // SAFETY: `wide` says that the host has AVX; the row lies within the caller's ranges.
            unsafe { copy_avx(to.add(row * 128), from.add(row * 128)) };
        }
        return;
    }
    let _ = wide;
    for at in (0..N * 128).step_by(4) {
        // SAFETY: within the caller's ranges, aligned to 4. One of the two is private to this
        // thread; the other is accessed atomically by everybody.
        unsafe {
            U32::store(
                to.add(at).expose_provenance() as u64,
                U32::load(from.add(at).expose_provenance() as u64),
            );
        }
    }
}

/// # Safety
/// The host has AVX; both ranges of 128 bytes are live memory.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_avx(to: *mut u8, from: *const u8) {
    // SAFETY: reads and writes the 128 bytes that the caller promises, and changes registers that
    // are declared. Assembly, because another thread may use the memory at the same time.
    unsafe {
        std::arch::asm!(
            "vmovdqu {a}, ymmword ptr [{from}]",
            "vmovdqu {b}, ymmword ptr [{from} + 32]",
            "vmovdqu {c}, ymmword ptr [{from} + 64]",
            "vmovdqu {d}, ymmword ptr [{from} + 96]",
            "vmovdqu ymmword ptr [{to}], {a}",
            "vmovdqu ymmword ptr [{to} + 32], {b}",
            "vmovdqu ymmword ptr [{to} + 64], {c}",
            "vmovdqu ymmword ptr [{to} + 96], {d}",
            from = in(reg) from,
            to = in(reg) to,
            a = out(ymm_reg) _,
            b = out(ymm_reg) _,
            c = out(ymm_reg) _,
            d = out(ymm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}
