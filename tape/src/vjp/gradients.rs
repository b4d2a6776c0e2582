//! The gradients that a call of an adjoint takes and returns.

use bytemuck::Pod;
use cuda_safe::{DeviceSlice, DeviceSliceMut, Error, ReadView, Result, WriteView};

use crate::element::{Differentiable, Element};
use crate::record::{Recording, Target, Use};
use crate::spec::{Effect, Op, Primal};

/// The gradients of a call of [`Op::vjp`]: those of the kernel's outputs, which the caller gives, and those of its
/// inputs, which the call writes.
///
/// Each gradient has the type of its value, or `f32` for 16-bit floats. It has as many elements as the launch uses:
/// the declared length of the parameter, or else its whole view.
#[derive(Debug, Default)]
pub struct Gradients<'a> {
    pub(super) given: Vec<Given<'a>>,
    pub(super) wanted: Vec<Wanted<'a>>,
    pub(super) deterministic: bool,
    pub(super) scratch_bytes: Option<usize>,
    failed: Option<Error>,
}

/// The gradient of an output; `None` if it is zero.
#[derive(Debug)]
pub(super) struct Given<'a> {
    name: Name<'a>,
    element: Element,
    pub(super) view: Option<DeviceSlice<'a, u8>>,
}

/// Memory for the gradient of an input.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    name: Name<'a>,
    element: Element,
    pub(super) view: DeviceSliceMut<'a, u8>,
}

#[derive(Debug, Clone, Copy)]
struct Name<'a> {
    param: &'a str,
    member: Member,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    /// The parameter's only part with a gradient.
    Only,
    /// The pointer at this offset.
    At(usize),
    /// The numbers.
    Values,
}

impl<'a> Gradients<'a> {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the gradient of the memory that the kernel has written through a parameter. The call only reads it.
    #[must_use]
    pub fn seed<T: Differentiable<Gradient = T> + Pod>(
        self,
        param: &'a str,
        gradient: impl ReadView<'a, T>,
    ) -> Self {
        self.give(Name { param, member: Member::Only }, gradient.read_view())
    }

    /// Works like [`seed`](Self::seed), for the pointer `offset` bytes into a structure that has several.
    #[must_use]
    pub fn seed_member<T: Differentiable<Gradient = T> + Pod>(
        self,
        param: &'a str,
        offset: usize,
        gradient: impl ReadView<'a, T>,
    ) -> Self {
        self.give(Name { param, member: Member::At(offset) }, gradient.read_view())
    }

    /// Declares that the gradient of the memory that the kernel has written through a parameter is zero.
    #[must_use]
    pub fn seed_zero(mut self, param: &'a str) -> Self {
        let name = Name { param, member: Member::Only };
        self.given.push(Given { name, element: Element::bytes(0), view: None });
        self
    }

    /// Names memory for the gradient of a parameter's contents before the launch. The call overwrites all of the
    /// memory. A number that is passed by value has one element.
    ///
    /// Inputs that are not named get no gradient, which saves its computation.
    #[must_use]
    pub fn into_buffer<T: Differentiable<Gradient = T> + Pod>(
        self,
        param: &'a str,
        gradient: impl WriteView<'a, T>,
    ) -> Self {
        self.want(Name { param, member: Member::Only }, gradient.write_view())
    }

    /// Works like [`into_buffer`](Self::into_buffer), for the pointer `offset` bytes into a structure that has several, or
    /// numbers too.
    #[must_use]
    pub fn into_member<T: Differentiable<Gradient = T> + Pod>(
        self,
        param: &'a str,
        offset: usize,
        gradient: impl WriteView<'a, T>,
    ) -> Self {
        self.want(Name { param, member: Member::At(offset) }, gradient.write_view())
    }

    /// Works like [`into_buffer`](Self::into_buffer), for the numbers in a structure that also has pointers: one
    /// structure with their gradients.
    #[must_use]
    pub fn into_values<T: Differentiable<Gradient = T> + Pod>(
        self,
        param: &'a str,
        gradient: impl WriteView<'a, T>,
    ) -> Self {
        self.want(Name { param, member: Member::Values }, gradient.write_view())
    }

    /// Makes the gradients have the same bits each time, as on a deterministic tape
    /// ([`Tape::set_deterministic`](crate::Tape::set_deterministic)).
    #[must_use]
    pub fn deterministic(mut self) -> Self {
        self.deterministic = true;
        self
    }

    /// Sets how much scratch memory the adjoint gets; the call then does not wait. If it is too little, all gradients
    /// are NaN.
    ///
    /// Without this, a call whose adjoint takes scratch memory waits for it, and repeats it with more memory while it
    /// has too little.
    #[must_use]
    pub fn scratch_bytes(mut self, bytes: usize) -> Self {
        self.scratch_bytes = Some(bytes);
        self
    }

    fn give<T: Differentiable<Gradient = T> + Pod>(
        mut self,
        name: Name<'a>,
        view: DeviceSlice<'a, T>,
    ) -> Self {
        match view.cast() {
            Ok(view) => {
                self.given.push(Given { name, element: T::ELEMENT, view: Some(view) });
            }
            Err(error) => self.failed = Some(error),
        }
        self
    }

    fn want<T: Differentiable<Gradient = T> + Pod>(
        mut self,
        name: Name<'a>,
        view: DeviceSliceMut<'a, T>,
    ) -> Self {
        match view.cast_mut() {
            Ok(view) => self.wanted.push(Wanted { name, element: T::ELEMENT, view }),
            Err(error) => self.failed = Some(error),
        }
        self
    }
}

/// The gradients of one use: indices in the lists of [`Gradients`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Part {
    pub(super) given: Option<usize>,
    pub(super) wanted: Option<usize>,
}

impl Gradients<'_> {
    /// Compares the gradients with the arguments of a launch. Returns one part for each use.
    pub(super) fn parts(&mut self, op: &Op, recording: &Recording) -> Result<Vec<Part>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut parts = vec![Part::default(); recording.uses.len()];
        // Parameters without elements have no use.
        let mut empty = Vec::new();
        for (number, given) in self.given.iter().enumerate() {
            let target = given.name.target(op)?;
            let effect = pointer_effect(op, target);
            let name = given.name.param;
            if effect.is_none_or(|effect| effect == Effect::Reads) {
                return Err(Error::invalid(format!(
                    "`{name}` of `{}` is an input: no gradient of it can be given",
                    op.name()
                )));
            }
            let bytes = given.view.as_ref().map(|view| view.size_bytes());
            match find(op, recording, target, (name, given.element, bytes))? {
                Some(at) => once(parts.get_mut(at).map(|part| &mut part.given), number, op, name)?,
                None if empty.contains(&(target, true)) => return Err(twice(op, name)),
                None => empty.push((target, true)),
            }
        }
        for (number, wanted) in self.wanted.iter().enumerate() {
            let target = wanted.name.target(op)?;
            let name = wanted.name.param;
            let used = recording.uses.iter().find(|used| used.target == target);
            let overwritten = |used: &Use| used.effect == Effect::Overwrites && used.covers;
            let cut = |used: &Use| op.inner.cuts(used);
            if used.is_some_and(|used| overwritten(used) || cut(used)) {
                return Err(Error::invalid(format!(
                    "`{name}` of `{}` is an output that does not depend on its old contents: there is no gradient by them",
                    op.name()
                )));
            }
            let bytes = Some(wanted.view.size_bytes());
            match find(op, recording, target, (name, wanted.element, bytes))? {
                Some(at) => once(parts.get_mut(at).map(|part| &mut part.wanted), number, op, name)?,
                None if empty.contains(&(target, false)) => return Err(twice(op, name)),
                None => empty.push((target, false)),
            }
        }
        self.are_complete(op, recording, &parts)?;
        self.are_apart(op, recording)?;
        Ok(parts)
    }

    /// Fails unless each output has a gradient and some gradient is wanted.
    fn are_complete(&self, op: &Op, recording: &Recording, parts: &[Part]) -> Result<()> {
        for (used, part) in recording.uses.iter().zip(parts) {
            if used.active && used.effect != Effect::Reads && part.given.is_none() {
                let what = op.inner.used(used);
                return Err(Error::invalid(format!("the gradient of {what} is missing"))
                    .with_hint(
                        "`Gradients::seed` gives it, `Gradients::seed_zero` says that it is zero",
                    ));
            }
        }
        if self.given.iter().all(|given| given.view.is_none()) {
            return Err(Error::invalid(format!(
                "no gradient of an output of `{}` is given",
                op.name()
            )));
        }
        if self.wanted.is_empty() {
            return Err(Error::invalid(format!("no gradient of `{}` is wanted", op.name()))
                .with_hint("`Gradients::into_buffer` says where a gradient is written"));
        }
        Ok(())
    }

    /// Fails if a gradient that is written shares memory with another gradient or with an argument.
    fn are_apart(&self, op: &Op, recording: &Recording) -> Result<()> {
        let overlap = |one: (u64, usize), other: (u64, usize)| {
            one.0 < other.0.saturating_add(other.1 as u64)
                && other.0 < one.0.saturating_add(one.1 as u64)
        };
        let shares = |wanted: &Wanted<'_>, what: String| {
            let (name, op) = (wanted.name.param, op.name());
            Err(Error::invalid(format!(
                "the gradient by `{name}` of `{op}` shares memory with {what}"
            )))
        };
        for (number, wanted) in self.wanted.iter().enumerate() {
            let here = (wanted.view.device_ptr(), wanted.view.size_bytes());
            for other in self.wanted.iter().skip(number + 1) {
                if overlap(here, (other.view.device_ptr(), other.view.size_bytes())) {
                    return shares(wanted, format!("that by `{}`", other.name.param));
                }
            }
            for other in &self.given {
                let there = other.view.as_ref().map(|view| (view.device_ptr(), view.size_bytes()));
                if there.is_some_and(|there| overlap(here, there)) {
                    return shares(wanted, format!("that of `{}`", other.name.param));
                }
            }
            for found in &recording.found {
                let memory = recording.memories.get(found.memory);
                let start = memory.map_or(0, |memory| memory.allocation.device_ptr());
                let there = (start + found.start as u64, found.range().len());
                if memory.is_some() && overlap(here, there) {
                    let param = op.inner.name_of(Target::Opaque(found.param));
                    return shares(wanted, format!("the argument `{param}`"));
                }
            }
        }
        Ok(())
    }
}

impl Name<'_> {
    /// Returns the parameter or member that the name refers to.
    fn target(self, op: &Op) -> Result<Target> {
        let (inner, name) = (&*op.inner, self.param);
        let Some(param) = inner.params.iter().find(|param| param.name == name) else {
            return Err(Error::invalid(format!("`{}` has no parameter `{name}`", inner.name)));
        };
        let pointers = param.pointers.clone().filter(|at| {
            inner.pointers.get(*at).is_some_and(|pointer| {
                let named = match self.member {
                    Member::Only => true,
                    Member::At(offset) => pointer.offset == offset,
                    Member::Values => false,
                };
                named && pointer.slot.is_some()
            })
        });
        let numbers = param.scalar.filter(|_| !matches!(self.member, Member::At(_)));
        let mut found = pointers
            .map(|at| Target::Pointer(at as u16))
            .chain(numbers.map(|at| Target::Scalar(at as u16)));
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => {
                Err(Error::invalid(format!("`{name}` of `{}` has no gradient", inner.name)))
            }
            (Some(_), Some(_)) => {
                Err(Error::invalid(format!("`{name}` of `{}` has several gradients", inner.name))
                    .with_hint(
                        "`Gradients::seed_member`, `into_member` and `into_values` say which",
                    ))
            }
        }
    }
}

fn pointer_effect(op: &Op, target: Target) -> Option<Effect> {
    match target {
        Target::Pointer(at) => op.inner.pointers.get(usize::from(at)).map(|known| known.effect),
        Target::Scalar(_) | Target::Opaque(_) | Target::Own => None,
    }
}

/// Returns the use for a gradient of this type and size; `None` if it has no elements.
fn find(
    op: &Op,
    recording: &Recording,
    target: Target,
    (name, element, bytes): (&str, Element, Option<usize>),
) -> Result<Option<usize>> {
    let found = recording.uses.iter().enumerate().find(|(_, used)| used.target == target);
    let used = found.map(|(_, used)| used);
    if used.is_some_and(|used| !used.active) {
        return Err(Error::invalid(format!("`{name}` of `{}` is detached", op.name())));
    }
    let Some(bytes) = bytes else { return Ok(found.map(|(at, _)| at)) };
    let known = match target {
        Target::Pointer(at) => op.inner.pointers.get(usize::from(at)).map(|known| known.element),
        Target::Scalar(at) => op.inner.scalars.get(usize::from(at)).map(|known| known.element),
        Target::Opaque(_) | Target::Own => None,
    };
    let real = known.and_then(|known| known.real);
    let (Some(known), Some(real)) = (known, real) else {
        return Err(Error::invalid(format!("`{name}` of `{}` has no gradient", op.name())));
    };
    if element.real != Some(real.gradient()) {
        let given =
            element.real.map_or_else(|| "no numbers".to_owned(), |real| format!("{real:?}"));
        let wanted = real.gradient();
        return Err(Error::invalid(format!(
            "the gradient of `{name}` of `{}` consists of {wanted:?}, and {given} is given",
            op.name()
        )));
    }
    let (uses, widening) = (used.map_or(0, |used| used.range().len()), real.widening());
    if uses.checked_mul(widening) != Some(bytes) {
        let size = known.size.max(1);
        let (elements, given) = (uses / size, bytes / size.saturating_mul(widening).max(1));
        return Err(Error::invalid(format!(
            "`{name}` of `{}` has {elements} elements that are used ({uses} bytes), and its gradient {given} ({bytes} \
             bytes)",
            op.name()
        )));
    }
    Ok(found.map(|(at, _)| at))
}

fn once(place: Option<&mut Option<usize>>, number: usize, op: &Op, name: &str) -> Result<()> {
    match place.and_then(|place| place.replace(number)) {
        Some(_) => Err(twice(op, name)),
        None => Ok(()),
    }
}

#[cold]
fn twice(op: &Op, name: &str) -> Error {
    Error::invalid(format!("the gradient of `{name}` of `{}` is named twice", op.name()))
}

/// Returns the first parameter whose values are results of the launch and are read by its adjoint.
pub(super) fn reads_results(op: &Op, recording: &Recording) -> Option<String> {
    let results = |used: &&Use| matches!(used.value, Primal::Exit);
    let used = recording.uses.iter().find(results)?;
    Some(op.inner.used(used))
}
