//! The allocations that a recording knows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Allocation, Error, KeptMemory, Result, Stream};

use super::{NONE, index};
use crate::element::FloatType;
use crate::runs::Runs;

/// An allocation and the state of its bytes.
pub(crate) struct Memory {
    pub(crate) allocation: Arc<Allocation>,
    /// Which bytes depend on something watched.
    pub(crate) active: Runs<Active>,
    /// The type of the numbers there.
    pub(crate) real: Option<FloatType>,
    /// Uses whose value is in this memory and was not copied yet.
    pub(crate) pending: Vec<u32>,
    /// The first step that uses it.
    pub(crate) first_step: u32,
    /// Keeps the memory for the readers of recorded values, which no borrow protects; created with the first value.
    kept: Option<KeptMemory>,
}

/// The recorded state of some bytes of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Active {
    /// They depend on nothing watched.
    No,
    /// They depend on something watched, and that is recorded, as long as no byte has a newer version.
    Until(u64),
    /// They depended on something watched, but unrecorded work has written them since.
    Stale,
}

impl Memory {
    /// Orders the uses of a pass and the uses by others after each other.
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

/// All allocations, found by their host addresses: the tape holds them, so no address is reused.
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

    /// Returns whether unrecorded work has written something active in a range, so that its dependencies are unknown.
    pub(crate) fn is_stale(&self, number: u32, range: Range<usize>) -> bool {
        self.get(number).is_some_and(|memory| {
            memory.active.within(range).any(|(run, active)| memory.is_stale(run, active))
        })
    }

    /// Prepares for a recorded launch that writes parts of a range: remembers which other parts unrecorded work has
    /// written, since the whole range gets a new version.
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

    /// Notes after a recorded launch that the versions are its own.
    pub(crate) fn note_recorded(&mut self, number: u32, range: Range<usize>) {
        let Some(memory) = self.get_mut(number) else { return };
        let version = memory.allocation.version(range.clone());
        let old = |(_, active): &(Range<usize>, Active)| matches!(active, Active::Until(before) if *before != version);
        loop {
            let Some((run, _)) = memory.active.within(range.clone()).find(old) else { return };
            memory.active.set(run, Active::Until(version));
        }
    }

    /// Sets whether gradients flow through a range from now on: after the write, if there was one.
    pub(crate) fn set_active(&mut self, number: u32, range: Range<usize>, active: bool) {
        if let Some(memory) = self.get_mut(number) {
            let active = match active {
                true => Active::Until(memory.allocation.version(range.clone())),
                false => Active::No,
            };
            memory.active.set(range, active);
        }
    }

    /// Sets the type of the memory's numbers; fails if it has another. Returns whether the type is new.
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

/// Hashes addresses of the host's heap, whose low bits are always zero.
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
        // Fibonacci hashing: the map uses both ends of the product, which are well mixed.
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
