//! Things put aside by whichever thread drops them, and taken by whichever has use for them.

use crate::sync::{Mutex, MutexGuard, PoisonError};

pub(super) struct DeferredList<T> {
    items: Mutex<Vec<T>>,
}

impl<T> Default for DeferredList<T> {
    fn default() -> Self {
        Self { items: Mutex::new(Vec::new()) }
    }
}

impl<T> DeferredList<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, item: T) {
        self.lock().push(item);
    }

    /// Returns all entries, without the lock: nobody else can hold it any more.
    pub(super) fn drain(&mut self) -> Vec<T> {
        std::mem::take(self.items.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there is an item of a kind.
    pub(super) fn any(&self, kind: impl Fn(&T) -> bool) -> bool {
        self.lock().iter().any(kind)
    }

    /// Takes an item that is wanted, if there is one.
    pub(super) fn take(&self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut items = self.lock();
        let position = items.iter().position(wanted)?;
        Some(items.swap_remove(position))
    }

    /// Takes everything, after `wait` has seen it. Entries that are added meanwhile stay,
    /// because `wait` may not cover their uses. If `wait` fails, all entries are put back.
    pub(super) fn take_all<E>(
        &self,
        wait: impl FnOnce(&[T]) -> Result<(), E>,
    ) -> Result<Vec<T>, E> {
        let items = std::mem::take(&mut *self.lock());
        match wait(&items) {
            Ok(()) => Ok(items),
            Err(error) => {
                self.lock().extend(items);
                Err(error)
            }
        }
    }
}
