//! Aborting a communicator from any thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::life::handle::Handle;
use crate::life::teardown;

/// Aborts a communicator: its work on the device ends at once, whatever its peers do. From
/// [`Communicator::abort_handle`](crate::Communicator::abort_handle). Any thread may use it, also while another one is
/// in a call of the communicator.
///
/// It keeps the context, but not the communicator, and does nothing once that is gone.
#[derive(Debug, Clone)]
pub struct Abort {
    handle: Arc<Handle>,
}

impl Abort {
    pub(crate) fn new(handle: &Arc<Handle>) -> Self {
        Self { handle: handle.clone() }
    }

    /// Aborts all ranks of this process, and does not wait: threads of the crate do it. A stream that waits for a peer
    /// is free some milliseconds later. Later calls return [`Error::Aborted`], or the failure that came before. A
    /// second abort does nothing, and neither does one in a forked child. In a subscriber of `tracing` and in a host
    /// function another thread begins the aborts.
    ///
    /// The kernels of the ranks do not end at the same moment, so one may still write to the memory of another rank's
    /// calls. Until [`wait`](Self::wait) returns `true`, that memory is not freed when it is dropped, and **each later
    /// use of it waits on the host**, at most a second, and is then refused. The results of the calls are undefined
    /// values of their type. Work that was enqueued after the calls and before the abort reads such values, which may
    /// change while it runs.
    ///
    /// If a graph has recorded calls, NCCL keeps the communicators as long as the graph lives. The memory is then
    /// usable a second after the abort of the last rank has begun.
    #[doc(alias = "ncclCommAbort")]
    pub fn abort(&self) {
        let clique = self.handle.clique.clone();
        teardown::run_where_locks_wait(move || drop(clique.fail(Error::Aborted)));
    }

    /// Returns whether the communicator has failed or was aborted.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.handle.clique.usable().is_err()
    }

    /// Waits until NCCL's communicators of all ranks of this process are gone, after an abort or a drop, and returns
    /// whether they are within `timeout`; `false` while a graph that has recorded calls lives. Wait for a second: an
    /// abort takes NCCL about half of one. Returns `false` at once in a subscriber of `tracing`, in a host function and
    /// in a forked child.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        // The limit keeps the sum within the clock's range.
        let deadline = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        self.handle.wait_gone(deadline)
            && self.handle.clique.members().iter().all(|member| member.wait_gone(deadline))
    }
}
