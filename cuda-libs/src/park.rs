//! Handles of libraries that were dropped: destroying one may wait for the device, or invalidate a capture.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_safe::Context;

use crate::error::Result;
use crate::uses::{Identity, identity};

/// Handles that wait for the next user in their context, or for the moment when they can be destroyed.
pub(crate) struct Park<H>(Mutex<Vec<Parked<H>>>);

struct Parked<H> {
    owner: Owner,
    handle: H,
    /// Whether a graph may use memory of the handle. Such a handle is never destroyed.
    is_recorded: bool,
}

/// A context and the table of a library; `None` where the driver can't name contexts.
pub(crate) type Owner = Option<(Identity, usize)>;

/// Returns the key under which handles are parked.
pub(crate) fn owner<T>(context: &Context, library: &'static T) -> Owner {
    Some((identity(context)?, std::ptr::from_ref(library).addr()))
}

impl<H> Park<H> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Parked<H>>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a handle of the owner that fits, and returns it with whether it was recorded.
    pub(crate) fn take(&self, owner: Owner, fits: impl Fn(&H) -> bool) -> Option<(H, bool)> {
        let mut parked = self.lock();
        let at = parked.iter().position(|one| one.owner == owner && fits(&one.handle))?;
        let one = parked.remove(at);
        Some((one.handle, one.is_recorded))
    }

    /// Parks a handle, and calls no driver. That of a context without a name stays allocated: the driver frees its device
    /// memory with the context.
    pub(crate) fn put(&self, owner: Owner, handle: H, is_recorded: bool) {
        if owner.is_none() {
            return;
        }
        let parked = match cuda_safe::check_caller() {
            Ok(()) => Some(self.lock()),
            // A host function may park it, too; but in a child of `fork` the lock may be held for ever.
            Err(_) => self.0.try_lock().ok(),
        };
        if let Some(mut parked) = parked {
            parked.push(Parked { owner, handle, is_recorded });
        }
    }

    /// If the owner has more than `most` handles that were not recorded, destroys the oldest after the context's work,
    /// so that half of these stay.
    ///
    /// # Errors
    /// Its context records, or its work has failed: the handles stay parked. The first error of `destroy`, which is
    /// called for the others nevertheless.
    pub(crate) fn destroy_excess(
        &self,
        context: &Context,
        owner: Owner,
        most: usize,
        destroy: impl Fn(H) -> Result<()>,
    ) -> Result<()> {
        let mut taken = Vec::new();
        {
            let mut parked = self.lock();
            let is_idle = |one: &Parked<H>| one.owner == owner && !one.is_recorded;
            let count = parked.iter().filter(|one| is_idle(one)).count();
            if count <= most {
                return Ok(());
            }
            let excess = count - most / 2;
            for one in std::mem::take(&mut *parked) {
                let list =
                    if taken.len() < excess && is_idle(&one) { &mut taken } else { &mut *parked };
                list.push(one);
            }
        }
        // A capture must not begin before the last handle is destroyed.
        let destroyed = context.outside_captures(|| {
            context.synchronize()?;
            taken.drain(..).map(|one| destroy(one.handle)).fold(Ok(()), Result::and)
        });
        self.lock().append(&mut taken);
        destroyed?
    }
}
