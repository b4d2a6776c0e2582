//! The plan of a backward pass, made before any of it is enqueued.
//!
//! Gradients have a state for each range of each allocation: valid, or unset. An unset range is zero, but its memory
//! holds anything: a step that stores to all of it (ASSIGN) need not find zeros there, and the last step to read a
//! range (DROP) need not leave zeros. Where zeros are needed after all, the step that would have dropped them writes
//! them, or a fill does.

use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Access, Allocation, DeviceBuffer, Error, Result};

use super::seed::Seeded;
use crate::marker::Marker;
use crate::record::{Copied, Kind, NONE, Recording, Target, Use, index};
use crate::runs::Runs;
use crate::spec::{Effect, Op, Primal};
use crate::store::Store;

/// States of gradients. Any other number below [`BY`] is the index of the drop that has left the range unset.
const UNSET: u32 = 0;
const VALID: u32 = 1;
const BY: u32 = 2;

/// The memory of a gradient: bytes of a buffer of the plan. [`NOWHERE`] is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) buffer: u32,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Place {
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }
}

pub(crate) const NOWHERE: Place = Place { buffer: NONE, offset: 0, bytes: 0 };

/// A gradient in memory of the caller: see [`Op::vjp`].
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) range: Range<usize>,
    pub(crate) access: Access,
}

/// The first buffer number of a lent allocation.
const LENT: u32 = 1 << 31;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Zero(Place),
    Copy {
        from: Place,
        to: Place,
    },
    Add {
        from: Place,
        to: Place,
        double: bool,
    },
    /// The adjoint of a launch. `first` is the index of its first use in `Plan::places`. `sums` has a bit for each
    /// scalar whose gradient is stored, not added to.
    Adjoint {
        step: u32,
        assign: u64,
        drop: u64,
        sums: u64,
        first: u32,
    },
    Custom {
        step: u32,
        first: u32,
    },
}

/// A gradient's memory while the plan is made.
struct Gradient {
    states: Runs<u32>,
    buffer: u32,
}

/// The plan of a pass, for a recording and its outputs with given gradients.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    pub(crate) places: Vec<Place>,
    pub(crate) buffers: Vec<DeviceBuffer<u8>>,
    /// Memory of the caller, which is borrowed as long as the plan is in use; for a tape, during a pass.
    pub(crate) lent: Vec<Lent>,
    /// The targets of the given gradients.
    pub(crate) seeds: Vec<Seeded>,
    /// The gradient of each watched range.
    pub(crate) results: Vec<Place>,
    /// Whether some step may raise the status.
    pub(crate) raises: bool,
    /// Buffers for values that adjoints may write: one for each such use, in order.
    pub(crate) private: Vec<(u32, Copied)>,
    /// The outputs for which the plan was made.
    pub(crate) outputs: Vec<(u32, Range<usize>)>,
    pub(crate) made: bool,
    pub(crate) captured: bool,
    /// The marker of the graph that the last pass was captured in.
    pub(crate) marker: Option<Marker>,
    gradients: Vec<Gradient>,
    /// Buffers that no step needs any more.
    free: Vec<u32>,
    /// For each drop, the action and the bit in its mask.
    drops: Vec<(usize, u8)>,
}

impl Plan {
    /// Returns the memory to the store. The plan must be made again.
    pub(crate) fn clear(&mut self, store: &mut Store) {
        for buffer in self.buffers.drain(..) {
            store.give(buffer, self.captured);
        }
        for (_, private) in self.private.drain(..) {
            store.give(private.buffer, self.captured);
        }
        if let Some(marker) = self.marker.take() {
            marker.forget(store);
        }
        self.actions.clear();
        self.places.clear();
        self.seeds.clear();
        self.results.clear();
        self.outputs.clear();
        self.free.clear();
        self.drops.clear();
        (self.raises, self.made, self.captured) = (false, false, false);
    }

    pub(crate) fn make(
        &mut self,
        recording: &Recording,
        store: &mut Store,
        outputs: &[(u32, Range<usize>)],
    ) -> Result<()> {
        self.clear(store);
        self.raises = recording.raises;
        let mut known = recording.memories.iter();
        for gradient in &mut self.gradients {
            let Some(memory) = known.next() else { break };
            gradient.states.reset(memory.allocation.size_bytes(), UNSET);
            gradient.buffer = NONE;
        }
        for memory in known {
            let states = Runs::new(memory.allocation.size_bytes(), UNSET);
            self.gradients.push(Gradient { states, buffer: NONE });
        }
        let mut planner = Planner { plan: self, recording, store };
        for (memory, range) in outputs {
            planner.seed(*memory, range)?;
        }
        planner.plan.results.resize(recording.watches.len(), NOWHERE);
        for step in (0..recording.steps.len()).rev() {
            planner.step(step)?;
        }
        if self.results.iter().all(|place| place.buffer == NONE) {
            let watched = recording.watches.len();
            return Err(Error::invalid(format!(
                "no differentiable path leads from what is watched ({watched} ranges) to what the gradient \
                 is taken of"
            ))
            .with_hint("`Recorder::watch` comes before the launches that depend on what it watches"));
        }
        self.find_readers(recording);
        self.outputs.extend_from_slice(outputs);
        self.made = true;
        Ok(())
    }

    /// Returns the memory of a place and how adjoints use it; `None` for a null gradient.
    pub(crate) fn memory(&self, place: Place) -> Option<(&Arc<Allocation>, Access)> {
        if let Some(buffer) = self.buffers.get(place.buffer as usize) {
            return Some((buffer.allocation(), Access::Write));
        }
        let lent = self.lent.get(place.buffer.checked_sub(LENT)? as usize)?;
        Some((&lent.allocation, lent.access))
    }

    /// Adds memory of the caller, and returns the place of some of its bytes.
    pub(crate) fn lend(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<Place> {
        let buffer = LENT | index(self.lent.len())?;
        let place = Place { buffer, offset: range.start, bytes: range.len() };
        self.lent.push(Lent { allocation: allocation.clone(), range, access });
        Ok(place)
    }

    /// Adds a buffer, and returns the place of its bytes from `offset` on.
    pub(crate) fn own(&mut self, buffer: DeviceBuffer<u8>, offset: usize) -> Result<Place> {
        let bytes = buffer.size_bytes().saturating_sub(offset);
        let number = index(self.buffers.len())?;
        self.buffers.push(buffer);
        Ok(Place { buffer: number, offset, bytes })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffers.iter().map(DeviceBuffer::size_bytes).sum()
    }
}

struct Planner<'a> {
    plan: &'a mut Plan,
    recording: &'a Recording,
    store: &'a mut Store,
}

impl Planner<'_> {
    fn seed(&mut self, memory: u32, range: &Range<usize>) -> Result<()> {
        if self.is_valid(memory, range) {
            return Err(Error::invalid("two given gradients are of the same memory"));
        }
        let place = self.place(memory, range)?;
        self.plan.seeds.push(Seeded { place, read: None });
        self.set(memory, range, VALID);
        Ok(())
    }

    fn step(&mut self, number: usize) -> Result<()> {
        let recording = self.recording;
        let Some(step) = recording.steps.get(number) else { return Ok(()) };
        let uses = recording.uses_of(step);
        match (&step.kind, uses) {
            (Kind::Launch { op, .. }, uses) => self.adjoint(number, Some(op), uses),
            (Kind::Custom(..), uses) => self.adjoint(number, None, uses),
            (Kind::Copy, [from, to]) => self.copy(number, from, to),
            (Kind::Fill | Kind::Stop, [used]) => {
                self.set(used.memory, &used.range(), UNSET);
                self.release(number, used.memory);
                Ok(())
            }
            (Kind::Watch(watch), [used]) => self.watch(number, *watch, used),
            _ => Ok(()),
        }
    }

    /// Notes the gradient at this step as the result of a watch.
    fn watch(&mut self, number: usize, watch: u32, used: &Use) -> Result<()> {
        let range = used.range();
        if !self.is_valid(used.memory, &range) {
            return Ok(());
        }
        self.make_zeros(used.memory, &range)?;
        let mut place = self.place(used.memory, &range)?;
        let first = self.recording.memories.get(used.memory).map_or(0, |memory| memory.first_step);
        if (first as usize) < number {
            // Earlier steps change this gradient, so it is copied.
            let from = place;
            place = Place { offset: from.offset % 16, ..from };
            place.buffer = self.buffer(place.offset + place.bytes)?;
            self.plan.actions.push(Action::Copy { from, to: place });
        }
        if let Some(result) = self.plan.results.get_mut(watch as usize) {
            *result = place;
        }
        Ok(())
    }

    fn copy(&mut self, number: usize, from: &Use, to: &Use) -> Result<()> {
        if !self.is_valid(to.memory, &to.range()) {
            return Ok(());
        }
        self.make_zeros(to.memory, &to.range())?;
        let source = self.place(to.memory, &to.range())?;
        let unset = !self.is_valid(from.memory, &from.range());
        if !unset {
            self.make_zeros(from.memory, &from.range())?;
        }
        let target = self.place(from.memory, &from.range())?;
        let double = from.element.real == Some(crate::FloatType::F64);
        self.plan.actions.push(match unset {
            true => Action::Copy { from: source, to: target },
            false => Action::Add { from: source, to: target, double },
        });
        self.set(from.memory, &from.range(), VALID);
        self.set(to.memory, &to.range(), UNSET);
        self.release(number, to.memory);
        Ok(())
    }

    /// Plans an adjoint, if its launch has written something that has a gradient.
    fn adjoint(&mut self, number: usize, op: Option<&Op>, uses: &[Use]) -> Result<()> {
        let cuts = |used: &Use| op.is_some_and(|op| op.inner.cuts(used));
        for used in uses.iter().filter(|used| !used.active) {
            // The memory was overwritten without a gradient, or counts as constant: it has no gradient before the
            // launch.
            if used.effect == Effect::Overwrites && used.covers || cuts(used) {
                self.set(used.memory, &used.range(), UNSET);
            }
        }
        let written = |used: &&Use| used.active && used.effect != Effect::Reads;
        let reached = |used: &Use| self.is_valid(used.memory, &used.range());
        if !uses.iter().filter(written).any(reached) {
            return Ok(());
        }
        let first = index(self.plan.places.len())?;
        self.plan.places.resize(first as usize + uses.len(), NOWHERE);
        let (mut assign, mut sums) = (0u64, 0u64);
        let mut apart = Vec::new();
        for (at, used) in uses.iter().enumerate().filter(|(_, used)| used.active) {
            let range = used.range();
            let only_written = matches!(used.effect, Effect::Overwrites | Effect::Accumulates);
            if only_written && !self.is_valid(used.memory, &range) {
                // The output has no gradient, which counts as zero. An updated output is also an input.
                continue;
            }
            let place = if op.is_some_and(|op| op.inner.meet(uses, at)) {
                let place = self.place_apart(used, &range, &mut assign)?;
                apart.push((at, place));
                place
            } else {
                let unset = || !self.is_valid(used.memory, &range);
                let stores = used.effect == Effect::Reads && used.covers && unset();
                match used.target {
                    Target::Scalar(scalar) if stores => sums |= 1 << scalar,
                    Target::Pointer(_) if stores && used.alone && alone(uses, at) => {
                        assign |= 1 << used.slot;
                    }
                    _ => self.make_zeros(used.memory, &range)?,
                }
                self.set(used.memory, &range, VALID);
                self.place(used.memory, &range)?
            };
            if let Some(known) = self.plan.places.get_mut(first as usize + at) {
                *known = place;
            }
        }
        self.private_values(number, uses)?;
        let mut drop = 0u64;
        let action = self.plan.actions.len();
        for (at, used) in uses.iter().enumerate().filter(|(_, used)| used.active) {
            let consumed = used.effect == Effect::Overwrites && used.covers && alone(uses, at);
            // The adjoint writes no zeros through a null pointer, so the state does not change.
            let place = self.plan.places.get(first as usize + at);
            if !consumed || place.is_none_or(|place| place.buffer == NONE) {
                continue;
            }
            match op {
                Some(_) if used.alone => {
                    drop |= 1 << used.slot;
                    let by = index(self.plan.drops.len())?;
                    self.plan.drops.push((action, used.slot));
                    self.set(used.memory, &used.range(), by.saturating_add(BY));
                }
                Some(_) => {}
                None => self.set(used.memory, &used.range(), UNSET),
            }
        }
        let step = index(number)?;
        match op {
            Some(op) => {
                let log = self.recording.deterministic && op.inner.settings.log.is_some();
                self.plan.raises |= op.inner.settings.scratch.is_some() || log;
                self.plan.actions.push(Action::Adjoint { step, assign, drop, sums, first });
            }
            None => {
                self.plan.raises |= self.recording.deterministic;
                self.plan.actions.push(Action::Custom { step, first });
            }
        }
        for (at, place) in apart {
            if let Some(used) = uses.get(at) {
                self.join(used, place)?;
            }
        }
        for used in uses.iter().filter(written) {
            if cuts(used) {
                self.set(used.memory, &used.range(), UNSET);
            }
            self.release(number, used.memory);
        }
        Ok(())
    }

    /// Returns a separate gradient for elements that other threads add to through another parameter, without atomics.
    fn place_apart(&mut self, used: &Use, range: &Range<usize>, assign: &mut u64) -> Result<Place> {
        let known = self.place(used.memory, range)?;
        let offset = known.offset % 16;
        let buffer = self.buffer(offset + known.bytes)?;
        let place = Place { buffer, offset, ..known };
        if used.covers && used.alone {
            *assign |= 1 << used.slot;
        } else {
            self.plan.actions.push(Action::Zero(place));
        }
        Ok(place)
    }

    /// Adds a separate gradient to that of the memory.
    fn join(&mut self, used: &Use, from: Place) -> Result<()> {
        let range = used.range();
        self.make_zeros(used.memory, &range)?;
        let to = self.place(used.memory, &range)?;
        let double = used.element.real == Some(crate::FloatType::F64);
        self.plan.actions.push(Action::Add { from, to, double });
        self.set(used.memory, &range, VALID);
        self.plan.free.push(from.buffer);
        Ok(())
    }

    /// Takes memory for values that the adjoint may write.
    fn private_values(&mut self, number: usize, uses: &[Use]) -> Result<()> {
        let Some(step) = self.recording.steps.get(number) else { return Ok(()) };
        for (at, used) in (step.uses.start..).zip(uses) {
            let Some(memory) = self.recording.memories.get(used.memory) else { continue };
            if matches!(used.value, Primal::EntryPrivate) {
                let skewed = (memory.allocation.device_ptr() + used.start as u64) % 16;
                let offset = skewed as usize;
                let buffer = self.store.take(offset + used.range().len())?;
                self.plan.private.push((at, Copied { buffer, offset }));
            }
        }
        Ok(())
    }

    /// Returns whether a part of a range has a gradient.
    fn is_valid(&self, memory: u32, range: &Range<usize>) -> bool {
        self.any(memory, range, |state| state == VALID)
    }

    fn any(&self, memory: u32, range: &Range<usize>, passes: impl Fn(u32) -> bool) -> bool {
        let gradient = self.plan.gradients.get(memory as usize);
        gradient.is_some_and(|gradient| gradient.states.any(range.clone(), passes))
    }

    fn set(&mut self, memory: u32, range: &Range<usize>, state: u32) {
        if let Some(gradient) = self.plan.gradients.get_mut(memory as usize) {
            gradient.states.set(range.clone(), state);
        }
    }

    /// Writes zeros to the unset parts of a range.
    fn make_zeros(&mut self, memory: u32, range: &Range<usize>) -> Result<()> {
        if !self.any(memory, range, |state| state != VALID) {
            return Ok(());
        }
        let Some(gradient) = self.plan.gradients.get(memory as usize) else { return Ok(()) };
        let missing: Vec<(Range<usize>, u32)> =
            gradient.states.within(range.clone()).filter(|(_, state)| *state != VALID).collect();
        for (run, state) in missing {
            let drop =
                state.checked_sub(BY).and_then(|by| self.plan.drops.get(by as usize)).copied();
            let action = drop.and_then(|(action, _)| self.plan.actions.get_mut(action));
            if let (Some((_, slot)), Some(Action::Adjoint { drop, .. })) = (drop, action) {
                *drop &= !(1 << slot);
            } else {
                let place = self.place(memory, &run)?;
                self.plan.actions.push(Action::Zero(place));
            }
            self.set(memory, &run, VALID);
        }
        Ok(())
    }

    /// Returns the memory of the gradient of a range.
    fn place(&mut self, memory: u32, range: &Range<usize>) -> Result<Place> {
        let nowhere = || Error::invalid("a gradient of memory that is not known");
        let known = self.recording.memories.get(memory).ok_or_else(nowhere)?;
        let widening = known.real.map_or(1, crate::FloatType::widening);
        let skewed = (known.allocation.device_ptr() % 16) as usize;
        let gradient = self.plan.gradients.get(memory as usize).ok_or_else(nowhere)?;
        let mut buffer = gradient.buffer;
        if buffer == NONE {
            let bytes = known.allocation.size_bytes().checked_mul(widening).ok_or_else(nowhere)?;
            buffer = self.buffer(skewed + bytes)?;
            if let Some(gradient) = self.plan.gradients.get_mut(memory as usize) {
                gradient.buffer = buffer;
            }
        }
        let offset = skewed + range.start * widening;
        Ok(Place { buffer, offset, bytes: range.len() * widening })
    }

    /// Returns a buffer of at least `bytes`.
    fn buffer(&mut self, bytes: usize) -> Result<u32> {
        let buffers = &self.plan.buffers;
        let fits = |number: &u32| {
            buffers.get(*number as usize).is_some_and(|buffer| {
                (bytes..=bytes.saturating_add(255)).contains(&buffer.size_bytes())
            })
        };
        if let Some(at) = self.plan.free.iter().rposition(fits) {
            return Ok(self.plan.free.swap_remove(at));
        }
        let number = index(self.plan.buffers.len())?;
        self.plan.buffers.push(self.store.take(bytes)?);
        Ok(number)
    }

    /// Frees the gradient of memory that is unset and that no earlier step uses.
    fn release(&mut self, number: usize, memory: u32) {
        let known = self.recording.memories.get(memory);
        let last = known.is_some_and(|known| known.first_step as usize >= number);
        let all = 0..usize::MAX;
        if !last || self.is_valid(memory, &all) {
            return;
        }
        if let Some(gradient) = self.plan.gradients.get_mut(memory as usize)
            && gradient.buffer != NONE
        {
            self.plan.free.push(gradient.buffer);
            gradient.buffer = NONE;
            // A step that needs zeros here fills another buffer.
            gradient.states.set(all, UNSET);
        }
    }
}

/// Returns whether no other active use overlaps this one.
fn alone(uses: &[Use], at: usize) -> bool {
    let Some(used) = uses.get(at) else { return false };
    let other = |(other, it): (usize, &Use)| {
        other != at && it.active && it.overlaps(used.memory, &used.range())
    };
    !uses.iter().enumerate().any(other)
}
