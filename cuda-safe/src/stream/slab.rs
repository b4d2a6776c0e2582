//! Functions that other code calls, by number, from any thread and perhaps never.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

pub(super) type Callback = Box<dyn FnOnce() + Send>;
pub(super) type Repeated = Box<dyn FnMut() + Send>;

pub(super) enum Entry {
    /// Taken out when it runs.
    Once(Callback),
    /// Stays until the code that registered it takes it out. The lock keeps its calls apart: a graph
    /// may run in several streams, and be launched again while it runs.
    Repeated(Arc<Mutex<Repeated>>),
}

impl Entry {
    pub(super) fn repeated(function: Repeated) -> Self {
        Self::Repeated(Arc::new(Mutex::new(function)))
    }
}

/// All functions that may still be called.
pub(super) struct Slab {
    pending: Mutex<BTreeMap<u64, Entry>>,
    next: AtomicU64,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { pending: Mutex::new(BTreeMap::new()), next: AtomicU64::new(1) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a function in, and returns its number, which is never used again.
    pub(super) fn insert(&self, entry: Entry) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, entry);
        number
    }

    /// Removes a function: it is not called any more. A running function finishes.
    pub(super) fn remove(&self, number: u64) {
        // A separate statement, so that the lock is not held while the function is dropped.
        let entry = self.lock().remove(&number);
        drop_quietly(entry);
    }

    /// Forgets the numbers of functions that are gone.
    pub(super) fn retain_known(&self, numbers: &mut Vec<u64>) {
        let pending = self.lock();
        numbers.retain(|number| pending.contains_key(number));
    }

    /// Calls a function, if it is still there. Never unwinds.
    pub(super) fn call(&self, number: u64) {
        let entry = {
            let mut pending = self.lock();
            match pending.get(&number) {
                Some(Entry::Repeated(function)) => Some(Entry::Repeated(function.clone())),
                Some(Entry::Once(_)) => pending.remove(&number),
                None => None,
            }
        };
        // Unwinding into the driver would be undefined behaviour. No caller can get the panic; the panic hook has
        // printed the message.
        match entry {
            Some(Entry::Once(function)) => quietly(function),
            Some(Entry::Repeated(function)) => {
                {
                    let mut function = function.lock().unwrap_or_else(PoisonError::into_inner);
                    // Caught under the lock, so that later calls find it in order.
                    quietly(&mut **function);
                }
                // The last handle, if it was taken out meanwhile.
                drop_quietly(function);
            }
            None => {}
        }
    }
}

/// Drops a function whose captured values may panic when dropped: a drop here must not.
fn drop_quietly<T>(function: T) {
    quietly(|| drop(function));
}

/// Catches panics. A panic's payload may panic in its drop: that panic is caught too, and its payload is not dropped.
pub(crate) fn quietly(act: impl FnOnce()) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(act))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown)))
    {
        std::mem::forget(again);
    }
}
