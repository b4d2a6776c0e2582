//! Runs an adjoint: finds memory for its gradients, and enqueues all work.

use std::mem::MaybeUninit;

use cuda_safe::{
    Access, DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, LaunchConfig, Result, Stream,
};

use super::gradients::{Gradients, Part};
use crate::backward::{Action, NOWHERE, Pass, Place, Plan, Workplace};
use crate::element::FloatType;
use crate::kernels::{self, Kernels};
use crate::record::{Copied, Recording, Target, Use};
use crate::spec::{Effect, Op, Primal, TapeBytes};
use crate::store::Store;

/// The state of a call.
pub(super) struct Call<'a> {
    pub(super) op: &'a Op,
    pub(super) stream: &'a Stream,
    pub(super) launch: &'a LaunchConfig,
    pub(super) recording: Recording,
    pub(super) store: Store,
    plan: Plan,
    /// The copies from memory of the call to memory of the caller, after the adjoint.
    copies: Vec<Action>,
    /// Whether the host can't wait for errors: then gradients are NaN.
    quiet: bool,
    masks: Masks,
}

#[derive(Default)]
struct Masks {
    assign: u64,
    drop: u64,
    sums: u64,
}

/// The contents of a gradient's memory before the adjoint.
enum Initial<'a> {
    /// Any contents: the adjoint stores to all of it.
    Any,
    Zero,
    Copy(DeviceSlice<'a, u8>),
}

/// Runs the adjoint of a launch whose arguments are recorded.
pub(super) fn run(
    op: &Op,
    stream: &Stream,
    launch: &LaunchConfig,
    recording: Recording,
    mut gradients: Gradients<'_>,
) -> Result<()> {
    let parts = gradients.parts(op, &recording)?;
    let context = stream.context();
    if op.kernel().module().context() != context {
        return Err(Error::invalid(format!(
            "`{}` belongs to another context than the stream",
            op.name()
        )));
    }
    let (settings, captures) = (&op.inner.settings, stream.is_recording());
    let runs = launch.threads() > 0;
    let takes = settings.scratch.is_some();
    if captures && runs && takes && gradients.scratch_bytes.is_none() {
        return Err(Error::invalid(format!(
            "the adjoint of `{}` takes scratch memory, and a capture can't wait to see whether it is enough",
            op.name()
        ))
        .with_hint("`Gradients::scratch_bytes` says how much it gets"));
    }
    if captures && runs && matches!(op.inner.tape_bytes, Some(TapeBytes::Counted)) {
        return Err(Error::invalid(format!(
            "`{}` has to run once to tell how much memory it needs, which a capture can't",
            op.name()
        )));
    }
    super::primal::check(op, &recording)?;
    let primal = op.inner.tape_bytes.is_some();
    let logs = gradients.deterministic && settings.log.is_some();
    let raises = runs && (takes || logs || primal);
    let silent = captures || takes && gradients.scratch_bytes.is_some();
    let mut plan = Plan::default();
    plan.raises = raises;
    let mut call = Call {
        op,
        stream,
        launch,
        recording,
        store: Store::new(stream),
        plan,
        copies: Vec::new(),
        quiet: raises && silent,
        masks: Masks::default(),
    };
    let loaded = &op.inner.helpers;
    let kernels = match loaded.get() {
        Some(kernels) => kernels,
        None => {
            let kernels = kernels::load(&context)?;
            loaded.get_or_init(|| kernels)
        }
    };
    call.place(&parts, &mut gradients)?;
    call.enqueue(kernels, gradients.scratch_bytes, runs)
}

impl Call<'_> {
    /// Finds memory for each gradient, and writes its initial contents.
    fn place(&mut self, parts: &[Part], gradients: &mut Gradients<'_>) -> Result<()> {
        let runs = self.launch.threads() > 0;
        self.plan.places.resize(self.recording.uses.len(), NOWHERE);
        for (at, part) in parts.iter().enumerate() {
            let Some(used) = self.recording.uses.get(at).copied() else { break };
            if !used.active || used.range().is_empty() {
                continue;
            }
            let given = part.given.and_then(|number| gradients.given.get(number)?.view);
            let wanted = part.wanted.and_then(|number| gradients.wanted.get_mut(number));
            let wanted = wanted.map(|wanted| wanted.view.reborrow());
            let before = || given.map_or(Initial::Zero, Initial::Copy);
            let place = match (used.effect, wanted) {
                (Effect::Reads, None) => NOWHERE,
                (Effect::Reads, Some(to)) => {
                    let stores = runs && self.stores(&used);
                    self.target(&used, to, if stores { Initial::Any } else { Initial::Zero })?
                }
                (Effect::Accumulates, to) => {
                    if let Some(to) = to {
                        // The gradient of the old contents is one of the summands.
                        self.target(&used, to, before())?;
                    }
                    match given {
                        Some(given) => self.source(&used, given)?,
                        None => NOWHERE,
                    }
                }
                (Effect::Updates | Effect::Overwrites, Some(to)) => {
                    self.target(&used, to, before())?
                }
                (Effect::Overwrites, None) if given.is_none() => NOWHERE,
                (Effect::Updates | Effect::Overwrites, None) => {
                    let dropped = used.effect == Effect::Overwrites && used.covers && used.alone;
                    if dropped {
                        self.masks.drop |= 1 << used.slot;
                    }
                    match given.filter(|_| dropped && used.drops) {
                        Some(given) => self.source(&used, given)?,
                        None => self.buffer(&used, &before())?,
                    }
                }
            };
            if let Some(known) = self.plan.places.get_mut(at) {
                *known = place;
            }
        }
        Ok(())
    }

    /// Returns whether the adjoint stores to all of a gradient, and sets its bit if so.
    fn stores(&mut self, used: &Use) -> bool {
        match used.target {
            Target::Scalar(scalar) if used.covers => self.masks.sums |= 1 << scalar,
            Target::Pointer(_) if used.covers && used.alone => {
                self.masks.assign |= 1 << used.slot;
            }
            _ => return false,
        }
        true
    }

    /// Returns the memory of a gradient that the adjoint writes: the caller's, or memory that is copied there later.
    fn target(
        &mut self,
        used: &Use,
        mut to: DeviceSliceMut<'_, u8>,
        initial: Initial<'_>,
    ) -> Result<Place> {
        let direct = !self.quiet && self.fits(used, to.device_ptr());
        let place = if direct { None } else { Some(self.buffer(used, &initial)?) };
        if direct {
            initial.write(self.stream, &mut to)?;
        } else if self.quiet {
            // The gradient stays NaN if the adjoint fails.
            to.fill(self.stream, 0xff)?;
        }
        let there = self.plan.lend(to.allocation(), to.byte_range(), Access::Write)?;
        let Some(place) = place else { return Ok(there) };
        self.copies.push(Action::Copy { from: place, to: there });
        Ok(place)
    }

    /// Returns the memory of a gradient that the adjoint only reads.
    fn source(&mut self, used: &Use, given: DeviceSlice<'_, u8>) -> Result<Place> {
        if self.fits(used, given.device_ptr()) {
            return self.plan.lend(given.allocation(), given.byte_range(), Access::Read);
        }
        self.buffer(used, &Initial::Copy(given))
    }

    /// Returns new memory of the call for a gradient.
    fn buffer(&mut self, used: &Use, initial: &Initial<'_>) -> Result<Place> {
        let widening = used.element.real.map_or(1, FloatType::widening);
        let nowhere = || Error::invalid("a gradient is larger than memory can be");
        let bytes = used.range().len().checked_mul(widening).ok_or_else(nowhere)?;
        let offset = self.offset(used).unwrap_or(0);
        let buffer = match initial {
            Initial::Copy(given) if offset == 0 => copied(self.stream, *given)?,
            _ => {
                let size = offset.checked_add(bytes).ok_or_else(nowhere)?;
                let mut buffer = self.store.take(size)?;
                initial.write(self.stream, &mut buffer.slice_mut(offset..size)?)?;
                buffer
            }
        };
        Ok(Place { bytes, ..self.plan.own(buffer, offset)? })
    }

    /// Returns the address of a gradient modulo 16, for the alignment of its values; `None` if any alignment will do.
    fn offset(&self, used: &Use) -> Option<usize> {
        if matches!(used.target, Target::Scalar(_)) {
            return None;
        }
        let widening = used.element.real.map_or(1, FloatType::widening);
        let memory = self.recording.memories.get(used.memory);
        Some(memory.map_or(0, |memory| {
            let start = (memory.allocation.device_ptr() % 16) as usize;
            (start + used.start % 16 * widening) % 16
        }))
    }

    fn fits(&self, used: &Use, address: u64) -> bool {
        self.offset(used).is_none_or(|offset| address % 16 == offset as u64)
    }

    fn enqueue(
        mut self,
        kernels: &Kernels,
        scratch_bytes: Option<usize>,
        runs: bool,
    ) -> Result<()> {
        if self.plan.raises {
            self.store.status()?;
        }
        if runs {
            self.primal()?;
            self.private_values()?;
            let Masks { assign, drop, sums } = self.masks;
            self.plan.actions.push(Action::Adjoint { step: 0, assign, drop, sums, first: 0 });
        }
        self.plan.actions.append(&mut self.copies);
        let mut pass = Pass {
            recording: &mut self.recording,
            plan: &mut self.plan,
            store: &mut self.store,
            kernels,
            stream: self.stream,
            work: &mut Workplace::default(),
            scratch_bytes,
            log_bytes: None,
            takes: false,
        };
        pass.prepare()?;
        pass.run(0)?;
        if pass.guarded() && !self.quiet { pass.settle() } else { Ok(()) }
    }

    /// Copies values that the adjoint may write.
    fn private_values(&mut self) -> Result<()> {
        for (number, used) in (0u32..).zip(&self.recording.uses) {
            let Some(memory) = self.recording.memories.get(used.memory) else { continue };
            if matches!(used.value, Primal::EntryPrivate) {
                let offset = ((memory.allocation.device_ptr() + used.start as u64) % 16) as usize;
                let buffer = self.store.take(offset + used.range().len())?;
                self.plan.private.push((number, Copied { buffer, offset }));
            }
        }
        Ok(())
    }
}

impl Initial<'_> {
    fn write(&self, stream: &Stream, to: &mut DeviceSliceMut<'_, u8>) -> Result<()> {
        match self {
            Self::Any => Ok(()),
            Self::Zero => to.fill(stream, 0),
            Self::Copy(given) => to.copy_from(stream, *given),
        }
    }
}

/// Returns a copy of some bytes.
fn copied(stream: &Stream, from: DeviceSlice<'_, u8>) -> Result<DeviceBuffer<u8>> {
    let mut buffer = DeviceBuffer::<MaybeUninit<u8>>::uninit(stream, from.len())?;
    // SAFETY: any bits are a valid `MaybeUninit`; `from` borrows the memory.
    let source = unsafe { from.allocation().view::<MaybeUninit<u8>>(from.byte_range()) }?;
    buffer.copy_from(stream, source)?;
    // SAFETY: the copy writes every element.
    Ok(unsafe { buffer.assume_init() })
}
