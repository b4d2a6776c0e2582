//! Enqueuing a pass.

use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, DeviceBuffer, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
};

use super::plan::{Action, NOWHERE, Place, Plan};
use crate::kernels::{BLOCK, Kernels};
use crate::record::{Chunk, Kind, Recording};
use crate::store::Store;

/// Buffers in which launches of adjoints are prepared.
#[derive(Default)]
pub(crate) struct Workplace {
    pub(super) pointers: Vec<*mut std::ffi::c_void>,
    pub(super) gradients: Vec<Chunk>,
}

// SAFETY: the pointers are only used during the launch for which they were written.
unsafe impl Send for Workplace {}
// SAFETY: as above; no method uses them through `&`.
unsafe impl Sync for Workplace {}

/// A pass that is being enqueued.
pub(crate) struct Pass<'a> {
    pub(crate) recording: &'a mut Recording,
    pub(crate) plan: &'a mut Plan,
    pub(crate) store: &'a mut Store,
    pub(crate) kernels: &'a Kernels,
    pub(crate) stream: &'a Stream,
    pub(crate) work: &'a mut Workplace,
    /// The initial sizes of adjoints' scratch memory and of the log, if they were set.
    pub(crate) scratch_bytes: Option<usize>,
    pub(crate) log_bytes: Option<usize>,
    /// Whether the pass begins with the statuses of others: see [`take_statuses`](Self::take_statuses).
    pub(crate) takes: bool,
}

/// The most blocks of the tape's own kernels, which have grid-stride loops.
const MOST_BLOCKS: usize = 4096;

pub(super) fn cover(n: usize) -> LaunchConfig {
    LaunchConfig::new(n.div_ceil(BLOCK as usize).clamp(1, MOST_BLOCKS) as u32, BLOCK)
}

impl Pass<'_> {
    /// Fails if a value that some adjoint needs was overwritten, before anything is enqueued.
    pub(crate) fn check_values(&self) -> Result<()> {
        for action in &self.plan.actions {
            if let Action::Adjoint { step, .. } | Action::Custom { step, .. } = action
                && let Some(message) = self.recording.missing_value(*step as usize)
            {
                return Err(Error::invalid(message).with_hint(
                    "what a recorded launch has read must stay until the backward pass, unless it is \
                     overwritten by what is recorded too",
                ));
            }
        }
        Ok(())
    }

    /// Enqueues all actions from index `from` on.
    pub(crate) fn run(&mut self, from: usize) -> Result<()> {
        for number in from..self.plan.actions.len() {
            self.act(number, false)?;
        }
        Ok(())
    }

    /// Enqueues one action. `resume`: an adjoint some of whose threads have finished.
    pub(super) fn act(&mut self, number: usize, resume: bool) -> Result<()> {
        let Some(action) = self.plan.actions.get(number).copied() else { return Ok(()) };
        match action {
            Action::Zero(place) => self.zero(place),
            Action::Copy { from, to } => self.copy(from, to),
            Action::Add { from, to, double } => self.add(from, to, double),
            Action::Adjoint { step, assign, drop, sums, first } => {
                let masks = super::adjoint::Masks { assign, drop, sums };
                self.adjoint(number, step, masks, first, resume)
            }
            Action::Custom { step, first } => self.custom(step, first),
        }
    }

    /// Returns whether an earlier step may have failed, so that later ones must check the status.
    pub(crate) fn guarded(&self) -> bool {
        self.plan.raises || self.takes
    }

    /// Enqueues a kernel that raises the status if another one is raised: the marker of a recording that may not have
    /// run, or the status of primals outside of the graph. The adjoints then do nothing, instead of following indices
    /// that were never written.
    pub(crate) fn take_statuses(&mut self) -> Result<()> {
        let marker = self.recording.marker.as_ref();
        let apart = self.stream.is_recording() && self.recording.raises && marker.is_none();
        let direct = if apart { self.store.direct_status() } else { None };
        let asked = marker.and_then(|marker| marker.asked_by(self.stream));
        let takes = asked.is_some() || direct.is_some();
        for other in [asked, direct].into_iter().flatten() {
            let from = PlaceArg { access: Access::Read, ..whole(other) };
            let to = whole(self.store.known_status()?);
            // SAFETY: one thread reads one status and writes another.
            unsafe { self.kernels.take(self.stream, (1, 1), from, to) }?;
        }
        self.takes = takes;
        Ok(())
    }

    pub(crate) fn zero(&mut self, place: Place) -> Result<()> {
        let own = self.plan.buffers.get(place.buffer as usize).is_some();
        if self.guarded() || !own {
            let (to, words) = (self.arg(place, Access::Write), place.bytes / 4);
            // SAFETY: the kernel writes the words of the place, which lies in its buffer.
            return unsafe {
                self.kernels.zero(self.stream, cover(words), to, words as u64, self.status()?)
            };
        }
        let Some(buffer) = self.plan.buffers.get_mut(place.buffer as usize) else { return Ok(()) };
        buffer.slice_mut(place.range())?.fill(self.stream, 0)
    }

    fn copy(&mut self, from: Place, to: Place) -> Result<()> {
        let (words, status) = (to.bytes / 4, self.status()?);
        let (to, from) = (self.arg(to, Access::Write), self.arg(from, Access::Read));
        // SAFETY: both places have that many words; they belong to two buffers.
        unsafe { self.kernels.copy(self.stream, cover(words), to, from, words as u64, status) }
    }

    fn add(&mut self, from: Place, to: Place, double: bool) -> Result<()> {
        let n = to.bytes / if double { 8 } else { 4 };
        let (launch, status) = (cover(n), self.status()?);
        let (to, from) = (self.arg(to, Access::Write), self.arg(from, Access::Read));
        // SAFETY: both places have that many numbers, and do not overlap.
        unsafe {
            match double {
                true => self.kernels.add_f64(self.stream, launch, to, from, n as u64, status),
                false => self.kernels.add_f32(self.stream, launch, to, from, n as u64, status),
            }
        }
    }

    /// Returns a place as a pointer; null for [`NOWHERE`].
    pub(super) fn arg(&self, place: Place, access: Access) -> PlaceArg<'_> {
        PlaceArg { memory: self.plan.memory(place).map(|(memory, _)| memory), place, access }
    }

    /// Returns the status, or null if no step can raise it, which saves a load.
    pub(super) fn status(&self) -> Result<PlaceArg<'_>> {
        if self.guarded() { self.store.known_status().map(whole) } else { Ok(NO_ARG) }
    }

    /// Runs a step in Rust.
    fn custom(&mut self, step: u32, first: u32) -> Result<()> {
        if self.guarded() && !self.stream.is_recording() {
            // A custom step runs on the host, so the status of the steps before it is read first.
            self.settle_before(step)?;
        }
        let Some(known) = self.recording.steps.get_mut(step as usize) else { return Ok(()) };
        let Kind::Custom(id, op) = &mut known.kind else { return Ok(()) };
        let id = *id;
        let Some(mut op) = op.take() else {
            return Err(Error::invalid("the adjoint of a custom operation has panicked before"));
        };
        let done = self.run_custom(&mut *op, id, step, first);
        if let Some(known) = self.recording.steps.get_mut(step as usize) {
            known.kind = Kind::Custom(id, Some(op));
        }
        done
    }
}

/// A part of memory that the tape owns or borrows, as a pointer parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceArg<'a> {
    pub(crate) memory: Option<&'a Arc<Allocation>>,
    pub(crate) place: Place,
    pub(crate) access: Access,
}

/// A null pointer.
pub(crate) const NO_ARG: PlaceArg<'static> =
    PlaceArg { memory: None, place: NOWHERE, access: Access::Read };

/// Returns a whole buffer for writing.
pub(crate) fn whole(buffer: &DeviceBuffer<u8>) -> PlaceArg<'_> {
    part(buffer, 0, buffer.size_bytes())
}

/// Returns some bytes of a buffer for writing.
pub(super) fn part(buffer: &DeviceBuffer<u8>, offset: usize, bytes: usize) -> PlaceArg<'_> {
    let place = Place { offset, bytes, ..NOWHERE };
    PlaceArg { memory: Some(buffer.allocation()), place, access: Access::Write }
}

impl PlaceArg<'_> {
    pub(crate) fn address(&self) -> u64 {
        self.memory.map_or(0, |memory| memory.device_ptr() + self.place.offset as u64)
    }
}

// SAFETY: the kernel reaches the place, which is reported, and nothing through a null pointer.
unsafe impl KernelArg for PlaceArg<'_> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::value::<u64>();

    fn abi(&self) -> u64 {
        self.address()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Some(memory) = self.memory else { return Ok(()) };
        visitor.visit(memory, self.place.range(), self.access)
    }
}
