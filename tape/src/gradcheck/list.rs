//! Lists the numbers in the arguments of a launch.

use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Error, Result};

use super::args::Copied;
use super::numbers::{Field, Listed};
use crate::element::FloatType;
use crate::record::{Found, Recording, Target, Use};
use crate::spec::Op;

/// Returns the name of a parameter, or of a pointer in it.
pub(super) fn name(op: &Op, param: usize, offset: usize) -> String {
    let name = op.inner.params.get(param).map_or("", |param| &param.name);
    if offset == 0 { name.to_owned() } else { format!("{name}+{offset}") }
}

pub(super) fn count(fields: &[Field]) -> usize {
    fields.last().map_or(0, |last| last.range().end)
}

/// Returns the bytes of the view that a pointer leads to: the launch may use fewer.
pub(super) fn view_of(recording: &Recording, used: &Use) -> Range<usize> {
    let holds = |found: &&Found| {
        found.known && found.memory == used.memory && (found.start..found.end).contains(&used.start)
    };
    let end = recording.found.iter().filter(holds).map(|found| found.end).min();
    used.start..end.unwrap_or(used.end).max(used.end)
}

/// Returns whether a pointer leads to the memory of a copy.
pub(super) fn is_of(recording: &Recording, copy: &Copied, used: &Use) -> bool {
    let memory = recording.memories.get(used.memory);
    memory.is_some_and(|memory| Arc::ptr_eq(&memory.allocation, &copy.original))
        && copy.range.contains(&used.start)
}

/// Returns the type of a copy's numbers, if it holds nothing else.
pub(super) fn only_numbers(recording: &Recording, copy: &Copied) -> Option<FloatType> {
    let mut uses = recording.uses.iter().filter(|used| is_of(recording, copy, used));
    let real = uses.next().and_then(|used| used.element.real.filter(|_| !used.element.mixed))?;
    let same = |used: &Use| used.element.real == Some(real) && !used.element.mixed;
    let whole =
        copy.image.len().is_multiple_of(real.size()) && copy.offset.is_multiple_of(real.size());
    (whole && uses.all(same)).then_some(real)
}

/// Lists the numbers of an argument, except those that are already listed: two arguments may lead to the same memory.
pub(super) fn add(fields: &mut Vec<Field>, listed: &Listed) {
    let mut pieces: Vec<Range<usize>> = std::iter::once(listed.start..listed.end).collect();
    for known in fields.iter().filter(|known| known.home == listed.home) {
        let around = |piece: Range<usize>| {
            let before = piece.start..piece.end.min(known.start);
            let after = piece.start.max(known.end)..piece.end;
            [before, after].into_iter().filter(|piece| !piece.is_empty())
        };
        let (apart, cut): (Vec<_>, Vec<_>) = pieces
            .into_iter()
            .partition(|piece| piece.end <= known.start || known.end <= piece.start);
        pieces = apart.into_iter().chain(cut.into_iter().flat_map(around)).collect();
    }
    for piece in pieces {
        let part = Listed { start: piece.start, end: piece.end, ..listed.clone() };
        let first = count(fields);
        fields.extend(Field::of_memory(&part, listed.start, first));
    }
}

/// Sorts fields in the order of the kernel's parameters.
pub(super) fn in_order(fields: &mut [Field]) {
    fields.sort_by_key(|field| field.param);
    let mut first = 0;
    for field in fields {
        field.first = first;
        first += field.count;
    }
}

/// Fails if the offsets or the types of a parameter's numbers are unknown.
pub(super) fn known_numbers(op: &Op, recording: &Recording) -> Result<()> {
    for used in &recording.uses {
        let Target::Pointer(pointer) = used.target else { continue };
        let Some(known) = op.inner.pointers.get(usize::from(pointer)) else { continue };
        if known.slot.is_none() {
            continue;
        }
        let name = op.inner.param(known.param);
        if used.element.mixed && used.element.numbers == 0 {
            return Err(Error::invalid(format!(
                "{name} has structures as elements, and the specification does not say where their numbers lie"
            ))
            .with_hint("`Element::numbers_at` says it"));
        }
        #[cfg(not(feature = "half"))]
        if matches!(used.element.real, Some(FloatType::F16 | FloatType::Bf16)) {
            return Err(Error::invalid(format!("{name} has 16-bit floats"))
                .with_hint("the feature `half` of cuda-tape reads and writes them"));
        }
    }
    Ok(())
}
