//! Checks that a launch has enough memory and enough threads.

use cuda_safe::{Error, LaunchConfig, Result};

use super::args::read;
use super::launch::Before;
use super::{Chunk, Recording, Target, Use};
use crate::spec::{Effect, Op};

impl Recording {
    /// Cuts each use to the elements that the kernels access.
    pub(super) fn measure(
        &mut self,
        op: &Op,
        before: &Before,
        launch: &LaunchConfig,
    ) -> Result<()> {
        let base = before.bytes * 16;
        for used in self.uses.iter_mut().skip(before.uses) {
            let Target::Pointer(place) = used.target else { continue };
            let Some(pointer) = op.inner.pointers.get(usize::from(place)) else { continue };
            let Some((factor, param, constant)) = pointer.length else { continue };
            let count = count(&self.bytes, op, base, param);
            let bytes = u128::from(count)
                .saturating_mul(factor as u128)
                .saturating_add(constant as u128)
                .saturating_mul(used.element.size as u128);
            let room = used.end - used.start;
            if bytes > room as u128 {
                return Err(Error::invalid(format!(
                    "{} has {} elements, and {} are used",
                    op.inner.param(pointer.param),
                    room / used.element.size.max(1),
                    bytes / used.element.size.max(1) as u128,
                )));
            }
            // The end does not overflow: it is at most the old end.
            used.end = used.start + bytes as usize;
        }
        self.no_pointer_is_missing(op, before, launch)
    }

    /// Fails if a pointer without memory (an empty view, null, or a number instead of an address) needs elements.
    fn no_pointer_is_missing(&self, op: &Op, before: &Before, launch: &LaunchConfig) -> Result<()> {
        let given = self.uses.get(before.uses..).unwrap_or_default();
        let is_pointer = |used: &&Use| matches!(used.target, Target::Pointer(_));
        if given.iter().filter(is_pointer).count() >= op.inner.pointers.len() {
            return Ok(());
        }
        let threads = launch.grid.count().saturating_mul(launch.block.count());
        let base = before.bytes * 16;
        for (place, pointer) in op.inner.pointers.iter().enumerate() {
            let target = Target::Pointer(place as u16);
            if given.iter().any(|used| used.target == target) {
                continue;
            }
            // A view with a declared type knows its own number of elements.
            let param = op.inner.params.get(pointer.param);
            let counts_itself = param.is_some_and(|param| param.argument.is_some());
            let used = threads > 0 && !counts_itself;
            let used = pointer.length.map_or(used, |(factor, param, constant)| {
                constant > 0 || (factor > 0 && count(&self.bytes, op, base, param) > 0)
            });
            if used {
                let param = op.inner.params.get(pointer.param).map_or(0, |param| param.at);
                let address = read(&self.bytes, base + param + pointer.offset, 8);
                // The argument reports memory, but this pointer does not lead there.
                let reports =
                    self.found.iter().any(|found| usize::from(found.param) == pointer.param);
                let what = match address != 0 && reports {
                    true => "points to memory that its argument does not report",
                    false => "has no elements, and some are used",
                };
                let name = op.inner.param(pointer.param);
                return Err(Error::invalid(format!("{name} {what}")));
            }
        }
        Ok(())
    }

    /// Fails unless there is a thread for each element that the kernel overwrites, or that its adjoint adds to: the
    /// gradients of other elements would be uninitialised.
    pub(super) fn covers(&self, op: &Op, first: usize, launch: &LaunchConfig) -> Result<()> {
        let threads = launch.threads();
        let adjoint = op.inner.kernels.adjoint.as_ref().map(|_| op.shape(launch).threads());
        if adjoint == Some(0) && threads > 0 {
            return Err(Error::invalid(format!("the adjoint of `{}` has no threads", op.name()))
                .with_hint("`OpSpec::shape` says how it is launched"));
        }
        for used in self.uses.get(first..).unwrap_or_default() {
            let Target::Pointer(place) = used.target else { continue };
            let bytes = used.end - used.start;
            let Some(pointer) = op.inner.pointers.get(usize::from(place)) else { continue };
            if bytes == 0 || !used.covers {
                continue;
            }
            let each = match pointer.length {
                Some((factor, Some(_), _)) => used.element.size.saturating_mul(factor),
                // A fixed length does not depend on the launch.
                Some((_, None, _)) => bytes,
                None => used.element.size,
            };
            let elements = (bytes / each.max(1)) as u64;
            let there = match used.effect {
                Effect::Reads => adjoint.unwrap_or(u64::MAX),
                _ => threads.min(adjoint.unwrap_or(u64::MAX)),
            };
            let needed = if op.inner.settings.grid_stride { 1 } else { elements };
            if there < needed {
                return Err(not_covered(op, pointer.param, elements, there));
            }
        }
        Ok(())
    }
}

/// Returns the value of the parameter that a length is a multiple of, for the launch whose bytes begin at `base`.
fn count(bytes: &[Chunk], op: &Op, base: usize, param: Option<usize>) -> u64 {
    let param = param.and_then(|param| op.inner.params.get(param));
    param.map_or(0, |param| read(bytes, base + param.at, param.size))
}

#[cold]
fn not_covered(op: &Op, param: usize, elements: u64, threads: u64) -> Error {
    let name = op.inner.param(param);
    let has = match threads {
        0 => "no threads".to_owned(),
        _ => format!("{threads} threads"),
    };
    let plural = if elements == 1 { "" } else { "s" };
    Error::invalid(format!(
        "{name} has {elements} element{plural} to be covered, and the launch, or its adjoint's, has {has}"
    ))
    .with_hint("each has a thread of its own, unless `OpSpec::grid_stride` says that threads go on to others")
}
