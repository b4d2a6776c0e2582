//! Functions that other code calls, by number, from any thread and perhaps never.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::quiet::quietly;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Lock, MutexGuard, NotNow, as_host_function};

pub(super) type Callback = Box<dyn FnOnce() + Send>;
pub(super) type Repeated = Box<dyn FnMut() + Send>;

pub(super) enum Entry {
    /// Taken out when it runs.
    Once(Callback),
    /// Stays until the code that registered it takes it out. The lock keeps its calls apart: a graph
    /// may run in several streams, and be launched again while it runs.
    Repeated(Arc<Lock<Repeated>>),
}

impl Entry {
    pub(super) fn repeated(function: Repeated) -> Self {
        Self::Repeated(Arc::new(Lock::new(function)))
    }
}

/// All functions that may still be called.
pub(super) struct Slab {
    pending: Lock<BTreeMap<u64, Entry>>,
    next: AtomicU64,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { pending: Lock::new(BTreeMap::new()), next: AtomicU64::new(1) }
    }

    /// Neither the driver nor a function is called with this lock held.
    fn lock(&self) -> Result<MutexGuard<'_, BTreeMap<u64, Entry>>, NotNow> {
        self.pending.lock_in_host_function()
    }

    /// Takes a function in, and returns its number, which is never used again. Where the lock can't be waited for, the
    /// function is dropped.
    pub(super) fn insert(&self, entry: Entry) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut pending) = self.lock() {
            pending.insert(number, entry);
        }
        number
    }

    /// Removes a function: it is not called any more. A running function finishes.
    pub(super) fn remove(&self, number: u64) {
        // A separate statement, so that the lock is not held while the function is dropped.
        let entry = self.lock().ok().and_then(|mut pending| pending.remove(&number));
        drop_quietly(entry);
    }

    /// Forgets the numbers of functions that are gone.
    pub(super) fn retain_known(&self, numbers: &mut Vec<u64>) {
        let Ok(pending) = self.lock() else { return };
        numbers.retain(|number| pending.contains_key(number));
    }

    /// Calls a function, if it is still there. Never unwinds.
    pub(super) fn call(&self, number: u64) {
        let entry = {
            let Ok(mut pending) = self.lock() else { return };
            match pending.get(&number) {
                Some(Entry::Repeated(function)) => Some(Entry::Repeated(function.clone())),
                Some(Entry::Once(_)) => pending.remove(&number),
                None => None,
            }
        };
        // Unwinding into the driver would be undefined behaviour. No caller can get the panic; the panic hook has
        // printed the message.
        match entry {
            Some(Entry::Once(function)) => as_host_function(|| quietly(function)),
            Some(Entry::Repeated(function)) => {
                {
                    let Ok(mut function) = function.lock() else { return };
                    // Caught under the lock, so that later calls find it in order.
                    as_host_function(|| quietly(&mut **function));
                }
                // The last handle, if it was taken out meanwhile.
                as_host_function(|| drop_quietly(function));
            }
            None => {}
        }
    }
}

/// Drops a function whose captured values may panic when dropped: a drop here must not.
fn drop_quietly<T>(function: T) {
    quietly(|| drop(function));
}
