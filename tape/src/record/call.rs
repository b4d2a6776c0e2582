//! The arguments of an adjoint that is called without a tape.

use std::any::{TypeId, type_name};
use std::ops::Range;

use cuda_safe::{
    Error, KernelArg, LaunchConfig, Result,
    arg::{ArgType, InspectArgs, UseVisitor},
};

use super::args::{Collect, write_address};
use super::launch::{Before, may_be_recorded, may_share};
use super::{Kind, NONE, Recording, Step, Target, Use, index};
use crate::spec::{Effect, Op, OpPointer, Primal};

/// An argument of [`Op::vjp`] that stands for memory that was not saved, because the adjoint does not read it.
///
/// It replaces a buffer with a declared length ([`Param::len`](crate::Param::len) and similar) whose value is
/// [`Primal::None`]: most often an output. In the launch the buffer must share no memory with another argument. A
/// launch refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSaved;

// SAFETY: a null pointer, through which no kernel that passes the checks of `Op` accesses anything.
unsafe impl KernelArg for NotSaved {
    type Abi = u64;
    const TYPE: ArgType =
        ArgType { name: type_name::<Self>, id: TypeId::of::<Self>, ..ArgType::value::<u64>() };

    fn abi(&self) -> u64 {
        0
    }

    fn uses<V: UseVisitor>(&self, _: &mut V) -> Result<()> {
        Ok(())
    }
}

pub(super) fn is_not_saved<A: KernelArg>() -> bool {
    (A::TYPE.id)() == TypeId::of::<NotSaved>()
}

/// Returns an address for one pointer whose memory was not saved. It differs from null, for which kernels may test,
/// and from those of other pointers. No memory lies there, so an adjoint that reads through it fails.
pub(crate) fn not_saved(pointer: usize) -> u64 {
    0x100 * (1 + pointer as u64)
}

impl Collect<'_> {
    /// Records a pointer to memory that the adjoint does not read.
    pub(super) fn not_saved(
        &mut self,
        place: usize,
        pointer: &OpPointer,
        patch: usize,
    ) -> Result<()> {
        let inner = &*self.op.inner;
        let reads = pointer.value != Primal::None
            || (inner.tape_bytes.is_some() && pointer.effect != Effect::Overwrites);
        if reads {
            let param = inner.param(pointer.param);
            return Err(Error::invalid(format!(
                "{param} is read by the adjoint, and was not saved"
            )));
        }
        if pointer.length.is_none() {
            let param = inner.param(pointer.param);
            return Err(Error::invalid(format!(
                "{param} was not saved, and its length is not known"
            ))
            .with_hint("`Param::len` says how many elements the kernels use"));
        }
        let recording = &mut *self.recording;
        write_address(&mut recording.bytes, patch, not_saved(place));
        let detached = inner.detached.pointers >> place & 1 == 1;
        // `Recording::measure` cuts the range to the declared length.
        let (target, range) = (Target::Pointer(place as u16), 0..isize::MAX.unsigned_abs());
        recording.uses.push(Use {
            covers: pointer.covers,
            active: pointer.slot.is_some() && !detached,
            slot: pointer.slot.unwrap_or(u8::MAX),
            alone: pointer.alone,
            drops: pointer.drops,
            patch,
            ..Use::new(target, NONE, range, pointer.element, pointer.effect)
        });
        Ok(())
    }
}

impl Recording {
    /// Returns a recording of a launch whose arguments hold the values that its adjoint reads. Nothing is enqueued.
    pub(crate) fn of_call<A: InspectArgs>(
        op: &Op,
        launch: &LaunchConfig,
        args: &A,
        deterministic: bool,
    ) -> Result<Self> {
        op.check(launch, A::TYPES)?;
        if op.inner.kernels.adjoint.is_none() {
            return Err(Error::invalid(format!("`{}` has no adjoint", op.name())));
        }
        may_be_recorded(op, deterministic)?;
        args.check_unborrowed()?;
        let mut this = Self { deterministic, call: true, ..Self::default() };
        this.collect(op, launch, args, &Before { uses: 0, bytes: 0, counted: 0 })?;
        let inner = &*op.inner;
        // All numbers get gradients, whether or not they are given as variables.
        this.uses.retain(|used| !matches!(used.target, Target::Scalar(_)));
        for (place, scalar) in inner.scalars.iter().enumerate() {
            let size = inner.params.get(scalar.param).map_or(0, |param| param.size);
            let target = Target::Scalar(place as u16);
            this.uses.push(Use {
                covers: scalar.covers,
                active: inner.detached.scalars >> place & 1 == 0,
                ..Use::new(target, NONE, 0..size, scalar.element, Effect::Reads)
            });
        }
        for used in &mut this.uses {
            if inner.cuts(used) {
                used.active = used.slot != u8::MAX;
            }
            let real = used.element.real.is_some() && !used.range().is_empty();
            let lost = real && used.effect != Effect::Reads && !used.active;
            if lost && !inner.is_detached(used) {
                let what = inner.used(used);
                return Err(Error::invalid(format!(
                    "{what} is written, and the operation has no gradient of it"
                ))
                .with_hint("if none is meant to come through: `Op::detach`"));
            }
        }
        may_share(op, &this.uses)?;
        this.reach_opaque();
        this.values_are_there(op)?;
        for used in &mut this.uses {
            if let Some(memory) = this.memories.get(used.memory) {
                used.version = memory.allocation.version(used.range());
            }
        }
        let kind = Kind::Launch { op: op.clone(), launch: *launch, bytes: 0, primal: NONE };
        this.steps.push(Step { kind, uses: 0..index(this.uses.len())?, scope: NONE });
        Ok(this)
    }

    fn addresses(&self, memory: u32, range: Range<usize>) -> Range<u64> {
        let start = self.memories.get(memory).map(|memory| memory.allocation.device_ptr());
        start.map_or(0..0, |start| start + range.start as u64..start + range.end as u64)
    }

    /// Fails if a launch with these arguments would overwrite a value that the adjoint reads as it was before.
    fn values_are_there(&self, op: &Op) -> Result<()> {
        let primal = op.inner.tape_bytes.is_some();
        for used in self.uses.iter().filter(|used| used.effect == Effect::Reads) {
            let param = match used.target {
                Target::Pointer(at) => op.inner.pointers.get(usize::from(at)).map(|at| at.param),
                Target::Opaque(at) => Some(usize::from(at)),
                Target::Scalar(_) | Target::Own => None,
            };
            let read = primal || used.value != Primal::None;
            // The comparison is by addresses: several allocations may share memory of another library.
            let here = self.addresses(used.memory, used.range());
            let writes = |found: &&super::Found| {
                let there = self.addresses(found.memory, found.range());
                let overlaps = here.start < there.end && there.start < here.end;
                found.writes && Some(usize::from(found.param)) != param && overlaps
            };
            if let Some(found) = self.found.iter().find(writes).filter(|_| read) {
                let what = op.inner.used(used);
                let writer = op.inner.name_of(Target::Opaque(found.param));
                return Err(Error::invalid(format!(
                    "{what} shares memory with `{writer}`, which the launch writes: its value from before the launch \
                     is gone"
                ))
                .with_hint("save a copy of it before the launch"));
            }
        }
        Ok(())
    }
}
