//! What enqueues call of a recording.

use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUstream};

use super::branches::{Mark, Order};
use super::driver;
use super::recording::{Capture, Recording, Target, destroy_stream};
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::memory::{Access, Allocation, AnyCapture, AnyRecording, Ranges, Used};
use crate::quiet::Kept;
use crate::stream::StreamInner;
use crate::sync::Lock;

impl AnyCapture for Capture {
    fn number(&self) -> u64 {
        self.number
    }

    fn recording(&self) -> &Lock<dyn AnyRecording> {
        &self.recording
    }

    fn destroy_when_ended(&self, context: &Arc<ContextInner>, raw: CUstream) {
        if raw.is_null() {
            return;
        }
        {
            let Ok(mut recording) = self.lock() else { return };
            if !matches!(recording.target, Target::Ended) {
                recording.streams.push((raw, context.clone()));
                return;
            }
        }
        destroy_stream(context, raw);
    }

    fn free(&self, home: &StreamInner, allocation: &Allocation) {
        let Ok(mut recording) = self.lock() else { return };
        if !matches!(recording.target, Target::Capture) {
            return;
        }
        match recording.free(home, allocation) {
            Ok(()) => recording.contents.memory = recording.contents.memory.saturating_sub(1),
            Err(error) => recording.contents.failures.note(error),
        }
    }
}

impl AnyRecording for Recording {
    fn may_enqueue(&mut self, stream: &StreamInner) -> Result<()> {
        if let Some(error) = self.contents.failures.first() {
            // This error is returned, because later ones only follow from it.
            return Err(error);
        }
        if !matches!(self.target, Target::Ended) {
            self.is_of_this_thread()?;
        }
        match self.target {
            // A stream of an earlier part does not capture any more: the driver would run the work.
            Target::Capture => {
                self.branch(stream.id)?;
            }
            Target::Update(_) => {}
            Target::Ended => {
                return Err(Error::invalid("the recording that this stream belongs to has ended")
                    .with_hint("launch the graph on an ordinary stream"));
            }
            Target::Body => {
                return Err(Error::invalid(
                    "the body of a conditional node is recorded on the stream that its closure is \
                     given",
                ));
            }
        }
        Ok(())
    }

    fn captures(&self) -> Result<()> {
        match self.target {
            Target::Capture => Ok(()),
            _ => Err(Error::invalid("a node for a launch can only be changed by one launch")),
        }
    }

    fn not_in_body(&self, what: &str) -> Result<()> {
        match self.body {
            true => Err(Error::invalid(format!("{what} in the body of a conditional node"))),
            false => Ok(()),
        }
    }

    fn begin_use(&mut self, stream: &StreamInner, used: Used<'_>, between: bool) -> Result<()> {
        self.may_use(stream, used.0, between)?;
        if used.1.is_empty() {
            return Ok(());
        }
        if let Target::Update(update) = &mut self.target {
            return update.begin_use(&self.contents.uses, used);
        }
        if let Some(lent) = &self.lent
            && !used.0.is_of(self.number)
        {
            lent.admit(&used)?;
        }
        let marks = self.conflicts(used);
        let branch = self.branch(stream.id)?;
        for mark in marks {
            self.wait(branch, &mark)?;
        }
        Ok(())
    }

    fn number(&mut self, stream: &StreamInner) -> u64 {
        self.advance(&stream.context, stream.id)
    }

    fn end_use(&mut self, stream: &StreamInner, used: Used<'_>, sequence: u64) {
        let (allocation, range, access) = used.clone();
        if range.is_empty() || !matches!(self.target, Target::Capture) {
            return;
        }
        let Ok(branch) = self.branch(stream.id) else { return };
        let branch = &mut self.branches[branch];
        let mark = Mark { branch: stream.id, sequence, nodes: branch.tail.clone() };
        if access == Access::Write {
            // The write is noted for code that has computed data from the memory in the same recording.
            allocation.note_write(range.clone());
        }
        if allocation.is_of_graph() || self.lent.is_some() {
            // The graph does not keep it: its owner drops it within the capture. A graph of other code keeps it by now,
            // or its owner does.
        } else {
            allocation.note_captured();
            self.contents.spans |=
                !Arc::ptr_eq(&stream.context, &allocation.home_stream().inner().context);
            let key = self.contents.uses.add(&used);
            if let Some(last) = &mut branch.last {
                last.keys.push(key);
                last.order = self.contents.uses.last();
            }
        }
        let order = self
            .order
            .entry(Arc::as_ptr(allocation).addr())
            .or_insert_with(|| Ranges::new(allocation.size_bytes(), Order::default()));
        order.update(range, |order| match access {
            Access::Write => {
                order.write = Some(mark.clone());
                order.reads.clear();
            }
            Access::Read => match order.reads.iter_mut().find(|read| read.branch == mark.branch) {
                Some(read) => *read = mark.clone(),
                None => order.reads.push(mark.clone()),
            },
        });
    }

    fn join(&mut self, stream: &StreamInner, other: &StreamInner) -> Result<()> {
        self.captures()?;
        let (branch, other) = (self.branch(stream.id)?, self.branch(other.id)?);
        self.join_branches(branch, other)
    }

    fn keep(&mut self, kept: Kept) {
        match &self.lent {
            Some(lent) => lent.keep(kept),
            None => add(&mut self.contents.kept, kept),
        }
    }

    fn keep_resource(&mut self, resource: Kept) {
        match &self.lent {
            Some(lent) => lent.keep(resource),
            None => add(&mut self.contents.resources, resource),
        }
    }

    fn allocate(&mut self, stream: &StreamInner, bytes: usize) -> Result<CUdeviceptr> {
        self.captures()?;
        self.not_in_body("memory can't be allocated").map_err(|error| {
            error.with_hint("allocate it before the capture, and put it into the state")
        })?;
        self.in_first_context(stream, "memory can't be allocated")?;
        let start = driver::allocate(stream, bytes)?;
        self.contents.allocates = true;
        self.contents.memory += 1;
        if let Some(lent) = &mut self.lent {
            lent.allocated(start);
        }
        Ok(start)
    }
}

/// Adds something to keep, unless it was added lately.
fn add(known: &mut Vec<Kept>, kept: Kept) {
    // Launches name their module again and again. Of the others, as the sources of uploads, each is a new one: a
    // search of all would make the time of a recording quadratic in its length.
    const SEARCHED: usize = 32;
    if !known.iter().rev().take(SEARCHED).any(|other| other.is_same(&kept)) {
        known.push(kept);
    }
}
