//! Counts the blocks of memory that a thread asks for, and notes the largest.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // No destructor and a constant start: the allocator may use them at any time.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The allocator that notes sizes and numbers: `#[global_allocator] static METER: Meter = Meter;`.
#[derive(Debug)]
pub struct Meter;

fn note(size: usize) {
    LARGEST.set(LARGEST.get().max(size));
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call goes to the system's allocator as it came. The noted values are numbers without a drop, so they
// can be accessed as long as the thread runs, and noting them allocates nothing.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps what `alloc` asks of it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps what `alloc_zeroed` asks of it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block comes from the system's allocator with this layout, since all do.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the block comes from the system's allocator with this layout, since all do, and the caller
        // keeps what `realloc` asks of the size.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Returns the result, and the largest block that this thread allocated meanwhile, in bytes.
pub fn largest_block<T>(body: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let answer = body();
    (answer, LARGEST.get())
}

/// Returns how often this thread has allocated so far.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

#[cfg(test)]
#[global_allocator]
static METER: Meter = Meter;

#[test]
fn blocks_are_measured() {
    let (vec, largest) = largest_block(|| Vec::<u8>::with_capacity(12_345));
    assert_eq!((vec.capacity(), largest), (12_345, 12_345));
}

#[test]
fn allocations_are_counted() {
    let before = allocations();
    let mut vec = Vec::<u8>::with_capacity(10);
    assert_eq!(allocations() - before, 1);
    vec.reserve(1000);
    assert_eq!(allocations() - before, 2);
    let zeros = vec![0_u8; 100];
    drop((vec, zeros));
    assert_eq!(allocations() - before, 3);
}
