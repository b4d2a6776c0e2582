//! Handles of libraries that were dropped: destroying one may wait for the device, or spoil a capture.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use cuda_safe::{Allocation, Context};

use crate::uses::{Identity, identity};

/// Handles that wait for the next user in their context, or for the moment when they can be destroyed.
pub(crate) struct Park<H>(Mutex<Vec<Parked<H>>>);

struct Parked<H> {
    owner: Owner,
    handle: H,
    graphs: Graphs,
}

/// A context and the table of a library.
type Owner = (Identity, usize);

/// Memory that the graphs keep which have recorded calls with a handle: while it lives, they may use what the handle
/// owns.
#[derive(Debug, Default)]
pub(crate) struct Graphs(Vec<Weak<Allocation>>);

impl Graphs {
    /// Adds memory that is one of the uses of a recorded call.
    pub(crate) fn add(&mut self, memory: Weak<Allocation>) {
        self.0.retain(|one| one.strong_count() > 0);
        if !self.0.iter().any(|one| one.ptr_eq(&memory)) {
            self.0.push(memory);
        }
    }

    fn are_gone(&self) -> bool {
        self.0.iter().all(|one| one.strong_count() == 0)
    }
}

fn owner<T>(context: &Context, library: &'static T) -> Option<Owner> {
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

    /// Takes a handle of the context that fits.
    pub(crate) fn take<T>(
        &self,
        context: &Context,
        library: &'static T,
        fits: impl Fn(&H) -> bool,
    ) -> Option<(H, Graphs)> {
        let owner = owner(context, library)?;
        let mut parked = self.lock();
        let at = parked.iter().position(|one| one.owner == owner && fits(&one.handle))?;
        let one = parked.remove(at);
        Some((one.handle, one.graphs))
    }

    /// Parks a handle. That of a context without a name stays allocated: the driver frees its device memory with the
    /// context.
    pub(crate) fn put<T>(&self, context: &Context, library: &'static T, handle: H, graphs: Graphs) {
        if let Some(owner) = owner(context, library) {
            self.lock().push(Parked { owner, handle, graphs });
        }
    }

    /// If the context has more than `most` handles that no graph uses, takes the oldest so that half of these stay, and
    /// waits for the context's work. Takes none while the context records, or if its work has failed.
    pub(crate) fn excess<T>(&self, context: &Context, library: &'static T, most: usize) -> Vec<H> {
        let Some(owner) = owner(context, library) else { return Vec::new() };
        let mut taken = Vec::new();
        {
            let mut parked = self.lock();
            let is_own = |one: &Parked<H>| one.owner == owner && one.graphs.are_gone();
            let count = parked.iter().filter(|one| is_own(one)).count();
            if count <= most || context.is_recording() {
                return Vec::new();
            }
            let left = count - most / 2;
            for one in std::mem::take(&mut *parked) {
                let list =
                    if taken.len() < left && is_own(&one) { &mut taken } else { &mut *parked };
                list.push(one);
            }
        }
        if context.synchronize().is_err() {
            self.lock().append(&mut taken);
        }
        taken.into_iter().map(|one| one.handle).collect()
    }
}
