//! The allocations that a recording knows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Allocation, Error, KeptMemory, Result, Stream};

use super::{NONE, index};
use crate::element::FloatType;
use crate::runs::Runs;

/// An allocation, and what carries gradients in it.
pub(crate) struct Memory {
    pub(crate) allocation: Arc<Allocation>,
    /// Where it depends on something that is watched.
    pub(crate) active: Runs<Active>,
    /// The type of the numbers there.
    pub(crate) real: Option<FloatType>,
    /// Uses whose value lies here, and was not copied yet.
    pub(crate) pending: Vec<u32>,
    /// The first step that uses it.
    pub(crate) first_step: u32,
    /// Created with the first value that lies here: no borrow protects the memory for its readers.
    kept: Option<KeptMemory>,
}

/// The recorded state of some bytes of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Active {
    /// They depend on nothing watched.
    No,
    /// They depend on something watched by what is recorded, as long as no byte has a newer version.
    Until(u64),
    /// As above; but they were written since by something that is not recorded.
    Stale,
}

impl Memory {
    /// Makes uses by others wait for those of a pass, and those of a pass for theirs.
    pub(crate) fn keep(&mut self, stream: &Stream) -> Result<()> {
        if self.kept.is_none() {
            self.kept = Some(self.allocation.keep(stream)?);
        }
        Ok(())
    }

    /// Returns whether active bytes of a run were written by something that is not recorded.
    fn is_stale(&self, run: Range<usize>, active: Active) -> bool {
        match active {
            Active::No => false,
            Active::Until(version) => self.allocation.version(run) > version,
            Active::Stale => true,
        }
    }
}

/// All of them, found by where they lie on the host's heap: the tape holds them, so no other can come to
/// lie there.
#[derive(Default)]
pub(crate) struct Memories {
    all: Vec<Memory>,
    index: HashMap<usize, u32, BuildHasherDefault<AddressHasher>>,
    /// The last result: kernels often get the same memory several times.
    last: Option<(usize, u32)>,
    /// Emptied vectors of earlier recordings.
    spare: Vec<(Runs<Active>, Vec<u32>)>,
}

impl Memories {
    /// Returns the number of an allocation, a new one if it is not known.
    #[inline]
    pub(crate) fn number(&mut self, allocation: &Arc<Allocation>) -> Result<u32> {
        let key = Arc::as_ptr(allocation).addr();
        if let Some((last, number)) = self.last
            && last == key
        {
            return Ok(number);
        }
        let number = match self.index.get(&key) {
            Some(number) => *number,
            None => {
                let number = index(self.all.len())?;
                let bytes = allocation.size_bytes();
                let (mut active, mut pending) =
                    self.spare.pop().unwrap_or_else(|| (Runs::new(bytes, Active::No), Vec::new()));
                active.reset(bytes, Active::No);
                pending.clear();
                let allocation = allocation.clone();
                let (real, first_step) = (None, NONE);
                let kept = None;
                self.all.push(Memory { allocation, active, real, pending, first_step, kept });
                self.index.insert(key, number);
                number
            }
        };
        self.last = Some((key, number));
        Ok(number)
    }

    /// Returns the number of an allocation that is known.
    pub(crate) fn find(&self, allocation: &Arc<Allocation>) -> Option<u32> {
        self.index.get(&Arc::as_ptr(allocation).addr()).copied()
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Memory> {
        self.all.get(number as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Memory> {
        self.all.get_mut(number as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Memory> {
        self.all.iter()
    }

    pub(crate) fn used_at(&mut self, number: u32, step: u32) {
        if let Some(memory) = self.get_mut(number) {
            memory.first_step = memory.first_step.min(step);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.index.clear();
        self.last = None;
        for memory in self.all.drain(..) {
            self.spare.push((memory.active, memory.pending));
        }
    }

    pub(crate) fn is_active(&self, number: u32, range: Range<usize>) -> bool {
        self.get(number)
            .is_some_and(|memory| memory.active.any(range, |active| active != Active::No))
    }

    /// Returns whether something active in a range was written by what is not recorded, so that what is recorded
    /// does not say what it depends on.
    pub(crate) fn is_stale(&self, number: u32, range: Range<usize>) -> bool {
        self.get(number).is_some_and(|memory| {
            memory.active.within(range).any(|(run, active)| memory.is_stale(run, active))
        })
    }

    /// Before a recorded launch that may write to a range, and does so to parts of it: remembers which
    /// others were written by something else, since all of it gets a new version.
    pub(crate) fn note_stale(&mut self, number: u32, range: Range<usize>) {
        let Some(memory) = self.get_mut(number) else { return };
        loop {
            let stale = |(run, active): &(Range<usize>, Active)| {
                *active != Active::Stale && memory.is_stale(run.clone(), *active)
            };
            let Some((run, _)) = memory.active.within(range.clone()).find(stale) else { return };
            memory.active.set(run, Active::Stale);
        }
    }

    /// After it: the versions are those of a recorded launch.
    pub(crate) fn note_recorded(&mut self, number: u32, range: Range<usize>) {
        let Some(memory) = self.get_mut(number) else { return };
        let version = memory.allocation.version(range.clone());
        let old = |(_, active): &(Range<usize>, Active)| matches!(active, Active::Until(before) if *before != version);
        loop {
            let Some((run, _)) = memory.active.within(range.clone()).find(old) else { return };
            memory.active.set(run, Active::Until(version));
        }
    }

    /// Says whether gradients come through a range from now on: after the write, if there was one.
    pub(crate) fn set_active(&mut self, number: u32, range: Range<usize>, active: bool) {
        if let Some(memory) = self.get_mut(number) {
            let active = match active {
                true => Active::Until(memory.allocation.version(range.clone())),
                false => Active::No,
            };
            memory.active.set(range, active);
        }
    }

    /// Gradients there are of this type. Whether that is new.
    pub(crate) fn holds(&mut self, number: u32, real: Option<FloatType>) -> Result<bool> {
        let (Some(memory), Some(real)) = (self.get_mut(number), real) else { return Ok(false) };
        match memory.real {
            Some(known) if known != real => Err(Error::invalid(format!(
                "memory of {} bytes is used as {known:?} and as {real:?}: it has one gradient",
                memory.allocation.size_bytes()
            ))),
            _ => Ok(memory.real.replace(real).is_none()),
        }
    }
}

/// Addresses of the host's heap, whose low bits say nothing.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        // Fibonacci hashing: both ends of the product are well mixed where the map looks.
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
