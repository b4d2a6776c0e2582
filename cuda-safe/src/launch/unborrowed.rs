//! Checks arguments that read memory without a borrow: no other argument of the launch may write it.

use std::ops::Range;
use std::sync::Arc;

use super::args::{ArgVisitor, InspectArgs, KernelArg};
use crate::error::{Error, Result};
use crate::memory::{Access, Allocation};

/// A use of one argument.
struct Found {
    argument: usize,
    unborrowed: bool,
    /// The place of the allocation on the heap, where the argument keeps it.
    allocation: usize,
    range: Range<usize>,
    writes: bool,
}

#[derive(Default)]
struct Arguments {
    found: Vec<Found>,
}

impl ArgVisitor for Arguments {
    fn visit<A: KernelArg>(&mut self, index: usize, arg: &A) -> Result<()> {
        arg.uses(&mut |allocation: &Arc<Allocation>, range, access| {
            self.found.push(Found {
                argument: index,
                unborrowed: A::IS_UNBORROWED,
                allocation: Arc::as_ptr(allocation).addr(),
                range,
                writes: access == Access::Write,
            });
            Ok(())
        })
    }
}

/// Fails if one argument writes what another reads without a borrow.
#[cold]
pub(super) fn check<A: InspectArgs>(args: &A) -> Result<()> {
    let mut all = Arguments::default();
    args.each(&mut all)?;
    for read in all.found.iter().filter(|found| found.unborrowed) {
        let shares = |other: &&Found| {
            other.writes
                && other.argument != read.argument
                && other.allocation == read.allocation
                && other.range.start < read.range.end
                && read.range.start < other.range.end
        };
        if let Some(other) = all.found.iter().find(shares) {
            return Err(Error::invalid(format!(
                "argument {} writes memory that argument {} reads, which nobody has borrowed",
                other.argument + 1,
                read.argument + 1
            ))
            .with_hint("copy what is read to memory of your own first"));
        }
    }
    Ok(())
}
