//! The threads that help with large copies: memory at the host's end of a copy is slower than the
//! bus unless several cores read or write it.
//!
//! They hold no context and no copy. A copy lends them a closure and does not return before
//! all of them have left it, so the closure may borrow. No helper is needed for progress: the
//! copying thread runs the closure, too, and a helper that comes too late finds nothing left to do.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::available_parallelism;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Lock, MutexGuard, NotNow, PlainUsize, PoisonError};

/// The most threads that one copy is spread over: more are not faster, since eight already copy
/// at the rate of the bus.
pub(super) const MOST_THREADS: usize = 8;

/// The helpers of a context. Threads are made when a copy first needs them and end when the
/// context is closed or dropped; they hold no handle to it.
pub(crate) struct Helpers {
    shared: Arc<Shared>,
    /// The number of threads of a copy, the caller's included; 0 until it is set.
    threads: AtomicUsize,
    /// Held by the copy that the helpers work for.
    busy: Lock<()>,
    handles: Lock<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Lock<State>,
    /// There is a job, or there are helpers too many.
    wake: Condvar,
    /// The last helper has left the job.
    left: Condvar,
    /// Helpers that exist; changed under the lock of `state`, read anywhere.
    helpers: AtomicUsize,
}

#[derive(Default)]
struct State {
    job: Option<Job>,
    /// How many helpers may still join the job.
    open: usize,
    at_work: usize,
    /// Helpers beyond this many end.
    wanted: usize,
}

/// The closure that the helpers run, borrowed from a caller that waits for them.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn() + Sync));

// SAFETY: the closure is Sync, so other threads may call it through the pointer.
unsafe impl Send for Job {}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Lock::default(),
                wake: Condvar::new(),
                left: Condvar::new(),
                helpers: AtomicUsize::new(0),
            }),
            threads: AtomicUsize::new(0),
            busy: Lock::new(()),
            handles: Lock::default(),
        }
    }
}

impl Helpers {
    /// Returns how many threads a copy is spread over, the caller's included.
    pub(crate) fn threads(&self) -> usize {
        match self.threads.load(Ordering::Relaxed) {
            0 => default_threads(),
            chosen => chosen,
        }
    }

    /// 0 and 1 both mean the caller's thread alone. Helpers that are too many end.
    pub(crate) fn set_threads(&self, threads: usize) {
        let threads = threads.clamp(1, MOST_THREADS);
        self.threads.store(threads, Ordering::Relaxed);
        if let Ok(mut state) = self.shared.lock() {
            state.wanted = state.wanted.min(threads - 1);
            drop(state);
            self.shared.wake.notify_all();
        }
    }

    /// Helpers that exist.
    pub(crate) fn helpers(&self) -> usize {
        self.shared.helpers.load(Ordering::Relaxed)
    }

    /// Returns the helpers, if they are switched on and not at work for another copy.
    pub(super) fn claim(&self) -> Option<Claim<'_>> {
        if self.threads() < 2 {
            return None;
        }
        Some(Claim { helpers: self, _busy: self.busy.try_lock()? })
    }

    /// Makes helpers until there are `wanted`. Those that the system refuses are done without.
    fn recruit(&self, wanted: usize) {
        let Ok(mut handles) = self.handles.lock() else { return };
        // Helpers that have ended since are removed: their results do not matter.
        handles.retain(|handle| !handle.is_finished());
        let Ok(mut state) = self.shared.lock() else { return };
        // Read under the lock: a thread that lowers it meanwhile removes surplus helpers after this.
        state.wanted = state.wanted.max(wanted).min(self.threads() - 1);
        while self.helpers() < state.wanted {
            let shared = self.shared.clone();
            let helper = thread::Builder::new().name("cuda-copy".to_owned());
            let Ok(handle) = helper.spawn(move || shared.help()) else { break };
            self.shared.helpers.fetch_add(1, Ordering::Relaxed);
            handles.push(handle);
        }
    }

    /// Ends the helpers and waits until they have ended. The next large copy makes new ones.
    pub(crate) fn dismiss(&self) {
        let Ok(()) = self.end() else { return };
        let Ok(handles) = self.handles.lock().map(|mut handles| std::mem::take(&mut *handles))
        else {
            return;
        };
        for handle in handles {
            // A helper catches the panics of its tasks, so the result is ignored.
            let _ = handle.join();
        }
    }

    fn end(&self) -> Result<(), NotNow> {
        self.shared.lock()?.wanted = 0;
        self.shared.wake.notify_all();
        Ok(())
    }
}

impl Drop for Helpers {
    /// Signals the helpers to end and does not wait for them: they are asleep.
    fn drop(&mut self) {
        if self.end().is_err() {
            // The handles are forgotten in a forked child, whose threads are in the parent.
            std::mem::forget(std::mem::take(self.handles.get_mut()));
        }
    }
}

/// Returns the default number of threads of a copy. The value is cached, because the system reads it from files.
fn default_threads() -> usize {
    // The value is 0 until it is known. Two threads that query at the same time find the same value.
    static DEFAULT: PlainUsize = PlainUsize::new(0);
    match DEFAULT.load(Ordering::Relaxed) {
        0 => {
            let most = |threads: NonZero<usize>| threads.get().min(MOST_THREADS);
            let known = available_parallelism().map_or(1, most);
            DEFAULT.store(known, Ordering::Relaxed);
            known
        }
        known => known,
    }
}

/// The helpers, for one copy.
pub(super) struct Claim<'a> {
    helpers: &'a Helpers,
    _busy: MutexGuard<'a, ()>,
}

impl Claim<'_> {
    /// Runs `work` on this thread and, at the same time, on up to `threads - 1` helpers. No thread runs it any more
    /// when this returns or unwinds.
    pub(super) fn run(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        let helpers = threads.saturating_sub(1);
        self.helpers.recruit(helpers);
        // SAFETY: only the lifetime changes. Helpers use the pointer between joining the job, which
        // the end of `Finish` makes impossible, and leaving it, which that waits for.
        let job = Job(unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(work)
        });
        let finish = Finish { shared: &self.helpers.shared };
        if let Ok(mut state) = self.helpers.shared.lock() {
            state.job = Some(job);
            state.open = helpers;
        }
        self.helpers.shared.wake.notify_all();
        work();
        drop(finish);
    }
}

/// Takes the job back and waits for the helpers that are in it; on unwinding, too.
struct Finish<'a> {
    shared: &'a Shared,
}

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        // A forked child has no helpers.
        let Ok(mut state) = self.shared.lock() else { return };
        state.job = None;
        while state.at_work > 0 {
            state = self.shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    fn lock(&self) -> Result<MutexGuard<'_, State>, NotNow> {
        self.state.lock()
    }

    /// The main loop of a helper.
    fn help(&self) {
        let Ok(mut state) = self.lock() else { return };
        loop {
            if self.helpers.load(Ordering::Relaxed) > state.wanted {
                self.helpers.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            match state.job {
                Some(job) if state.open > 0 => {
                    state.open -= 1;
                    state.at_work += 1;
                    drop(state);
                    let leave = Leave { shared: self };
                    // SAFETY: the job was there after this helper was counted in under the same
                    // lock, so its owner waits in `Finish` until `leave` has counted it out.
                    let work = unsafe { &*job.0 };
                    // The copy finds out that something was left undone.
                    let _ = catch_unwind(AssertUnwindSafe(work));
                    drop(leave);
                    let Ok(locked) = self.lock() else { return };
                    state = locked;
                }
                _ => state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Counts a helper out of its job.
struct Leave<'a> {
    shared: &'a Shared,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let Ok(mut state) = self.shared.lock() else { return };
        state.at_work -= 1;
        if state.at_work == 0 {
            self.shared.left.notify_all();
        }
    }
}

// The path is explicit, so that it is found where this file is included from elsewhere, too.
#[cfg(test)]
#[path = "helpers/tests.rs"]
mod tests;
