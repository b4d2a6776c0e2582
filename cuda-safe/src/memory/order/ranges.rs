//! A value for every byte of an allocation, stored once per run of bytes that share it.

use std::ops::Range;

/// A map from `0..end` to values, as sorted runs that cover it without gaps.
#[derive(Debug, Clone)]
pub(crate) struct Ranges<V> {
    end: usize,
    /// Start and value of each run; the first starts at 0, starts increase, neighbours differ.
    runs: Vec<(usize, V)>,
}

impl<V: Clone + PartialEq> Ranges<V> {
    pub(crate) fn new(end: usize, value: V) -> Self {
        Self { end, runs: vec![(0, value)] }
    }

    /// Calls `f` with the value of each run that overlaps `range`. An empty range overlaps none.
    pub(crate) fn for_each<E>(
        &self,
        range: Range<usize>,
        mut f: impl FnMut(&V) -> Result<(), E>,
    ) -> Result<(), E> {
        if range.start < range.end {
            let first = self.runs.partition_point(|(start, _)| *start <= range.start) - 1;
            for (start, value) in &self.runs[first..] {
                if *start >= range.end {
                    break;
                }
                f(value)?;
            }
        }
        Ok(())
    }

    /// Changes the value of exactly the bytes in `range`.
    pub(crate) fn update(&mut self, range: Range<usize>, mut f: impl FnMut(&mut V)) {
        let range = range.start..range.end.min(self.end);
        if range.start >= range.end {
            return;
        }
        let first = self.split(range.start);
        let last = self.split(range.end);
        for (_, value) in &mut self.runs[first..last] {
            f(value);
        }
        // Only the changed runs and their neighbours can have become equal.
        let from = first.saturating_sub(1);
        let to = (last + 1).min(self.runs.len());
        for index in (from + 1..to).rev() {
            if self.runs[index].1 == self.runs[index - 1].1 {
                self.runs.remove(index);
            }
        }
    }

    /// Makes a run start at `at` and says which; `runs.len()` for the end.
    fn split(&mut self, at: usize) -> usize {
        if at >= self.end {
            return self.runs.len();
        }
        let after = self.runs.partition_point(|(start, _)| *start <= at);
        if self.runs[after - 1].0 == at {
            return after - 1;
        }
        let value = self.runs[after - 1].1.clone();
        self.runs.insert(after, (at, value));
        after
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;
    use proptest::prelude::*;

    fn expand(ranges: &Ranges<u32>, end: usize) -> Vec<u32> {
        (0..end)
            .map(|byte| {
                let mut found = Vec::new();
                let _ = ranges.for_each(byte..byte + 1, |value| {
                    found.push(*value);
                    Ok::<(), ()>(())
                });
                assert_eq!(found.len(), 1, "each byte lies in exactly one run");
                found[0]
            })
            .collect()
    }

    proptest! {
        #[test]
        fn update_equals_updating_each_byte(
            end in 1usize..40,
            updates in prop::collection::vec((0usize..48, 0usize..48, 0u32..3), 0..30),
        ) {
            let mut ranges = Ranges::new(end, 0);
            let mut model = vec![0; end];
            for (a, b, value) in updates {
                let range = a.min(b)..a.max(b);
                ranges.update(range.clone(), |old| *old = *old / 2 + value);
                for byte in range {
                    if let Some(old) = model.get_mut(byte) {
                        *old = *old / 2 + value;
                    }
                }
                prop_assert_eq!(&expand(&ranges, end), &model);
                for pair in ranges.runs.windows(2) {
                    prop_assert!(pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1);
                }
            }
        }
    }

    #[test]
    fn empty_ranges_touch_nothing() {
        let mut ranges = Ranges::new(8, 1);
        ranges.update(3..3, |value| *value = 9);
        ranges.update(8..20, |value| *value = 9);
        assert_eq!(expand(&ranges, 8), [1; 8]);
        let visited = ranges.for_each(4..4, |_| Err(()));
        assert_eq!(visited, Ok(()));
    }
}
