//! Operations on elements that the threads of a kernel share.

use std::panic::Location;
#[cfg(all(target_has_atomic = "64", not(target_arch = "x86")))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cpu::raise;
use crate::fault::FaultKind;
use crate::raw::{Atomic, AtomicElement};

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

            integers!(@operations $element
                "Stores a value, and returns the one before." swap swap;
                "Adds, wrapping around, and returns the value before." fetch_add fetch_add;
                "Subtracts, wrapping around, and returns the value before." fetch_sub fetch_sub;
                "Stores the smaller value, and returns the one before." fetch_min fetch_min;
                "Stores the greater value, and returns the one before." fetch_max fetch_max;
                "Stores the bitwise and, and returns the value before." fetch_and fetch_and;
                "Stores the bitwise or, and returns the value before." fetch_or fetch_or;
                "Stores the bitwise exclusive or, and returns the value before." fetch_xor fetch_xor;
            );
        }
    )*};
    (@operations $element:ident $($doc:literal $name:ident $std:ident;)*) => {$(
        #[doc = $doc]
        #[inline(always)]
        #[track_caller]
        pub fn $name(&self, index: usize, value: $element) -> $element {
            self.at(index).$std(value, Ordering::Relaxed)
        }
    )*};
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
    )*};
}

integers!(u32 i32);
floats!(f32 AtomicU32);
#[cfg(all(target_has_atomic = "64", not(target_arch = "x86")))]
integers!(u64 i64);
#[cfg(all(target_has_atomic = "64", not(target_arch = "x86")))]
floats!(f64 AtomicU64);
