//! Groups: calls between `ncclGroupStart` and `ncclGroupEnd` are collected for the thread, and run at the outermost
//! end. A call outside is a group of one.

use core::cell::RefCell;
use core::{mem, ptr};
use std::sync::Arc;

use cuda_sys::CUstream;

use crate::comm::{self, Comm, Stage};
use crate::error::{Error, Result};
use crate::live::Prepared;
use crate::meeting;
use crate::plan::{self, Collective, Lanes, Message};
use crate::types::ncclComm_t;

/// A call that was collected.
#[derive(Debug)]
pub(crate) enum Task {
    /// A communicator begins. Its handle is at the place.
    Begin {
        comm: Arc<Comm>,
        handle: ncclComm_t,
        place: *mut ncclComm_t,
    },
    Collective {
        comm: Arc<Comm>,
        what: Collective,
        send: u64,
        recv: u64,
        bytes: usize,
        stream: CUstream,
    },
    Messages {
        comm: Arc<Comm>,
        messages: Vec<Message>,
        stream: CUstream,
    },
}

#[derive(Debug, Default)]
struct Group {
    depth: usize,
    tasks: Vec<Task>,
    /// The first error of a call inside.
    error: Option<Error>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::new(Group::default());
}

fn with<T>(act: impl FnOnce(&mut Group) -> T) -> Result<T> {
    let done = GROUP.try_with(|group| match group.try_borrow_mut() {
        Ok(mut group) => Ok(act(&mut group)),
        Err(_) => Err(Error::internal("a group is used by itself")),
    });
    done.unwrap_or_else(|_| Err(Error::usage("the thread ends: it cannot call NCCL any more")))
}

/// Begins a group, or one inside it.
pub(crate) fn start() -> Result {
    with(|group| group.depth += 1)
}

/// Ends a group. The outermost end runs the collected calls.
pub(crate) fn end() -> Result {
    let over = with(|group| {
        match group.depth {
            0 => return Err(Error::usage("ncclGroupEnd without ncclGroupStart")),
            1 => {}
            _ => {
                group.depth -= 1;
                return Ok(None);
            }
        }
        group.depth = 0;
        Ok(Some((mem::take(&mut group.tasks), group.error.take())))
    })??;
    match over {
        None => Ok(()),
        Some((tasks, None)) => run(tasks),
        Some((tasks, Some(error))) => {
            give_up(&tasks);
            Err(error)
        }
    }
}

/// Collects a task, or runs it if there is no group.
pub(crate) fn add(task: Task) -> Result {
    let mut task = Some(task);
    let inside = with(|group| {
        if group.depth > 0 {
            group.tasks.extend(task.take());
        }
        group.depth > 0
    })?;
    if inside { Ok(()) } else { run(task.into_iter().collect()) }
}

/// Notes that a call inside a group has failed, so that the group fails.
pub(crate) fn failed(error: &Error) {
    let _ = with(|group| {
        if group.depth > 0 && group.error.is_none() {
            group.error = Some(error.clone());
        }
    });
}

/// Runs tasks: first the communicators that begin, then the operations.
fn run(tasks: Vec<Task>) -> Result {
    let (begins, others): (Vec<Task>, Vec<Task>) =
        tasks.into_iter().partition(|task| matches!(task, Task::Begin { .. }));
    let result = begin(&begins);
    if let Err(error) = &result
        && error.code != Error::in_progress().code
    {
        give_up(&begins);
        return result;
    }
    operate(others)?;
    result
}

/// Ends the communicators that would have begun.
fn give_up(tasks: &[Task]) {
    for task in tasks {
        let Task::Begin { comm, handle, place } = task else { continue };
        // A non-blocking communicator keeps its error until the program aborts it.
        if !comm.config.blocking && comm.state().is_err() {
            continue;
        }
        if comm::remove(*handle).is_ok() {
            // The group's error is returned, not that of `end`.
            let _ = comm.end(true);
        }
        put(*place, ptr::null_mut());
    }
}

/// Writes a handle to where the program wants it.
fn put(place: *mut ncclComm_t, handle: ncclComm_t) {
    // SAFETY: the program's promise: the place is valid until the call, or its group, has ended.
    unsafe { place.write(handle) };
}

/// Brings communicators to their beginning. Waits for other ranks, unless no communicator blocks.
fn begin(tasks: &[Task]) -> Result {
    let mut open: Vec<&Task> = tasks.iter().collect();
    let mut first = Ok(());
    loop {
        let seen = meeting::changes();
        let mut blocked = false;
        open.retain(|task| {
            let Task::Begin { comm, handle, place } = task else { return false };
            match comm.advance() {
                Ok(Some(true)) => false,
                Ok(Some(false)) => {
                    blocked |= comm.config.blocking;
                    true
                }
                Ok(None) => {
                    let _ = comm::remove(*handle);
                    put(*place, ptr::null_mut());
                    false
                }
                Err(error) => {
                    if first.is_ok() {
                        first = Err(error);
                    }
                    false
                }
            }
        });
        first.as_ref().map_err(Clone::clone)?;
        if open.is_empty() {
            return Ok(());
        }
        if !blocked {
            return Err(Error::in_progress());
        }
        meeting::wait(seen);
    }
}

/// The work of one communicator.
struct Batch {
    comm: Arc<Comm>,
    collectives: Vec<(Collective, u64, u64, usize)>,
    messages: Vec<Message>,
    streams: Vec<CUstream>,
}

/// Enqueues operations. Nothing is enqueued before all is known to be right and is prepared.
fn operate(tasks: Vec<Task>) -> Result {
    let mut batches: Vec<Batch> = Vec::new();
    for task in tasks {
        let (Task::Collective { comm, stream, .. } | Task::Messages { comm, stream, .. }) = &task
        else {
            continue;
        };
        let known = batches.iter().position(|batch| Arc::ptr_eq(&batch.comm, comm));
        let at = known.unwrap_or(batches.len());
        if known.is_none() {
            let comm = Arc::clone(comm);
            let (collectives, messages, streams) = (Vec::new(), Vec::new(), Vec::new());
            batches.push(Batch { comm, collectives, messages, streams });
        }
        let batch = &mut batches[at];
        if !batch.streams.contains(stream) {
            batch.streams.push(*stream);
        }
        match task {
            Task::Collective { what, send, recv, bytes, .. } => {
                batch.collectives.push((what, send, recv, bytes));
            }
            Task::Messages { messages, .. } => batch.messages.extend(messages),
            Task::Begin { .. } => {}
        }
    }
    let mut prepared = Vec::new();
    for batch in &batches {
        let ready = batch.prepare()?;
        prepared.push((&batch.comm, ready));
    }
    for (comm, parts) in prepared {
        let mut inner = comm.lock();
        let Stage::Live(live) = &mut inner.stage else {
            return Err(Error::argument("the communicator has ended before its group"));
        };
        let result = parts.iter().try_for_each(|part| live.enqueue(part));
        if let Err(error) = &result {
            inner.error = Some(error.clone());
        }
        result?;
    }
    Ok(())
}

impl Batch {
    fn prepare(&self) -> Result<Vec<Prepared>> {
        let link = self.comm.ready()?;
        let collective = |(what, send, recv, bytes): &(Collective, u64, u64, usize)| {
            plan::collective(&link, *what, *send, *recv, *bytes)
        };
        let collectives: Lanes =
            self.collectives.iter().flat_map(collective).map(|step| (0, step)).collect();
        let messages = plan::messages(&link, &self.messages).map_err(Error::usage)?;
        let mut inner = self.comm.lock();
        let Stage::Live(live) = &mut inner.stage else {
            return Err(Error::argument("the communicator has ended before its group"));
        };
        // Operations are prepared one after the other: they use the same edges.
        let mut prepared = Vec::new();
        for steps in [collectives, messages] {
            if !steps.is_empty() {
                prepared.push(live.prepare(self.streams.clone(), steps)?);
            }
        }
        Ok(prepared)
    }
}
