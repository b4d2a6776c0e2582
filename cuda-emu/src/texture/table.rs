//! The objects of a space, by handle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::{Image, Texture};

/// What a handle refers to.
#[derive(Debug)]
pub(crate) enum Object {
    Texture(Texture),
    Surface(Image),
}

/// The objects. A handle is not used again.
#[derive(Debug)]
pub(crate) struct Objects {
    known: RwLock<HashMap<u64, Arc<Object>>>,
    next: AtomicU64,
}

impl Default for Objects {
    fn default() -> Self {
        Self { known: RwLock::default(), next: AtomicU64::new(1) }
    }
}

impl Objects {
    /// Adds an object and returns its handle.
    pub(crate) fn insert(&self, object: Object) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(handle, Arc::new(object));
        handle
    }

    /// Returns the object of a handle.
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<Object>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&handle).cloned()
    }

    /// Removes an object.
    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<Object>> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.remove(&handle)
    }
}
