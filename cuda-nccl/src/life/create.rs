//! Making communicators: over the devices of this process, as one rank of several processes, and by splitting.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use cuda_safe::Context;

use crate::call::checked::{Checker, exchange};
use crate::call::signature::{Kind, Signature};
use crate::communicator::Communicator;
use crate::config::Config;
use crate::driver;
use crate::error::{Error, Result};
use crate::id::UniqueId;
use crate::life::clique::{Choice, Clique, Part};
use crate::life::handle::{Handle, lock_all, wait_ready};
use crate::life::slot::Slot;
use crate::life::teardown;
use crate::raw::{Nccl, ncclComm_t, ncclResult_t};

impl Communicator {
    /// Makes one communicator for each context, all of this process, with the default settings. Rank *i* is that of
    /// `contexts[i]`.
    ///
    /// # Errors
    /// As [`all_with`](Self::all_with).
    pub fn all(contexts: &[Context]) -> Result<Vec<Self>> {
        Self::all_with(contexts, &Config::default())
    }

    /// Makes one communicator for each context, all of this process. Rank *i* is that of `contexts[i]`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no contexts, two of one device, contexts of different drivers, or one that is not the
    /// primary context of its device; [`Error::Load`] or [`Error::Missing`]; NCCL's error; or [`Error::Timeout`].
    #[doc(alias = "ncclCommInitAll")]
    pub fn all_with(contexts: &[Context], config: &Config) -> Result<Vec<Self>> {
        for (rank, context) in contexts.iter().enumerate() {
            if let Some(other) = contexts[..rank]
                .iter()
                .position(|other| other.device().ordinal() == context.device().ordinal())
            {
                return Err(Error::invalid(format!(
                    "ranks {other} and {rank} are both of device {}: each rank needs a separate device",
                    context.device().ordinal()
                )));
            }
        }
        let Some(first) = contexts.first() else {
            return Err(Error::invalid(
                "a communicator has at least one rank: pass a context for each",
            ));
        };
        if contexts.iter().any(|context| context.driver() != first.driver()) {
            return Err(Error::invalid("the contexts belong to different drivers"));
        }
        let library = config.loaded()?;
        let id = UniqueId::of(library)?;
        let clique = Clique::of_process(contexts.len());
        let ranks: Vec<_> =
            contexts.iter().enumerate().map(|(rank, context)| (context, rank)).collect();
        make(library, config, id, contexts.len(), &ranks, &clique)
    }

    /// Makes one rank of a communicator whose ranks may be of several processes, with the default settings. Waits until
    /// all ranks have called it.
    ///
    /// # Errors
    /// As [`new_with`](Self::new_with).
    ///
    /// # Safety
    /// As [`new_with`](Self::new_with).
    pub unsafe fn new(id: UniqueId, ranks: usize, rank: usize, context: &Context) -> Result<Self> {
        // SAFETY: the caller makes the same promise.
        unsafe { Self::new_with(id, ranks, rank, context, &Config::default()) }
    }

    /// Makes one rank of a communicator whose ranks may be of several processes. Waits until all ranks have called it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank that is not below `ranks`, an identifier that this rank has used before, or a
    /// context that is not the primary one of its device; [`Error::Load`] or [`Error::Missing`]; NCCL's error; or
    /// [`Error::Timeout`] if another rank does not come.
    ///
    /// # Safety
    /// All ranks make the same calls of collectives in the same order and the same groups: the same kind, type, number
    /// of elements, operation and root. This includes calls that a graph has recorded, whenever it is launched. Each
    /// message that is sent is received by its peer with the same type and number of elements. NCCL compares nothing,
    /// and the kernels of ranks that disagree may write beyond a slice of a peer. With [`Config::checked`] the ranks
    /// compare all but what graphs have recorded, so that only those need the promise.
    ///
    /// NCCL may let ranks of other processes write to memory of calls that graphs have recorded: after a failure, that
    /// memory stays until their communicators have ended, too. A launch of such a graph that was enqueued before a
    /// failure starts within a second of it or not at all.
    ///
    /// Ranks that one process makes with one identifier belong together: a failure of one aborts all of them.
    ///
    /// All ranks use versions of NCCL that work together, and the bytes of `id` come from a rank that created them.
    #[doc(alias = "ncclCommInitRankConfig")]
    pub unsafe fn new_with(
        id: UniqueId,
        ranks: usize,
        rank: usize,
        context: &Context,
        config: &Config,
    ) -> Result<Self> {
        if rank >= ranks {
            return Err(Error::invalid(format!("there is no rank {rank} of {ranks}")));
        }
        let library = config.loaded()?;
        // `check` fails before the identifier is used up.
        check(library, context)?;
        config.raw(library)?;
        let clique = id.claim(rank)?;
        // Without this rank the others of this process wait in vain.
        let made = make(library, config, id, ranks, &[(context, rank)], &clique)
            .map_err(|error| clique.fail(error))?;
        let mut made = made.into_iter().next().ok_or(Error::Aborted)?;
        if config.checked {
            made.checker = Some(Checker::new(context)?);
        }
        Ok(made)
    }

    /// Splits the communicator: ranks of one colour make a new communicator, in the order of their keys (then of their
    /// ranks). Without a colour, the rank joins none and the result is `None`.
    ///
    /// Every rank calls it. It waits for the others, so ranks that one thread drives use
    /// [`split_all`](Self::split_all).
    ///
    /// # Errors
    /// [`Error::Missing`], NCCL's error, [`Error::Mismatch`] or [`Error::Timeout`].
    #[doc(alias = "ncclCommSplit")]
    pub fn split(&mut self, color: Option<u32>, key: i32) -> Result<Option<Self>> {
        let mut made = split(&mut [self], &[(color, key)])?;
        Ok(made.pop().flatten())
    }

    /// Splits the communicators of several ranks of this process by one call, as [`split`](Self::split) does: `choice`
    /// returns a rank's colour and key. The results are in the order of `ranks`.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn split_all<'c>(
        ranks: impl IntoIterator<Item = &'c mut Self>,
        choice: impl Fn(usize) -> (Option<u32>, i32),
    ) -> Result<Vec<Option<Self>>> {
        let mut ranks: Vec<&mut Self> = ranks.into_iter().collect();
        let choices: Vec<Choice> = ranks.iter().map(|rank| choice(rank.rank())).collect();
        split(&mut ranks, &choices)
    }
}

/// Checks a context and the functions that every communicator needs.
fn check(library: &'static Nccl, context: &Context) -> Result<()> {
    let fns = library.fns();
    library.has("ncclCommInitRankConfig", fns.ncclCommInitRankConfig.is_some())?;
    library.has("ncclCommGetAsyncError", fns.ncclCommGetAsyncError.is_some())?;
    library.has("ncclCommFinalize", fns.ncclCommFinalize.is_some())?;
    library.has("ncclCommDestroy", fns.ncclCommDestroy.is_some())?;
    library.has("ncclCommAbort", fns.ncclCommAbort.is_some())?;
    library.has("ncclGroupStart", fns.ncclGroupStart.is_some())?;
    library.has("ncclGroupEnd", fns.ncclGroupEnd.is_some())?;
    if !context.is_primary()? {
        return Err(Error::invalid(format!(
            "the context is not the primary one of device {}, which NCCL uses; make it by `Context::new`",
            context.device().ordinal()
        )));
    }
    driver::is_that_of(library, context)
}

/// Makes the communicators of some ranks of this process.
fn make(
    library: &'static Nccl,
    config: &Config,
    id: UniqueId,
    ranks: usize,
    own: &[(&Context, usize)],
    clique: &Arc<Clique>,
) -> Result<Vec<Communicator>> {
    for (context, _) in own {
        check(library, context)?;
    }
    let too_many = |_| Error::invalid(format!("{ranks} ranks are more than NCCL can count"));
    let total = c_int::try_from(ranks).map_err(too_many)?;
    let settings = config.raw(library)?;
    teardown::watch_process();
    let init = |context: &Context, rank: usize| -> Result<(ncclResult_t, Slot)> {
        let (slot, mut settings) = (Slot::new(), settings);
        let mut code = Ok(ncclResult_t::ncclSuccess);
        context.with_current(|| {
            // `rank` is below `total`, which is an int.
            let rank = rank as c_int;
            // SAFETY: the slot lives until NCCL is done with it, and NCCL copies the settings. The device's context is
            // current.
            code = unsafe {
                library.ncclCommInitRankConfig(
                    slot.pointer(),
                    total,
                    id.raw(),
                    rank,
                    &raw mut settings,
                )
            };
            Ok(())
        })?;
        Ok((code?, slot))
    };
    let made = group(library, own.iter().map(|(context, rank)| init(context, *rank)))?;
    let (slots, failed) = made.settle("ncclCommInitRankConfig");
    // NCCL stores the handles at once, and again when it is done.
    let handles: Vec<Arc<Handle>> = own
        .iter()
        .zip(&slots)
        .filter(|(_, slot)| !slot.get().is_null())
        .map(|((context, rank), slot)| {
            let ranks = (*rank, ranks);
            Handle::new(library, context, ranks, clique.clone(), config.timeout, slot.get())
        })
        .collect();
    if let Some(error) = failed {
        return Err(clique.fail(error));
    }
    if handles.len() != own.len() {
        return Err(clique.fail(no_handle("ncclCommInitRankConfig")));
    }
    let all: Vec<&Handle> = handles.iter().map(|handle| &**handle).collect();
    wait_ready("the creation", &all).map_err(|error| clique.fail(error))?;
    for slot in slots {
        slot.finish();
    }
    Ok(handles.into_iter().map(Communicator::of).collect())
}

/// Returns the error of an NCCL that has made no communicator, or one too many.
#[cold]
fn no_handle(call: &'static str) -> Error {
    let detail =
        "the library stored a handle where none belongs, or none where one does".to_owned();
    Error::Nccl { call, code: ncclResult_t::ncclInternalError, rank: 0, detail }
}

/// The result of a group: each rank's code and slot, up to the first failure, and the group's code.
struct Grouped {
    made: Vec<Result<(ncclResult_t, Slot)>>,
    ended: ncclResult_t,
}

/// Makes calls as one group of NCCL.
fn group(
    library: &Nccl,
    calls: impl Iterator<Item = Result<(ncclResult_t, Slot)>>,
) -> Result<Grouped> {
    // SAFETY: the group is ended below, on every path after its start.
    let started = unsafe { library.ncclGroupStart() }?;
    if !is_fine(started) {
        return Ok(Grouped { made: Vec::new(), ended: started });
    }
    let mut made = Vec::new();
    for call in calls {
        let goes_on = call.as_ref().is_ok_and(|(code, _)| is_fine(*code));
        made.push(call);
        if !goes_on {
            break;
        }
    }
    // SAFETY: ends the group that was started above.
    let ended = unsafe { library.ncclGroupEnd() }?;
    Ok(Grouped { made, ended })
}

fn is_fine(code: ncclResult_t) -> bool {
    matches!(code, ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress)
}

impl Grouped {
    /// Returns the slots and the first error.
    fn settle(self, call: &'static str) -> (Vec<Slot>, Option<Error>) {
        let failed = |call, code, rank| Error::Nccl { call, code, rank, detail: String::new() };
        let (mut slots, mut first) = (Vec::new(), None);
        for (rank, made) in self.made.into_iter().enumerate() {
            match made {
                Ok((code, slot)) => {
                    if !is_fine(code) {
                        first = first.or(Some(failed(call, code, rank)));
                    }
                    slots.push(slot);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        if !is_fine(self.ended) {
            first = first.or(Some(failed("ncclGroupEnd", self.ended, 0)));
        }
        (slots, first)
    }
}

fn fail_all(handles: &[Arc<Handle>], error: Error) -> Error {
    let mut first = None;
    for handle in handles {
        let failed = handle.clique.fail(error.clone());
        first = first.or(Some(failed));
    }
    first.unwrap_or(error)
}

fn split(ranks: &mut [&mut Communicator], choices: &[Choice]) -> Result<Vec<Option<Communicator>>> {
    let parents: Vec<Arc<Handle>> = ranks.iter().map(|rank| rank.handle().clone()).collect();
    let Some(first) = parents.first() else { return Ok(Vec::new()) };
    let library = first.library;
    if parents.iter().any(|parent| !ptr::eq(parent.library, library)) {
        return Err(Error::invalid("the communicators are of different NCCL libraries"));
    }
    library.has("ncclCommSplit", library.fns().ncclCommSplit.is_some())?;
    let mut colors = Vec::new();
    for (color, _) in choices {
        colors.push(match color {
            None => crate::raw::NCCL_SPLIT_NOCOLOR,
            Some(color) => c_int::try_from(*color).map_err(|_| {
                Error::invalid(format!("the colour {color} is above {}", c_int::MAX))
            })?,
        });
    }
    for parent in &parents {
        parent.usable()?;
    }
    let signature = Signature {
        kind: Kind::Split,
        data: None,
        op: None,
        root: None,
        count: 0,
        place: 0,
        of: 1,
    };
    let checked = ranks.iter().zip(&parents);
    let checked: Vec<(&Handle, &Checker, &[Signature])> = checked
        .filter_map(|(rank, parent)| {
            Some((&**parent, rank.checker.as_ref()?, std::slice::from_ref(&signature)))
        })
        .collect();
    exchange(&checked)?;
    let mut entered = Vec::new();
    for parent in &parents {
        match parent.clique.enter_one(parent.rank, signature) {
            Ok(step) => entered.push((parent, step)),
            Err(mut error) => {
                for (parent, step) in entered.into_iter().rev() {
                    error = parent.clique.take_back(parent.rank, step.into_iter(), error);
                }
                return Err(parent.settle(error, std::iter::once(signature)));
            }
        }
    }
    let comings: Vec<Coming> = parents
        .iter()
        .zip(choices)
        .map(|(parent, choice)| {
            Ok(match &parent.clique {
                clique if clique.is_compared() => {
                    Coming::Compared(clique.come_to_split(parent.rank, parent.ranks, *choice)?)
                }
                clique => Coming::Alone(clique.child(parent.rank, choice.0)?),
            })
        })
        .collect::<Result<_>>()?;
    let made = split_parents(library, &parents, choices, &colors);
    let (slots, ready) = made.unwrap_or_else(|error| (Vec::new(), Err(error)));
    let parts = ready.and_then(|()| {
        let parts = parents.iter().zip(&comings).zip(&slots);
        parts.map(|((parent, coming), slot)| part(parent, coming, slot.get())).collect()
    });
    let parts: Vec<Option<Part>> = match parts {
        Ok(parts) => parts,
        Err(error) => {
            let error = fail_all(&parents, error);
            teardown::abort_children(parents, slots);
            return Err(error);
        }
    };
    children(library, ranks, &parents, parts, slots)
}

/// How a rank comes to its new communicator.
enum Coming {
    /// By the split with this number, whose ranks are all of this process.
    Compared(u64),
    /// To this clique, if it has a colour; NCCL knows the rank in it.
    Alone(Option<Arc<Clique>>),
}

/// Calls NCCL and waits for it. Returns the slots and how it ended.
fn split_parents(
    library: &'static Nccl,
    parents: &[Arc<Handle>],
    choices: &[Choice],
    colors: &[c_int],
) -> Result<(Vec<Slot>, Result<()>)> {
    let handles: Vec<&Handle> = parents.iter().map(|parent| &**parent).collect();
    let locks = lock_all(&handles)?;
    let calls = parents.iter().zip(&locks).zip(choices.iter().zip(colors));
    let calls = calls.map(|((parent, raw), ((_, key), color))| {
        let (slot, mut code) = (Slot::new(), Ok(ncclResult_t::ncclSuccess));
        parent.context.with_current(|| {
            // SAFETY: the parent is alive and locked; the slot lives until NCCL is done with it. Without settings,
            // those of the parent are inherited.
            code = unsafe {
                library.ncclCommSplit(raw.get(), *color, *key, slot.pointer(), ptr::null_mut())
            };
            Ok(())
        })?;
        Ok((code?, slot))
    });
    let made = group(library, calls)?;
    drop(locks);
    let (slots, failed) = made.settle("ncclCommSplit");
    let ready = failed.map_or_else(|| wait_ready("split", &handles), Err);
    Ok((slots, ready))
}

/// Makes the new communicators of a split that NCCL has done.
fn children(
    library: &'static Nccl,
    ranks: &[&mut Communicator],
    parents: &[Arc<Handle>],
    parts: Vec<Option<Part>>,
    slots: Vec<Slot>,
) -> Result<Vec<Option<Communicator>>> {
    let (mut children, mut failed) = (Vec::new(), None);
    for (((rank, parent), part), slot) in ranks.iter().zip(parents).zip(parts).zip(slots) {
        let raw = slot.finish();
        let Some(Part { rank: new, ranks: of, clique }) = part else {
            children.push(None);
            continue;
        };
        let timeout = parent.timeout();
        let handle = Handle::new(library, &parent.context, (new, of), clique, timeout, raw);
        let mut child = Communicator::of(handle);
        failed = failed.or(child.inherit(rank).err());
        children.push(Some(child));
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let handles: Vec<&Handle> = children.iter().flatten().map(|child| &**child.handle()).collect();
    if handles.is_empty() {
        return Ok(children);
    }
    // The parents end, too: once they are aborted, a rank that has not called NCCL does not join its child any more.
    let all: Vec<&Handle> = handles.iter().copied().chain(parents.iter().map(|of| &**of)).collect();
    wait_ready("split", &all).inspect_err(|error| {
        for handle in &handles {
            handle.clique.fail(error.clone());
        }
    })?;
    Ok(children)
}

/// Returns a rank's part in its new communicator.
fn part(parent: &Handle, coming: &Coming, raw: ncclComm_t) -> Result<Option<Part>> {
    let (part, clique) = match coming {
        Coming::Compared(number) => {
            (parent.clique.leave_split(parent.rank, *number, parent.timeout())?, None)
        }
        Coming::Alone(clique) => (None, clique.as_ref()),
    };
    // A rank with a colour has a handle, and one without has none.
    if (part.is_some() || clique.is_some()) == raw.is_null() {
        return Err(no_handle("ncclCommSplit"));
    }
    let Some(clique) = clique else { return Ok(part) };
    let (mut rank, mut ranks) = (0, 0);
    let library = parent.library;
    // SAFETY: the new communicator is alive, and nobody else has it; `rank` is valid for the write.
    let code = unsafe { library.ncclCommUserRank(raw, &raw mut rank) }?;
    // SAFETY: as above.
    let count = unsafe { library.ncclCommCount(raw, &raw mut ranks) }?;
    for (call, code) in [("ncclCommUserRank", code), ("ncclCommCount", count)] {
        if code != ncclResult_t::ncclSuccess {
            return Err(Error::Nccl { call, code, rank: parent.rank, detail: String::new() });
        }
    }
    match (usize::try_from(rank), usize::try_from(ranks)) {
        (Ok(rank), Ok(ranks)) if rank < ranks => {
            Ok(Some(Part { rank, ranks, clique: clique.clone() }))
        }
        _ => {
            let detail = format!("the library made rank {rank} of {ranks}");
            let code = ncclResult_t::ncclInternalError;
            Err(Error::Nccl { call: "ncclCommUserRank", code, rank: parent.rank, detail })
        }
    }
}
