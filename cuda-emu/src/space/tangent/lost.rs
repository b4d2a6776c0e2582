//! Instructions at which tangents are lost.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use crate::report::Report;

/// An instruction that has made a number's derivative unknown.
///
/// That is an integer instruction (or another one without a derivative here) that read a number with a tangent other than
/// zero, and whose result a float instruction, a conversion from an integer or [`get`](crate::Tangents::get) then used as a number;
/// or the marker `ad.lost`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Lost {
    /// The instruction's opcode, such as `shl.b32`.
    pub opcode: String,
    /// Kernel, function, PTX line and source line of the instruction, and the first thread that executed it.
    pub place: Report,
    /// How many uses of its results were noted, each counted once for each thread.
    pub count: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)
    }
}

/// The instructions that have made bits from numbers: those whose results were used as numbers are lost tangents.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    all: Vec<Lost>,
    known: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Origins {
    /// Returns the index of an instruction, by what distinguishes it from others; `place` is called for a new one.
    pub(crate) fn index(
        &mut self,
        opcode: &str,
        (kernel, function, line): (&str, u32, u32),
        place: impl FnOnce() -> Report,
    ) -> u32 {
        let key = self.hasher.hash_one((opcode, kernel, function, line));
        *self.known.entry(key).or_insert_with(|| {
            self.all.push(Lost { opcode: opcode.to_owned(), place: place(), count: 0 });
            (self.all.len() - 1) as u32
        })
    }

    /// Notes that a result of the instruction was used as a number.
    pub(crate) fn note(&mut self, index: u32) {
        // Registers that nothing has written may hold an index from before `forget`.
        if let Some(lost) = self.all.get_mut(index as usize) {
            lost.count += 1;
        }
    }

    /// Takes the instructions that were noted, in the order in which they were first executed.
    pub(crate) fn take(&mut self) -> Vec<Lost> {
        let noted = self.all.iter().filter(|lost| lost.count != 0).cloned().collect();
        self.all.iter_mut().for_each(|lost| lost.count = 0);
        noted
    }
}
