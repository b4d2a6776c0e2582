//! Checkers of kernels, as `compute-sanitizer` has them.
//!
//! The instructions themselves check nothing. While a checker is on, the decoder inserts an instruction
//! ([`watch::Watch`]) before each access of memory and after each fence.
//!
//! **Racecheck**: two accesses of which one writes, and that nothing orders. An access is stamped with a
//! counter of its warp ([`shadow::Access`]). A thread knows of others' accesses up to the counters that it
//! has learned of ([`threads::Clocks`]): at barriers of the block and the warp, at `mbarrier`s, by release and
//! acquire, or fences, around strong accesses of one address, and by waiting for `cp.async`. Clocks are kept by
//! warp, in rows of 32 lanes that all threads share that met at the same barrier. An access races with a conflicting
//! access that its thread does not know of. Relaxed, volatile and atomic accesses don't race with each other. The
//! memory starts empty at each launch: launches of a stream are in order, and races between streams are not detected.
//! So that reports are the same each time, a launch then has one worker.
//!
//! A race may be missed, but none is invented: scopes are ignored; a word remembers 16 accesses; a barrier acquires
//! what strong reads before it have seen, as a fence does; the writes of one value to a word are harmless; what is
//! found depends on what runs, not on when: the order of blocks and warps decides only which of two accesses is called
//! the earlier one, except where the program itself asks who is first.
//!
//! **Initcheck**: reads of device and shared memory that nothing has written ([`written`]).
//!
//! [`written`]: crate::space::written

pub(crate) mod clock;
pub(crate) mod finding;
pub(crate) mod shadow;
pub(crate) mod threads;
pub(crate) mod watch;

use std::collections::HashMap;

use crate::config::Checks;
use crate::space::written::Written;
use clock::Clock;
use shadow::{Access, Word};
use threads::{Clocks, Published};

/// The checkers' state of a block.
#[derive(Debug)]
pub(crate) struct BlockCheck {
    pub(crate) clocks: Clocks,
    /// The clocks of threads that have ended: barriers include them.
    ended: Clock,
    shared: SharedCheck,
}

/// The checkers' state of a block's shared memory.
#[derive(Debug, Default)]
struct SharedCheck {
    /// Its words; none without racecheck.
    words: Vec<Word>,
    /// Its bytes; `None` without initcheck.
    written: Option<Written>,
    /// Whether another block of the cluster has used it.
    reached: bool,
}

impl BlockCheck {
    /// Returns the state for a new block, if anything is checked; `last` belongs to a finished block.
    pub(crate) fn new(
        last: Option<Box<Self>>,
        checks: Checks,
        (block, blocks, warps): (u64, u64, u32),
        shared: u32,
    ) -> Option<Box<Self>> {
        if !checks.race && !checks.init {
            return None;
        }
        let SharedCheck { mut words, written, .. } =
            last.map_or_else(Default::default, |last| last.shared);
        words.iter_mut().for_each(Word::forget);
        words.resize(if checks.race { shared.div_ceil(4) as usize } else { 0 }, Word::default());
        let written = checks.init.then(|| {
            let written = written.unwrap_or_else(|| Written::new(0, shared.into()));
            written.clear(0, shared.into());
            written
        });
        Some(Box::new(Self {
            clocks: Clocks::new((block, blocks), warps),
            ended: Clock::default(),
            shared: SharedCheck { words, written, reached: false },
        }))
    }

    /// The first bytes of shared memory have a value before the block starts.
    pub(crate) fn wrote_shared(&self, bytes: u32) {
        if let Some(written) = &self.shared.written {
            written.mark(0, bytes.into());
        }
    }

    /// Lanes end.
    pub(crate) fn exit(&mut self, warp: u32, mask: u32) {
        self.clocks.release(&mut self.ended, warp, mask);
    }

    /// Lanes have waited at a barrier.
    pub(crate) fn wake(&mut self, published: &Clock, warp: u32, mask: u32) {
        self.clocks.acquire(published, warp, mask);
        self.clocks.acquire(&self.ended, warp, mask);
    }

    /// A lane comes to an `mbarrier`.
    pub(crate) fn arrive(&mut self, gates: &mut Published, at: u64, warp: u32, lane: usize) {
        self.clocks.release(gates.entry(at).or_default(), warp, 1 << lane);
    }

    /// The asynchronous copies of a lane come to an `mbarrier`.
    pub(crate) fn arrive_copies(&mut self, gates: &mut Published, at: u64, warp: u32, lane: usize) {
        self.clocks.publish_copies(gates.entry(at).or_default(), warp, lane);
    }

    /// A lane has waited for an `mbarrier`.
    pub(crate) fn wait(&mut self, gates: &Published, at: u64, warp: u32, lane: usize) {
        if let Some(published) = gates.get(&at) {
            self.clocks.acquire(published, warp, 1 << lane);
        }
    }

    /// Returns the accesses of the ended block's shared memory by other blocks that no thread of the block knew of when it
    /// ended, with their addresses.
    pub(crate) fn unordered_at_end(&self, block: u64) -> Vec<(u64, Access)> {
        if !self.shared.reached {
            return Vec::new();
        }
        let words = (0..).zip(&self.shared.words);
        let late = words.flat_map(|(number, word)| {
            let accesses = word.accesses().iter().filter(|access| access.block != block);
            accesses.filter_map(move |access| {
                let late = self.clocks.unknown(&self.ended, access);
                (late != 0).then_some((4 * number, Access { lanes: late, ..*access }))
            })
        });
        late.collect()
    }
}

/// Words of a page of [`GlobalCheck`].
const PAGE: u64 = 1024;

/// Racecheck's state of a launch's device memory.
#[derive(Debug, Default)]
pub(crate) struct GlobalCheck {
    published: Published,
    pages: Vec<Box<[Word]>>,
    /// Where the page of a number is.
    places: HashMap<u64, usize>,
    /// The page that was used last.
    last: (u64, usize),
}

impl GlobalCheck {
    /// Returns the word of this number: its address divided by 4.
    fn word(&mut self, number: u64) -> Option<&mut Word> {
        let page = number / PAGE;
        if self.pages.is_empty() || self.last.0 != page {
            let pages = &mut self.pages;
            let place = *self.places.entry(page).or_insert_with(|| {
                pages.push(vec![Word::default(); PAGE as usize].into_boxed_slice());
                pages.len() - 1
            });
            self.last = (page, place);
        }
        self.pages.get_mut(self.last.1)?.get_mut((number % PAGE) as usize)
    }

    /// The memory was allocated just now: earlier accesses were to another allocation.
    pub(crate) fn forget(&mut self, start: u64, bytes: u64) {
        for number in start / 4..start.saturating_add(bytes).div_ceil(4) {
            if let Some(&place) = self.places.get(&(number / PAGE)) {
                self.pages[place][(number % PAGE) as usize].forget();
            }
        }
    }
}
