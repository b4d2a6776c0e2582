//! Operations on elements that the threads of a kernel share.

use std::panic::Location;
#[cfg(all(target_has_atomic = "64", not(target_arch = "x86")))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cpu::raise;
use crate::fault::FaultKind;
use crate::raw::{Atomic, AtomicElement};

/// Elements of a shared array for atomic operations of the threads of a block: `tile.atomic()`.
///
/// The operations are those of [`Atomic`]. On the CPU one thread runs the threads of a block one after the other, so an
/// operation is a load and a store.
#[derive(Debug, Clone, Copy)]
pub struct SharedAtomic<'a, T: AtomicElement>(&'a Atomic<[T]>);

impl<'a, T: AtomicElement> SharedAtomic<'a, T> {
    #[inline(always)]
    pub(crate) fn new(elements: &'a mut [T]) -> Self {
        Self(Atomic::from_mut(elements))
    }

    /// Returns the number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no elements.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: AtomicElement> Atomic<[T]> {
    #[inline(always)]
    #[track_caller]
    fn at(&self, index: usize) -> &T::Std {
        match self.cell(index) {
            Some(cell) => cell,
            None => {
                let caller = Location::caller();
                raise::fault(
                    FaultKind::Index,
                    caller.line(),
                    index as u64,
                    self.len() as u64,
                    caller,
                )
            }
        }
    }
}

macro_rules! integers {
    ($($element:ident)*) => {$(
        impl Atomic<[$element]> {
            /// Returns an element's value.
            #[inline(always)]
            #[track_caller]
            #[must_use]
            pub fn load(&self, index: usize) -> $element {
                self.at(index).load(Ordering::Relaxed)
            }

            /// Stores a value.
            #[inline(always)]
            #[track_caller]
            pub fn store(&self, index: usize, value: $element) {
                self.at(index).store(value, Ordering::Relaxed);
            }

            /// Stores `new` if the element equals `current`. Returns the old value, which equals `current` if `new`
            /// was stored.
            #[inline(always)]
            #[track_caller]
            pub fn compare_exchange(&self, index: usize, current: $element, new: $element) -> $element {
                let result = self.at(index).compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed);
                result.unwrap_or_else(|before| before)
            }
        }

        in_turn!($element);

        impl SharedAtomic<'_, $element> {
            /// Stores `new` if the element equals `current`. Returns the old value, which equals `current` if `new`
            /// was stored.
            #[inline(always)]
            #[track_caller]
            pub fn compare_exchange(&self, index: usize, current: $element, new: $element) -> $element {
                self.update(index, |before| if before == current { new } else { before })
            }
        }

        integers! { @operations $element
            "Stores a value, and returns the one before." swap |_, value| value;
            "Adds, wrapping around, and returns the value before." fetch_add |a, b| a.wrapping_add(b);
            "Subtracts, wrapping around, and returns the value before." fetch_sub |a, b| a.wrapping_sub(b);
            "Stores the smaller value, and returns the one before." fetch_min |a, b| a.min(b);
            "Stores the greater value, and returns the one before." fetch_max |a, b| a.max(b);
            "Stores the bitwise and, and returns the value before." fetch_and |a, b| a & b;
            "Stores the bitwise or, and returns the value before." fetch_or |a, b| a | b;
            "Stores the bitwise exclusive or, and returns the value before." fetch_xor |a, b| a ^ b;
        }
    )*};
    (@operations $element:ident $($doc:literal $name:ident |$a:pat_param, $b:ident| $result:expr;)*) => {$(
        impl Atomic<[$element]> {
            #[doc = $doc]
            #[inline(always)]
            #[track_caller]
            pub fn $name(&self, index: usize, value: $element) -> $element {
                self.at(index).$name(value, Ordering::Relaxed)
            }
        }

        impl SharedAtomic<'_, $element> {
            #[doc = $doc]
            #[inline(always)]
            #[track_caller]
            pub fn $name(&self, index: usize, $b: $element) -> $element {
                self.update(index, |$a| $result)
            }
        }
    )*};
}

/// Operations of [`SharedAtomic`] by those of [`Atomic`] that need no instruction of their own.
macro_rules! in_turn {
    ($element:ident) => {
        impl SharedAtomic<'_, $element> {
            /// Returns an element's value.
            #[inline(always)]
            #[track_caller]
            #[must_use]
            pub fn load(&self, index: usize) -> $element {
                self.0.load(index)
            }

            /// Stores a value.
            #[inline(always)]
            #[track_caller]
            pub fn store(&self, index: usize, value: $element) {
                self.0.store(index, value);
            }

            #[inline(always)]
            #[track_caller]
            fn update(&self, index: usize, f: impl FnOnce($element) -> $element) -> $element {
                let before = self.0.load(index);
                self.0.store(index, f(before));
                before
            }
        }
    };
}

macro_rules! floats {
    ($($element:ident $std:ident)*) => {$(
        impl Atomic<[$element]> {
            /// Returns an element's value.
            #[inline(always)]
            #[track_caller]
            #[must_use]
            pub fn load(&self, index: usize) -> $element {
                $element::from_bits(self.at(index).load(Ordering::Relaxed))
            }

            /// Stores a value.
            #[inline(always)]
            #[track_caller]
            pub fn store(&self, index: usize, value: $element) {
                self.at(index).store(value.to_bits(), Ordering::Relaxed);
            }

            /// Stores a value, and returns the old one.
            #[inline(always)]
            #[track_caller]
            pub fn swap(&self, index: usize, value: $element) -> $element {
                $element::from_bits(self.at(index).swap(value.to_bits(), Ordering::Relaxed))
            }

            /// Adds, and returns the old value.
            ///
            /// Not deterministic: sums of floats depend on the order of the additions, which differs from run to run.
            #[inline(always)]
            #[track_caller]
            pub fn fetch_add(&self, index: usize, value: $element) -> $element {
                let cell: &$std = self.at(index);
                let mut before = cell.load(Ordering::Relaxed);
                loop {
                    let sum = $element::from_bits(before) + value;
                    let result = cell.compare_exchange_weak(
                        before, sum.to_bits(), Ordering::Relaxed, Ordering::Relaxed,
                    );
                    match result {
                        Ok(before) => return $element::from_bits(before),
                        Err(now) => before = now,
                    }
                }
            }
        }

        in_turn!($element);

        impl SharedAtomic<'_, $element> {
            /// Stores a value, and returns the old one.
            #[inline(always)]
            #[track_caller]
            pub fn swap(&self, index: usize, value: $element) -> $element {
                self.update(index, |_| value)
            }

            /// Adds, and returns the old value.
            ///
            /// Not deterministic on a device: sums of floats depend on the order of the additions.
            #[inline(always)]
            #[track_caller]
            pub fn fetch_add(&self, index: usize, value: $element) -> $element {
                self.update(index, |before| before + value)
            }
        }
    )*};
}

integers!(u32 i32);
floats!(f32 AtomicU32);
#[cfg(all(target_has_atomic = "64", not(target_arch = "x86")))]
integers!(u64 i64);
#[cfg(all(target_has_atomic = "64", not(target_arch = "x86")))]
floats!(f64 AtomicU64);
