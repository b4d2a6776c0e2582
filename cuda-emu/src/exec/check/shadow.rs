//! The last accesses of each word of memory.

use super::threads::Clocks;
use crate::exec::inst::lanes;

/// Accesses of a word that are remembered. Of a word that more warps read without order the oldest
/// is forgotten: a race may be missed, but none is invented.
const REMEMBERED: usize = 16;

/// How memory is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) write: bool,
    /// Atomic, relaxed or volatile: such accesses don't race with each other.
    pub(crate) strong: bool,
}

const PLAIN_WRITE: How = How { write: true, strong: false };

/// The same access of some lanes of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) block: u64,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
    /// The warp's counter at that time.
    pub(crate) counter: u32,
    /// The instruction.
    pub(crate) at: u32,
    /// The bytes of the word.
    pub(crate) bytes: u8,
    pub(crate) how: How,
}

impl Access {
    /// Returns whether the two cannot be left without order.
    fn conflicts(&self, other: &Self) -> bool {
        self.bytes & other.bytes != 0
            && (self.how.write || other.how.write)
            && !(self.how.strong && other.how.strong)
    }

    /// Returns whether every access that races with `old`, which came before this, races with this too.
    fn covers(&self, old: &Self) -> bool {
        old.bytes & !self.bytes == 0
            && (self.how.write || !old.how.write)
            && (!self.how.strong || old.how.strong)
    }
}

/// The accesses of a word of 4 bytes that somebody may still race with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Word {
    accesses: Vec<Access>,
}

impl Word {
    /// Returns the accesses that are remembered.
    pub(crate) fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Forgets all accesses.
    pub(crate) fn forget(&mut self) {
        self.accesses.clear();
    }

    /// Records an access of one lane, and returns the access that it races with, of one lane. `same` says whether an
    /// earlier access wrote the same value: the order of two such writes cannot be observed.
    pub(crate) fn access(
        &mut self,
        clocks: &Clocks,
        new: Access,
        same: impl Fn(&Access) -> bool,
    ) -> Option<Access> {
        let again = |old: &Access| Access { lanes: new.lanes, ..*old } == new;
        // A read in a loop was checked the first time; a write since then was checked against that read.
        let seen = |old: &Access| old.lanes & new.lanes == new.lanes && again(old);
        if !new.how.write && self.accesses.iter().any(seen) {
            return None;
        }
        let (mut race, mut known) = (None, None);
        let mut at = 0;
        while let Some(old) = self.accesses.get_mut(at) {
            // Without room, reads and polls push the oldest access out.
            let covers = new.how == PLAIN_WRITE && new.covers(old);
            let conflicts = new.conflicts(old);
            if again(old) {
                known = Some(at);
            }
            if !covers && !conflicts {
                at += 1;
                continue;
            }
            let mut before = 0;
            for lane in lanes(old.lanes) {
                if clocks.follows(&new, old, lane as u32) {
                    before |= 1 << lane;
                }
            }
            let unordered = Access { lanes: old.lanes & !before, ..*old };
            if unordered.lanes != 0
                && race.is_none()
                && conflicts
                && !(new.how == PLAIN_WRITE && old.how == PLAIN_WRITE && same(&unordered))
            {
                let first = unordered.lanes & unordered.lanes.wrapping_neg();
                race = Some(Access { lanes: first, ..*old });
            }
            if covers {
                old.lanes = unordered.lanes;
            }
            if old.lanes == 0 {
                self.accesses.remove(at);
                known = known.filter(|&known| known != at);
                continue;
            }
            at += 1;
        }
        match known.and_then(|at| self.accesses.get_mut(at)) {
            Some(access) => access.lanes |= new.lanes,
            None => {
                if self.accesses.len() >= REMEMBERED {
                    // Writes conflict with more accesses than reads do, so a read is replaced first.
                    let read = self.accesses.iter().position(|old| !old.how.write);
                    self.accesses.remove(read.unwrap_or(0));
                }
                self.accesses.push(new);
            }
        }
        race
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Clocks, How, REMEMBERED, Word};

    const READ: How = How { write: false, strong: false };
    const WRITE: How = How { write: true, strong: false };
    const ATOMIC: How = How { write: true, strong: true };

    /// Each lane may write another value.
    fn access(word: &mut Word, clocks: &Clocks, new: Access) -> Option<Access> {
        word.access(clocks, new, |_| false)
    }

    /// Returns an access of all bytes.
    fn by(clocks: &Clocks, warp: u32, lane: u32, at: u32, how: How) -> Access {
        let (block, counter) = (clocks.block(), clocks.stamp(warp));
        Access { block, warp, lanes: 1 << lane, counter, at, bytes: 15, how }
    }

    #[test]
    fn a_write_races_with_a_read_until_a_barrier() {
        let (mut clocks, mut word) = (Clocks::new((0, 1), 2), Word::default());
        let write = by(&clocks, 0, 3, 1, WRITE);
        assert_eq!(access(&mut word, &clocks, write), None);
        assert_eq!(access(&mut word, &clocks, by(&clocks, 1, 0, 2, READ)), Some(write));
        clocks.meet(&[(0, u32::MAX), (1, u32::MAX)]);
        assert_eq!(access(&mut word, &clocks, by(&clocks, 1, 1, 2, READ)), None);
    }

    #[test]
    fn a_write_races_with_each_of_many_reads() {
        let (mut clocks, mut word) = (Clocks::new((0, 1), 2), Word::default());
        for lane in 0..32 {
            assert_eq!(access(&mut word, &clocks, by(&clocks, 1, lane, 2, READ)), None);
        }
        assert_eq!(word.accesses.len(), 1, "one instruction of a warp is one entry");
        // All but lane 9 of the readers have met the writer.
        clocks.meet(&[(0, 1), (1, !(1 << 9))]);
        let race = access(&mut word, &clocks, by(&clocks, 0, 0, 3, WRITE));
        assert_eq!(race.map(|old| old.lanes), Some(1 << 9));
    }

    #[test]
    fn lanes_of_one_instruction_race() {
        let (clocks, mut word) = (Clocks::new((0, 1), 1), Word::default());
        let first = by(&clocks, 0, 0, 1, WRITE);
        assert_eq!(access(&mut word, &clocks, first), None);
        assert_eq!(access(&mut word, &clocks, by(&clocks, 0, 1, 1, WRITE)), Some(first));
    }

    #[test]
    fn atomics_race_with_plain_accesses_only() {
        let (clocks, mut word) = (Clocks::new((0, 1), 2), Word::default());
        let first = by(&clocks, 0, 0, 1, ATOMIC);
        assert_eq!(access(&mut word, &clocks, first), None);
        assert_eq!(access(&mut word, &clocks, by(&clocks, 1, 0, 1, ATOMIC)), None);
        assert!(access(&mut word, &clocks, by(&clocks, 1, 1, 2, READ)).is_some());
    }

    #[test]
    fn neighbouring_bytes_do_not_race() {
        let (clocks, mut word) = (Clocks::new((0, 1), 1), Word::default());
        let low = Access { bytes: 0b0011, ..by(&clocks, 0, 0, 1, WRITE) };
        let high = Access { bytes: 0b1100, ..by(&clocks, 0, 1, 1, WRITE) };
        assert_eq!(access(&mut word, &clocks, low), None);
        assert_eq!(access(&mut word, &clocks, high), None);
        assert_eq!(access(&mut word, &clocks, by(&clocks, 0, 1, 2, READ)), Some(low));
    }

    #[test]
    fn a_read_does_not_hide_the_write_before_it() {
        let (mut clocks, mut word) = (Clocks::new((0, 1), 3), Word::default());
        let write = by(&clocks, 0, 0, 1, WRITE);
        access(&mut word, &clocks, write);
        clocks.meet(&[(0, 1), (1, 1)]);
        assert_eq!(access(&mut word, &clocks, by(&clocks, 1, 0, 2, READ)), None);
        assert_eq!(access(&mut word, &clocks, by(&clocks, 2, 0, 3, READ)), Some(write));
    }

    #[test]
    fn the_same_value_twice_is_harmless_but_not_to_readers() {
        let (clocks, mut word) = (Clocks::new((0, 1), 3), Word::default());
        let write = by(&clocks, 0, 0, 1, WRITE);
        assert_eq!(word.access(&clocks, write, |_| true), None);
        let same = |old: &Access| *old == write;
        assert_eq!(word.access(&clocks, by(&clocks, 1, 0, 1, WRITE), same), None);
        assert!(word.access(&clocks, by(&clocks, 2, 0, 1, WRITE), same).is_some(), "another value");
        assert!(word.access(&clocks, by(&clocks, 2, 0, 2, READ), |_| true).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let warps = REMEMBERED as u32 + 8;
        let (clocks, mut word) = (Clocks::new((0, 1), warps), Word::default());
        for warp in 0..warps {
            assert_eq!(access(&mut word, &clocks, by(&clocks, warp, 0, 1, READ)), None);
        }
        assert_eq!(word.accesses.len(), REMEMBERED);
        assert!(access(&mut word, &clocks, by(&clocks, 0, 0, 2, WRITE)).is_some());
    }
}
