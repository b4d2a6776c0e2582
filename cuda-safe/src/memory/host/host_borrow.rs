//! Host borrows: guards through which the host reads or writes memory that the device uses too.

use crate::memory::Access;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// How many guards for reading there are; [`WRITING`] if there is one for writing. A guard that is
/// leaked counts for ever: then later uses are refused, and nothing is unsound.
#[derive(Default)]
pub(crate) struct HostBorrows(AtomicUsize);

const WRITING: usize = usize::MAX;

impl HostBorrows {
    /// Fails with the kind of a guard that is alive and doesn't go with such a use by the device.
    pub(crate) fn allows(&self, access: Access) -> Result<(), Access> {
        match (self.0.load(Ordering::SeqCst), access) {
            (0, _) => Ok(()),
            (WRITING, _) => Err(Access::Write),
            (_, Access::Read) => Ok(()),
            (_, Access::Write) => Err(Access::Read),
        }
    }

    /// Marks the memory as borrowed by the host until the result is dropped. Returns `None` if another guard
    /// forbids it.
    pub(crate) fn borrow(&self, access: Access) -> Option<HostBorrow<'_>> {
        let order = Ordering::SeqCst;
        let said = self.0.fetch_update(order, order, |guards| match access {
            // The count never reaches WRITING, which is not a number of readers.
            Access::Read => guards.checked_add(1).filter(|guards| *guards < WRITING),
            Access::Write => (guards == 0).then_some(WRITING),
        });
        said.ok().map(|_| HostBorrow { guards: &self.0, access })
    }
}

/// Marks the memory as borrowed by the host.
pub(crate) struct HostBorrow<'a> {
    guards: &'a AtomicUsize,
    access: Access,
}

impl Drop for HostBorrow<'_> {
    fn drop(&mut self) {
        match self.access {
            Access::Read => self.guards.fetch_sub(1, Ordering::SeqCst),
            Access::Write => self.guards.swap(0, Ordering::SeqCst),
        };
    }
}
