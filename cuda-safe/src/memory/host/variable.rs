//! Host borrows of a module's managed variables.
//!
//! A module has one allocation for all its variables, so a borrow is of a range. Every use of a variable holds the
//! context's graph lock from its ordering to its recording, and a guard is made with the lock held: a use comes before
//! it and is waited for, or comes after it and is refused.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::memory::allocation::{Allocation, Kind};
use crate::memory::order::uses::Access;
use crate::sync::Lock;

/// The ranges of a module's variables that the host has borrowed. A guard that is leaked stays in the list: then later
/// uses are refused, and nothing is unsound.
#[derive(Default)]
pub(in crate::memory) struct VariableBorrows {
    /// How many there are, so that a use of a module without any takes no lock.
    count: AtomicUsize,
    alive: Lock<Vec<(Range<usize>, Access)>>,
}

impl VariableBorrows {
    /// Returns the kind of a guard that doesn't go with such a use of the range.
    fn conflict(&self, range: &Range<usize>, access: Access) -> Result<Option<Access>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Ok(None);
        }
        let alive = self.alive.lock()?;
        let mut meeting = alive
            .iter()
            .filter(|(other, _)| other.start < range.end && range.start < other.end)
            .map(|(_, kind)| *kind);
        Ok(meeting.find(|kind| access == Access::Write || *kind == Access::Write))
    }

    /// Fails if a guard is alive that doesn't go with such a use by the device.
    pub(in crate::memory) fn allows(&self, range: &Range<usize>, access: Access) -> Result<()> {
        match self.conflict(range, access)? {
            None => Ok(()),
            Some(Access::Write) => Err(Error::invalid(
                "the host is writing a global: its `host_mut()` guard is alive, or was leaked",
            )),
            Some(Access::Read) => Err(Error::invalid(
                "the host is reading a global: its `host()` guard is alive, or was leaked",
            )),
        }
    }

    /// Marks a range as borrowed by the host until the result is dropped. `None` if another guard forbids it.
    fn borrow(&self, range: Range<usize>, access: Access) -> Option<VariableBorrow<'_>> {
        // The caller holds the graph lock, as uses do: none of them reads the count at this moment.
        self.count.fetch_add(1, Ordering::SeqCst);
        if !matches!(self.conflict(&range, access), Ok(None)) {
            self.count.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        self.alive.lock().ok()?.push((range.clone(), access));
        Some(VariableBorrow { of: self, range, access })
    }
}

/// Marks a variable as borrowed by the host.
pub(in crate::memory) struct VariableBorrow<'a> {
    of: &'a VariableBorrows,
    range: Range<usize>,
    access: Access,
}

impl Drop for VariableBorrow<'_> {
    fn drop(&mut self) {
        // Without the lock, as in a forked child, the guard stays counted, like a leaked one.
        let Ok(mut alive) = self.of.alive.lock() else { return };
        let own =
            alive.iter().position(|(range, access)| *range == self.range && *access == self.access);
        if let Some(own) = own {
            alive.swap_remove(own);
            self.of.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Allocation {
    /// Borrows a range of a module's variables for the host, after waiting for the uses that conflict.
    pub(in crate::memory) fn wait_for_variable(
        &self,
        range: Range<usize>,
        access: Access,
    ) -> Result<(NonNull<u8>, VariableBorrow<'_>)> {
        let Kind::Module(borrows) = self.kind() else {
            return Err(Error::invalid("the memory is no variable of a module"));
        };
        let state = self.home_stream().inner().state();
        // The variable goes with its context. If there is nothing to wait for, no call below would detect that other
        // code has destroyed the context.
        state.look_after_primary()?;
        state.usable()?;
        // The address is the same on the host and the device.
        let pointer = std::ptr::with_exposed_provenance_mut(range.start);
        let Some(start) = NonNull::new(pointer) else {
            return Err(Error::invalid("the variable has no address"));
        };
        let borrow = {
            let _held = self.home_stream().inner().context.graph_lock.take()?;
            if access == Access::Write {
                self.may_be_written(&range)?;
            }
            borrows.borrow(range.clone(), access).ok_or_else(|| {
                Error::invalid("another guard of the global is alive, or was leaked")
            })?
        };
        self.finish_uses_of(range, access)?;
        Ok((start, borrow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_exclude_conflicting_uses_of_their_range_alone() {
        let borrows = VariableBorrows::default();
        let (left, right) = (0..8, 8..16);
        assert!(borrows.allows(&left, Access::Write).is_ok());
        let reads = borrows.borrow(left.clone(), Access::Read);
        let again = borrows.borrow(4..6, Access::Read);
        assert!(reads.is_some() && again.is_some());
        assert!(borrows.allows(&left, Access::Read).is_ok());
        assert!(borrows.allows(&(7..9), Access::Write).is_err());
        assert!(borrows.allows(&right, Access::Write).is_ok());
        assert!(borrows.borrow(left.clone(), Access::Write).is_none());
        drop(reads);
        assert!(borrows.allows(&(0..4), Access::Write).is_ok());
        assert!(borrows.allows(&left, Access::Write).is_err(), "the second reader");
        drop(again);
        let writes = borrows.borrow(left.clone(), Access::Write);
        assert!(writes.is_some() && borrows.borrow(left.clone(), Access::Read).is_none());
        assert!(borrows.allows(&(0..usize::MAX), Access::Read).is_err());
        std::mem::forget(writes);
        assert!(borrows.allows(&left, Access::Read).is_err(), "a leaked guard counts for ever");
        assert!(borrows.allows(&right, Access::Write).is_ok());
    }
}
