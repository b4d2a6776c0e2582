//! The graph lock, held over several enqueues.

use std::sync::Arc;

use super::Stream;
use crate::error::Result;
use crate::memory::Allocation;

/// Holds a context's graph lock over several enqueues; made by [`Stream::graph_lock`]. It holds nothing
/// until [`run`](Self::run).
#[derive(Debug)]
#[must_use = "a graph lock is taken by `run`"]
pub struct GraphLock<'s> {
    stream: &'s Stream,
    /// Whether a graph uses some of the memory.
    shared: bool,
}

impl Stream {
    /// Prepares to hold the context's graph lock over several enqueues that pass data on in `memory`.
    ///
    /// A graph can be launched by a thread that has not borrowed the memory that the graph uses. So a
    /// borrow of scratch memory, say, doesn't keep such a launch from coming between two kernels that
    /// use it. [`GraphLock::run`] does.
    ///
    /// `memory` is any number of allocations: arrays, options and iterators work. It is only read here, so
    /// the closure of `run` may borrow its owner mutably.
    ///
    /// ```no_run
    /// # use cuda_safe::{DeviceBuffer, Result, Stream};
    /// # fn run(stream: &Stream, x: &DeviceBuffer<f32>, scratch: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> Result<()> {
    /// stream.graph_lock([scratch.allocation()]).run(|| {
    ///     scratch.copy_from(stream, x)?;
    ///     y.copy_from(stream, &*scratch)
    /// })
    /// # }
    /// ```
    pub fn graph_lock<'m>(
        &self,
        memory: impl IntoIterator<Item = &'m Arc<Allocation>>,
    ) -> GraphLock<'_> {
        let records = self.inner().capture.is_some();
        let shared = !records && memory.into_iter().any(|memory| memory.is_captured());
        GraphLock { stream: self, shared }
    }
}

impl GraphLock<'_> {
    /// Runs `enqueue` and returns its result. Until it returns or panics, no other thread launches a
    /// graph that uses memory which a graph of this context uses, nor enqueues work on such memory.
    ///
    /// It takes the context's graph lock if a graph uses some of the memory. It takes nothing if none
    /// does, and on a stream that records. Graph locks of one context may be nested. `enqueue` must not
    /// wait for another thread that uses graphs of the context, nor for device work that does: both
    /// would wait for each other.
    ///
    /// # Errors
    /// The error of `enqueue`. [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), without a call of `enqueue`, if this
    /// thread is within `run` on another context, and so holds that context's graph lock. In the same way, enqueues
    /// within `enqueue` fail that need the graph lock of another context.
    pub fn run<T>(self, enqueue: impl FnOnce() -> Result<T>) -> Result<T> {
        let lock = &self.stream.inner().context.graph_lock;
        let _held = if self.shared { lock.take_for_all()? } else { None };
        enqueue()
    }
}
