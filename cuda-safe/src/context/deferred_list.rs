//! Things put aside by whichever thread drops them, and taken by whichever has use for them.

use crate::sync::Lock;

pub(super) struct DeferredList<T> {
    items: Lock<Vec<T>>,
}

impl<T> Default for DeferredList<T> {
    fn default() -> Self {
        Self { items: Lock::new(Vec::new()) }
    }
}

impl<T> DeferredList<T> {
    /// Adds an item. It is leaked in a subscriber and in a forked child.
    pub(super) fn put(&self, item: T) {
        match self.items.lock_in_host_function() {
            Ok(mut items) => items.push(item),
            Err(_) => std::mem::forget(item),
        }
    }

    /// Returns all entries, without the lock: nobody else can hold it any more.
    pub(super) fn drain(&mut self) -> Vec<T> {
        std::mem::take(self.items.get_mut())
    }

    pub(super) fn len(&self) -> usize {
        self.items.lock().map_or(0, |items| items.len())
    }

    /// Returns whether there is an item of a kind.
    pub(super) fn any(&self, kind: impl Fn(&T) -> bool) -> bool {
        self.items.lock().is_ok_and(|items| items.iter().any(kind))
    }

    /// Takes an item that is wanted, if there is one.
    pub(super) fn take(&self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut items = self.items.lock().ok()?;
        let position = items.iter().position(wanted)?;
        Some(items.swap_remove(position))
    }

    /// Takes everything, after `wait` has seen it. Entries that are added meanwhile stay,
    /// because `wait` may not cover their uses. If `wait` fails, all entries are put back.
    pub(super) fn take_all<E>(
        &self,
        wait: impl FnOnce(&[T]) -> Result<(), E>,
    ) -> Result<Vec<T>, E> {
        let Ok(items) = self.items.lock().map(|mut items| std::mem::take(&mut *items)) else {
            return Ok(Vec::new());
        };
        match wait(&items) {
            Ok(()) => Ok(items),
            Err(error) => {
                items.into_iter().for_each(|item| self.put(item));
                Err(error)
            }
        }
    }
}
