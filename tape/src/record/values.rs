//! Values that adjoints will read: their memory, and copies of those that are about to be overwritten.

use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{DeviceBuffer, Error, Result, Stream};

use super::args::write_address;
use super::{Copied, Kind, LOST, NONE, Recording, Target, Use, index};
use crate::saved::Place;
use crate::spec::Primal;
use crate::store::Store;

impl Recording {
    /// Keeps the value of a use from now on: the current contents of its memory. The caller borrows the memory now,
    /// but no borrow protects it later. So it becomes kept memory, and no other use comes between the steps of a
    /// pass's use.
    pub(crate) fn pend(&mut self, number: usize, stream: &Stream) -> Result<()> {
        let Some(used) = self.uses.get_mut(number) else { return Ok(()) };
        if let Some(memory) = self.memories.get_mut(used.memory) {
            memory.keep(stream)?;
            used.version = memory.allocation.version(used.range());
            memory.pending.push(index(number)?);
        }
        Ok(())
    }

    /// Copies the values of a range that is about to be overwritten, and that some adjoint will need.
    #[inline]
    pub(crate) fn rescue(
        &mut self,
        stream: &Stream,
        store: &mut Store,
        memory: u32,
        range: &Range<usize>,
    ) -> Result<()> {
        match self.memories.get(memory) {
            Some(known) if !known.pending.is_empty() => {
                self.rescue_some(stream, store, memory, range)
            }
            _ => Ok(()),
        }
    }

    fn rescue_some(
        &mut self,
        stream: &Stream,
        store: &mut Store,
        memory: u32,
        range: &Range<usize>,
    ) -> Result<()> {
        let Some(known) = self.memories.get_mut(memory) else { return Ok(()) };
        let mut pending = std::mem::take(&mut known.pending);
        let mut at = 0;
        // Several launches may need the same value: one copy is enough.
        let mut copied: Vec<(Range<usize>, u64, u32)> = Vec::new();
        let mut result = Ok(());
        while let Some(number) = pending.get(at).copied() {
            let Some(used) = self.uses.get(number as usize).copied() else { break };
            if !used.overlaps(memory, range) {
                at += 1;
                continue;
            }
            let key = (used.range(), used.version);
            let same =
                copied.iter().find(|(range, version, _)| (range, version) == (&key.0, &key.1));
            let copy = match same {
                Some((.., copy)) => Ok(*copy),
                None => self.copy_value(stream, store, &used),
            };
            match copy {
                Ok(copy) => {
                    copied.push((key.0, key.1, copy));
                    self.use_copy(number, copy);
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            pending.swap_remove(at);
        }
        if let Some(known) = self.memories.get_mut(memory) {
            known.pending = pending;
        }
        result
    }

    /// Copies the value of a use; [`LOST`] if it was already overwritten.
    fn copy_value(&mut self, stream: &Stream, store: &mut Store, used: &Use) -> Result<u32> {
        let Some(memory) = self.memories.get(used.memory) else { return Ok(LOST) };
        let allocation = memory.allocation.clone();
        if allocation.version(used.range()) != used.version
            || matches!(used.target, Target::Opaque(_))
        {
            return Ok(LOST);
        }
        let copied = copy_of(stream, store, &allocation, used.range())?;
        if allocation.version(used.range()) != used.version {
            // Another thread has written a part that is not borrowed here.
            store.give(copied.buffer, self.captured);
            return Ok(LOST);
        }
        let number = index(self.copies.len())?;
        self.copies.push(copied);
        Ok(number)
    }

    /// Makes the adjoint read the value from a copy.
    fn use_copy(&mut self, number: u32, copy: u32) {
        let address = self.copies.get(copy as usize).map(Copied::address);
        let Some(used) = self.uses.get_mut(number as usize) else { return };
        used.copy = copy;
        if let (Target::Pointer(_), Some(address)) = (used.target, address) {
            write_address(&mut self.bytes, used.patch, address);
        }
    }

    /// Notes the values in memory that a launch may write, in parts that it does not write: their versions change,
    /// but not their contents.
    pub(super) fn note_bystanders(&mut self, memory: u32, given: &Range<usize>) {
        let Some(known) = self.memories.get(memory) else { return };
        for number in &known.pending {
            let Some(used) = self.uses.get(*number as usize) else { continue };
            if used.overlaps(memory, given)
                && known.allocation.version(used.range()) == used.version
            {
                self.refreshed.push(*number);
            }
        }
    }

    /// Gives the noted values their new versions, after the launch.
    pub(super) fn refresh_bystanders(&mut self) {
        for number in self.refreshed.drain(..) {
            let Some(used) = self.uses.get_mut(number as usize) else { continue };
            if let Some(memory) = self.memories.get(used.memory) {
                used.version = memory.allocation.version(used.range());
            }
        }
    }

    /// Returns the current memory of a use's value.
    pub(crate) fn place_of_value(&self, used: &Use) -> Result<Place<'_>> {
        let (allocation, start, version) = match self.copies.get(used.copy as usize) {
            Some(copy) => (copy.buffer.allocation(), copy.offset, None),
            None => match self.memories.get(used.memory) {
                Some(memory) => (&memory.allocation, used.start, Some(used.version)),
                None => return Err(Error::invalid("a value of memory that is not known")),
            },
        };
        Ok(Place { allocation, range: start..start + used.range().len(), version })
    }

    /// Returns a message for the first value that an adjoint of the step needs and that was overwritten.
    pub(crate) fn missing_value(&self, step: usize) -> Option<String> {
        let of = self.steps.get(step)?;
        let gone = |used: &&Use| {
            let needed =
                !matches!(used.value, Primal::None) || matches!(used.target, Target::Opaque(_));
            let there = || {
                let memory = self.memories.get(used.memory)?;
                Some(memory.allocation.version(used.range()) == used.version)
            };
            needed && (used.copy == LOST || used.copy == NONE && there() != Some(true))
        };
        let lost = self.uses_of(of).iter().find(gone)?;
        let name = self.name_of_use(step, lost);
        let why = match (&of.kind, lost.target) {
            (Kind::Launch { .. }, Target::Opaque(_)) => {
                " (the operation's specification does not say which pointers it has in there, so the tape \
                 could not keep a copy)"
            }
            _ => "",
        };
        Some(format!("{name} was overwritten after it was recorded{why}"))
    }
}

/// Returns a copy of a range of memory, at an address congruent to it modulo 16.
pub(crate) fn copy_of(
    stream: &Stream,
    store: &mut Store,
    allocation: &Arc<cuda_safe::Allocation>,
    range: Range<usize>,
) -> Result<Copied> {
    let offset = ((allocation.device_ptr() + range.start as u64) % 16) as usize;
    let mut buffer: DeviceBuffer<u8> = store.take(offset + range.len())?;
    // SAFETY: bytes are copied to memory where they are read as values of the same type. They are kept: see `pend`.
    let view = unsafe { allocation.view::<u8>(range.clone()) }?;
    let mut to = buffer.slice_mut(offset..offset + range.len())?;
    if stream.is_recording() {
        // The copy is also made at once: the graph may never run, or skip a body, and the copy must hold valid values
        // of the type all the same. Memory of the graph has no contents outside of it, so it is replaced by zeros.
        if to.copy_from(store.home(), view).is_err() {
            to.fill(store.home(), 0)?;
        }
    }
    to.copy_from(stream, view)?;
    Ok(Copied { buffer, offset })
}
