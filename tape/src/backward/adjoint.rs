//! Launching the adjoint of a recorded launch.

use std::ffi::c_void;
use std::ops::Range;

use cuda_safe::{Access, Kernel, LaunchConfig, Result};

use super::plan::{NOWHERE, Place, Plan};
use super::run::{Pass, part};
use crate::frame::{DETERMINISTIC, Frame, RESUME};
use crate::record::{Chunk, Kind, NONE, Recording, Target, Use, write_address};
use crate::saved::Saved;
use crate::spec::{Op, Primal, Slot};
use crate::store::Work;
use crate::untyped::{Tell, Untyped};

/// The plan's decisions for an adjoint: bits of its frame's masks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Masks {
    pub(super) assign: u64,
    pub(super) drop: u64,
    pub(super) sums: u64,
}

/// A recorded launch whose adjoint is being launched.
struct Launched<'a> {
    op: &'a Op,
    /// The adjoint.
    kernel: &'a Kernel,
    /// A range of `Recording::uses`.
    uses: Range<usize>,
    /// The index of its first chunk in `Recording::bytes`.
    base: u32,
    /// The index of its first place in `Plan::places`, which has one for each use.
    first: u32,
}

impl Launched<'_> {
    /// Returns its uses and the places of their gradients.
    fn places<'p>(
        &self,
        recording: &'p Recording,
        plan: &'p Plan,
    ) -> impl Iterator<Item = (&'p Use, &'p Place)> {
        let uses = recording.uses.get(self.uses.clone()).unwrap_or_default();
        uses.iter().zip(plan.places.get(self.first as usize..).unwrap_or_default())
    }

    /// Returns the place of a target's gradient.
    fn place_of(&self, recording: &Recording, plan: &Plan, target: Target) -> Place {
        let found = self.places(recording, plan).find(|(used, _)| used.target == target);
        found.map_or(NOWHERE, |(_, place)| *place)
    }
}

/// The distance of partial sums in bytes.
const PARTIAL: usize = 128;
/// The base-2 logarithm of the largest number of partial sums.
const MOST_PARTIALS_LOG2: u32 = 10;

impl Pass<'_> {
    pub(super) fn adjoint(
        &mut self,
        number: usize,
        step: u32,
        masks: Masks,
        first: u32,
        resume: bool,
    ) -> Result<()> {
        let Some(known) = self.recording.steps.get(step as usize) else { return Ok(()) };
        let Kind::Launch { op, launch, bytes, primal } = &known.kind else { return Ok(()) };
        let (op, launch, base, primal) = (op.clone(), *launch, *bytes, *primal);
        let uses = known.uses.start as usize..known.uses.end as usize;
        let shape = op.shape(&launch);
        let logs = self.recording.deterministic;
        let Some(kernel) = op.inner.kernels.adjoint_for(&shape, logs) else { return Ok(()) };
        // A resumed generated adjoint needs new copies: it has repeated the kernel's stores before it found that its
        // memory was too small.
        if !resume || op.derivation().is_some() {
            self.private_values(uses.clone())?;
        }
        let mut frame = Frame::of(&launch);
        (frame.assign, frame.drop) = (masks.assign, masks.drop);
        frame.status = self.status()?.address();
        if let Some(primal) = self.recording.copies.get(primal as usize) {
            (frame.tape, frame.tape_bytes) = (primal.address(), primal.buffer.size_bytes() as u64);
        }
        if op.inner.settings.scratch.is_some() {
            self.prepare_scratch(&op, &launch, &shape, resume, &mut frame)?;
        }
        if resume {
            frame.flags |= RESUME;
        }
        if logs {
            frame.flags |= DETERMINISTIC;
            self.prepare_log(log_adds(&op, &launch, &shape), &mut frame)?;
        }
        let scalars = op.inner.scalars.len();
        if scalars > 0 {
            frame.partials_log2 = partials_log2(&shape);
        }
        let launched = Launched { op: &op, kernel, uses, base, first };
        self.gradients(&launched);
        self.launch_adjoint(&launched, shape, &mut frame)?;
        if op.inner.settings.scratch.is_some() {
            self.note(number)?;
        }
        if logs && frame.log_bytes > 0 {
            self.sum_log(&frame)?;
        }
        for scalar in 0..scalars {
            let stores = masks.sums >> scalar & 1 == 1;
            self.sum_partials(&launched, scalar, &frame, stores)?;
        }
        Ok(())
    }

    /// Writes the values of the gradient parameters to `work.gradients`.
    fn gradients(&mut self, launched: &Launched<'_>) {
        let (op, base) = (launched.op, launched.base);
        let chunks = &mut self.work.gradients;
        chunks.clear();
        let (recording, plan) = (&*self.recording, &*self.plan);
        let of_pointer = |pointer: usize| {
            let place = launched.place_of(recording, plan, Target::Pointer(pointer as u16));
            let memory = plan.memory(place);
            memory.map_or(0, |(memory, _)| memory.device_ptr() + place.offset as u64)
        };
        let partials = self.store.known_work(Work::Partials).map_or(0, |work| work.device_ptr());
        for slot in &op.inner.slots {
            let at = chunks.len() * 16;
            match slot {
                Slot::Pointer(pointer) => {
                    chunks.push(EMPTY);
                    write_address(chunks, at, of_pointer(*pointer));
                }
                Slot::Partials(scalar) => {
                    let place = launched.place_of(recording, plan, Target::Scalar(*scalar as u16));
                    let offset = (*scalar * PARTIAL) << MOST_PARTIALS_LOG2;
                    let wanted = place.buffer != NONE;
                    chunks.push(EMPTY);
                    write_address(chunks, at, if wanted { partials + offset as u64 } else { 0 });
                }
                Slot::Structure(param) => {
                    let Some(param) = op.inner.params.get(*param) else { continue };
                    let from = base as usize + param.at / 16;
                    let until = from + param.size.div_ceil(16);
                    chunks.extend_from_slice(recording.bytes.get(from..until).unwrap_or_default());
                    for pointer in param.pointers.clone() {
                        let Some(known) = op.inner.pointers.get(pointer) else { continue };
                        write_address(chunks, at + known.offset, of_pointer(pointer));
                    }
                }
            }
        }
    }

    fn launch_adjoint(
        &mut self,
        launched: &Launched<'_>,
        shape: LaunchConfig,
        frame: &mut Frame,
    ) -> Result<()> {
        let Launched { op, kernel, ref uses, base, .. } = *launched;
        let bytes = self.recording.bytes.as_mut_ptr().cast::<u8>();
        let bytes = bytes.wrapping_add(base as usize * 16);
        let gradients = self.work.gradients.as_mut_ptr();
        let pointers = &mut self.work.pointers;
        pointers.clear();
        pointers.extend(
            op.inner.params.iter().map(|param| bytes.wrapping_add(param.at).cast::<c_void>()),
        );
        let mut chunk = 0;
        for slot in &op.inner.slots {
            pointers.push(gradients.wrapping_add(chunk).cast());
            chunk += match slot {
                Slot::Structure(param) => {
                    op.inner.params.get(*param).map_or(1, |param| param.size.div_ceil(16))
                }
                Slot::Pointer(_) | Slot::Partials(_) => 1,
            };
        }
        pointers.push(std::ptr::from_mut(frame).cast());
        let (recording, plan, store) = (&*self.recording, &*self.plan, &*self.store);
        let frame = *frame;
        let tells = |tell: Tell<'_>| {
            for (at, (used, place)) in launched.places(recording, plan).enumerate() {
                tell_value(recording, plan, uses.start + at, used, tell)?;
                if let Some((memory, access)) = plan.memory(*place) {
                    tell(memory, place.range(), access)?;
                }
            }
            tell_frame(store, &frame, tell)?;
            let primal = recording.copies.iter().find(|copy| frame.tape == copy.address());
            match primal.filter(|_| frame.tape != 0) {
                Some(copy) => {
                    tell(copy.buffer.allocation(), copy.buffer.byte_range(), Access::Read)
                }
                None => Ok(()),
            }
        };
        // SAFETY: parameters, gradients and frame have the sizes that `OpSpec::register` has compared, and stay where
        // they are until the launch was made; the rest is the promise of `OpSpec::register`. The kernel is only known
        // at run time, so `kernels!` can't declare it.
        unsafe { kernel.launch(self.stream, shape, Untyped::new(pointers, tells)) }
    }

    /// Copies values that the adjoint may write.
    fn private_values(&mut self, uses: Range<usize>) -> Result<()> {
        if self.plan.private.is_empty() {
            return Ok(());
        }
        for number in uses {
            let found = self.plan.private.iter_mut().find(|(of, _)| *of as usize == number);
            let Some((_, private)) = found else { continue };
            let Some(used) = self.recording.uses.get(number).copied() else { continue };
            let part = private.offset..private.offset + used.range().len();
            let value = Saved::<u8>::new(self.recording.place_of_value(&used)?);
            value.copy_to(self.stream, private.buffer.slice_mut(part)?)?;
            write_address(&mut self.recording.bytes, used.patch, private.address());
        }
        Ok(())
    }

    /// Sums the partial gradients of a number in a fixed order, and clears them.
    fn sum_partials(
        &mut self,
        launched: &Launched<'_>,
        scalar: usize,
        frame: &Frame,
        stores: bool,
    ) -> Result<()> {
        let Some(known) = launched.op.inner.scalars.get(scalar) else { return Ok(()) };
        let target = Target::Scalar(scalar as u16);
        let place = launched.place_of(self.recording, self.plan, target);
        let Some(work) = self.store.known_work(Work::Partials).filter(|_| place.buffer != NONE)
        else {
            return Ok(());
        };
        let bytes = PARTIAL << MOST_PARTIALS_LOG2;
        let partials = part(work, scalar * bytes, bytes);
        let (to, log2) = (self.arg(place, Access::Write), frame.partials_log2);
        let launch = LaunchConfig::new(known.members.count, crate::kernels::BLOCK);
        let (members, assign, status) = (known.members, u32::from(stores), self.status()?);
        // SAFETY: 2^partials_log2 sums lie in the working memory; the members lie in the gradient.
        unsafe {
            self.kernels.sum_partials(
                self.stream,
                launch,
                partials,
                log2,
                members,
                to,
                assign,
                status,
            )
        }
    }
}

const EMPTY: Chunk = Chunk([std::mem::MaybeUninit::new(0); 16]);

/// Reports the memory of a value.
fn tell_value(
    recording: &Recording,
    plan: &Plan,
    number: usize,
    used: &Use,
    tell: Tell<'_>,
) -> Result<()> {
    if matches!(used.value, Primal::None) {
        return Ok(());
    }
    if matches!(used.value, Primal::EntryPrivate) {
        let found = plan.private.iter().find(|(of, _)| *of as usize == number);
        return match found {
            Some((_, private)) => {
                tell(private.buffer.allocation(), private.buffer.byte_range(), Access::Write)
            }
            None => Ok(()),
        };
    }
    match recording.copies.get(used.copy as usize) {
        Some(copy) => tell(copy.buffer.allocation(), copy.buffer.byte_range(), Access::Read),
        None => match recording.memories.get(used.memory) {
            Some(memory) => {
                let (allocation, version) = (&memory.allocation, Some(used.version));
                tell(allocation, used.range(), Access::Read)?;
                // The memory is kept memory, so no use writes it before the launch is enqueued.
                crate::saved::Place { allocation, range: used.range(), version }.check()
            }
            None => Ok(()),
        },
    }
}

/// Reports the memory that a frame points to.
pub(super) fn tell_frame(store: &crate::store::Store, frame: &Frame, tell: Tell<'_>) -> Result<()> {
    if frame.status != 0 {
        let status = store.known_status()?;
        // An adjoint that may raise the status writes it, which orders it after the other steps; the others only read
        // it.
        let raises = frame.scratch_bytes > 0 || frame.log_bytes > 0;
        let access = if raises { Access::Write } else { Access::Read };
        tell(status.allocation(), status.byte_range(), access)?;
    }
    for which in [Work::Scratch, Work::Partials, Work::Log] {
        let Some(work) = store.known_work(which) else { continue };
        let address = match which {
            Work::Scratch => frame.scratch_bytes > 0,
            Work::Log => frame.log_bytes > 0,
            Work::Partials | Work::Sums => frame.partials_log2 > 0,
        };
        if address {
            tell(work.allocation(), work.byte_range(), Access::Write)?;
        }
    }
    Ok(())
}

/// Returns the base-2 logarithm of the number of partial sums: about one for each block.
fn partials_log2(shape: &LaunchConfig) -> u32 {
    let blocks = shape.grid.count().max(2);
    (u64::BITS - (blocks - 1).leading_zeros()).min(MOST_PARTIALS_LOG2)
}

pub(super) fn partials_bytes(op: &Op) -> usize {
    (op.inner.scalars.len() * PARTIAL) << MOST_PARTIALS_LOG2
}

/// Returns the largest number of summands that go to the log, directly or as partial sums.
pub(super) fn log_adds(op: &Op, launch: &LaunchConfig, shape: &LaunchConfig) -> usize {
    let members: u64 = op.inner.scalars.iter().map(|scalar| u64::from(scalar.members.count)).sum();
    // Each block adds one partial sum; each thread adds one if the adjoint may run several times.
    let each =
        if op.inner.settings.scratch.is_some() { shape.threads() } else { shape.grid.count() };
    let partial = usize::try_from(members.saturating_mul(each));
    let most = op.inner.settings.log.map_or(0, |log| log.most(launch));
    most.saturating_add(partial.unwrap_or(usize::MAX))
}
