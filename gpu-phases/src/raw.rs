//! The unsafe code of this crate: elements as bytes, atomic cells over plain memory, and functions for FMA.
#![allow(unsafe_code, reason = "this is the module for it")]

mod windows;

use std::cell::UnsafeCell;
use std::fmt;

use crate::device::Device;

pub use windows::{Lane, Taken, TakenLanes, TakenPatches, Window, Windows};

/// Refuses, when the program is compiled, types whose layout is not defined. All others have no padding (`Device`).
const fn stored<T: Device>() {
    assert!(
        T::STORED,
        "tuples, `Option`s, enums with values and types without size cannot be arguments of kernels: use a structure"
    );
}

/// Returns the bytes of elements.
pub(crate) fn bytes<T: Device>(elements: &[T]) -> &[u8] {
    const { stored::<T>() }
    // SAFETY: the slice's memory is borrowed, and all its bytes are initialised, as there is no padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Returns the bytes of elements, to be written.
///
/// # Safety
/// The bytes are values of `T` when the borrow ends.
pub(crate) unsafe fn bytes_mut<T: Device>(elements: &mut [T]) -> &mut [u8] {
    const { stored::<T>() }
    // SAFETY: the slice's memory is borrowed exclusively, and all its bytes are initialised, as there is no padding. The
    // caller leaves values of `T` in it.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

/// Why bytes are no elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotElements {
    /// The type has no size, so that bytes do not have their number.
    Unsized,
    /// The length is no multiple of the element's size.
    Length,
    /// The address is no multiple of the element's alignment.
    Alignment,
    /// The element with this index is no value of its type.
    Invalid(usize),
}

fn fit<T: Device>(bytes: &[u8]) -> Result<usize, NotElements> {
    const { stored::<T>() }
    let size = size_of::<T>();
    if size == 0 {
        return Err(NotElements::Unsized);
    }
    if !bytes.len().is_multiple_of(size) {
        return Err(NotElements::Length);
    }
    if !bytes.as_ptr().cast::<T>().is_aligned() {
        return Err(NotElements::Alignment);
    }
    match bytes.chunks_exact(size).position(|element| !T::is_valid(element)) {
        Some(at) => Err(NotElements::Invalid(at)),
        None => Ok(bytes.len() / size),
    }
}

/// Returns the elements that bytes are.
pub(crate) fn elements<T: Device>(bytes: &[u8]) -> Result<&[T], NotElements> {
    let count = fit::<T>(bytes)?;
    // SAFETY: the memory is borrowed, aligned, and holds `count` values of `T`, as `fit` has tested.
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}

/// Returns the elements that bytes are, to be written.
pub(crate) fn elements_mut<T: Device>(bytes: &mut [u8]) -> Result<&mut [T], NotElements> {
    let count = fit::<T>(bytes)?;
    // SAFETY: the memory is borrowed exclusively, aligned, and holds `count` values of `T`, as `fit` has tested. All values
    // of `T` are bytes: there is no padding, which writes of elements would leave uninitialised.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), count) })
}

/// A number that threads can share.
///
/// # Safety
/// `Std` has the size, the alignment and the valid bytes of `Self`.
pub unsafe trait AtomicElement: Device {
    /// std's atomic type for it.
    #[doc(hidden)]
    type Std: Sync;
}

macro_rules! atomic_elements {
    ($($element:ident $std:ident),*) => {$(
        const _: () = assert!(align_of::<$element>() == align_of::<std::sync::atomic::$std>());

        // SAFETY: the atomic type has the same size as documented by std, the same alignment as asserted above, and any
        // bytes are valid for both.
        unsafe impl AtomicElement for $element {
            type Std = std::sync::atomic::$std;
        }
    )*};
}

atomic_elements!(u32 AtomicU32, i32 AtomicI32, f32 AtomicU32);
// On 32-bit x86, numbers of 64 bits are aligned to 4 bytes, and atomic ones to 8.
#[cfg(all(target_has_atomic = "64", not(target_arch = "x86")))]
atomic_elements!(u64 AtomicU64, i64 AtomicI64, f64 AtomicU64);

/// Elements that all threads of a kernel share: `&Atomic<[T]>`.
///
/// All operations are atomic and relaxed: they say nothing about the order of operations on other elements. The index of
/// each is checked.
#[repr(transparent)]
pub struct Atomic<T: ?Sized>(UnsafeCell<T>);

// SAFETY: the memory is accessed by atomic operations only.
unsafe impl<T: AtomicElement> Sync for Atomic<[T]> {}

impl<T: AtomicElement> Atomic<[T]> {
    /// Shares the elements of a slice while it is borrowed.
    #[must_use]
    pub fn from_mut(elements: &mut [T]) -> &Self {
        let pointer = std::ptr::from_mut(elements) as *const Self;
        // SAFETY: `Atomic` is a transparent wrapper of `UnsafeCell<[T]>`, which has the layout of `[T]`. The memory is
        // borrowed exclusively for the lifetime of the result, so nothing else accesses it.
        unsafe { &*pointer }
    }

    /// Returns the number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.get().len()
    }

    /// Returns whether there are no elements.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an element as std's atomic type, or `None` if the index is out of bounds.
    #[inline(always)]
    pub(crate) fn cell(&self, index: usize) -> Option<&T::Std> {
        if index >= self.len() {
            return None;
        }
        // SAFETY: the index is inside of the slice. `Std` has the layout of `T`, and both take any bytes (`AtomicElement`).
        // All accesses are atomic, as this is the only way to the memory while `self` is borrowed.
        Some(unsafe { &*self.0.get().cast::<T>().add(index).cast::<T::Std>() })
    }
}

impl<T: AtomicElement> fmt::Debug for Atomic<[T]> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Atomic").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A computation that [`with_fma`] compiles twice. `run` must be `#[inline(always)]`, which closures cannot be.
pub(crate) trait Task {
    fn run(self);
}

/// Runs a task, compiled for processors with FMA if this is one: there `mul_add` is an instruction, else a slow call.
#[inline(always)]
pub(crate) fn with_fma(task: impl Task) {
    #[cfg(all(target_arch = "x86_64", not(target_feature = "fma")))]
    {
        #[target_feature(enable = "avx2,fma")]
        fn fma(task: impl Task) {
            task.run();
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            // SAFETY: the processor has both features.
            return unsafe { fma(task) };
        }
    }
    task.run();
}
