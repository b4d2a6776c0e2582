//! Communicators: their handles, and how they begin and end.

use core::ptr;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::CUdevice;

use crate::cuda::Cuda;
use crate::error::{Error, Result};
use crate::live::Live;
use crate::meeting::{Job, Progress};
use crate::plan::Op;
use crate::rank::Link;
use crate::types::{ncclComm_t, ncclDataType_t};

/// How often the host asks whether work is done.
const PAUSE: Duration = Duration::from_micros(50);
/// How long work may take that another rank has left by an abort.
const PATIENCE: Duration = Duration::from_secs(1);

/// Settings of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Config {
    /// Whether calls wait for other ranks on the host.
    pub(crate) blocking: bool,
}

/// A reduction that the program has made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Custom {
    pub(crate) datatype: ncclDataType_t,
    pub(crate) op: Op,
}

/// How far a communicator is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The communicator waits for other ranks.
    Begins(Job),
    Live(Live),
    /// The communicator could not be created, or has ended.
    Over,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) stage: Stage,
    /// An error after which nothing can be done but to abort.
    pub(crate) error: Option<Error>,
    pub(crate) finalized: bool,
    pub(crate) custom: HashMap<u32, Custom>,
    pub(crate) splits: u64,
}

/// A communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) cuda: Cuda,
    pub(crate) config: Config,
    pub(crate) device: CUdevice,
    /// Apart from the rest, because an abort must not wait for a call that is under way.
    link: Mutex<Option<Arc<Link>>>,
    aborted: AtomicBool,
    inner: Mutex<Inner>,
}

/// The live communicators by handle. A handle is a number that is never used again.
#[derive(Debug)]
struct Handles {
    made: usize,
    live: BTreeMap<usize, Arc<Comm>>,
}

static ALL: Mutex<Handles> = Mutex::new(Handles { made: 0, live: BTreeMap::new() });

fn all() -> MutexGuard<'static, Handles> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(handle: ncclComm_t) -> usize {
    handle.addr()
}

/// Returns the communicator of a handle.
pub(crate) fn find(handle: ncclComm_t) -> Result<Arc<Comm>> {
    all().live.get(&number(handle)).cloned().ok_or_else(|| unknown(handle))
}

/// Takes the handle away, so that no later call finds the communicator.
pub(crate) fn remove(handle: ncclComm_t) -> Result<Arc<Comm>> {
    all().live.remove(&number(handle)).ok_or_else(|| unknown(handle))
}

fn unknown(handle: ncclComm_t) -> Error {
    Error::argument(format!(
        "{:#x} is no communicator: it was never created, or was destroyed or aborted",
        number(handle)
    ))
}

impl Comm {
    /// Makes a communicator that begins with a job, and its handle.
    pub(crate) fn begin(cuda: Cuda, config: Config, device: CUdevice, job: Job) -> ncclComm_t {
        let inner = Inner {
            stage: Stage::Begins(job),
            error: None,
            finalized: false,
            custom: HashMap::new(),
            splits: 0,
        };
        let (link, aborted) = (Mutex::new(None), AtomicBool::new(false));
        let comm = Self { cuda, config, device, link, aborted, inner: Mutex::new(inner) };
        let mut all = all();
        all.made += 1;
        // A handle looks like an address: aligned, and not in the first page.
        let handle = 0x10000 + all.made * 16;
        all.live.insert(handle, Arc::new(comm));
        ptr::without_provenance_mut(handle)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the view of the other ranks; `None` while the communicator begins.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does what can be done without waiting for other ranks. Returns `false` while they have to come first, and `None`
    /// if the rank joins no communicator.
    pub(crate) fn advance(&self) -> Result<Option<bool>> {
        let mut inner = self.lock();
        if let Some(error) = &inner.error {
            return Err(error.clone());
        }
        let Stage::Begins(job) = &mut inner.stage else { return Ok(Some(true)) };
        let result = match job.advance() {
            Ok(Progress::Pending) => return Ok(Some(false)),
            Ok(Progress::Outside) => {
                inner.stage = Stage::Over;
                return Ok(None);
            }
            Ok(Progress::Done(link)) => self.connect(&mut inner, link),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            inner.stage = Stage::Over;
            inner.error = Some(error.clone());
            return Err(error);
        }
        Ok(Some(true))
    }

    fn connect(&self, inner: &mut Inner, link: Link) -> Result {
        let link = Arc::new(link);
        match Live::new(self.cuda, Arc::clone(&link)) {
            Ok(live) => {
                *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
                inner.stage = Stage::Live(live);
                if self.aborted.load(Ordering::SeqCst) {
                    self.release_streams();
                }
                Ok(())
            }
            Err(error) => {
                // Its peers must not wait for this rank.
                link.abort();
                if let Some(link) = Arc::into_inner(link) {
                    let _ = crate::rank::release(link.ranks);
                }
                Err(error)
            }
        }
    }

    /// Returns the error that makes calls fail.
    pub(crate) fn usable(&self, inner: &Inner) -> Result {
        if let Some(error) = &inner.error {
            return Err(error.clone());
        }
        if let Some(link) = self.link()
            && let Some(rank) = link.aborted()
        {
            return Err(Error::remote(format!("rank {rank} of the communicator has aborted")));
        }
        if inner.finalized {
            return Err(Error::usage("the communicator was finalized: only destroy it"));
        }
        Ok(())
    }

    /// Returns the state of the communicator, after an attempt to get on.
    pub(crate) fn state(&self) -> Result {
        match self.advance()? {
            Some(true) => {}
            Some(false) => return Err(Error::in_progress()),
            None => return Ok(()),
        }
        let inner = self.lock();
        if inner.finalized
            && inner.error.is_none()
            && let Stage::Live(live) = &inner.stage
        {
            return if live.is_done()? { Ok(()) } else { Err(Error::in_progress()) };
        }
        self.usable(&inner)
    }

    /// Fails unless the communicator is ready for calls.
    pub(crate) fn ready(&self) -> Result<Arc<Link>> {
        let inner = self.lock();
        if let Stage::Begins(_) = inner.stage {
            return Err(Error::argument(
                "the communicator is not ready: call ncclCommGetAsyncError until it returns ncclSuccess",
            ));
        }
        self.usable(&inner)?;
        self.link().ok_or_else(|| Error::internal("a ready communicator knows its ranks"))
    }

    /// Makes the work of this rank end at once.
    fn release_streams(&self) {
        if let Some(link) = self.link() {
            link.abort();
        }
    }

    /// Waits for the work that was enqueued. Returns `false` if that is not done and the communicator does not block.
    pub(crate) fn finalize(&self) -> Result<bool> {
        let mut inner = self.lock();
        if let Stage::Begins(_) = inner.stage {
            return Err(Error::argument("the communicator is not ready: it cannot be finalized"));
        }
        self.usable(&inner)?;
        inner.finalized = true;
        drop(inner);
        loop {
            let done = match &self.lock().stage {
                Stage::Live(live) => live.is_done()?,
                // Another thread has aborted.
                _ => true,
            };
            if done || !self.config.blocking {
                return Ok(done);
            }
            // The pause is outside of the lock, so that other threads can ask for the state.
            thread::sleep(PAUSE);
        }
    }

    /// Returns whether enqueued work can't come to an end: it is incomplete after an error, or waits for a rank that
    /// has aborted. What such a rank has sent before may still arrive, so that is waited for a while.
    fn hangs(&self, inner: &Inner) -> bool {
        if inner.error.is_some() {
            return true;
        }
        let (Some(link), Stage::Live(live)) = (self.link(), &inner.stage) else { return false };
        let begin = Instant::now();
        while link.aborted().is_some() && matches!(live.is_done(), Ok(false)) {
            if begin.elapsed() > PATIENCE {
                return true;
            }
            thread::sleep(PAUSE);
        }
        false
    }

    /// Ends the communicator. Work that is under way is waited for, unless it can't come to an end.
    pub(crate) fn end(&self, abort: bool) -> Result {
        if abort {
            // The flag is set before any lock is taken: a call of another thread may hold one while it waits for the
            // device.
            self.aborted.store(true, Ordering::SeqCst);
            self.release_streams();
        }
        let mut inner = self.lock();
        if abort || self.hangs(&inner) {
            // The word is set repeatedly: the device's fences decide when a running kernel sees it.
            while let Stage::Live(live) = &inner.stage
                && matches!(live.is_done(), Ok(false))
            {
                self.release_streams();
                thread::sleep(PAUSE);
            }
        }
        inner.custom.clear();
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = match core::mem::replace(&mut inner.stage, Stage::Over) {
            Stage::Begins(mut job) => job.leave(Some("its communicator was destroyed")),
            Stage::Live(live) => live.end(),
            Stage::Over => Ok(()),
        };
        drop(inner);
        let freed = match link.and_then(Arc::into_inner) {
            Some(link) => crate::rank::release(link.ranks),
            None => Ok(()),
        };
        ended.and(freed)
    }
}
