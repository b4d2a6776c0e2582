//! Which memory a graph uses, counted: a node whose arguments change lets go of what it used.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::memory::{Access, Allocation};

/// One use: an allocation by its place on the heap, a range of its bytes, and whether they may be
/// written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    allocation: usize,
    start: usize,
    end: usize,
    writes: bool,
}

impl Key {
    fn new(allocation: &Arc<Allocation>, range: &Range<usize>, access: Access) -> Self {
        Self {
            // The entry holds the allocation, so no other can come to lie there.
            allocation: Arc::as_ptr(allocation).addr(),
            start: range.start,
            end: range.end,
            writes: access == Access::Write,
        }
    }

    /// Whether a use by this key is no more than one by the other.
    fn is_within(&self, other: &Self) -> bool {
        self.allocation == other.allocation
            && other.start <= self.start
            && self.end <= other.end
            && (other.writes || !self.writes)
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        self.allocation == other.allocation
            && self.start < other.end
            && other.start < self.end
            && (self.writes || other.writes)
    }
}

#[derive(Clone)]
struct Entry {
    allocation: Arc<Allocation>,
    count: usize,
}

/// All uses of a graph.
#[derive(Clone, Default)]
pub(crate) struct Uses(BTreeMap<Key, Entry>);

impl Uses {
    /// Counts a use.
    pub(crate) fn add(
        &mut self,
        allocation: &Arc<Allocation>,
        range: &Range<usize>,
        access: Access,
    ) -> Key {
        let key = Key::new(allocation, range, access);
        self.0
            .entry(key)
            .or_insert_with(|| Entry { allocation: allocation.clone(), count: 0 })
            .count += 1;
        key
    }

    /// Takes a use back. The last one's allocation is given back, to be dropped where no lock is
    /// held.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Allocation>> {
        let entry = self.0.get_mut(key)?;
        entry.count -= 1;
        if entry.count > 0 {
            return None;
        }
        self.0.remove(key).map(|entry| entry.allocation)
    }

    /// Adds all of another graph's.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (key, entry) in &other.0 {
            self.0
                .entry(*key)
                .or_insert_with(|| Entry { allocation: entry.allocation.clone(), count: 0 })
                .count += entry.count;
        }
    }

    /// Whether a use would conflict with one that is counted, other than those of `own`. What `own`
    /// has used already conflicts with nothing anew.
    pub(crate) fn conflict(
        &self,
        allocation: &Arc<Allocation>,
        range: &Range<usize>,
        access: Access,
        own: &[Key],
    ) -> bool {
        let key = Key::new(allocation, range, access);
        if own.iter().any(|mine| key.is_within(mine)) {
            return false;
        }
        let all = Key { start: 0, end: 0, writes: false, ..key };
        self.0
            .range(all..)
            .take_while(|(other, _)| other.allocation == key.allocation)
            .filter(|(other, _)| other.conflicts_with(&key))
            .any(|(other, entry)| entry.count > own.iter().filter(|mine| *mine == other).count())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<Allocation>, Range<usize>, Access)> {
        self.0.iter().map(|(key, entry)| {
            let access = if key.writes { Access::Write } else { Access::Read };
            (&entry.allocation, key.start..key.end, access)
        })
    }
}
