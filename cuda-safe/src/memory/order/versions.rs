//! The number of the newest write for each range of an allocation, by which code detects that data computed from it is
//! out of date.

use std::ops::Range;

use super::ranges::Ranges;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Lock, Once};

/// Numbers all writes of the process: of two writes, of the same memory or not, the later one has
/// the greater number.
///
/// Relaxed is enough: code that knows the order of two writes has synchronized with the first, and the values of one
/// atomic never go back.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Takes the numbers of `writes` writes, and says the first.
#[inline]
pub(crate) fn number_writes(writes: u64) -> u64 {
    CLOCK.fetch_add(writes, Ordering::Relaxed) + 1
}

/// Numbers of writes: one of those that covered the whole allocation, and a map of the others, which the first of them
/// makes. The number of a range is the greatest of both.
///
/// Two writes of the whole allocation by work are never concurrent: both borrow the same bytes exclusively, or take the
/// context's graph lock. [`note`](Self::note) does neither, so its writes go to the map, whatever they cover.
#[derive(Default)]
pub(crate) struct Versions {
    whole: AtomicU64,
    parts: Once<Box<Lock<Parts>>>,
}

/// The numbers of ranges.
struct Parts {
    ranges: Ranges<u64>,
    /// The number of the newest write of everything that the ranges know.
    whole: u64,
}

impl Versions {
    /// Numbers a write of `range`, of an allocation of `bytes` bytes, by work that is about to be enqueued.
    #[inline]
    pub(crate) fn bump(&self, range: Range<usize>, bytes: usize) {
        if !range.is_empty() {
            self.raise(range, bytes, number_writes(1));
        }
    }

    /// As [`bump`](Self::bump), for a write that the caller reports while others may write.
    pub(crate) fn note(&self, range: Range<usize>, bytes: usize) {
        if !range.is_empty() {
            self.raise_partial(range, bytes, number_writes(1));
        }
    }

    /// Forgets all writes.
    #[inline]
    pub(crate) fn reset(&mut self) {
        *self.whole.get_mut() = 0;
        if self.parts.get().is_some() {
            self.parts = Once::new();
        }
    }

    /// Notes a write that has a number.
    #[inline]
    pub(crate) fn raise(&self, range: Range<usize>, bytes: usize, version: u64) {
        if range.start == 0 && range.end == bytes {
            self.whole.store(version, Ordering::Release);
        } else {
            self.raise_partial(range, bytes, version);
        }
    }

    #[cold]
    fn raise_partial(&self, range: Range<usize>, bytes: usize, version: u64) {
        let none = || Parts { ranges: Ranges::new(bytes, 0), whole: 0 };
        let parts = self.parts.get_or_init(|| Box::new(Lock::new(none())));
        let Ok(Ok(mut parts)) = parts.map(|parts| parts.lock()) else { return };
        let whole = self.whole.load(Ordering::Acquire);
        if whole > parts.whole {
            // Ranges with older numbers become one again.
            parts.whole = whole;
            parts.ranges.update(0..bytes, |old| *old = whole.max(*old));
        }
        // The versions of a graph's launch come in any order.
        parts.ranges.update(range, |old| *old = version.max(*old));
    }

    /// Returns the number of the newest write of any byte in `range`; 0 before the first, and the greatest number where
    /// the lock can't be waited for: then what was computed from the memory counts as out of date.
    pub(crate) fn of(&self, range: Range<usize>) -> u64 {
        let mut newest = self.whole.load(Ordering::Acquire);
        let Some(parts) = self.parts.get() else { return newest };
        let Ok(parts) = parts.lock() else { return u64::MAX };
        let _ = parts.ranges.for_each(range, |version| {
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
    fn later_writes_have_greater_numbers_in_any_allocation() {
        let (one, other) = (Versions::default(), Versions::default());
        assert_eq!(one.of(0..100), 0);
        let mut last = 0;
        for range in [0..100, 0..100, 3..5, 0..100, 99..100] {
            one.bump(range.clone(), 100);
            assert!(one.of(range.clone()) > last);
            other.bump(range.clone(), 100);
            assert!(other.of(range.clone()) > one.of(range.clone()));
            last = other.of(range);
        }
        one.bump(7..7, 100);
        assert!(one.of(0..100) < last, "nothing was written");
    }

    #[test]
    fn writes_of_one_launch_come_in_any_order() {
        let versions = Versions::default();
        let first = super::number_writes(2);
        versions.raise(0..60, 100, first + 1);
        versions.raise(40..100, 100, first);
        assert_eq!(
            [0..40, 40..60, 60..100].map(|range| versions.of(range)),
            [first + 1, first + 1, first]
        );
    }

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
        let all = versions.of(0..100);
        versions.note(0..100, 100);
        assert!(versions.of(0..1) > all && versions.of(99..100) > all);
    }
}
