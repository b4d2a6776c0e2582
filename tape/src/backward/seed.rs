//! Gradients with which a pass begins. A gradient that a single adjoint reads, and does not change, is read in the
//! caller's memory.

use cuda_safe::{Access, Result, Stream};

use super::plan::{Action, Place, Plan};
use crate::element::FloatType;
use crate::record::Recording;
use crate::seeds::{Given, Seed};

/// A gradient with which a pass begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeded {
    /// The target of its copy.
    pub(super) place: Place,
    /// The index in [`Plan::places`] of its only use, if that only reads it: then it need not be copied.
    pub(super) read: Option<u32>,
}

impl Plan {
    /// Finds the gradients that need not be copied, at the end of planning: until then a step may have to leave
    /// zeros.
    pub(super) fn find_readers(&mut self, recording: &Recording) {
        let mut seeds = std::mem::take(&mut self.seeds);
        for seed in &mut seeds {
            seed.read = self.reader(recording, seed.place);
        }
        self.seeds = seeds;
    }

    fn reader(&self, recording: &Recording, place: Place) -> Option<u32> {
        let meets = |other: &Place| {
            let (a, b) = (place.range(), other.range());
            other.buffer == place.buffer && a.start < b.end && b.start < a.end
        };
        for action in &self.actions {
            let (step, first, drop) = match action {
                Action::Adjoint { step, first, drop, .. } => (*step, *first, *drop),
                Action::Custom { step, first } => (*step, *first, 0),
                Action::Zero(to) if !meets(to) => continue,
                Action::Copy { from, to } | Action::Add { from, to, .. }
                    if !meets(from) && !meets(to) =>
                {
                    continue;
                }
                Action::Zero(_) | Action::Copy { .. } | Action::Add { .. } => return None,
            };
            let uses = recording.uses_of(recording.steps.get(step as usize)?);
            let places = (first..).zip(self.places.get(first as usize..)?);
            let mut found = uses.iter().zip(places).filter(|(_, (_, other))| meets(other));
            if let Some((used, (number, other))) = found.next() {
                let dropped = used.drops && drop.checked_shr(used.slot.into())? & 1 == 1;
                return (dropped && *other == place && found.next().is_none()).then_some(number);
            }
        }
        None
    }

    /// Copies the given gradients, or passes them to their only readers.
    pub(crate) fn seed(&mut self, stream: &Stream, given: &Given<'_>) -> Result<()> {
        for at in 0..self.seeds.len() {
            let Some(Seeded { place, read }) = self.seeds.get(at).copied() else { break };
            let seed = match given {
                Given::One(_) => None,
                Given::Seeds(seeds) => seeds.get(at),
            };
            if let (Some(seed), Some(read)) = (seed, read)
                && fits(stream, seed, place)
            {
                let (allocation, range) = (seed.gradient.allocation(), seed.gradient.byte_range());
                let lent = self.lend(allocation, range, Access::Read)?;
                if let Some(place) = self.places.get_mut(read as usize) {
                    *place = lent;
                }
                continue;
            }
            let Some(buffer) = self.buffers.get_mut(place.buffer as usize) else { continue };
            let mut to = buffer.slice_mut(place.range())?;
            match given {
                Given::One(FloatType::F64) => to.cast_mut()?.fill(stream, 1.0f64)?,
                Given::One(_) => to.cast_mut()?.fill(stream, 1.0f32)?,
                Given::Seeds(_) => {
                    if let Some(seed) = seed {
                        to.copy_from(stream, seed.gradient)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the borrow of the given gradients, after a pass.
    pub(crate) fn unlend(&mut self) {
        for seed in &self.seeds {
            if let Some(read) = seed.read
                && let Some(place) = self.places.get_mut(read as usize)
            {
                *place = seed.place;
            }
        }
        self.lent.clear();
    }
}

/// Returns whether an adjoint can read a given gradient in the caller's memory: it has the alignment of the plan's
/// memory.
fn fits(stream: &Stream, seed: &Seed<'_>, place: Place) -> bool {
    let gradient = &seed.gradient;
    gradient.len() == place.bytes
        && gradient.device_ptr() % 16 == (place.offset % 16) as u64
        && gradient.allocation().home_stream().context() == stream.context()
}
