//! Wakes tasks when the events that they wait for are done: one thread for the process, made when
//! the first task has to wait, and asleep while none does.
//!
//! The driver could call a host function instead, but after a fault it never calls those that are
//! enqueued: a task would sleep for ever. So the thread asks. A query costs about 1.4 µs; how long
//! it waits before the next one grows with how long the event has been awaited already, so that a
//! short wait is noticed soon and a long one costs little.

use std::collections::BTreeMap;
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use cuda_sys::{CUevent, CUresult, CUstreamCaptureMode, Driver};

use crate::driver::DeviceState;
use crate::quiet::quietly;
use crate::sync::Lock;
use crate::sync::NotNow;

/// The shortest and the longest time between two queries of an event, and the part of the time
/// that it has been awaited: a task is woken at most 6% or 20 µs late, and never a millisecond.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
const PART: u32 = 16;

static REACTOR: Reactor = Reactor {
    registry: Lock::new(Registry { running: false, next: 0, waiting: BTreeMap::new() }),
    changed: Condvar::new(),
};

struct Reactor {
    registry: Lock<Registry>,
    /// A new wait was registered.
    changed: Condvar,
}

struct Registry {
    /// Whether the thread exists.
    running: bool,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// A task and the event it waits for. The event is alive: its owner deregisters before it goes,
/// and all queries are made under the lock.
struct Waiting {
    state: &'static DeviceState,
    event: CUevent,
    waker: Waker,
    since: Instant,
    due: Instant,
}

// SAFETY: the event's handle may be used from any thread, and everything else in it is Send.
unsafe impl Send for Waiting {}

impl Waiting {
    /// Returns whether the task has nothing to wait for any more: the event is done, or will never be.
    fn is_over(&self) -> bool {
        if !self.state.is_usable() {
            return true;
        }
        // SAFETY: the event is alive, as the struct says.
        let answer = unsafe { self.state.sys.cuEventQuery(self.event) };
        // An error ends the wait, too: the task queries again and gets it.
        answer != Ok(CUresult::CUDA_ERROR_NOT_READY)
    }
}

/// Ends the wait for an event whose registration was dropped where the lock can't be waited for.
pub(crate) fn stop_waiting(event: CUevent) {
    let number = |registry: &Registry| {
        let mut waiting = registry.waiting.iter();
        waiting.find(|(_, waiting)| waiting.event == event).map(|(number, _)| *number)
    };
    let found = REACTOR.lock().ok().and_then(|registry| number(&registry));
    let waiting = found.and_then(|number| REACTOR.take(number));
    quietly(|| drop(waiting));
}

/// A task's place in the reactor; given up when dropped.
pub(in crate::memory) struct Registration {
    number: u64,
}

impl Registration {
    /// Wakes `waker` once, soon after `event` is done or has failed.
    ///
    /// # Safety
    /// `event` must be an event of `state`'s driver, and stay alive until this is dropped.
    pub(in crate::memory) unsafe fn new(
        state: &'static DeviceState,
        event: CUevent,
        waker: &Waker,
    ) -> Self {
        let waker = waker.clone();
        let now = Instant::now();
        let (number, running) = {
            // The next call of this caller is refused, too.
            let Ok(mut registry) = REACTOR.lock() else { return Self { number: u64::MAX } };
            let number = registry.next;
            registry.next += 1;
            let waiting = Waiting { state, event, waker, since: now, due: now + SHORTEST };
            registry.waiting.insert(number, waiting);
            (number, registry.start())
        };
        if running {
            REACTOR.changed.notify_one();
        } else {
            // Without a thread the task must poll: it is woken at once.
            let waiting = REACTOR.take(number);
            waiting.into_iter().for_each(|waiting| waiting.waker.wake());
        }
        Self { number }
    }

    /// Wakes another waker instead. `false` if the wake has been spent and a new registration is
    /// needed.
    pub(in crate::memory) fn replace(&self, waker: &Waker) -> bool {
        let new = waker.clone();
        let Ok(mut registry) = REACTOR.lock() else { return false };
        let Some(waiting) = registry.waiting.get_mut(&self.number) else { return false };
        let old = std::mem::replace(&mut waiting.waker, new);
        // Dropping a waker runs code of its executor.
        drop(registry);
        drop(old);
        true
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let waiting = REACTOR.take(self.number);
        quietly(|| drop(waiting));
    }
}

impl Registry {
    /// Makes the thread if there is none. `false` if the system refuses one.
    fn start(&mut self) -> bool {
        if !self.running {
            let thread = std::thread::Builder::new().name("cuda-reactor".to_owned());
            self.running = thread.spawn(|| REACTOR.run()).is_ok();
        }
        self.running
    }
}

impl Reactor {
    fn lock(&self) -> Result<MutexGuard<'_, Registry>, NotNow> {
        self.registry.lock()
    }

    /// Takes a wait out, if it is still there.
    fn take(&self, number: u64) -> Option<Waiting> {
        self.lock().ok()?.waiting.remove(&number)
    }

    /// The main loop of the thread.
    fn run(&self) {
        let mut prepared: Vec<&'static Driver> = Vec::new();
        loop {
            let Ok(due) = self.sleep() else { return };
            for number in due {
                // The lock is held for one query at a time, so registering and dropping a wait takes no longer than
                // that.
                let Ok(mut registry) = self.lock() else { return };
                let Some(waiting) = registry.waiting.get_mut(&number) else { continue };
                let sys = waiting.state.sys;
                if !prepared.iter().any(|known| std::ptr::eq(*known, sys)) {
                    allow_queries(sys);
                    prepared.push(sys);
                }
                if !waiting.is_over() {
                    let now = Instant::now();
                    let pause = (now.duration_since(waiting.since) / PART).clamp(SHORTEST, LONGEST);
                    waiting.due = now + pause;
                    continue;
                }
                let over = registry.waiting.remove(&number);
                drop(registry);
                // Wakers run code of their executor, which may panic, also with a value whose drop panics. The
                // thread must survive it: all later tasks wait for it.
                quietly(|| over.into_iter().for_each(|over| over.waker.wake()));
            }
        }
    }

    /// Sleeps until it is time to query some events, and returns their numbers.
    fn sleep(&self) -> Result<Vec<u64>, NotNow> {
        let mut registry = self.lock()?;
        loop {
            let Some(first) = registry.waiting.values().map(|waiting| waiting.due).min() else {
                registry = self.changed.wait(registry).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            if first <= now {
                let due = registry.waiting.iter().filter(|(_, waiting)| waiting.due <= now);
                return Ok(due.map(|(number, _)| *number).collect());
            }
            let (woken, _) = self
                .changed
                .wait_timeout(registry, first - now)
                .unwrap_or_else(PoisonError::into_inner);
            registry = woken;
        }
    }
}

/// Says that this thread's queries have nothing to do with captures: otherwise one would break a
/// capture in the global mode that another thread has begun.
fn allow_queries(sys: &Driver) {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: `mode` is a valid place for one. A driver without the function has no such captures.
    let _ = unsafe { sys.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
}
