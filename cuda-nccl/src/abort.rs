//! Aborting a communicator from any thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::handle::Handle;
use crate::teardown;

/// Aborts a communicator: its work on the device ends at once, whatever its peers do. From
/// [`Communicator::abort_handle`](crate::Communicator::abort_handle). Any thread may use it, also while another one is in
/// a call of the communicator.
///
/// It does not keep the communicator, and does nothing once that is gone.
#[derive(Debug, Clone)]
pub struct Abort {
    handle: Arc<Handle>,
}

impl Abort {
    pub(crate) fn new(handle: &Arc<Handle>) -> Self {
        Self { handle: handle.clone() }
    }

    /// Aborts all ranks of this process, and does not wait: threads of the crate do it. A stream that waits for a peer is
    /// free some milliseconds later. Later calls return [`Error::Aborted`]. A second abort does nothing.
    ///
    /// The kernels of the ranks do not end at one moment, so one may still write to the memory of another's calls. Until all
    /// communicators are gone, as [`wait`](Self::wait) tells, that memory is kept if it is dropped, and **each later use of
    /// it waits on the host**, a second at most; then the use is an error. What the calls would have written is undefined,
    /// but has values of its type; so has it for work that was enqueued behind the calls before the abort, and there it may
    /// change while that work runs.
    ///
    /// If a graph has recorded calls, NCCL keeps the communicators as long as the graph lives, and the memory is free a second
    /// after the abort.
    #[doc(alias = "ncclCommAbort")]
    pub fn abort(&self) {
        if !teardown::is_forked() {
            self.handle.clique.fail(Error::Aborted);
        }
    }

    /// Returns whether the communicator has failed or was aborted.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.handle.clique.usable().is_err()
    }

    /// Waits until NCCL's communicators of all ranks of this process are gone, after an abort or a drop, and returns
    /// whether they are within `timeout`. An abort took NCCL 2.28 up to 530 ms.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        // As far as the clock goes.
        let deadline = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        self.handle.wait_gone(deadline)
            && self.handle.clique.members().iter().all(|member| member.wait_gone(deadline))
    }
}
