//! The clocks of the threads of a block, and their publication.

use std::collections::HashMap;

use super::clock::{Clock, Place, WIDE};
use super::shadow::Access;
use crate::exec::inst::{LANES, lanes};

/// The clocks published at each address by the last writer, or by arrivals at an `mbarrier`.
pub(crate) type Published = HashMap<u64, Clock>;

/// A thread's clock, and the clocks that it may publish.
#[derive(Debug, Clone, Default)]
struct Thread {
    clock: Clock,
    /// Its clock at its last fence, and its counter then: its next strong write publishes them.
    fenced: Option<(Clock, u32)>,
    /// The clocks that its strong reads have seen since: its next fence acquires them.
    seen: Option<Clock>,
    /// The counters of its groups of asynchronous copies that are not known to be done.
    groups: Vec<u32>,
}

/// The clocks of a block's threads.
///
/// Asynchronous copies are accesses of other threads, which start with the clock of the issuing thread, and are unknown
/// to all threads until they are waited for. Those of a warp have the warp's number plus the number of the block's
/// warps.
#[derive(Debug)]
pub(crate) struct Clocks {
    block: u64,
    warps: u32,
    /// The levels of the tree.
    levels: u32,
    /// The counter of each warp, from 1, and of its copies.
    counters: Vec<u32>,
    threads: Vec<Thread>,
}

impl Clocks {
    /// Returns the clocks of a block of so many warps, in a launch of so many blocks.
    pub(crate) fn new((block, blocks): (u64, u64), warps: u32) -> Self {
        let all = blocks.saturating_mul(u64::from(warps) * 2);
        Self {
            block,
            warps,
            levels: all.saturating_sub(1).checked_ilog(WIDE as u64).map_or(0, |log| log + 1),
            counters: vec![1; warps as usize * 2],
            threads: vec![Thread::default(); warps as usize * LANES],
        }
    }

    /// Returns the place of a warp of a block.
    fn place(&self, block: u64, warp: u32) -> Place {
        let number = block.saturating_mul(u64::from(self.warps) * 2) + u64::from(warp);
        Place { number, levels: self.levels }
    }

    fn thread(&mut self, warp: u32, lane: usize) -> Option<&mut Thread> {
        self.threads.get_mut(warp as usize * LANES + lane)
    }

    /// Returns the block's number.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Returns the warp number of a warp's asynchronous copies.
    pub(crate) fn copies(&self, warp: u32) -> u32 {
        warp + self.warps
    }

    /// Returns the stamp of an access of this warp now.
    pub(crate) fn stamp(&self, warp: u32) -> u32 {
        self.counters.get(warp as usize).copied().unwrap_or(1)
    }

    fn tick(&mut self, warp: u32) -> u32 {
        let Some(counter) = self.counters.get_mut(warp as usize) else { return 1 };
        let now = *counter;
        *counter = counter.saturating_add(1);
        now
    }

    /// Returns whether an access comes after what another thread, of `lane`, did.
    pub(crate) fn follows(&self, new: &Access, old: &Access, lane: u32) -> bool {
        let me = new.lanes.trailing_zeros();
        // A copy knows what its thread does, but not the other way round.
        let (warp, copies) = (new.warp % self.warps, new.warp >= self.warps);
        if old.block == self.block
            && lane == me
            && (old.warp == new.warp || copies && old.warp == warp)
        {
            return true;
        }
        let Some(thread) = self.threads.get(warp as usize * LANES + me as usize) else {
            return false;
        };
        let place = self.place(old.block, old.warp);
        let known = |clock: &Clock| clock.known(place, lane) >= old.counter;
        // A strong read is ordered after the write that it sees, whether or not a fence uses that.
        known(&thread.clock) || new.how.strong && thread.seen.as_ref().is_some_and(known)
    }

    /// Returns the lanes of an access that a clock does not know of.
    pub(crate) fn unknown(&self, clock: &Clock, access: &Access) -> u32 {
        let place = self.place(access.block, access.warp);
        let unknown = |&lane: &usize| clock.known(place, lane as u32) < access.counter;
        lanes(access.lanes).filter(unknown).fold(0, |all, lane| all | 1 << lane)
    }

    /// Publishes the lanes' accesses and clocks. Their next accesses are not included.
    pub(crate) fn release(&mut self, into: &mut Clock, warp: u32, mask: u32) {
        for lane in lanes(mask) {
            let Some(thread) = self.threads.get(warp as usize * LANES + lane) else { return };
            into.join(&thread.clock);
        }
        let counter = self.tick(warp);
        into.raise(self.place(self.block, warp), mask, counter);
    }

    /// Lanes arrive at a barrier: the clocks that their strong reads have seen are published with the rest.
    pub(crate) fn arrive(&mut self, into: &mut Clock, warp: u32, mask: u32) {
        for lane in lanes(mask) {
            if let Some(thread) = self.thread(warp, lane) {
                thread.settle();
            }
        }
        self.release(into, warp, mask);
    }

    /// Lanes merge the published clock, and those that their strong reads have seen.
    pub(crate) fn acquire(&mut self, from: &Clock, warp: u32, mask: u32) {
        // Lanes with equal clocks get equal clocks again.
        let mut last: Option<(Clock, Clock)> = None;
        for lane in lanes(mask) {
            let Some(thread) = self.thread(warp, lane) else { return };
            thread.settle();
            let joined = match &last {
                Some((before, after)) if before.is(&thread.clock) => after.clone(),
                _ => {
                    let mut joined = thread.clock.clone();
                    joined.join(from);
                    joined
                }
            };
            let before = std::mem::replace(&mut thread.clock, joined.clone());
            last = Some((before, joined));
        }
    }

    /// Lanes of several warps meet: each then knows what all have done.
    pub(crate) fn meet(&mut self, who: &[(u32, u32)]) {
        let mut all = Clock::default();
        for &(warp, mask) in who {
            self.arrive(&mut all, warp, mask);
        }
        for &(warp, mask) in who {
            self.acquire(&all, warp, mask);
        }
    }

    /// Lanes come to a fence: it makes known what they have seen, and what they have done so far is
    /// handed on by what they write next.
    pub(crate) fn fence(&mut self, warp: u32, mask: u32) {
        let counter = self.tick(warp);
        for lane in lanes(mask) {
            let Some(thread) = self.thread(warp, lane) else { return };
            thread.settle();
            thread.fenced = Some((thread.clock.clone(), counter));
        }
    }

    /// A lane reads strongly what another may have published.
    pub(crate) fn read(
        &mut self,
        published: &Published,
        at: u64,
        (warp, lane): (u32, usize),
        acquire: bool,
    ) {
        let Some(found) = published.get(&at) else { return };
        if acquire {
            return self.acquire(found, warp, 1 << lane);
        }
        let Some(thread) = self.thread(warp, lane) else { return };
        thread.seen.get_or_insert_default().join(found);
    }

    /// Notes a strong write of a lane: as a release, or after a fence, it publishes the lane's clock. Clocks published
    /// there before stay only if the lane also reads the address.
    pub(crate) fn write(
        &mut self,
        published: &mut Published,
        at: u64,
        (warp, lane): (u32, usize),
        (release, reads): (bool, bool),
    ) {
        if !reads && let Some(old) = published.get_mut(&at) {
            *old = Clock::default();
        }
        if release {
            return self.release(published.entry(at).or_default(), warp, 1 << lane);
        }
        let place = self.place(self.block, warp);
        let Some(thread) = self.thread(warp, lane) else { return };
        if let Some((clock, counter)) = &thread.fenced {
            let into = published.entry(at).or_default();
            into.join(clock);
            into.raise(place, 1 << lane, *counter);
        }
    }

    /// Lanes end a group of asynchronous copies.
    pub(crate) fn commit(&mut self, warp: u32, mask: u32) {
        let counter = self.tick(self.copies(warp));
        for lane in lanes(mask) {
            if let Some(thread) = self.thread(warp, lane) {
                thread.groups.push(counter);
            }
        }
    }

    /// Lanes wait until at most so many groups of their copies are under way; `None` waits for all
    /// copies.
    pub(crate) fn wait(&mut self, warp: u32, mask: u32, pending: Option<u32>) {
        let copies = self.copies(warp);
        let now = if pending.is_none() { self.tick(copies) } else { 0 };
        let place = self.place(self.block, copies);
        for lane in lanes(mask) {
            let Some(thread) = self.thread(warp, lane) else { return };
            let keep = pending.map_or(0, |pending| pending as usize).min(thread.groups.len());
            let done = thread.groups.drain(..thread.groups.len() - keep).next_back();
            if let Some(counter) = pending.map_or(Some(now), |_| done) {
                thread.clock.raise(place, 1 << lane, counter);
            }
        }
    }

    /// A lane's copies so far come to an `mbarrier`.
    pub(crate) fn publish_copies(&mut self, into: &mut Clock, warp: u32, lane: usize) {
        let copies = self.copies(warp);
        let counter = self.tick(copies);
        into.raise(self.place(self.block, copies), 1 << lane, counter);
    }
}

impl Thread {
    fn settle(&mut self) {
        if let Some(seen) = self.seen.take() {
            self.clock.join(&seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Clocks, Published};
    use crate::exec::check::shadow::{Access, How};

    /// Returns a write by a lane, of now.
    fn by(clocks: &Clocks, warp: u32, lane: u32) -> Access {
        let how = How { write: true, strong: false };
        let (counter, block) = (clocks.stamp(warp), clocks.block());
        Access { block, warp, lanes: 1 << lane, counter, at: 0, bytes: 15, how }
    }

    /// Returns whether a lane comes after an access of one lane.
    fn follows(clocks: &Clocks, (warp, lane): (u32, u32), old: &Access) -> bool {
        clocks.follows(&by(clocks, warp, lane), old, old.lanes.trailing_zeros())
    }

    #[test]
    fn a_barrier_orders_what_came_before_it_only() {
        let mut clocks = Clocks::new((0, 1), 2);
        let before = by(&clocks, 0, 5);
        assert!(!follows(&clocks, (1, 0), &before));
        clocks.meet(&[(0, u32::MAX), (1, u32::MAX)]);
        assert!(follows(&clocks, (1, 0), &before));
        let after = by(&clocks, 0, 5);
        assert!(!follows(&clocks, (1, 0), &after));
        assert!(follows(&clocks, (0, 5), &after), "a thread follows itself");
    }

    #[test]
    fn a_warp_meets_only_the_lanes_that_are_named() {
        let mut clocks = Clocks::new((0, 1), 2);
        let (first, third) = (by(&clocks, 0, 0), by(&clocks, 0, 2));
        clocks.meet(&[(0, 0b11)]);
        assert!(follows(&clocks, (0, 1), &first));
        assert!(!follows(&clocks, (0, 2), &first), "lane 2 was not there");
        assert!(!follows(&clocks, (0, 0), &third));
        assert!(!follows(&clocks, (1, 0), &first));
    }

    #[test]
    fn knowledge_is_handed_on() {
        let mut clocks = Clocks::new((0, 1), 3);
        let old = by(&clocks, 0, 0);
        clocks.meet(&[(0, 1), (1, 1)]);
        let mut flag = Clock::default();
        clocks.release(&mut flag, 1, 1);
        clocks.acquire(&flag, 2, 1);
        assert!(follows(&clocks, (2, 0), &old));
        assert!(!follows(&clocks, (2, 1), &old));
        let later = by(&clocks, 1, 0);
        assert!(!follows(&clocks, (2, 0), &later), "done after the release");
    }

    /// Two blocks that synchronize by a flag: `(release, fence before)` of the writer, `(acquire, fence after)` of the
    /// reader.
    fn handed_on(writer: (bool, bool), reader: (bool, bool)) -> bool {
        let (mut first, mut second) = (Clocks::new((3, 9), 1), Clocks::new((7, 9), 1));
        let mut published = Published::new();
        let old = by(&first, 0, 4);
        if writer.1 {
            first.fence(0, u32::MAX);
        }
        first.write(&mut published, 64, (0, 4), (writer.0, false));
        second.read(&published, 64, (0, 9), reader.0);
        if reader.1 {
            second.fence(0, u32::MAX);
        }
        assert!(!follows(&second, (0, 8), &old), "a lane that has not read");
        follows(&second, (0, 9), &old)
    }

    #[test]
    fn a_flag_orders_with_a_release_and_an_acquire_or_fences() {
        for writer in [(true, false), (false, true)] {
            for reader in [(true, false), (false, true)] {
                assert!(handed_on(writer, reader), "{writer:?} {reader:?}");
            }
            assert!(!handed_on(writer, (false, false)), "{writer:?}");
        }
        assert!(!handed_on((false, false), (true, true)));
    }

    #[test]
    fn a_barrier_hands_on_what_one_thread_has_seen() {
        let (mut first, mut second) = (Clocks::new((0, 2), 2), Clocks::new((1, 2), 2));
        let mut published = Published::new();
        let old = by(&first, 0, 0);
        first.write(&mut published, 8, (0, 0), (true, false));
        second.read(&published, 8, (0, 0), false);
        assert!(!follows(&second, (0, 0), &old), "there was no fence yet");
        second.meet(&[(0, u32::MAX), (1, u32::MAX)]);
        assert!(follows(&second, (1, 7), &old));
    }

    #[test]
    fn a_write_ends_what_was_published_and_an_update_adds_to_it() {
        for reads in [false, true] {
            let (mut first, mut second) = (Clocks::new((0, 3), 1), Clocks::new((1, 3), 1));
            let mut published = Published::new();
            let old = by(&first, 0, 0);
            first.write(&mut published, 8, (0, 0), (true, true));
            second.write(&mut published, 8, (0, 0), (true, reads));
            let mut third = Clocks::new((2, 3), 1);
            third.read(&published, 8, (0, 0), true);
            assert_eq!(follows(&third, (0, 0), &old), reads);
        }
    }

    #[test]
    fn copies_are_known_once_their_group_is_waited_for() {
        let mut clocks = Clocks::new((0, 1), 2);
        let ours = by(&clocks, 0, 1);
        let first = by(&clocks, clocks.copies(0), 1);
        assert!(clocks.follows(&first, &ours, 1), "a copy follows what its thread has done");
        assert!(!follows(&clocks, (0, 1), &first), "not even its thread knows when it is done");
        clocks.commit(0, u32::MAX);
        let second = by(&clocks, clocks.copies(0), 1);
        clocks.commit(0, u32::MAX);
        clocks.wait(0, u32::MAX, Some(1));
        assert!(follows(&clocks, (0, 1), &first));
        assert!(!follows(&clocks, (0, 1), &second));
        assert!(!follows(&clocks, (0, 2), &first), "the wait is each thread's own");
        let third = by(&clocks, clocks.copies(0), 1);
        clocks.wait(0, u32::MAX, None);
        assert!(follows(&clocks, (0, 1), &second) && follows(&clocks, (0, 1), &third));
        clocks.meet(&[(0, u32::MAX), (1, u32::MAX)]);
        assert!(follows(&clocks, (1, 0), &second), "and is handed on");
    }
}
