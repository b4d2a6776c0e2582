//! Several calls that NCCL enqueues at once.

use std::fmt;

use cuda_safe::sys::CUstream;
use cuda_safe::{EnqueueGroup, Stream};
use smallvec::smallvec;

use crate::call::checked::{Checker, exchange};
use crate::call::history::Step;
use crate::call::list::List;
use crate::call::signature::Signature;
use crate::call::{Call, Issue};
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::life::handle::{Handle, Raw, lock_all, wait_ready};
use crate::raw::{Nccl, ncclResult_t};
use crate::sync::MutexGuard;

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum Issued {
    /// The call is enqueued.
    Done,
    /// NCCL was not called.
    NotCalled(Error),
    /// NCCL has failed, and may have enqueued a part.
    Failed(Error),
}

/// Calls of several ranks, or several of one rank, that NCCL enqueues together.
///
/// One thread that drives several ranks makes their calls in a group: a call by itself may wait for the other ranks'. A
/// group also lets a rank send and receive at the same time, and fuses small collectives.
///
/// The methods named after collectives, of [`on`](Self::on), check their arguments and collect the call. Nothing is
/// enqueued before [`run`](Self::run), and nothing at all if the group is dropped. The slices stay borrowed until then,
/// so no call of the group uses what another one writes.
///
/// All ranks make a rank's collectives in the same groups, since NCCL reorders those of one group.
///
/// ```no_run
/// use cuda_nccl::{Communicator, Group, ReduceOp};
/// # fn run(contexts: &[cuda_safe::Context], streams: &[cuda_safe::Stream], buffers: &mut [cuda_safe::DeviceBuffer<f32>])
/// #     -> cuda_nccl::Result<()> {
/// let mut ranks = Communicator::all(contexts)?;
/// let mut group = Group::new(&mut ranks);
/// for (rank, (stream, buffer)) in streams.iter().zip(buffers).enumerate() {
///     group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
/// }
/// group.run()?;
/// # Ok(()) }
/// ```
#[must_use = "`run` enqueues the calls"]
pub struct Group<'a> {
    // A `Vec`: the `Drop` of a `List` would keep the slices borrowed until the group is dropped.
    ranks: Vec<&'a mut Communicator>,
    /// The calls, each with the index of its communicator.
    calls: Vec<(usize, &'a Stream, Call<'a>)>,
}

/// One communicator of a group; from [`Group::on`].
#[must_use = "its methods add calls to the group"]
pub struct GroupRank<'g, 'a> {
    group: &'g mut Group<'a>,
    index: usize,
}

impl<'a> Group<'a> {
    /// Returns a group of calls of these communicators, which may be of one communicator or of several.
    pub fn new(ranks: impl IntoIterator<Item = &'a mut Communicator>) -> Self {
        Self { ranks: ranks.into_iter().collect(), calls: Vec::new() }
    }

    /// Returns the communicator at this index of those that [`new`](Self::new) was given, for calls.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none.
    pub fn on(&mut self, index: usize) -> Result<GroupRank<'_, 'a>> {
        if index >= self.ranks.len() {
            return Err(Error::invalid(format!(
                "there is no communicator {index} in the group, which has {}",
                self.ranks.len()
            )));
        }
        Ok(GroupRank { group: self, index })
    }

    /// Enqueues all calls: compares them with those of ranks that other threads drive, orders their uses of memory,
    /// calls NCCL, and then records the uses.
    ///
    /// # Errors
    /// [`Error::Mismatch`] or [`Error::Gone`], an error of a slice or a stream, and nothing is enqueued; or NCCL's
    /// error or [`Error::Timeout`], and the communicators of the group are aborted.
    pub fn run(self) -> Result<()> {
        let Self { ranks, calls } = self;
        let signatures = signatures(&calls, ranks.len());
        if ranks.iter().any(|rank| rank.checker.is_some()) {
            compare_elsewhere(&ranks, &signatures)?;
        }
        let handles: List<&Handle> = ranks.iter().map(|rank| &**rank.handle()).collect();
        for (index, stream, _) in &calls {
            handles[*index].usable()?;
            if stream.is_recording() {
                stream.retain(ranks[*index].owner().clone())?;
                handles[*index].clique.note_recorded();
            }
        }
        let entered = enter(&handles, &signatures)?;
        match enqueue(&handles, calls) {
            Issued::Done => Ok(()),
            Issued::NotCalled(error) if !error.is_final() => {
                Err(take_back(&handles, entered, error))
            }
            Issued::NotCalled(error) | Issued::Failed(error) => {
                let used = |index: &usize| signatures.iter().any(|(of, _)| of == index);
                let mut first = None;
                for index in (0..handles.len()).filter(used) {
                    let failed = handles[index].clique.fail(error.clone());
                    first = first.or(Some(failed));
                }
                Err(first.unwrap_or(error))
            }
        }
    }
}

/// Compares the calls of checked communicators with ranks of other processes.
fn compare_elsewhere(ranks: &[&mut Communicator], signatures: &[(usize, Signature)]) -> Result<()> {
    let of = |index: usize| -> Vec<Signature> {
        signatures.iter().filter(|(of, _)| *of == index).map(|(_, call)| *call).collect()
    };
    let calls: Vec<Vec<Signature>> = (0..ranks.len()).map(of).collect();
    let checked: Vec<(&Handle, &Checker, &[Signature])> = ranks
        .iter()
        .zip(&calls)
        .filter(|(_, calls)| !calls.is_empty())
        .filter_map(|(rank, calls)| Some((&**rank.handle(), rank.checker.as_ref()?, &**calls)))
        .collect();
    exchange(&checked)
}

impl<'a> GroupRank<'_, 'a> {
    pub(crate) fn communicator(&self) -> &Communicator {
        self.group.ranks[self.index]
    }

    pub(crate) fn add(&mut self, stream: &'a Stream, call: Call<'a>) -> Result<()> {
        self.communicator().check_call(stream, &call)?;
        let library = |rank: &Communicator| std::ptr::from_ref(rank.handle().library);
        if self.group.ranks.iter().any(|rank| library(rank) != library(self.communicator())) {
            return Err(Error::invalid(
                "the communicators of a group are of different NCCL libraries",
            ));
        }
        let same = |(index, other, _): &&(usize, &Stream, _)| {
            *index == self.index && other.recording_id() != stream.recording_id()
        };
        if self.group.calls.iter().find(same).is_some() {
            return Err(Error::invalid(
                "calls of one communicator in a group are all recorded in one graph, or none is",
            ));
        }
        self.group.calls.push((self.index, stream, call));
        Ok(())
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("ranks", &self.ranks)
            .field("calls", &self.calls.len())
            .finish()
    }
}

impl fmt::Debug for GroupRank<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupRank").field("communicator", self.communicator()).finish()
    }
}

/// Returns the signatures of the calls, each with the index of its communicator.
fn signatures(calls: &[(usize, &Stream, Call<'_>)], ranks: usize) -> List<(usize, Signature)> {
    // For each communicator, the number of its collectives, and of those that were signed.
    let mut places: List<(u32, u32)> = smallvec![(0, 0); ranks];
    for (index, _, call) in calls {
        places[*index].0 += u32::from(!call.issue.kind.is_between_two());
    }
    let sign = |(index, _, call): &(usize, &Stream, Call<'_>)| {
        if call.issue.kind.is_between_two() {
            return (*index, call.issue.signature(0, 1));
        }
        let (all, place) = &mut places[*index];
        *place += 1;
        (*index, call.issue.signature(*place - 1, *all))
    };
    calls.iter().map(sign).collect()
}

/// Enters the calls of all communicators in the histories of their cliques, or none. Returns the steps, each with the
/// index of its communicator.
fn enter(handles: &[&Handle], signatures: &[(usize, Signature)]) -> Result<List<(usize, Step)>> {
    let mut entered = List::new();
    for (index, handle) in handles.iter().enumerate() {
        let calls = signatures.iter().filter(|(of, _)| *of == index).map(|(_, call)| *call);
        let note = |step| entered.push((index, step));
        if let Err(error) = handle.clique.enter(handle.rank, calls.clone(), note) {
            let error = take_back(handles, entered, error);
            return Err(handle.settle(error, calls));
        }
    }
    Ok(entered)
}

fn take_back(handles: &[&Handle], entered: List<(usize, Step)>, error: Error) -> Error {
    entered.into_iter().rev().fold(error, |error, (index, step)| {
        let handle = handles[index];
        handle.clique.take_back(handle.rank, std::iter::once(step), error)
    })
}

/// Orders the uses of the calls, calls NCCL by one group, and records the uses.
fn enqueue<'a>(handles: &[&Handle], calls: Vec<(usize, &'a Stream, Call<'a>)>) -> Issued {
    let mut group = EnqueueGroup::new();
    // The calls that reach NCCL, with the place of each one's communicator in `used`.
    let mut issues: List<(usize, &Stream, Issue)> = List::new();
    let mut used: List<&Handle> = List::new();
    for (index, stream, Call { issue, send, recv }) in calls {
        // NCCL does nothing for no elements, or takes the null of an empty slice for a mistake.
        if issue.count == 0 {
            continue;
        }
        group.stream(stream);
        if let Some(send) = send {
            group.read(stream, send);
        }
        if let Some(recv) = recv {
            group.write(stream, recv);
        }
        let known = used.iter().position(|used| used.id == handles[index].id);
        let place = known.unwrap_or_else(|| {
            used.push(handles[index]);
            used.len() - 1
        });
        issues.push((place, stream, issue));
    }
    let Some(first) = used.first().copied() else { return Issued::Done };
    let call = || {
        let locks = match lock_all(&used).and_then(|locks| ready(&used, locks)) {
            Ok(locks) => locks,
            Err(error) => return Issued::Failed(error),
        };
        let calls = issues
            .iter()
            .map(|(place, stream, issue)| (used[*place], &locks[*place], stream.as_raw(), issue));
        let under_way = first.begin_call();
        let called = call_group(first.library, first, calls);
        drop(under_way);
        drop(locks);
        match called {
            Ok(ncclResult_t::ncclInProgress) => match wait_ready("a group of calls", &used) {
                Ok(()) => Issued::Done,
                Err(error) => {
                    issues.iter().for_each(|(place, stream, _)| used[*place].retain(stream));
                    Issued::Failed(error)
                }
            },
            // Another thread may have aborted the work of calls that took too long.
            Ok(_) => match used.iter().try_for_each(|handle| handle.clique.usable()) {
                Ok(()) => Issued::Done,
                Err(error) => Issued::Failed(error),
            },
            Err(error) => Issued::Failed(error),
        }
    };
    // SAFETY: NCCL enqueues on the streams of its calls alone, and uses the memory that they were given there. It calls
    // nothing of cuda-safe; nor does the closure. Communicators live until their work is done: those of work that is
    // enqueued by their owner, which waits for it, and those of graphs because the graphs keep the owner.
    let enqueued = first.context.with_current(|| unsafe { group.run(call) });
    enqueued.unwrap_or_else(|error| Issued::NotCalled(error.into()))
}

/// Checks that no communicator has failed.
fn ready<'h>(
    handles: &[&Handle],
    locks: List<MutexGuard<'h, Raw>>,
) -> Result<List<MutexGuard<'h, Raw>>> {
    for (handle, raw) in handles.iter().zip(&locks) {
        handle.state(raw)?;
    }
    Ok(locks)
}

/// Calls NCCL by one group. Returns the group's code: success, or in progress.
pub(crate) fn call_group<'c>(
    library: &Nccl,
    first: &Handle,
    calls: impl Iterator<Item = (&'c Handle, &'c MutexGuard<'c, Raw>, CUstream, &'c Issue)>,
) -> Result<ncclResult_t> {
    let fine = |code| matches!(code, ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress);
    let rank = first.rank;
    let failed = |call, code| Error::Nccl { call, code, rank, detail: String::new() };
    // SAFETY: the group is ended below, on every path after its start.
    let started = unsafe { library.ncclGroupStart() }?;
    if !fine(started) {
        return Err(failed("ncclGroupStart", started));
    }
    let mut first_error = None;
    for (handle, raw, stream, issue) in calls {
        // SAFETY: the lock is held and the handle not null. `Communicator::check_call` has checked the stream's
        // context; the constructor of the call, the lengths.
        let code = unsafe { issue.call(library, raw.get(), (handle.rank, handle.ranks), stream) };
        match code {
            Ok(code) if fine(code) => {}
            Ok(code) => {
                first_error = Some(handle.failed(issue.function(), code, raw));
                break;
            }
            Err(missing) => {
                first_error = Some(missing.into());
                break;
            }
        }
    }
    // SAFETY: ends the group that was started above.
    let ended = unsafe { library.ncclGroupEnd() }?;
    match first_error {
        Some(error) => Err(error),
        None if fine(ended) => Ok(ended),
        None => Err(failed("ncclGroupEnd", ended)),
    }
}

/// Orders the uses of one call, calls NCCL, and records the uses.
pub(crate) fn enqueue_one(handle: &Handle, stream: &Stream, call: Call<'_>) -> Issued {
    let Call { issue, send, recv } = call;
    if issue.count == 0 {
        return Issued::Done;
    }
    let call = |_| match call_one(handle, stream, &issue) {
        Ok(()) => Issued::Done,
        Err(error) => Issued::Failed(error),
    };
    let enqueued = handle.context.with_current(|| match (send, recv) {
        // SAFETY: as in `enqueue`.
        (Some(send), Some(recv)) => unsafe { stream.enqueue((send, recv), call) },
        // SAFETY: as in `enqueue`.
        (Some(send), None) => unsafe { stream.enqueue((send,), call) },
        // SAFETY: as in `enqueue`.
        (None, Some(recv)) => unsafe { stream.enqueue((recv,), call) },
        // SAFETY: as in `enqueue`.
        (None, None) => unsafe { stream.enqueue((), call) },
    });
    enqueued.unwrap_or_else(|error| Issued::NotCalled(error.into()))
}

#[inline]
fn call_one(handle: &Handle, stream: &Stream, issue: &Issue) -> Result<()> {
    let raw = handle.lock()?;
    handle.state(&raw)?;
    let (ranks, raw_stream) = ((handle.rank, handle.ranks), stream.as_raw());
    let under_way = handle.begin_call();
    // SAFETY: as in `call_group`.
    let code = unsafe { issue.call(handle.library, raw.get(), ranks, raw_stream) }?;
    drop(under_way);
    match code {
        // Another thread may have aborted the work of a call that took too long.
        ncclResult_t::ncclSuccess => handle.clique.usable(),
        ncclResult_t::ncclInProgress => {
            drop(raw);
            wait_ready(issue.kind.name(), &[handle]).inspect_err(|_| handle.retain(stream))
        }
        code => Err(handle.failed(issue.function(), code, &raw)),
    }
}
