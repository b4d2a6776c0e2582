//! One rank of a communicator, and its calls that are no part of a group.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cuda_safe::{Context, Stream};

use crate::call::Call;
use crate::call::checked::{Checker, exchange};
use crate::call::group::{Issued, enqueue_one};
use crate::error::{Error, Result};
use crate::life::abort::Abort;
use crate::life::handle::{Backoff, Handle};
use crate::life::teardown::{self, Owner};

/// One rank of a communicator: the end of collectives on one device.
///
/// [`all`](Self::all) makes the ranks of one process, [`new`](Self::new) one of several processes, and
/// [`split`](Self::split) makes smaller ones. The methods that are named after collectives enqueue one on a stream of the
/// rank's device. Each returns when it is enqueued; the work runs in the order of the stream, and buffers are ordered with
/// other streams as by any launch.
///
/// # One thread or several
/// All ranks make the same calls. A rank's call may wait for the other ranks' (NCCL connects them in the first one), so
/// each rank is driven by its own thread, or all of one thread in one [`Group`](crate::Group). NCCL forbids two threads on
/// one communicator: so calls need `&mut`.
///
/// # Failures
/// Calls of ranks that disagree are refused before NCCL is called, where all ranks are of this process. An error of NCCL
/// breaks the communicator: its ranks in this process are aborted, so that their streams and devices are free, and every
/// later call returns that error. [`Error::is_final`] says which errors do. [`abort_handle`](Self::abort_handle) returns a
/// handle by which another thread ends work that never would. [`Abort::abort`](crate::Abort::abort) says what holds for the
/// memory of calls after each of these failures.
///
/// # Memory
/// Memory that calls have used is freed later than in the order of its stream: when it is dropped, an event is recorded, and
/// it is freed at the first later call of the communicator that finds the event done, when an allocation finds no memory, by
/// [`Context::free_deferred`], or with the communicator. Until then a peer's kernel may use it. So keep buffers for several
/// calls.
///
/// # Drop
/// A drop waits for nothing: enqueued work runs, and a thread of the crate destroys the communicator when it is done. If
/// other ranks of this process have made calls that this rank has not, all are aborted. A graph that has recorded calls
/// keeps the communicator. [`close`](Self::close) waits.
pub struct Communicator {
    owner: Arc<Owner>,
    pub(crate) checker: Option<Checker>,
    /// Whether the program has promised the order of recorded calls.
    records: bool,
}

impl Communicator {
    pub(crate) fn of(handle: Arc<Handle>) -> Self {
        // A communicator whose calls are not compared was made with the promise for recorded calls.
        let records = !handle.clique.is_compared();
        Self { owner: Arc::new(Owner { handle }), checker: None, records }
    }

    /// Takes over the settings of a communicator that was split.
    pub(crate) fn inherit(&mut self, parent: &Self) -> Result<()> {
        self.records = parent.records;
        if parent.checker.is_some() {
            self.checker = Some(Checker::new(&parent.owner.handle.context)?);
        }
        Ok(())
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.owner.handle
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Returns the rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.owner.handle.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.owner.handle.ranks
    }

    /// Returns the context of the rank's device. Its streams and memory are those of the rank's calls.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.owner.handle.context
    }

    /// Returns how long a call may wait for the other ranks.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.owner.handle.timeout()
    }

    /// Sets how long a call may wait for the other ranks; see [`Config::timeout`](crate::Config::timeout).
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.owner.handle.set_timeout(timeout);
    }

    /// Returns a handle that any thread may use to abort the communicator.
    #[must_use]
    pub fn abort_handle(&self) -> Abort {
        Abort::new(&self.owner.handle)
    }

    /// Lets graphs record calls of this communicator. Those of [`new`](Self::new), and splits of them, may record without it.
    ///
    /// A call on a stream that records becomes a part of the graph, and runs at each launch of it. Calls are compared when
    /// they are recorded. Nothing compares the launches.
    ///
    /// # Safety
    /// All ranks launch their graphs with calls of this communicator, and make its other calls, in the same order: call by
    /// call, the kinds, types, numbers of elements, operations and roots are the same. The kernels of ranks that disagree
    /// may write beyond a slice of a peer.
    ///
    /// Memory that a framework has lent for its own capture ([`Context::lend`]) stays until all ranks have run the graph, or
    /// were aborted. A launch that was enqueued before a failure starts within a second of it or not at all, since the memory
    /// of recorded calls is kept for a second after an abort.
    pub unsafe fn allow_recording(&mut self) {
        self.records = true;
    }

    /// Checks whether earlier work of the communicator or its device has failed; does not wait.
    ///
    /// # Errors
    /// The first failure of the ranks of this process, which is every later call's error, too, and by which they are
    /// aborted.
    #[doc(alias = "ncclCommGetAsyncError")]
    pub fn check(&self) -> Result<()> {
        let handle = self.handle();
        handle.usable()?;
        let alive = handle.context.check_alive().map_err(Error::from);
        let state = alive.and_then(|()| handle.lock()).and_then(|raw| handle.state(&raw));
        state.map(drop).map_err(|error| handle.clique.fail(error))
    }

    /// Waits until all that is enqueued on the stream is done, and returns an error early if the communicator fails
    /// meanwhile. [`Stream::synchronize`] would wait for a peer that never comes.
    ///
    /// # Errors
    /// [`Error::Timeout`] if it is not done within [`timeout`](Self::timeout), and the communicators of this process are
    /// aborted; the communicator's failure; or the error of the work.
    pub fn synchronize(&mut self, stream: &Stream) -> Result<()> {
        let handle = self.handle();
        handle.usable()?;
        let waited = wait_for(handle, stream);
        waited.map_err(|error| if error.is_final() { handle.clique.fail(error) } else { error })
    }

    /// Destroys communicators when their work is done, and waits for it, for each at most its
    /// [`timeout`](Self::timeout). NCCL may wait for the peers of a rank: pass all that are of this thread.
    ///
    /// # Errors
    /// [`Error::Timeout`] if one was not destroyed in time; it is still destroyed later. [`Error::Invalid`] if a graph
    /// that has recorded calls keeps one.
    #[doc(alias = "ncclCommFinalize")]
    #[doc(alias = "ncclCommDestroy")]
    pub fn close(communicators: impl IntoIterator<Item = Self>) -> Result<()> {
        let mut handles = Vec::new();
        let mut kept = None;
        for communicator in communicators {
            if Arc::strong_count(&communicator.owner) > 1 {
                kept = kept.or(Some(communicator.rank()));
            } else {
                communicator.handle().closes.store(true, Ordering::Relaxed);
                handles.push(communicator.handle().clone());
            }
        }
        // All communicators were dropped above, and each ends on its thread.
        let start = Instant::now();
        for handle in &handles {
            let timeout = handle.timeout();
            // The limit keeps the sum within the clock's range.
            let deadline = start + timeout.min(Duration::from_secs(1 << 30));
            if !handle.wait_gone(deadline) {
                let what = "the end of the communicator";
                return Err(Error::Timeout { what, rank: handle.rank, after: timeout });
            }
            handle.join_end();
        }
        match kept {
            None => Ok(()),
            Some(rank) => Err(Error::invalid(format!(
                "a graph has recorded calls of rank {rank} and keeps its communicator, which goes with the graph"
            ))),
        }
    }

    /// Checks whether a call may be made on a stream, which is part of a graph if it records.
    pub(crate) fn check_call(&self, stream: &Stream, call: &Call<'_>) -> Result<()> {
        let handle = self.handle();
        handle.usable()?;
        call.check(handle, stream)?;
        if stream.is_recording() && !self.records {
            return Err(Error::invalid(format!(
                "{} on a stream that records a graph: the order of its launches is not compared, so promise it by \
                 `allow_recording` first",
                call.issue.kind.name()
            )));
        }
        Ok(())
    }

    /// Makes one call, which is no part of a group.
    pub(crate) fn enqueue(&mut self, stream: &Stream, call: Call<'_>) -> Result<()> {
        self.check_call(stream, &call)?;
        let signature = call.issue.signature(0, 1);
        let handle = self.handle();
        if let Some(checker) = &self.checker {
            exchange(&[(&**handle, checker, &[signature])])?;
        }
        if stream.is_recording() {
            stream.retain(self.owner.clone())?;
            handle.clique.note_recorded();
        }
        let step = match handle.clique.enter_one(handle.rank, signature) {
            Ok(step) => step,
            Err(error) => return Err(handle.settle(error, std::iter::once(signature))),
        };
        match enqueue_one(handle, stream, call) {
            Issued::Done => Ok(()),
            Issued::NotCalled(error) => {
                if error.is_final() {
                    return Err(handle.clique.fail(error));
                }
                Err(handle.clique.take_back(handle.rank, step.into_iter(), error))
            }
            Issued::Failed(error) => Err(handle.clique.fail(error)),
        }
    }
}

/// Waits for a stream, as long as the communicator has not failed.
fn wait_for(handle: &Handle, stream: &Stream) -> Result<()> {
    let mut wait = Backoff::new(handle.timeout());
    loop {
        if stream.is_done()? {
            return Ok(());
        }
        let raw = handle.lock()?;
        handle.state(&raw)?;
        drop(raw);
        if !wait.pause() {
            let what = "the work of the stream";
            return Err(Error::Timeout { what, rank: handle.rank, after: handle.timeout() });
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let handle = self.handle().clone();
        teardown::run_where_locks_wait(move || handle.clique.leave(handle.rank));
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank())
            .field("ranks", &self.ranks())
            .field("device", &self.context().device().ordinal())
            .finish_non_exhaustive()
    }
}
