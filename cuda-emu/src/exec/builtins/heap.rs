//! The memory of the kernels' `malloc`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::space::{Kind, Space};

/// Bytes that an allocation takes besides its own.
const OVERHEAD: u64 = 16;

/// The heap of a device, from which kernels allocate, up to a limit.
#[derive(Debug)]
pub struct Heap {
    device: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: u64,
    used: u64,
    live: HashMap<u64, u64>,
}

impl Heap {
    /// Creates an empty heap of `limit` bytes for the device of this ordinal.
    #[must_use]
    pub fn new(device: u32, limit: u64) -> Self {
        Self { device, state: Mutex::new(State { limit, used: 0, live: HashMap::new() }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.state().limit
    }

    /// Changes its size. Allocations stay.
    pub fn set_limit(&self, bytes: u64) {
        self.state().limit = bytes;
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used
    }

    /// Allocates, aligned to 16; `None` when it is full or nothing is asked for.
    pub(crate) fn allocate(&self, space: &Space, bytes: u64) -> Option<u64> {
        let taken = bytes.checked_next_multiple_of(16)?.checked_add(OVERHEAD)?;
        let mut state = self.state();
        if bytes == 0 || taken > state.limit.saturating_sub(state.used) {
            return None;
        }
        let start = space.allocate(bytes, 16, Kind::Heap, self.device).ok()?;
        state.used += taken;
        state.live.insert(start, taken);
        Some(start)
    }

    /// Frees; false if nothing is allocated there.
    pub(crate) fn free(&self, space: &Space, start: u64) -> bool {
        let mut state = self.state();
        let Some(taken) = state.live.remove(&start) else { return false };
        state.used -= taken;
        space.free(start);
        true
    }

    /// Frees everything, when the device's context goes.
    pub fn clear(&self, space: &Space) {
        let mut state = self.state();
        state.used = 0;
        for (start, _) in state.live.drain() {
            space.free(start);
        }
    }
}
