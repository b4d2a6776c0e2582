//! The graph lock of a context. A graph may be launched by a thread that has not borrowed the memory that the
//! graph uses. The lock keeps such a launch out of enqueues that belong together.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// Held from the ordering of a use to its recording, or over several enqueues.
#[derive(Debug, Default)]
pub(crate) struct ContextGraphLock {
    lock: Mutex<()>,
}

/// The lock that a thread holds: at most one, so that no two threads wait for each other's.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    None,
    /// By one enqueue, which no other call may interrupt. The address of the lock.
    Enqueue(usize),
    /// By a closure, whose enqueues share it.
    Closure(usize),
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held::None) };
}

/// The lock, held by this thread. Never given to users: forgotten it would stay locked.
#[derive(Debug)]
pub(crate) struct HeldGraphLock<'a> {
    /// Not `Send`, so the drop clears `HELD` of the thread that took the lock.
    _lock: MutexGuard<'a, ()>,
}

impl ContextGraphLock {
    /// Waits for the lock. Returns `None` if a closure of this thread holds it.
    ///
    /// # Errors
    /// This thread holds the lock of another context, or holds this one for an enqueue that has not ended.
    pub(crate) fn take(&self) -> Result<Option<HeldGraphLock<'_>>> {
        self.hold(Held::Enqueue)
    }

    /// As [`take`](Self::take), for all that this thread enqueues until the guard is dropped.
    pub(crate) fn take_for_all(&self) -> Result<Option<HeldGraphLock<'_>>> {
        self.hold(Held::Closure)
    }

    /// Fails if this thread could not take the lock now, because it holds that of another context.
    pub(crate) fn may_be_taken(&self) -> Result<()> {
        let this = std::ptr::from_ref(self).addr();
        match HELD.try_with(Cell::get) {
            Ok(Held::None) => Ok(()),
            Ok(Held::Closure(lock)) if lock == this => Ok(()),
            Ok(Held::Enqueue(lock)) if lock == this => Err(reentered()),
            Ok(_) => Err(two_contexts()),
            Err(_) => Err(Error::invalid("the thread is ending: it can't use graphs")),
        }
    }

    fn hold(&self, by: impl FnOnce(usize) -> Held) -> Result<Option<HeldGraphLock<'_>>> {
        let this = std::ptr::from_ref(self).addr();
        match HELD.try_with(Cell::get) {
            Ok(Held::None) => {}
            Ok(Held::Closure(lock)) if lock == this => return Ok(None),
            Ok(Held::Enqueue(lock)) if lock == this => return Err(reentered()),
            Ok(_) => return Err(two_contexts()),
            // Whether it holds a lock is not known any more.
            Err(_) => return Err(Error::invalid("the thread is ending: it can't use graphs")),
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let held = HeldGraphLock { _lock: lock };
        let _ = HELD.try_with(|held| held.set(by(this)));
        Ok(Some(held))
    }
}

impl Drop for HeldGraphLock<'_> {
    fn drop(&mut self) {
        // Before the lock is released, which its guard does after this. The slot has no destructor, so it
        // is there as long as the thread runs.
        let _ = HELD.try_with(|held| held.set(Held::None));
    }
}

#[cold]
fn two_contexts() -> Error {
    Error::invalid(
        "memory that graphs of one context use can't be used while this thread holds the lock for \
         graphs of another context: two threads that nest the two the other way round would wait for each other",
    )
    .with_hint("let the closure of `Stream::graph_lock` of the first context end before")
}

#[cold]
fn reentered() -> Error {
    Error::invalid(
        "an enqueue that uses memory of graphs was interrupted by another one on its thread",
    )
    .with_hint("code that the crate calls during an enqueue can't enqueue itself")
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_sequence_does_not_wait_for_itself_and_other_threads_wait() -> Result<()> {
        let lock = ContextGraphLock::default();
        let (told, tell) = mpsc::channel();
        std::thread::scope(|scope| {
            let outer = lock.take_for_all()?;
            assert!(lock.take()?.is_none());
            drop(lock.take_for_all()?);
            assert!(lock.take()?.is_none(), "the inner one has not ended the outer");
            scope.spawn(|| {
                let held = lock.take();
                let _ = told.send(held.is_ok_and(|held| held.is_some()));
            });
            assert!(tell.recv_timeout(Duration::from_millis(50)).is_err(), "others wait");
            drop(outer);
            assert_eq!(tell.recv_timeout(Duration::from_secs(10)), Ok(true));
            Ok::<_, Error>(())
        })?;
        assert!(lock.take()?.is_some());
        Ok(())
    }

    #[test]
    fn an_enqueue_is_not_interrupted_on_its_own_thread() -> Result<()> {
        let lock = ContextGraphLock::default();
        let held = lock.take()?;
        assert!(held.is_some());
        assert!(lock.take().is_err() && lock.take_for_all().is_err());
        drop(held);
        assert!(lock.take()?.is_some());
        Ok(())
    }

    #[test]
    fn two_locks_in_either_order_are_refused_and_nobody_waits() {
        let turns = [ContextGraphLock::default(), ContextGraphLock::default()];
        let both_hold_one = Barrier::new(2);
        std::thread::scope(|scope| {
            for [first, second] in [[0, 1], [1, 0]] {
                let (turns, both_hold_one) = (&turns, &both_hold_one);
                scope.spawn(move || {
                    let held = turns[first].take_for_all();
                    assert!(held.is_ok_and(|held| {
                        both_hold_one.wait();
                        held.is_some() && turns[second].take().is_err()
                    }));
                    assert!(turns[second].take().is_ok(), "afterwards it is free");
                });
            }
        });
    }

    #[test]
    fn a_panic_releases_it() -> Result<()> {
        let lock = ContextGraphLock::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = lock.take_for_all();
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(panicked.is_err());
        assert!(lock.take()?.is_some());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lock.take().is_ok_and(|held| held.is_some())));
        });
        Ok(())
    }
}
