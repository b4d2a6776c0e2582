//! The memory that a graph uses, counted, so that a node whose arguments change can drop its uses. The order of uses
//! gives the versions of a launch's writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::{ContextGraphLock, ContextInner};
use crate::error::Result;
use crate::memory::{Access, Accesses, Allocation, Enqueue, Used, number_writes};

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
    fn new((allocation, range, access): &Used<'_>) -> Self {
        Self {
            // The entry holds the allocation, so no other one can have its address.
            allocation: Arc::as_ptr(allocation).addr(),
            start: range.start,
            end: range.end,
            writes: *access == Access::Write,
        }
    }

    /// Returns whether a use by this key is no more than one by the other.
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
    /// Which of all uses its last one was.
    order: u64,
}

/// All uses of a graph.
#[derive(Clone, Default)]
pub(crate) struct Uses {
    entries: BTreeMap<Key, Entry>,
    last: u64,
}

impl Uses {
    /// Counts a use, which comes after all others.
    pub(crate) fn add(&mut self, used: &Used<'_>) -> Key {
        self.last += 1;
        self.add_at(self.last, used)
    }

    /// Counts a use by something that has its place among the others.
    pub(crate) fn add_at(&mut self, order: u64, used: &Used<'_>) -> Key {
        let key = Key::new(used);
        self.count(key, used.0, 1, order);
        key
    }

    fn count(&mut self, key: Key, allocation: &Arc<Allocation>, count: usize, order: u64) {
        let none = || Entry { allocation: allocation.clone(), count: 0, order };
        let entry = self.entries.entry(key).or_insert_with(none);
        entry.count += count;
        entry.order = entry.order.max(order);
    }

    /// Returns the place of the newest use.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Takes a use back. The last one's allocation is given back, to be dropped where no lock is
    /// held.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Allocation>> {
        let entry = self.entries.get_mut(key)?;
        entry.count -= 1;
        if entry.count > 0 {
            return None;
        }
        self.entries.remove(key).map(|entry| entry.allocation)
    }

    /// Adds all of another graph's.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (key, entry) in &other.entries {
            self.count(*key, &entry.allocation, entry.count, self.last + entry.order);
        }
        self.last += other.last;
    }

    /// Returns whether a use would conflict with one that is counted, other than those of `own`. Ranges that `own` has
    /// used already cause no new conflict.
    pub(crate) fn conflict(&self, used: &Used<'_>, own: &[Key]) -> bool {
        let key = Key::new(used);
        if own.iter().any(|mine| key.is_within(mine)) {
            return false;
        }
        let all = Key { start: 0, end: 0, writes: false, ..key };
        self.entries
            .range(all..)
            .take_while(|(other, _)| other.allocation == key.allocation)
            .filter(|(other, _)| other.conflicts_with(&key))
            .any(|(other, entry)| entry.count > own.iter().filter(|mine| *mine == other).count())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns each use, with its place among them as they were recorded: at most [`last`](Self::last).
    fn numbered(&self) -> impl Iterator<Item = (Used<'_>, u64)> {
        self.entries.iter().map(|(key, entry)| {
            let access = if key.writes { Access::Write } else { Access::Read };
            ((&entry.allocation, key.start..key.end, access), entry.order)
        })
    }

    /// Returns the graph locks of the contexts of the memory, but for `own`. Some may be there more than once.
    pub(crate) fn locks_besides<'a>(
        &'a self,
        own: &'a Arc<ContextInner>,
    ) -> impl Iterator<Item = &'a ContextGraphLock> {
        let contexts =
            self.entries.values().map(|entry| &entry.allocation.home_stream().inner().context);
        let mut last = own;
        contexts
            // Entries of one context are often consecutive.
            .filter(move |context| {
                let new = !Arc::ptr_eq(context, own) && !Arc::ptr_eq(context, last);
                last = context;
                new
            })
            .map(|context| &context.graph_lock)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Used<'_>> {
        self.numbered().map(|(used, _)| used)
    }

    /// As they were recorded: for another recording.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = Used<'_>> {
        let mut all: Vec<_> = self.numbered().collect();
        all.sort_unstable_by_key(|(_, order)| *order);
        all.into_iter().map(|(used, _)| used)
    }
}

impl Accesses for Uses {
    fn order<'a>(&self, enqueuing: &mut impl Enqueue<'a>) -> Result<()> {
        self.iter().try_for_each(|used| enqueuing.begin_use(used))
    }

    /// Records the uses of a launch of the graph, or of a node that runs a copy of it.
    fn record<'a>(&self, enqueuing: &mut impl Enqueue<'a>, sequence: u64) -> Result<()> {
        if enqueuing.recording().is_some() {
            self.in_order().for_each(|used| enqueuing.end_use(used, sequence));
            return Ok(());
        }
        // The numbers of writes are in the order of the recording, and the uses are not.
        let (stream, first) = (enqueuing.stream(), number_writes(self.last + 1));
        for ((allocation, range, access), order) in self.numbered() {
            allocation.end_numbered_use(stream, range, access, sequence, first + order);
        }
        Ok(())
    }
}
