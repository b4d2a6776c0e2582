//! Recording a launch.

use cuda_safe::{Error, IntoLaunchConfig, LaunchConfig, Result, Stream, arg::InspectArgs};

use super::args::{Collect, Found, Launch};
use super::{Chunk, Kind, NONE, Recorder, Recording, Step, Target, Use, index};
use crate::custom::CustomOp;
use crate::element::Element;
use crate::spec::{Effect, Op, Primal};
use crate::store::Store;

/// The lengths of a recording's lists before a launch that may fail.
pub(super) struct Before {
    pub(super) uses: usize,
    pub(super) bytes: usize,
    pub(super) counted: usize,
}

impl Recorder<'_> {
    /// Launches an operation. The arguments are those of [`Kernel::launch`](cuda_safe::Kernel::launch).
    ///
    /// # Errors
    /// Before anything is launched: the arguments do not fit; a buffer has fewer elements than are used; a value that
    /// depends on something watched is passed to a parameter without a gradient, or the operation has no adjoint.
    /// Otherwise if the driver returns an error.
    #[inline]
    pub fn launch<A: InspectArgs>(
        &mut self,
        op: &Op,
        launch: impl IntoLaunchConfig,
        args: A,
    ) -> Result<()> {
        let launch = launch.into_launch_config();
        op.check(&launch, A::TYPES)?;
        self.record_launch(op, launch, args)
    }

    /// Launches, and records the launch if gradients flow through it. It has passed the checks of its types and its
    /// shape.
    #[inline]
    pub(crate) fn record_launch(
        &mut self,
        op: &Op,
        launch: LaunchConfig,
        args: impl Launch,
    ) -> Result<()> {
        let recording = &*self.recording;
        let (uses, bytes) = (recording.uses.len(), recording.bytes.len());
        let before = Before { uses, bytes, counted: recording.counted };
        let done = self.launch_or_fail(op, launch, args, &before);
        if !matches!(done, Ok(true)) {
            self.recording.roll_back(&before);
        }
        if done.is_err() {
            self.recording.fails(&before);
        }
        done.map(drop)
    }

    /// Launches, and returns whether gradients flow through the launch, so that it is recorded.
    fn launch_or_fail(
        &mut self,
        op: &Op,
        launch: LaunchConfig,
        args: impl Launch,
        before: &Before,
    ) -> Result<bool> {
        let Self { recording, store, stream, scope } = self;
        recording.collect(op, &launch, &args, before)?;
        for used in recording.uses.iter_mut().skip(before.uses) {
            // The old contents of a detached use count as constant; the new ones may depend on something watched.
            if op.inner.cuts(used) {
                used.active = used.slot != u8::MAX;
            }
        }
        if launch.threads() == 0 {
            // Such a launch has no effect, so it is not recorded.
            args.enqueue(stream, op, launch)?;
            return Ok(false);
        }
        let through = recording.comes_through(op, before.uses)?;
        if through == Through::Gradients {
            may_be_recorded(op, recording.deterministic)?;
            recording.reach_opaque();
            for number in before.uses..recording.uses.len() {
                let Some(used) = recording.uses.get_mut(number) else { break };
                if used.effect == Effect::Reads {
                    // A use that depends on nothing watched gets no gradient.
                    used.active &= recording.memories.is_active(used.memory, used.range());
                }
                if used.active {
                    let (memory, real) = (used.memory, used.element.real);
                    if recording.memories.holds(memory, real)? {
                        recording.typed.push(memory);
                    }
                }
                if matches!(used.value, Primal::Entry | Primal::EntryPrivate) {
                    recording.pend(number, stream)?;
                }
            }
        }
        recording.before_writes(stream, store, before.uses)?;
        let mut primal = NONE;
        if through == Through::Gradients && op.inner.tape_bytes.is_some() {
            recording.raises = true;
            primal = args.run_primal(recording, stream, store, op, &launch)?;
        } else {
            args.enqueue(stream, op, launch)?;
        }
        recording.refresh_bystanders();
        for found in recording.found.iter().filter(|found| found.writes) {
            recording.memories.note_recorded(found.memory, found.range());
        }
        let kind = Kind::Launch { op: op.clone(), launch, bytes: index(before.bytes)?, primal };
        recording.after(stream, through, before.uses, *scope, kind)
    }
}

impl Recording {
    /// Collects the arguments of a launch, and checks them.
    pub(super) fn collect(
        &mut self,
        op: &Op,
        launch: &LaunchConfig,
        args: &impl Launch,
        before: &Before,
    ) -> Result<()> {
        let room = before.bytes + op.inner.bytes / 16;
        self.bytes.resize(room, Chunk([std::mem::MaybeUninit::new(0); 16]));
        self.found.clear();
        self.typed.clear();
        args.collect(&mut Collect { recording: self, op, base: before.bytes })?;
        self.no_two_write(op, args)?;
        self.measure(op, before, launch)?;
        self.covers(op, before.uses, launch)
    }

    /// Returns a recording with the arguments of one launch, checked as if gradients flowed through all of them.
    /// Nothing is enqueued.
    pub(crate) fn of_arguments<A: InspectArgs>(
        op: &Op,
        launch: &LaunchConfig,
        args: &A,
    ) -> Result<Self> {
        op.check(launch, A::TYPES)?;
        may_be_recorded(op, false)?;
        let mut this = Self::default();
        this.collect(op, launch, args, &Before { uses: 0, bytes: 0, counted: 0 })?;
        for number in 0..this.uses.len() {
            let Some(used) = this.uses.get(number).copied().filter(|used| used.active) else {
                continue;
            };
            this.memories.holds(used.memory, used.element.real)?;
            if used.effect != Effect::Overwrites {
                this.memories.set_active(used.memory, used.range(), true);
            }
        }
        this.comes_through(op, 0)?;
        Ok(this)
    }

    /// Removes a launch that failed, or that need not be recorded.
    fn roll_back(&mut self, before: &Before) {
        for used in self.uses.drain(before.uses..) {
            if let Some(memory) = self.memories.get_mut(used.memory) {
                memory.pending.retain(|number| (*number as usize) < before.uses);
            }
        }
        self.bytes.truncate(before.bytes);
        self.refreshed.clear();
    }

    /// Undoes the types that a failed launch has set for its memory.
    fn fails(&mut self, before: &Before) {
        self.counted = before.counted;
        for memory in self.typed.drain(..) {
            if let Some(memory) = self.memories.get_mut(memory) {
                memory.real = None;
            }
        }
    }

    /// Fails if two arguments write the same memory. Another argument may read memory that a view writes: Rust allows
    /// a second view only by an `unsafe` promise. Other arguments may occur twice.
    fn no_two_write(&self, op: &Op, args: &impl Launch) -> Result<()> {
        for (at, one) in self.found.iter().enumerate().filter(|(_, found)| found.writes) {
            let is_view = args.is_view(usize::from(one.param));
            let shares = |(place, other): &(usize, &Found)| {
                *place != at
                    && (other.memory, other.param != one.param) == (one.memory, true)
                    && (other.writes || !is_view)
                    && other.start < one.end
                    && one.start < other.end
            };
            if let Some((_, other)) = self.found.iter().enumerate().find(shares) {
                return Err(Error::invalid(format!(
                    "{} is written, and shares memory with `{}`",
                    op.inner.param(one.param.into()),
                    op.inner.name_of(Target::Opaque(other.param)),
                )));
            }
        }
        Ok(())
    }

    /// Returns whether gradients flow through the launch: it reads something that depends on something watched.
    fn comes_through(&self, op: &Op, first: usize) -> Result<Through> {
        let (mut depends, mut hides, mut scatters) = (false, false, false);
        let uses = self.uses.get(first..).unwrap_or_default();
        for used in uses {
            if !self.memories.is_active(used.memory, used.range()) {
                continue;
            }
            let overwritten = used.effect == Effect::Overwrites && used.covers;
            if !overwritten && self.memories.is_stale(used.memory, used.range()) {
                return Err(self.written_elsewhere(&op.inner.used(used)));
            }
            match used.effect {
                Effect::Overwrites if used.covers => hides = true,
                // The adjoint clears the gradients of the elements that were overwritten.
                Effect::Overwrites if used.active => scatters = true,
                Effect::Overwrites => return Err(unknown_part(op, used)),
                _ if op.inner.cuts(used) => {
                    hides = true;
                    may_be_cut(op, used, uses)?;
                }
                Effect::Reads | Effect::Updates if used.active => depends = true,
                Effect::Accumulates if used.active => {}
                Effect::Reads if used.element.real.is_none() => {}
                _ if op.inner.is_detached(used) => {}
                _ => return Err(no_gradient(op, used)),
            }
        }
        if depends {
            // Memory that depends on something watched after the launch needs a gradient, or must be detached.
            let lost = |used: &&Use| {
                let written = used.effect != Effect::Reads && !used.range().is_empty();
                let real = written && used.element.real.is_some() && !used.active;
                // A constant in memory that depended on nothing needs no gradient.
                let constant = op.inner.stores_constants(used)
                    && !self.memories.is_active(used.memory, used.range());
                real && !op.inner.is_detached(used) && !constant
            };
            if let Some(used) = uses.iter().find(lost) {
                return Err(takes_values(op, used));
            }
            may_share(op, uses)?;
        }
        for found in self.found.iter().filter(|found| !found.known) {
            if self.memories.is_active(found.memory, found.range()) {
                return Err(unknown_pointer(op, found.param));
            }
        }
        // Without dependencies, the launch hides gradients: it overwrites parts that the adjoint knows, or all of the
        // memory.
        Ok(match (depends || scatters, hides) {
            (true, _) => Through::Gradients,
            (false, true) => Through::Hides,
            (false, false) => Through::Nothing,
        })
    }

    /// Marks memory behind pointers that the specification does not list: it must not change.
    pub(super) fn reach_opaque(&mut self) {
        let opaque = self.found.iter().filter(|found| !found.known).map(|found| {
            let (effect, value) = match found.writes {
                true => (Effect::Overwrites, Primal::Exit),
                false => (Effect::Reads, Primal::Entry),
            };
            let (target, element) = (Target::Opaque(found.param), Element::bytes(1));
            Use { value, ..Use::new(target, found.memory, found.range(), element, effect) }
        });
        self.uses.extend(opaque);
    }

    /// Keeps values that the launch will overwrite.
    fn before_writes(&mut self, stream: &Stream, store: &mut Store, first: usize) -> Result<()> {
        for number in first..self.uses.len() {
            let Some(used) = self.uses.get(number).copied() else { break };
            if used.effect != Effect::Reads {
                self.rescue(stream, store, used.memory, &used.range())?;
            }
        }
        for at in 0..self.found.len() {
            let Some(found) = self.found.get(at).copied().filter(|found| found.writes) else {
                continue;
            };
            if !found.known {
                self.rescue(stream, store, found.memory, &found.range())?;
            }
            self.memories.note_stale(found.memory, found.range());
            self.note_bystanders(found.memory, &found.range());
        }
        Ok(())
    }

    /// Records a launch that was enqueued: its values at exit, the memory that has gradients now, and the step
    /// itself.
    fn after(
        &mut self,
        stream: &Stream,
        through: Through,
        first: usize,
        scope: u32,
        kind: Kind,
    ) -> Result<bool> {
        if through == Through::Gradients {
            // The node must not be changed later: the adjoint relies on its results.
            stream.freeze_last_node();
        }
        let gradients = through == Through::Gradients;
        let cuts = |used: &Use| match &kind {
            Kind::Launch { op, .. } => op.inner.cuts(used),
            _ => false,
        };
        for number in first..self.uses.len() {
            let Some(used) = self.uses.get(number).copied() else { break };
            if gradients && matches!(used.value, Primal::Exit) {
                self.pend(number, stream)?;
            }
            match used.effect {
                Effect::Overwrites | Effect::Updates | Effect::Accumulates
                    if gradients && used.active =>
                {
                    self.memories.set_active(used.memory, used.range(), true);
                }
                Effect::Overwrites if used.covers => {
                    self.memories.set_active(used.memory, used.range(), false);
                }
                _ if cuts(&used) => self.memories.set_active(used.memory, used.range(), false),
                _ => {}
            }
        }
        match through {
            Through::Gradients => {
                let step = index(self.steps.len())?;
                for used in self.uses.get(first..).unwrap_or_default() {
                    if used.active {
                        self.memories.used_at(used.memory, step);
                    }
                }
                self.steps.push(Step { kind, uses: index(first)?..index(self.uses.len())?, scope });
                Ok(true)
            }
            Through::Hides => {
                self.inactive += 1;
                let hides = |used: &Use| used.effect == Effect::Overwrites || cuts(used);
                let hidden: Vec<Use> = self.uses.drain(first..).filter(hides).collect();
                self.hide(&hidden, scope)?;
                Ok(true)
            }
            Through::Nothing => {
                self.inactive += 1;
                Ok(false)
            }
        }
    }

    /// Records a custom operation whose forward was enqueued.
    pub(crate) fn custom_done(
        &mut self,
        stream: &Stream,
        uses: Vec<Use>,
        first: usize,
        op: (u64, Box<dyn CustomOp>),
        scope: u32,
        through: bool,
    ) -> Result<()> {
        if through {
            let kind = Kind::Custom(op.0, Some(op.1));
            return self.after(stream, Through::Gradients, first, scope, kind).map(drop);
        }
        let hides = |used: &Use| {
            used.effect == Effect::Overwrites && self.memories.is_active(used.memory, used.range())
        };
        let hidden: Vec<Use> = uses.into_iter().filter(hides).collect();
        self.inactive += 1;
        self.hide(&hidden, scope)
    }

    /// Records that memory was overwritten: it has no gradient before the launch, and depends on nothing watched
    /// after it.
    fn hide(&mut self, hidden: &[Use], scope: u32) -> Result<()> {
        for used in hidden {
            self.push(Kind::Fill, &[Use { target: Target::Own, active: true, ..*used }], scope)?;
            self.memories.set_active(used.memory, used.range(), false);
        }
        Ok(())
    }
}

#[cold]
fn no_gradient(op: &Op, used: &Use) -> Error {
    let what = op.inner.used(used);
    Error::invalid(format!(
        "{what} depends on something watched, but the operation has no gradient by it"
    ))
    .with_hint("if none is meant to come through: `Op::detach`, or `stop_gradient`")
}

#[cold]
fn takes_values(op: &Op, used: &Use) -> Error {
    let what = op.inner.used(used);
    Error::invalid(format!(
        "{what} takes values of an operation whose arguments depend on something watched, but the operation has no \
         gradient by it"
    ))
    .with_hint("declare it `Param::active`; if no gradient is meant to come through: `Op::detach`")
}

#[cold]
fn unknown_part(op: &Op, used: &Use) -> Error {
    let what = op.inner.used(used);
    Error::invalid(format!(
        "{what} overwrites some elements of what depends on something watched, and has no gradient to tell which"
    ))
    .with_hint("`Recorder::stop_gradient` before the launch, or `Param::each_element` if it is all")
}

/// Fails if the generated adjoint loads memory as it was before the launch, and the kernel loads the same memory
/// after a store through another argument.
pub(super) fn may_share(op: &Op, uses: &[Use]) -> Result<()> {
    let apart = op.inner.derivation.as_ref().map_or(&[][..], |derivation| &derivation.apart);
    let of = |pointer: usize| {
        let is = move |used: &&Use| matches!(used.target, Target::Pointer(at) if usize::from(at) == pointer);
        uses.iter().filter(is)
    };
    for &(loaded, stored) in apart {
        for used in of(loaded) {
            if of(stored).any(|other| other.overlaps(used.memory, &used.range())) {
                let what = op.inner.used(used);
                return Err(Error::invalid(format!(
                    "{what} is read after the kernel wrote to the same memory through another argument, so the \
                     generated adjoint would not be right"
                ))
                .with_hint("read it before the first write, or pass other memory"));
            }
        }
    }
    Ok(())
}

/// Fails if a detached argument shares memory with another argument that has a gradient.
fn may_be_cut(op: &Op, used: &Use, uses: &[Use]) -> Result<()> {
    let other =
        |it: &Use| it.target != used.target && it.active && it.overlaps(used.memory, &used.range());
    if !uses.iter().any(other) {
        return Ok(());
    }
    let what = op.inner.used(used);
    Err(Error::invalid(format!(
        "{what} is detached, and another argument leads to the same memory"
    ))
    .with_hint("`Recorder::stop_gradient` before the launch"))
}

#[cold]
fn unknown_pointer(op: &Op, param: u16) -> Error {
    let what = op.inner.param(param.into());
    Error::invalid(format!(
        "{what} leads to memory that depends on something watched, by a pointer that the specification does \
         not tell of"
    ))
}

pub(super) fn may_be_recorded(op: &Op, deterministic: bool) -> Result<()> {
    if op.inner.kernels.adjoint.is_none() {
        return Err(Error::invalid(format!(
            "`{}` has no adjoint, and its arguments depend on something watched",
            op.name()
        ))
        .with_hint("if no gradient is meant to come through: `stop_gradient` on what it reads"));
    }
    if deterministic && op.inner.settings.log.is_none() {
        let hint = match op.derivation() {
            Some(_) => {
                "it stores to elements that may be other threads' and loads them, whose gradients are read in the launch \
                 that adds to them, or its threads exchange numbers by shared memory, to whose gradients they add by \
                 atomics"
            }
            None => {
                "`OpSpec::summands` says that it adds with the functions of geom/tape.cuh alone"
            }
        };
        return Err(Error::invalid(format!(
            "`{}` is not made for deterministic tapes: its adjoint may add by atomics of its own, in an order \
             that is left to chance",
            op.name()
        ))
        .with_hint(hint));
    }
    match op.inner.kernels.deterministic.as_ref().filter(|_| deterministic) {
        // The kernel is loaded now: the pass may be captured, and a capture allows no loading.
        Some(kernel) => kernel.load(),
        None => Ok(()),
    }
}

/// The effect of a launch on gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Through {
    /// The launch has no effect on gradients.
    Nothing,
    /// It overwrites memory that has gradients.
    Hides,
    /// Gradients flow through it.
    Gradients,
}

impl crate::spec::OpInner {
    /// Returns whether the use is detached and keeps or changes old contents, at which gradients then end.
    pub(crate) fn cuts(&self, used: &Use) -> bool {
        matches!(used.effect, Effect::Updates | Effect::Accumulates) && self.is_detached(used)
    }

    /// Returns a parameter, as messages name it.
    #[cold]
    pub(crate) fn param(&self, param: usize) -> String {
        let name = self.params.get(param).map_or("", |param| &param.name);
        format!("`{name}` of `{}`", self.name)
    }

    /// Returns the parameter that a use is of, as messages name it.
    #[cold]
    pub(crate) fn used(&self, used: &Use) -> String {
        format!("`{}` of `{}`", self.name_of(used.target), self.name)
    }

    /// Returns the name of the parameter that a use is of.
    pub(crate) fn name_of(&self, target: Target) -> &str {
        let param = match target {
            Target::Pointer(at) => self.pointers.get(usize::from(at)).map(|p| p.param),
            Target::Scalar(at) => self.scalars.get(usize::from(at)).map(|s| s.param),
            Target::Opaque(at) => Some(usize::from(at)),
            Target::Own => None,
        };
        param.and_then(|at| self.params.get(at)).map_or("", |param| &param.name)
    }

    /// Returns whether a generated adjoint knows that what the kernel stores is constant.
    pub(crate) fn stores_constants(&self, used: &Use) -> bool {
        let Target::Pointer(place) = used.target else { return false };
        let accesses = self.derivation.as_ref().map(|derivation| &derivation.accesses);
        accesses
            .and_then(|accesses| accesses.get(usize::from(place)))
            .is_some_and(|access| access.constant)
    }

    pub(crate) fn is_detached(&self, used: &Use) -> bool {
        match used.target {
            Target::Pointer(place) => self.detached.pointers >> place & 1 == 1,
            Target::Scalar(place) => self.detached.scalars >> place & 1 == 1,
            Target::Opaque(_) | Target::Own => false,
        }
    }
}
