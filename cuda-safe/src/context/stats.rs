//! Statistics of a context: counts of its calls and of the memory that it holds.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Context;

/// Counts of what the context did, for [`Context::stats`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) events_recorded: AtomicU64,
    pub(crate) stream_waits: AtomicU64,
    pub(crate) staged_bytes: AtomicU64,
    pub(crate) threaded_copies: AtomicU64,
    pub(crate) allocation_retries: AtomicU64,
}

/// The activity and resources of a context; see [`Context::stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Events recorded to order one stream behind another.
    pub events_recorded: u64,
    /// Waits enqueued to order one stream behind another.
    pub stream_waits: u64,
    /// Bytes that went through the pinned staging ring.
    pub staged_bytes: u64,
    /// Pinned bytes that the staging ring holds.
    pub staging_bytes: u64,
    /// Copies that were spread over threads; see [`Context::set_copy_threads`].
    pub threaded_copies: u64,
    /// The number of helper threads of copies.
    pub copy_helpers: u64,
    /// Allocations that succeeded only after the pool was trimmed.
    pub allocation_retries: u64,
    /// Things dropped that only [`Context::free_deferred`] or a reuse can free.
    pub deferred_frees: u64,
}

impl Context {
    /// Returns the activity and resources of this context. Never calls the driver. What is counted under a lock is 0 in a
    /// subscriber of `tracing` and in a forked child.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counters = &self.inner.counters;
        Stats {
            events_recorded: counters.events_recorded.load(Ordering::Relaxed),
            stream_waits: counters.stream_waits.load(Ordering::Relaxed),
            staged_bytes: counters.staged_bytes.load(Ordering::Relaxed),
            staging_bytes: self.inner.staging.held_bytes(),
            threaded_copies: counters.threaded_copies.load(Ordering::Relaxed),
            copy_helpers: self.inner.helpers.helpers() as u64,
            allocation_retries: counters.allocation_retries.load(Ordering::Relaxed),
            deferred_frees: self.inner.deferred.len(),
        }
    }
}
