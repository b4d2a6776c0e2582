//! The streams of a recording, and how they wait for each other.

use std::sync::Arc;

use cuda_sys::CUstream;

use super::driver::{self, RawNode};
use super::node::KernelNode;
use super::recording::{Recording, Target};
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::memory::{Access, AnyRecording, Used};
use crate::stream::StreamInner;

/// A stream of the recording.
pub(super) struct Branch {
    pub(super) stream: u64,
    pub(super) raw: CUstream,
    /// The context of the stream: one recording may have streams of several.
    pub(super) context: Arc<ContextInner>,
    pub(super) sequence: u64,
    /// The nodes that the next one will follow.
    pub(super) tail: Arc<[RawNode]>,
    /// Whether the capture that it belongs to goes on.
    pub(super) open: bool,
    /// How far it comes after other branches: their streams and sequences.
    pub(super) after: Vec<(u64, u64)>,
    /// The newest launch, until something else is enqueued.
    pub(super) last: Option<KernelNode>,
}

/// The newest use of some bytes by a branch.
#[derive(Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) branch: u64,
    pub(super) sequence: u64,
    pub(super) nodes: Arc<[RawNode]>,
}

/// The nodes that later uses of some bytes follow.
#[derive(Clone, PartialEq, Default)]
pub(super) struct Order {
    pub(super) write: Option<Mark>,
    /// At most one for each branch.
    pub(super) reads: Vec<Mark>,
}

impl Recording {
    /// Begins a capture on a stream whose first node follows `tail`. Streams of earlier captures of
    /// the same recording are closed.
    pub(super) fn begin(&mut self, stream: &StreamInner, tail: Arc<[RawNode]>) {
        self.target = Target::Capture;
        self.belongs_to_this_thread();
        for branch in &mut self.branches {
            branch.open = false;
        }
        self.add_branch(stream, tail, Vec::new());
    }

    fn add_branch(&mut self, stream: &StreamInner, tail: Arc<[RawNode]>, after: Vec<(u64, u64)>) {
        self.contents.has_branches |= !self.branches.is_empty();
        self.contents.spans |= self.is_of_first_context(&stream.context).is_err();
        let (context, raw, stream) = (stream.context.clone(), stream.raw, stream.id);
        let (sequence, open, last) = (0, true, None);
        self.branches.push(Branch { stream, raw, context, sequence, tail, open, after, last });
    }

    /// Returns the first stream of the capture that goes on.
    pub(super) fn first(&self) -> Option<usize> {
        self.branches.iter().position(|branch| branch.open)
    }

    fn is_of_first_context(&self, context: &Arc<ContextInner>) -> Result<(), ()> {
        match self.first() {
            Some(first) if !Arc::ptr_eq(&self.branches[first].context, context) => Err(()),
            _ => Ok(()),
        }
    }

    /// Fails on a stream of another context than the capture's first, with an error that begins with `what`.
    pub(super) fn in_first_context(&self, stream: &StreamInner, what: &str) -> Result<()> {
        self.is_of_first_context(&stream.context).map_err(|()| {
            Error::invalid(format!(
                "{what} on a stream of device {}: only on the first stream of a recording of several contexts, and \
                 forks of it",
                stream.state().ordinal
            ))
        })
    }

    /// Returns whether a stream of the context records.
    pub(super) fn records_on(&self, context: &Arc<ContextInner>) -> bool {
        self.branches.iter().any(|branch| branch.open && Arc::ptr_eq(&branch.context, context))
    }

    pub(super) fn branch(&self, stream: u64) -> Result<usize> {
        self.branches.iter().position(|branch| branch.stream == stream && branch.open).ok_or_else(
            || Error::invalid("the part of the recording that this stream belongs to has ended"),
        )
    }

    /// Returns the marks that a use must come after.
    pub(super) fn conflicts(&self, (allocation, range, access): Used<'_>) -> Vec<Mark> {
        let mut marks = Vec::new();
        if let Some(order) = self.order.get(&Arc::as_ptr(allocation).addr()) {
            let _ = order.for_each(range, |order| {
                marks.extend(order.write.clone());
                if access == Access::Write {
                    marks.extend(order.reads.iter().cloned());
                }
                Ok::<(), std::convert::Infallible>(())
            });
        }
        marks
    }

    /// Makes the next node of a branch follow a mark; free if it does already.
    pub(super) fn wait(&mut self, branch: usize, mark: &Mark) -> Result<()> {
        let waiter = &mut self.branches[branch];
        let known = |&(id, far): &(u64, u64)| id == mark.branch && far >= mark.sequence;
        if waiter.stream == mark.branch || waiter.after.iter().any(known) {
            return Ok(());
        }
        let missing: Vec<RawNode> =
            mark.nodes.iter().copied().filter(|node| !waiter.tail.contains(node)).collect();
        driver::follow(&waiter.context, waiter.raw, &missing)?;
        if !missing.is_empty() {
            waiter.tail = waiter.tail.iter().copied().chain(missing).collect();
        }
        match waiter.after.iter_mut().find(|(id, _)| *id == mark.branch) {
            Some((_, far)) => *far = (*far).max(mark.sequence),
            None => waiter.after.push((mark.branch, mark.sequence)),
        }
        Ok(())
    }

    pub(super) fn join_branches(&mut self, branch: usize, other: usize) -> Result<()> {
        if branch == other {
            return Ok(());
        }
        let Branch { stream: from, sequence, raw, ref context, .. } = self.branches[other];
        driver::join(context, self.branches[branch].raw, raw)?;
        let waiter = &mut self.branches[branch];
        waiter.after.retain(|(id, _)| *id != from);
        waiter.after.push((from, sequence));
        waiter.tail = driver::tail(&waiter.context, waiter.raw)?;
        Ok(())
    }

    /// Adds a stream, perhaps of another context, that starts where `stream` stands.
    pub(super) fn fork(&mut self, stream: &StreamInner, new: &StreamInner) -> Result<()> {
        self.captures()?;
        self.not_of_others("a fork")?;
        let parent = self.branch(stream.id)?;
        driver::join(&stream.context, new.raw, self.branches[parent].raw)?;
        let parent = &self.branches[parent];
        let mut after = parent.after.clone();
        after.push((parent.stream, parent.sequence));
        let tail = parent.tail.clone();
        self.add_branch(new, tail, after);
        Ok(())
    }

    /// Joins all streams to the capture's first stream, so that the capture can end.
    pub(super) fn join_all(&mut self) -> Result<()> {
        let Some(first) = self.first() else { return Ok(()) };
        (first + 1..self.branches.len()).try_for_each(|other| self.join_branches(first, other))
    }
}
