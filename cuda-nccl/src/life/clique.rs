//! The ranks of a communicator that belong to this process, and what they share: their calls, their first failure.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cuda_safe::Gate;

use crate::call::history::{History, Step};
use crate::call::signature::Signature;
use crate::error::{Error, Result};
use crate::life::handle::Handle;
use crate::life::teardown;
use crate::sync::{Condvar, Lock, MutexGuard, PoisonError};

/// The ranks of this process.
#[derive(Debug)]
pub(crate) struct Clique {
    /// The calls, if all ranks are of this process and so can be compared.
    history: Option<Lock<History>>,
    is_failed: AtomicBool,
    failure: Lock<Option<Error>>,
    /// How many ranks are of this process.
    ranks: AtomicUsize,
    members: Lock<Vec<Weak<Handle>>>,
    /// Guards the memory of the calls: closed from a failure until the communicators of all ranks are gone. The last
    /// handle's drop opens it: work of a leaked communicator ends in the order of its streams.
    gate: Gate,
    /// Whether a graph has recorded a call.
    is_recorded: AtomicBool,
    splits: Lock<HashMap<u64, Split>>,
    /// The cliques of splits whose calls are not compared, by number and colour.
    children: Lock<HashMap<(u64, u32), Weak<Clique>>>,
    /// A rank has come to a split, or the clique has failed.
    comes: Condvar,
    /// The number of splits that each rank has made.
    made: Lock<HashMap<usize, u64>>,
}

/// A split that not all ranks have left.
#[derive(Debug)]
struct Split {
    /// The colour and key of each rank that has come.
    choices: Vec<Option<Choice>>,
    children: HashMap<u32, Arc<Clique>>,
    left: usize,
}

/// A rank's choice in a split: a colour, or no new communicator, and a key.
pub(crate) type Choice = (Option<u32>, i32);

/// A rank's part in a new communicator.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) clique: Arc<Clique>,
}

impl Clique {
    fn with_history(history: Option<History>, ranks: usize) -> Arc<Self> {
        Arc::new(Self {
            ranks: AtomicUsize::new(ranks),
            history: history.map(Lock::new),
            is_failed: AtomicBool::new(false),
            failure: Lock::default(),
            members: Lock::default(),
            gate: Gate::new(),
            is_recorded: AtomicBool::new(false),
            splits: Lock::default(),
            children: Lock::default(),
            comes: Condvar::new(),
            made: Lock::default(),
        })
    }

    /// Returns a clique of ranks that are all of this process.
    pub(crate) fn of_process(ranks: usize) -> Arc<Self> {
        Self::with_history(Some(History::new(ranks)), ranks)
    }

    /// Returns a clique of ranks that [`come`](Self::come) and of others that are elsewhere. NCCL makes a communicator
    /// when all have come.
    pub(crate) fn of_some() -> Arc<Self> {
        Self::with_history(None, 0)
    }

    /// Notes that one more rank is of this process. It becomes a member, or the clique fails.
    pub(crate) fn come(&self) {
        self.ranks.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether the calls of all ranks are compared here.
    pub(crate) fn is_compared(&self) -> bool {
        self.history.is_some()
    }

    pub(crate) fn join(&self, handle: &Arc<Handle>) {
        if let Ok(mut members) = self.members.lock() {
            members.push(Arc::downgrade(handle));
        }
    }

    /// Returns the gate that guards the memory of all calls.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Notes that a graph records a call.
    pub(crate) fn note_recorded(&self) {
        self.is_recorded.store(true, Ordering::Relaxed);
    }

    /// Returns whether a graph has recorded a call.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Relaxed)
    }

    /// Opens the gate if no communicator is left whose kernels may still run, and none comes.
    pub(crate) fn open_behind_the_last(&self) {
        let Ok(came) = self.members.lock().map(|members| members.len()) else { return };
        let all_came = self.usable().is_err() || came == self.ranks.load(Ordering::SeqCst);
        if all_came && self.members().iter().all(|member| member.is_still()) {
            self.gate.open();
        }
    }

    /// Returns the handles that are left.
    pub(crate) fn members(&self) -> Vec<Arc<Handle>> {
        let members = self.members.lock();
        members.map_or_else(|_| Vec::new(), |all| all.iter().filter_map(Weak::upgrade).collect())
    }

    /// Fails with the first failure, if there was one.
    #[inline]
    pub(crate) fn usable(&self) -> Result<()> {
        if self.is_failed.load(Ordering::Relaxed) { Err(self.failure()) } else { Ok(()) }
    }

    /// Returns the first failure.
    #[cold]
    pub(crate) fn failure(&self) -> Error {
        match self.failure.lock() {
            Ok(failure) => failure.clone().unwrap_or(Error::Aborted),
            Err(error) => error.into(),
        }
    }

    /// Makes an error that of all later calls, unless there was one before; aborts all ranks of this process, without a
    /// wait; and returns the first error. Nothing is aborted where locks can't be waited for.
    #[cold]
    pub(crate) fn fail(self: &Arc<Self>, error: Error) -> Error {
        let Ok(mut failure) = self.failure.lock() else { return error };
        let first = failure.get_or_insert(error).clone();
        drop(failure);
        self.is_failed.store(true, Ordering::Release);
        // Woken ranks check the failure. The lock makes sure that none of them misses it.
        drop(self.splits.lock());
        self.comes.notify_all();
        // `close` succeeds: it refuses only where the lock above would have.
        let _ = self.gate.close();
        teardown::abort(&self.members());
        // If all ranks have gone, no other thread opens the gate.
        self.open_behind_the_last();
        first
    }

    fn history(&self) -> Result<Option<MutexGuard<'_, History>>> {
        Ok(self.history.as_ref().map(Lock::lock).transpose()?)
    }

    /// Compares a call that is no part of a group with those of the other ranks, and enters it.
    ///
    /// # Errors
    /// The ranks disagree.
    #[inline]
    pub(crate) fn enter_one(&self, rank: usize, call: Signature) -> Result<Option<Step>> {
        match self.history()? {
            None => Ok(None),
            Some(mut history) => history.enter_one(rank, call).map(Some),
        }
    }

    /// Compares the calls of a rank in a group, and enters those before the first that disagrees. `note` takes the
    /// steps.
    ///
    /// # Errors
    /// The ranks disagree.
    pub(crate) fn enter(
        &self,
        rank: usize,
        calls: impl Iterator<Item = Signature>,
        note: impl FnMut(Step),
    ) -> Result<()> {
        self.history()?.map_or(Ok(()), |mut history| history.enter(rank, calls, note))
    }

    /// Takes back the newest steps of a rank, because of `error`, and returns it. If another thread relies on one of
    /// them, it is the error of all later calls.
    #[cold]
    pub(crate) fn take_back(
        self: &Arc<Self>,
        rank: usize,
        steps: impl DoubleEndedIterator<Item = Step>,
        error: Error,
    ) -> Error {
        let Ok(history) = self.history() else { return error };
        let taken = history.is_none_or(|mut history| history.take_back(rank, steps));
        if taken { error } else { self.fail(error) }
    }

    /// Notes that a rank makes no further call. If others have made calls that need it, all are aborted.
    pub(crate) fn leave(self: &Arc<Self>, rank: usize) {
        let Ok(history) = self.history() else { return };
        let left = history.map_or(Ok(()), |mut history| history.leave(rank));
        if let Err(error) = left
            && self.usable().is_ok()
        {
            self.fail(error);
        }
    }

    /// Returns the number of a rank's next split.
    fn next_split(&self, rank: usize) -> Result<u64> {
        let mut made = self.made.lock()?;
        let made = made.entry(rank).or_default();
        *made += 1;
        Ok(*made)
    }

    /// Returns the clique that a rank whose calls are not compared comes to by its next split. Ranks make the same
    /// splits, so those of one number and colour make one communicator.
    pub(crate) fn child(&self, rank: usize, color: Option<u32>) -> Result<Option<Arc<Self>>> {
        let number = self.next_split(rank)?;
        let Some(color) = color else { return Ok(None) };
        let mut children = self.children.lock()?;
        children.retain(|_, child| child.strong_count() > 0);
        let place = children.entry((number, color)).or_default();
        let child = place.upgrade().unwrap_or_else(Self::of_some);
        *place = Arc::downgrade(&child);
        child.come();
        Ok(Some(child))
    }

    /// Records a rank's choice in its next split. Returns the split's number.
    pub(crate) fn come_to_split(&self, rank: usize, ranks: usize, choice: Choice) -> Result<u64> {
        let number = self.next_split(rank)?;
        let mut splits = self.splits.lock()?;
        let split = splits.entry(number).or_insert_with(|| Split {
            choices: vec![None; ranks],
            children: HashMap::new(),
            left: 0,
        });
        split.choices[rank] = Some(choice);
        drop(splits);
        self.comes.notify_all();
        Ok(number)
    }

    /// Waits until all ranks have come to the split, and returns the rank's part in its new communicator.
    ///
    /// # Errors
    /// The clique has failed, or the time is over.
    pub(crate) fn leave_split(
        &self,
        rank: usize,
        number: u64,
        timeout: Duration,
    ) -> Result<Option<Part>> {
        let deadline = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        let mut splits = self.splits.lock()?;
        loop {
            self.usable()?;
            let Some(split) = splits.get_mut(&number) else { return Err(self.failure()) };
            if split.choices.iter().all(Option::is_some) {
                let part = split.part(rank);
                split.left += 1;
                if split.left == split.choices.len() {
                    splits.remove(&number);
                }
                return Ok(part);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Timeout { what: "split", rank, after: timeout });
            }
            splits =
                self.comes.wait_timeout(splits, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Split {
    fn part(&mut self, rank: usize) -> Option<Part> {
        let color = self.choices[rank]?.0?;
        let mut order: Vec<(i32, usize)> = self
            .choices
            .iter()
            .enumerate()
            .filter_map(|(rank, choice)| {
                let (of, key) = (*choice)?;
                (of == Some(color)).then_some((key, rank))
            })
            .collect();
        order.sort_unstable();
        let ranks = order.len();
        let clique = self.children.entry(color).or_insert_with(|| Clique::of_process(ranks));
        let rank = order.iter().position(|(_, of)| *of == rank)?;
        Some(Part { rank, ranks, clique: clique.clone() })
    }
}
