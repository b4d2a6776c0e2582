//! The turn to use memory that graphs use too: a graph may be launched by a thread that has not borrowed
//! the memory, and must not slip in between what belongs together.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held from the ordering of a use to its recording, or over several enqueues.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    lock: Mutex<()>,
    /// The thread that holds it over several enqueues; 0 if none does.
    thread: AtomicUsize,
}

impl Turn {
    /// Waits for it. `None` if this thread has it already.
    pub(crate) fn take(&self) -> Option<MutexGuard<'_, ()>> {
        // No other thread ever writes or clears this one's number.
        if self.thread.load(Ordering::Relaxed) == this_thread() {
            return None;
        }
        Some(self.lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes it for all that this thread enqueues until the guard is dropped.
    pub(crate) fn sequence(&self) -> Sequence<'_> {
        let guard = self.take();
        if guard.is_some() {
            self.thread.store(this_thread(), Ordering::Relaxed);
        }
        Sequence { turn: guard.map(|guard| (self, guard)) }
    }
}

/// A number that no other thread has while this one lives. Not 0.
fn this_thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    // A thread that ends has no number any more, and shares one that no thread is given.
    HERE.try_with(|here| std::ptr::from_ref(here).addr()).unwrap_or(1)
}

/// Several enqueues that belong together; made by [`Stream::sequence`](crate::Stream::sequence).
#[must_use = "what is enqueued belongs together only as long as this lives"]
pub struct Sequence<'a> {
    /// `None` if nothing need be held, or an outer sequence holds it.
    turn: Option<(&'a Turn, MutexGuard<'a, ()>)>,
}

impl Sequence<'_> {
    /// One that holds nothing.
    pub(crate) const fn empty() -> Self {
        Self { turn: None }
    }
}

impl Drop for Sequence<'_> {
    fn drop(&mut self) {
        // Before the lock is released, which the guard does after this.
        if let Some((turn, _)) = &self.turn {
            turn.thread.store(0, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Sequence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence").field("holds", &self.turn.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_has_it_does_not_wait_for_itself_and_others_do() {
        let turn = Turn::default();
        let (told, tell) = mpsc::channel();
        std::thread::scope(|scope| {
            let outer = turn.sequence();
            assert!(turn.take().is_none());
            drop(turn.sequence());
            assert!(turn.take().is_none(), "the inner one has not ended the outer");
            scope.spawn(|| {
                let guard = turn.take();
                let _ = told.send(guard.is_some());
            });
            assert!(tell.recv_timeout(Duration::from_millis(50)).is_err(), "others wait");
            drop(outer);
            assert_eq!(tell.recv_timeout(Duration::from_secs(10)), Ok(true));
        });
        assert!(turn.take().is_some());
    }
}
