//! The graph lock, held over several enqueues.

use std::sync::Arc;

use super::Stream;
use crate::context::Context;
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
    /// The other contexts that such memory belongs to.
    others: Vec<Context>,
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
        let own = &self.inner().context;
        let (mut shared, mut others) = (false, Vec::new());
        if self.inner().capture.is_none() {
            for memory in memory.into_iter().filter(|memory| memory.is_captured()) {
                shared = true;
                let context = &memory.home_stream().inner().context;
                if !Arc::ptr_eq(context, own) {
                    others.push(Context::from_inner(context.clone()));
                }
            }
        }
        GraphLock { stream: self, shared, others }
    }
}

impl GraphLock<'_> {
    /// Runs `enqueue` and returns its result. Until it returns or panics, no other thread launches a
    /// graph that uses memory which a graph of this context uses, nor enqueues work on such memory.
    ///
    /// It takes the context's graph lock if a graph uses some of the memory, and those of other contexts that such memory
    /// belongs to. It takes nothing if none does, and on a stream that records. A lock that is held may be taken again
    /// within; a further one may not. `enqueue` must not
    /// wait for another thread that uses graphs of the context, nor for device work that does: both
    /// would wait for each other.
    ///
    /// # Errors
    /// The error of `enqueue`. [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), without a call of `enqueue`, if this
    /// thread is within another `run`, and so holds graph locks, without one that this needs. In the same way, enqueues
    /// within `enqueue` fail that need the graph lock of another context, such as launches of a graph that spans both.
    pub fn run<T>(self, enqueue: impl FnOnce() -> Result<T>) -> Result<T> {
        let lock = &self.stream.inner().context.graph_lock;
        let others = self.others.iter().map(|context| &context.inner().graph_lock);
        let _held = if self.shared { lock.take_for_all_with(others)? } else { None };
        enqueue()
    }
}
