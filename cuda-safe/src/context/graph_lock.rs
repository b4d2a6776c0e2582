//! The graph lock of a context. A graph may be launched by a thread that has not borrowed the memory that the
//! graph uses. The lock keeps such a launch out of enqueues that belong together.
//!
//! The lock that counts is that of the memory's context. What uses memory of several contexts takes all their locks in
//! one step, in the order of their numbers, and a thread that holds locks takes no further ones. So no two threads wait
//! for each other's.

use std::cell::Cell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::sync::Lock;

/// Held from the ordering of a use to its recording, or over several enqueues.
#[derive(Debug)]
pub(crate) struct ContextGraphLock {
    /// The place in the order in which locks are taken.
    number: u64,
    lock: Lock<()>,
    /// The number of the thread that holds the lock, or [`NOBODY`]. Only that thread writes it, so a thread that reads its
    /// own number holds the lock.
    holder: AtomicU64,
}

const NOBODY: u64 = 0;

static NEXT_LOCK: AtomicU64 = AtomicU64::new(0);
static NEXT_THREAD: AtomicU64 = AtomicU64::new(NOBODY + 1);

impl Default for ContextGraphLock {
    fn default() -> Self {
        let number = NEXT_LOCK.fetch_add(1, Ordering::Relaxed);
        Self { number, lock: Lock::default(), holder: AtomicU64::new(NOBODY) }
    }
}

/// How a thread holds the locks that it has taken in one step.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    None,
    /// By one enqueue, which no other call may interrupt.
    Enqueue,
    /// By a closure, whose enqueues share them.
    Closure,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held::None) };
    /// The number of the thread, once it is asked for.
    static THREAD: Cell<u64> = const { Cell::new(NOBODY) };
}

/// One or more locks, held by this thread. Never given to users: forgotten they would stay locked.
#[derive(Debug)]
pub(crate) struct HeldGraphLock<'a> {
    first: Locked<'a>,
    /// Of further contexts. Most memory is used in its own context alone, and then this allocates nothing.
    more: Vec<Locked<'a>>,
}

/// A lock that is held.
#[derive(Debug)]
struct Locked<'a> {
    lock: &'a ContextGraphLock,
    /// Not `Send`, so the drop clears `HELD` of the thread that took the lock.
    _guard: MutexGuard<'a, ()>,
}

impl ContextGraphLock {
    /// Waits for the lock. Returns `None` if a closure of this thread holds it.
    ///
    /// # Errors
    /// This thread holds locks without this one, or holds this one for an enqueue that has not ended.
    pub(crate) fn take(&self) -> Result<Option<HeldGraphLock<'_>>> {
        hold(self, [], Held::Enqueue)
    }

    /// As [`take`](Self::take), for this lock and those of other contexts, which may be there more than once.
    pub(crate) fn take_with<'a>(
        &'a self,
        others: impl IntoIterator<Item = &'a Self>,
    ) -> Result<Option<HeldGraphLock<'a>>> {
        hold(self, others, Held::Enqueue)
    }

    /// As [`take`](Self::take), for all that this thread enqueues until the guard is dropped.
    pub(crate) fn take_for_all(&self) -> Result<Option<HeldGraphLock<'_>>> {
        hold(self, [], Held::Closure)
    }

    /// As [`take_with`](Self::take_with), for all that this thread enqueues until the guard is dropped.
    pub(crate) fn take_for_all_with<'a>(
        &'a self,
        others: impl IntoIterator<Item = &'a Self>,
    ) -> Result<Option<HeldGraphLock<'a>>> {
        hold(self, others, Held::Closure)
    }

    /// Fails if this thread could not take the lock now, because it holds others without it.
    pub(crate) fn may_be_taken(&self) -> Result<()> {
        may_take(self, &[]).map(drop)
    }

    /// Returns whether this thread holds the lock.
    pub(crate) fn is_held_here(&self) -> bool {
        let this = THREAD.try_with(Cell::get).unwrap_or(NOBODY);
        this != NOBODY && self.holder.load(Ordering::Relaxed) == this
    }

    fn lock(&self) -> Result<Locked<'_>> {
        let guard = self.lock.lock()?;
        self.holder.store(this_thread(), Ordering::Relaxed);
        Ok(Locked { lock: self, _guard: guard })
    }
}

/// Returns the number of this thread, which no other thread has or had. It is there in handlers of `atexit` too, where
/// [`std::thread::current`] panics.
pub(crate) fn this_thread() -> u64 {
    // The slot has no destructor, so it is there as long as the thread runs.
    let number = |thread: &Cell<u64>| {
        if thread.get() == NOBODY {
            thread.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    };
    THREAD.try_with(number).unwrap_or(NOBODY)
}

/// Returns whether the locks are still to be taken; `false` if a closure of this thread holds them.
fn may_take(first: &ContextGraphLock, others: &[&ContextGraphLock]) -> Result<bool> {
    let mut locks = std::iter::once(first).chain(others.iter().copied());
    match HELD.try_with(Cell::get) {
        Ok(Held::None) => Ok(true),
        Ok(Held::Closure) if locks.all(ContextGraphLock::is_held_here) => Ok(false),
        Ok(Held::Enqueue) if locks.any(ContextGraphLock::is_held_here) => Err(reentered()),
        Ok(_) => Err(two_contexts()),
        // It is unknown whether the thread holds a lock.
        Err(_) => Err(Error::invalid("the thread is ending: it can't use graphs")),
    }
}

fn hold<'a>(
    first: &'a ContextGraphLock,
    others: impl IntoIterator<Item = &'a ContextGraphLock>,
    by: Held,
) -> Result<Option<HeldGraphLock<'a>>> {
    let mut all: Vec<&ContextGraphLock> = others.into_iter().collect();
    if !may_take(first, &all)? {
        return Ok(None);
    }
    let held = if all.is_empty() {
        HeldGraphLock { first: first.lock()?, more: Vec::new() }
    } else {
        all.push(first);
        all.sort_unstable_by_key(|lock| lock.number);
        all.dedup_by_key(|lock| lock.number);
        let mut rest = all.split_off(1).into_iter();
        // `all` has held `first`, at least. The iterators are lazy: the locks are taken in order.
        let lowest = all.first().copied().unwrap_or(first).lock()?;
        let more = rest.by_ref().map(ContextGraphLock::lock).collect::<Result<_>>()?;
        HeldGraphLock { first: lowest, more }
    };
    let _ = HELD.try_with(|held| held.set(by));
    Ok(Some(held))
}

impl Drop for HeldGraphLock<'_> {
    fn drop(&mut self) {
        // This runs before the locks are released, which their guards do afterwards.
        for locked in std::iter::once(&self.first).chain(&self.more) {
            locked.lock.holder.store(NOBODY, Ordering::Relaxed);
        }
        // The slot has no destructor, so it is there as long as the thread runs.
        let _ = HELD.try_with(|held| held.set(Held::None));
    }
}

#[cold]
fn two_contexts() -> Error {
    Error::invalid(
        "memory that graphs of one context use can't be used while this thread holds the lock for \
         graphs of another context: two threads that nest the two the other way round would wait for each other",
    )
    .with_hint(
        "let the closure of `Stream::graph_lock` of the first context end before, or give `graph_lock` the memory of \
         both contexts, whose locks it takes in one step",
    )
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

    /// Threads take pairs and all three of three locks, named in every order, and come to an end.
    #[test]
    fn several_locks_in_one_step_are_taken_in_one_order() {
        let locks = [(); 3].map(|()| ContextGraphLock::default());
        let inside = [(); 3].map(|()| AtomicU64::new(0));
        let orders: [&[usize]; 8] =
            [&[0, 1], &[1, 0], &[1, 2], &[2, 1], &[2, 0], &[0, 2, 1], &[2, 1, 0], &[1, 0, 2, 0]];
        std::thread::scope(|scope| {
            for order in orders {
                let (locks, inside) = (&locks, &inside);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let others = order[1..].iter().map(|&index| &locks[index]);
                        let held = locks[order[0]].take_for_all_with(others);
                        assert!(held.is_ok_and(|held| {
                            for &index in order {
                                assert!(locks[index].is_held_here());
                            }
                            for index in [0, 1, 2].into_iter().filter(|index| order.contains(index))
                            {
                                assert_eq!(inside[index].fetch_add(1, Ordering::SeqCst), 0);
                            }
                            // A subset of the held locks is not taken again; any other set is refused.
                            assert!(matches!(locks[order[1]].take(), Ok(None)));
                            for index in
                                [0, 1, 2].into_iter().filter(|index| !order.contains(index))
                            {
                                assert!(
                                    !locks[index].is_held_here() && locks[index].take().is_err()
                                );
                            }
                            for index in [0, 1, 2].into_iter().filter(|index| order.contains(index))
                            {
                                inside[index].fetch_sub(1, Ordering::SeqCst);
                            }
                            held.is_some()
                        }));
                        assert!(!locks[order[0]].is_held_here());
                    }
                });
            }
        });
    }

    #[test]
    fn an_enqueue_of_several_contexts_is_not_interrupted() -> Result<()> {
        let [one, two, three] = [(); 3].map(|()| ContextGraphLock::default());
        let held = two.take_with([&one])?;
        assert!(held.is_some());
        for lock in [&one, &two, &three] {
            assert!(lock.take().is_err() && lock.may_be_taken().is_err());
        }
        drop(held);
        assert!(three.take_with([&two, &one])?.is_some());
        Ok(())
    }
}
