//! NCCL's handle of one rank, and who may use it when.
//!
//! NCCL forbids two threads on one communicator, so every call on the handle holds its lock. Calls of non-blocking
//! communicators return soon; waits release the lock between their queries. So an abort gets the lock soon, takes the
//! handle out and calls `ncclCommAbort` without the lock: nobody else has the handle any more. Calls of blocking
//! communicators may hold the lock for long, and then the abort waits: `Config::blocking` says so.

use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cuda_safe::{Context, Stream};

use crate::call::list::List;
use crate::call::signature::Signature;
use crate::error::{Error, Result};
use crate::life::clique::Clique;
use crate::life::teardown;
use crate::life::watch::{Calls, UnderWay};
use crate::raw::{Nccl, ncclComm_t, ncclResult_t};
use crate::sync::{Condvar, Lock, MutexGuard, PoisonError};

/// One rank of a communicator.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) library: &'static Nccl,
    pub(crate) context: Context,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// The ranks of this process.
    pub(crate) clique: Arc<Clique>,
    /// The order in which a thread takes the locks of several handles.
    pub(crate) id: u64,
    raw: Lock<Raw>,
    /// Whether an abort is asked for or done.
    pub(crate) aborted: AtomicBool,
    /// Whether no kernel of the communicator runs any more, nor will.
    still: AtomicBool,
    /// Whether its owner closes it, and so learns that its end takes longer than the time limit.
    pub(crate) closes: AtomicBool,
    /// The calls under way, and their time limit.
    calls: Arc<Calls>,
    /// Whether NCCL's communicator is gone.
    gone: Lock<bool>,
    goes: Condvar,
    /// The thread that ends the communicator.
    ends_by: Lock<Option<JoinHandle<()>>>,
    /// Streams of calls that have failed: NCCL's thread may enqueue on them until the communicator is gone.
    streams: Lock<Vec<Stream>>,
}

/// NCCL's handle; null once it is destroyed, aborted, or about to be.
#[derive(Debug)]
pub(crate) struct Raw(ncclComm_t);

// SAFETY: a communicator may be used by any thread, one at a time.
unsafe impl Send for Raw {}

impl Raw {
    /// Returns NCCL's handle, for a call while the lock is held.
    pub(crate) fn get(&self) -> ncclComm_t {
        self.0
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Handle {
    pub(crate) fn new(
        library: &'static Nccl,
        context: &Context,
        (rank, ranks): (usize, usize),
        clique: Arc<Clique>,
        timeout: Duration,
        raw: ncclComm_t,
    ) -> Arc<Self> {
        let calls = Calls::new(rank, &clique, timeout);
        let this = Arc::new(Self {
            library,
            context: context.clone(),
            rank,
            ranks,
            clique,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            raw: Lock::new(Raw(raw)),
            aborted: AtomicBool::new(false),
            still: AtomicBool::new(raw.is_null()),
            closes: AtomicBool::new(false),
            calls,
            gone: Lock::new(raw.is_null()),
            goes: Condvar::new(),
            ends_by: Lock::default(),
            streams: Lock::default(),
        });
        this.clique.join(&this);
        // An earlier failure has not found this handle among the members.
        if this.clique.usable().is_err() {
            teardown::abort(std::slice::from_ref(&this));
        }
        this
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.calls.limit()
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) {
        self.calls.set_limit(timeout);
    }

    /// Notes that a call of NCCL begins, until the result is dropped.
    pub(crate) fn begin_call(&self) -> UnderWay<'_> {
        self.calls.begin()
    }

    /// Takes the lock for a call.
    ///
    /// # Errors
    /// The communicator was aborted.
    #[inline]
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Raw>> {
        let raw = self.raw.lock()?;
        if raw.0.is_null() || self.aborted.load(Ordering::Relaxed) {
            return Err(self.clique.failure());
        }
        Ok(raw)
    }

    /// Fails after a fork, or with the first failure of the ranks of this process.
    #[inline]
    pub(crate) fn usable(&self) -> Result<()> {
        if teardown::is_forked() {
            // `is_primary`'s error says what to do.
            self.context.is_primary()?;
            return Err(Error::invalid("the process was forked after the communicator was made"));
        }
        self.clique.usable()
    }

    /// Returns the error of calls that disagree with another rank's; all that this group has entered was taken back. If
    /// they disagree still, the other rank has made its call before this group, and all ranks of this process are
    /// aborted, since its work would never end.
    #[cold]
    pub(crate) fn settle(&self, error: Error, calls: impl Iterator<Item = Signature>) -> Error {
        if !matches!(error, Error::Mismatch { .. }) {
            return error;
        }
        let mut steps = Vec::new();
        let again = self.clique.enter(self.rank, calls, |step| steps.push(step));
        let error = self.clique.take_back(self.rank, steps.into_iter(), error);
        if again.is_err() { self.clique.fail(error) } else { error }
    }

    /// Takes the handle away from all later calls; null if that was done before.
    pub(crate) fn take(&self) -> ncclComm_t {
        self.raw
            .lock()
            .map_or(ptr::null_mut(), |mut raw| std::mem::replace(&mut raw.0, ptr::null_mut()))
    }

    /// Takes the handle away unless an abort will.
    pub(crate) fn take_unless_aborted(&self) -> ncclComm_t {
        let Ok(mut raw) = self.raw.lock() else { return ptr::null_mut() };
        match self.aborted.load(Ordering::Relaxed) {
            true => ptr::null_mut(),
            false => std::mem::replace(&mut raw.0, ptr::null_mut()),
        }
    }

    /// Asks for the state of work that NCCL does by itself.
    ///
    /// # Errors
    /// The work has failed.
    #[inline]
    pub(crate) fn state(&self, raw: &Raw) -> Result<ncclResult_t> {
        let mut state = ncclResult_t::ncclSuccess;
        // SAFETY: the handle is alive, since the lock is held and it is not null; `state` is valid for the write.
        let code = unsafe { self.library.ncclCommGetAsyncError(raw.0, &raw mut state) }?;
        if code != ncclResult_t::ncclSuccess {
            return Err(self.failed("ncclCommGetAsyncError", code, raw));
        }
        match state {
            ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress => Ok(state),
            code => {
                let detail = self.detail(raw);
                Err(Error::Asynchronous { code, rank: self.rank, detail })
            }
        }
    }

    /// Returns the error of a code that a function returned.
    #[cold]
    pub(crate) fn failed(&self, call: &'static str, code: ncclResult_t, raw: &Raw) -> Error {
        Error::Nccl { call, code, rank: self.rank, detail: self.detail(raw) }
    }

    /// Returns NCCL's last message.
    fn detail(&self, raw: &Raw) -> String {
        // SAFETY: the handle is alive or null, and the lock is held.
        let text = unsafe { self.library.ncclGetLastError(raw.0) };
        match text {
            Ok(text) if !text.is_null() => {
                // SAFETY: NCCL returns a string that ends in NUL, in memory that it keeps.
                unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
            }
            _ => String::new(),
        }
    }

    /// Notes that no kernel of the communicator runs any more, nor will.
    pub(crate) fn note_still(&self) {
        self.still.store(true, Ordering::SeqCst);
    }

    /// Returns whether no kernel of the communicator runs any more, nor will.
    pub(crate) fn is_still(&self) -> bool {
        self.still.load(Ordering::SeqCst)
    }

    /// Notes that NCCL's communicator is gone.
    pub(crate) fn note_gone(&self) {
        if let Ok(mut gone) = self.gone.lock() {
            *gone = true;
        }
        self.goes.notify_all();
        // The streams are dropped outside of the lock: a stream's drop calls the driver.
        let streams = self.streams.lock().map(|mut streams| std::mem::take(&mut *streams));
        drop(streams);
    }

    /// Keeps a stream until the communicator is gone: NCCL's thread may still enqueue on it.
    pub(crate) fn retain(&self, stream: &Stream) {
        if let (Ok(is_gone), Ok(mut streams)) = (self.gone.lock(), self.streams.lock())
            && !*is_gone
        {
            streams.push(stream.clone());
        }
    }

    /// Notes the thread that ends the communicator.
    pub(crate) fn ends_by(&self, thread: JoinHandle<()>) {
        if let Ok(mut ends_by) = self.ends_by.lock() {
            *ends_by = Some(thread);
        }
    }

    /// Waits for the thread that has ended the communicator: it holds the context until it is over.
    pub(crate) fn join_end(&self) {
        if let Some(thread) = self.ends_by.lock().ok().and_then(|mut thread| thread.take()) {
            // A panic was printed.
            let _ = thread.join();
        }
    }

    /// Waits until NCCL's communicator is gone, and returns whether it is.
    pub(crate) fn wait_gone(&self, deadline: Instant) -> bool {
        let Ok(mut gone) = self.gone.lock() else { return false };
        while !*gone {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            gone = self.goes.wait_timeout(gone, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Takes the locks of several handles for one group of calls, and returns them in the order of the handles.
///
/// # Errors
/// A communicator was aborted.
pub(crate) fn lock_all<'h>(handles: &[&'h Handle]) -> Result<List<MutexGuard<'h, Raw>>> {
    // The locks are taken in one order, so that two threads do not wait for each other. Ranks of one communicator are
    // in it.
    if handles.is_sorted_by_key(|handle| handle.id) {
        return handles.iter().map(|handle| handle.lock()).collect();
    }
    let mut order: Vec<usize> = (0..handles.len()).collect();
    order.sort_unstable_by_key(|index| handles[*index].id);
    let mut locks = Vec::with_capacity(handles.len());
    for index in order {
        locks.push((index, handles[index].lock()?));
    }
    locks.sort_unstable_by_key(|(index, _)| *index);
    Ok(locks.into_iter().map(|(_, lock)| lock).collect())
}

/// Waits until NCCL has finished the background work of the last call of these handles.
///
/// # Errors
/// The work failed, the communicator was aborted, or the time of the first handle is over.
#[cold]
pub(crate) fn wait_ready(what: &'static str, handles: &[&Handle]) -> Result<()> {
    let Some(first) = handles.first() else { return Ok(()) };
    let mut wait = Backoff::new(first.timeout());
    loop {
        let mut busy = None;
        for handle in handles {
            let raw = handle.lock()?;
            if handle.state(&raw)? == ncclResult_t::ncclInProgress {
                busy = Some(handle);
            }
        }
        let Some(busy) = busy else { return Ok(()) };
        if !wait.pause() {
            return Err(Error::Timeout { what, rank: busy.rank, after: first.timeout() });
        }
    }
}

/// Pauses between two queries: short ones first.
#[derive(Debug)]
pub(crate) struct Backoff {
    start: Instant,
    limit: Duration,
}

impl Backoff {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { start: Instant::now(), limit }
    }

    /// Pauses and returns whether there is time left.
    pub(crate) fn pause(&mut self) -> bool {
        let past = self.start.elapsed();
        if past >= self.limit {
            return false;
        }
        if past < Duration::from_micros(50) {
            std::thread::yield_now();
        } else {
            // `pause` is a tenth of the time so far, so that a wait is at most that much too long.
            let pause = (past / 10).clamp(Duration::from_micros(20), Duration::from_millis(1));
            std::thread::sleep(pause.min(self.limit.saturating_sub(past)));
        }
        true
    }
}
