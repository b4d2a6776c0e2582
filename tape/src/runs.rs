//! A value for each byte of some memory, stored once per run of bytes that share it.

use std::ops::Range;

/// Sorted runs without gaps, from 0 to an end. There are nearly always one to three.
#[derive(Debug, Clone)]
pub(crate) struct Runs<V> {
    end: usize,
    /// The start of each run and its value; the first starts at 0. The values of neighbours differ.
    runs: Vec<(usize, V)>,
}

impl<V: Copy + PartialEq> Runs<V> {
    pub(crate) fn new(end: usize, value: V) -> Self {
        let mut runs = Vec::with_capacity(2);
        runs.push((0, value));
        Self { end, runs }
    }

    pub(crate) fn reset(&mut self, end: usize, value: V) {
        self.end = end;
        self.runs.clear();
        self.runs.push((0, value));
    }

    /// Returns the runs within `range`, cut to it.
    pub(crate) fn within(&self, range: Range<usize>) -> impl Iterator<Item = (Range<usize>, V)> {
        let first = self.runs.partition_point(|(start, _)| *start <= range.start).saturating_sub(1);
        let runs = self.runs.get(first..).unwrap_or_default();
        let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([self.end]);
        let (from, to) = (range.start, range.end.min(self.end));
        runs.iter()
            .zip(ends)
            .map(move |((start, value), end)| ((*start).max(from)..end.min(to), *value))
            .take_while(|(run, _)| run.start < run.end)
    }

    /// Returns whether some byte of `range` has a value that satisfies `passes`.
    pub(crate) fn any(&self, range: Range<usize>, passes: impl Fn(V) -> bool) -> bool {
        match self.runs.as_slice() {
            [(_, value)] => range.start < range.end.min(self.end) && passes(*value),
            _ => self.within(range).any(|(_, value)| passes(value)),
        }
    }

    /// Sets the value of all bytes of `range`.
    pub(crate) fn set(&mut self, range: Range<usize>, value: V) {
        let (start, end) = (range.start, range.end.min(self.end));
        if start >= end {
            return;
        }
        if start == 0 && end == self.end {
            self.runs.clear();
            self.runs.push((0, value));
            return;
        }
        if self.within(start..end).all(|(_, there)| there == value) {
            return;
        }
        let behind = (end < self.end)
            .then(|| self.within(end..end + 1).next().map(|(_, value)| value))
            .flatten();
        let first = self.runs.partition_point(|(at, _)| *at < start);
        let last = self.runs.partition_point(|(at, _)| *at <= end);
        let new = [Some((start, value)), behind.map(|behind| (end, behind))];
        self.runs.splice(first..last, new.into_iter().flatten());
        self.runs.dedup_by_key(|(_, value)| *value);
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;

    #[test]
    fn setting_ranges_equals_setting_each_byte() {
        let mut state = 12345u64;
        let mut below = |end: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        for _ in 0..200 {
            let end = 1 + below(30);
            let (mut runs, mut model) = (Runs::new(end, 0), vec![0; end]);
            for _ in 0..20 {
                let (a, b, value) = (below(34), below(34), below(3));
                let range = a.min(b)..a.max(b);
                runs.set(range.clone(), value);
                model
                    .iter_mut()
                    .enumerate()
                    .filter(|(i, _)| range.contains(i))
                    .for_each(|(_, v)| *v = value);
                let all: Vec<_> =
                    runs.within(0..end).flat_map(|(run, value)| run.map(move |_| value)).collect();
                assert_eq!(all, model);
                let part = below(end)..end;
                let some: Vec<_> =
                    runs.within(part.clone()).flat_map(|(run, v)| run.map(move |_| v)).collect();
                assert_eq!(some, model[part.clone()]);
                assert_eq!(runs.any(part.clone(), |v| v == 1), model[part].contains(&1));
                assert!(runs.runs.windows(2).all(|pair| pair[0].1 != pair[1].1));
            }
        }
    }
}
