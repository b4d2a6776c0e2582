//! A counter of writes for each range of an allocation, so that whoever saved something computed
//! from it can tell whether it still holds.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::ranges::Ranges;

/// Write counters. While all writes covered the whole allocation one atomic counter says it all;
/// the first partial write starts a map of ranges.
///
/// A whole write and the first partial one are never concurrent: both borrow the same bytes
/// exclusively.
#[derive(Debug, Default)]
pub(super) struct Versions {
    clock: AtomicU64,
    ranges: OnceLock<Box<Mutex<Ranges<u64>>>>,
}

impl Versions {
    /// Counts a write of `range`, of an allocation of `bytes` bytes.
    #[inline]
    pub(super) fn bump(&self, range: Range<usize>, bytes: usize) {
        if range.is_empty() {
            return;
        }
        if range.start == 0 && range.end == bytes && self.ranges.get().is_none() {
            self.clock.fetch_add(1, Ordering::AcqRel);
        } else {
            self.bump_partial(range, bytes);
        }
    }

    #[cold]
    fn bump_partial(&self, range: Range<usize>, bytes: usize) {
        let ranges = self.ranges.get_or_init(|| {
            Box::new(Mutex::new(Ranges::new(bytes, self.clock.load(Ordering::Acquire))))
        });
        let mut ranges = ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        ranges.update(range, |old| *old = version);
    }

    /// The newest version of any byte in `range`: it grows with each write that touches it.
    pub(super) fn of(&self, range: Range<usize>) -> u64 {
        let Some(ranges) = self.ranges.get() else { return self.clock.load(Ordering::Acquire) };
        let ranges = ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest = 0;
        let _ = ranges.for_each(range, |version| {
            newest = newest.max(*version);
            Ok::<(), std::convert::Infallible>(())
        });
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn only_ranges_that_a_write_touches_change() {
        let versions = Versions::default();
        versions.bump(0..100, 100);
        let before = versions.of(0..100);
        versions.bump(0..50, 100);
        assert_eq!(versions.of(50..100), before);
        let low = versions.of(0..50);
        assert!(low > before);
        versions.bump(50..100, 100);
        assert_eq!(versions.of(0..50), low);
        assert!(versions.of(0..100) > low);
        versions.bump(0..100, 100);
        assert!(versions.of(0..1) > low && versions.of(99..100) > low);
    }
}
