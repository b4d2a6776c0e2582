//! The time limit of calls that do not return: NCCL may load a kernel in a call, which waits for the device, whose work may
//! wait for the call's. Aborting the other ranks ends their work, and with it the wait.
//!
//! One thread of the process looks after the calls, about four times in the shortest time limit, while there are
//! communicators. It holds no communicator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::life::clique::Clique;
use crate::sync::{Condvar, Lock, PoisonError};

static WATCH: Watch = Watch {
    watched: Lock::new(Watched { ranks: Vec::new(), running: false }),
    changed: Condvar::new(),
};

struct Watch {
    watched: Lock<Watched>,
    /// There is a new rank, or a new time limit.
    changed: Condvar,
}

struct Watched {
    ranks: Vec<Weak<Calls>>,
    /// Whether the thread exists.
    running: bool,
}

/// The calls of a rank.
#[derive(Debug)]
pub(crate) struct Calls {
    rank: usize,
    clique: Weak<Clique>,
    made: Instant,
    /// The time limit, in nanoseconds.
    limit: AtomicU64,
    /// When the call that is under way has taken too long, in nanoseconds after `made`; 0 outside of calls.
    overdue: AtomicU64,
}

/// A call of NCCL that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay<'c>(&'c Calls);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.overdue.store(0, Ordering::Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Calls {
    /// Returns the calls of a rank, which are watched until this is dropped. Without a thread they have no limit.
    pub(crate) fn new(rank: usize, clique: &Arc<Clique>, limit: Duration) -> Arc<Self> {
        let this = Arc::new(Self {
            rank,
            clique: Arc::downgrade(clique),
            made: Instant::now(),
            limit: AtomicU64::new(nanos(limit)),
            overdue: AtomicU64::new(0),
        });
        if let Ok(mut watched) = WATCH.watched.lock() {
            watched.ranks.push(Arc::downgrade(&this));
            if !watched.running {
                let thread = std::thread::Builder::new().name("nccl watch".to_owned());
                watched.running = thread.spawn(|| WATCH.run()).is_ok();
            }
        }
        WATCH.changed.notify_one();
        this
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_nanos(self.limit.load(Ordering::Relaxed))
    }

    pub(crate) fn set_limit(&self, limit: Duration) {
        self.limit.store(nanos(limit), Ordering::Relaxed);
        // The thread reads the limits under the lock.
        drop(WATCH.watched.lock());
        WATCH.changed.notify_one();
    }

    /// Notes that a call of NCCL begins, until the result is dropped.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        let end = nanos(self.made.elapsed()).saturating_add(self.limit.load(Ordering::Relaxed));
        self.overdue.store(end.max(1), Ordering::Relaxed);
        UnderWay(self)
    }

    fn is_overdue(&self) -> bool {
        let overdue = self.overdue.load(Ordering::Relaxed);
        overdue > 0 && nanos(self.made.elapsed()) > overdue
    }
}

impl Watch {
    /// The main loop of the thread, which ends with the last rank.
    fn run(&self) {
        loop {
            let Ok(mut watched) = self.watched.lock() else { return };
            watched.ranks.retain(|rank| rank.strong_count() > 0);
            let ranks: Vec<_> = watched.ranks.iter().filter_map(Weak::upgrade).collect();
            if ranks.is_empty() {
                watched.running = false;
                return;
            }
            drop(watched);
            for calls in ranks.iter().filter(|calls| calls.is_overdue()) {
                if let Some(clique) = calls.clique.upgrade() {
                    let (rank, after) = (calls.rank, calls.limit());
                    clique.fail(Error::Timeout { what: "a call of NCCL", rank, after });
                }
            }
            drop(ranks);
            let Ok(watched) = self.watched.lock() else { return };
            // The limits are read under the lock of the wait, so that no change is missed.
            let limits = watched.ranks.iter().filter_map(Weak::upgrade).map(|rank| rank.limit());
            let shortest = limits.min().unwrap_or_default();
            let pause = (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(60));
            let waited = self.changed.wait_timeout(watched, pause);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }
}
