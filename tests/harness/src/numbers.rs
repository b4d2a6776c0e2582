//! The numbers that tests have compared within a tolerance, for those who run a test again and want
//! the same bits.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

static NUMBERS: Mutex<u64> = Mutex::new(0);

/// Takes note of what a test got from the device.
pub fn note_numbers(bits: impl Iterator<Item = u64>) {
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hasher = DefaultHasher::new();
    numbers.hash(&mut hasher);
    bits.for_each(|bits| bits.hash(&mut hasher));
    *numbers = hasher.finish();
}

/// A hash over all that was noted since the last call.
pub fn take_numbers() -> u64 {
    std::mem::take(&mut NUMBERS.lock().unwrap_or_else(PoisonError::into_inner))
}
