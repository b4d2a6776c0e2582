//! The last uses of an allocation, and the waits of the next use.
//!
//! Most allocations are only ever used on their home stream, where the stream itself keeps order.
//! As long as that is so, `shared` is false and a use records nothing. The first use from another
//! stream raises `shared`; from then on every use is recorded under the lock, per range of bytes:
//! the last write and, for each stream, its last read.
//!
//! The moment of raising is the delicate one: see `shared.rs`.

use std::ops::Range;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::ranges::Ranges;
use crate::error::Result;
use crate::memory::Allocation;
use crate::memory::allocation::Kind;
use crate::stream::Stream;

/// The way in which a kernel or a copy uses a range of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// It only reads.
    Read,
    /// It may write, and perhaps read too.
    Write,
}

/// If more streams than this have read since the last write, the home stream waits for the first of them and replaces
/// it in the list, so that the list stays short.
const MOST_READERS: usize = 16;

/// The newest use of some bytes by a stream.
#[derive(Clone, PartialEq)]
pub(in crate::memory) struct Mark {
    stream: Stream,
    sequence: u64,
}

#[derive(Clone, PartialEq, Default)]
pub(in crate::memory) struct Uses {
    write: Option<Mark>,
    /// At most one for each stream, all newer than `write`.
    reads: Vec<Mark>,
}

impl Allocation {
    /// Returns whether `stream` is home and no other stream has ever used the memory: then the stream alone
    /// keeps order.
    #[inline]
    pub(in crate::memory) fn is_alone_on(&self, stream: &Stream) -> bool {
        self.is_home(stream) && !self.shared.is_raised()
    }

    /// Returns whether, in addition, no use of the memory is without a borrow: then a use need neither be ordered nor
    /// take the graph lock.
    #[inline]
    pub(in crate::memory) fn is_quiet_on(&self, stream: &Stream) -> bool {
        self.is_home(stream) && self.shared.is_quiet()
    }

    /// Records a use. Call it after the use was enqueued and numbered.
    #[inline]
    pub(crate) fn end_use(
        &self,
        stream: &Stream,
        range: Range<usize>,
        access: Access,
        sequence: u64,
    ) {
        if access == Access::Write {
            self.versions.bump(range.clone(), self.size_bytes());
        }
        self.keep_order(stream, range, access, sequence);
    }

    /// As [`end_use`](Self::end_use) of a part of a graph's launch, where writes have numbers already.
    pub(crate) fn end_numbered_use(
        &self,
        stream: &Stream,
        range: Range<usize>,
        access: Access,
        sequence: u64,
        version: u64,
    ) {
        if access == Access::Write && !range.is_empty() {
            self.versions.raise(range.clone(), self.size_bytes(), version);
        }
        self.keep_order(stream, range, access, sequence);
    }

    #[inline]
    fn keep_order(&self, stream: &Stream, range: Range<usize>, access: Access, sequence: u64) {
        if !self.is_alone_on(stream) {
            self.end_shared_use(stream, range, access, sequence);
        }
    }

    #[cold]
    pub(in crate::memory) fn begin_shared_use(
        &self,
        stream: &Stream,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        let user = stream.inner();
        if !std::sync::Arc::ptr_eq(&user.context, &self.home_stream().inner().context) {
            self.reachable_from(&user.context)?;
        }
        self.order_use(stream, range, access)
    }

    /// Makes the stream, perhaps one of another context, wait for conflicting uses. Every use on a stream
    /// that does not record comes here, unless the memory is on its home stream alone.
    ///
    /// # Errors
    /// The memory was allocated in a capture: it exists only while its graph runs, and its home stream
    /// captures or has ended.
    #[cold]
    pub(crate) fn order_use(
        &self,
        stream: &Stream,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        let user = stream.inner();
        self.exists_outside_graphs()?;
        self.is_there()?;
        if self.size_bytes() == 0 {
            return Ok(());
        }
        if access == Access::Write {
            self.may_be_written(&range)?;
        }
        if let Some(visible) = self.host_side() {
            visible.allows(access)?;
        } else if let Kind::Module(borrows) = self.kind() {
            borrows.allows(&range, access)?;
        }
        self.pass_gates()?;
        self.shared_uses()?.for_each(range, |uses| {
            if let Some(write) = &uses.write {
                user.wait_for(write.stream.inner(), write.sequence)?;
            }
            if access == Access::Write {
                for read in &uses.reads {
                    user.wait_for(read.stream.inner(), read.sequence)?;
                }
            }
            Ok(())
        })
    }

    /// Returns the recorded uses. Raises `shared`.
    fn shared_uses(&self) -> Result<MutexGuard<'_, Ranges<Uses>>> {
        Ok(self.shared.raise(|| self.first_uses())?)
    }

    fn first_uses(&self) -> Ranges<Uses> {
        let home = self.home_stream();
        // Represents every use by the home stream so far, reads too, and the allocation itself, which is work of that
        // stream.
        let sequence = home.inner().enqueued().max(self.born());
        // A module's variables are there when it is loaded.
        let write = (!self.is_of_module()).then(|| Mark { stream: home.clone(), sequence });
        Ranges::new(self.size_bytes(), Uses { write, reads: Vec::new() })
    }

    /// Records all uses from now on: none is quiet any more. Does not wait for threads that use it elsewhere, which may hold
    /// the lock of its uses in a call of the driver.
    pub(in crate::memory) fn record_from_now_on(&self) {
        if self.size_bytes() > 0 {
            // Callers that are refused do not get here.
            let _ = self.shared.raise_only(|| self.first_uses());
        }
    }

    /// Marks the memory as used by a graph, whose launches do not borrow it: from now
    /// on every use takes the context's graph lock.
    ///
    /// No thread is between ordering and recording a conflicting use at this moment: the capturing thread
    /// has borrowed the memory for what it captures, and later users see the flag, since they have
    /// borrowed it after.
    pub(crate) fn note_captured(&self) {
        if self.size_bytes() > 0 {
            self.captured.store(true, Ordering::Release);
            drop(self.shared_uses());
        }
    }

    /// Returns whether there is a use of the memory without a borrow: a recording has used it, which is never false
    /// again, or a [`KeptMemory`](crate::KeptMemory) of it lives. Enqueues that use such memory take the graph lock of
    /// its context; see [`Stream::graph_lock`].
    #[inline]
    #[must_use]
    pub fn is_captured(&self) -> bool {
        self.captured.load(Ordering::Acquire) || self.shared.is_kept()
    }

    #[cold]
    fn end_shared_use(&self, stream: &Stream, range: Range<usize>, access: Access, sequence: u64) {
        let mark = Mark { stream: stream.clone(), sequence };
        // Handles to streams that go are dropped after the lock: the last one's drop runs the drops
        // of what its host functions captured, which are not ours and may come back here.
        let mut gone = Vec::new();
        if self.size_bytes() == 0 {
            return;
        }
        // Not what is known: another thread may be raising `shared` at this moment, and may have
        // counted the home stream's uses without this one.
        let Ok(mut uses) = self.shared_uses() else { return };
        uses.update(range, |uses| match access {
            Access::Write => {
                gone.extend(uses.write.replace(mark.clone()));
                gone.append(&mut uses.reads);
            }
            Access::Read => match uses.reads.iter_mut().find(|read| read.stream == *stream) {
                Some(read) => read.sequence = read.sequence.max(sequence),
                None => {
                    uses.reads.push(mark.clone());
                    if uses.reads.len() > MOST_READERS {
                        gone.extend(self.fold_first_reader(uses));
                    }
                }
            },
        });
        drop(uses);
        drop(gone);
    }

    /// Makes the home stream wait for the stream that read first, and replace it in the list.
    fn fold_first_reader(&self, uses: &mut Uses) -> Option<Mark> {
        let home = self.home_stream();
        let first = uses.reads.iter().position(|read| read.stream != *home)?;
        let read = &uses.reads[first];
        // If the wait can't be enqueued, the use stays in the list: nothing is lost.
        home.inner().wait_for(read.stream.inner(), read.sequence).ok()?;
        let folded = uses.reads.remove(first);
        // The wait has been enqueued: a number taken now covers it.
        let sequence = home.inner().number();
        match uses.reads.iter_mut().find(|read| read.stream == *home) {
            Some(read) => read.sequence = sequence,
            None => uses.reads.push(Mark { stream: home.clone(), sequence }),
        }
        Some(folded)
    }

    /// Returns the newest number of each stream that something has to wait for which uses all of the
    /// memory in this way. The handles keep the streams until then.
    pub(crate) fn newest_uses(&self, access: Access) -> Result<Vec<(Stream, u64)>> {
        self.newest_uses_of(0..self.size_bytes(), access)
    }

    /// As [`newest_uses`](Self::newest_uses), of a range.
    pub(in crate::memory) fn newest_uses_of(
        &self,
        range: Range<usize>,
        access: Access,
    ) -> Result<Vec<(Stream, u64)>> {
        let mut newest: Vec<(Stream, u64)> = Vec::new();
        let Some(uses) = self.shared.known()? else { return Ok(newest) };
        let _ = uses.for_each(range, |uses| {
            let reads = if access == Access::Write { &uses.reads[..] } else { &[] };
            for mark in uses.write.iter().chain(reads) {
                match newest.iter_mut().find(|(stream, _)| *stream == mark.stream) {
                    Some((_, far)) => *far = (*far).max(mark.sequence),
                    None => newest.push((mark.stream.clone(), mark.sequence)),
                }
            }
            Ok::<(), std::convert::Infallible>(())
        });
        Ok(newest)
    }

    /// Makes the home stream wait for every use on other streams, so that a free enqueued on it
    /// comes last.
    pub(in crate::memory) fn join_home(&self) -> Result<()> {
        let Some(uses) = self.shared.known()? else { return Ok(()) };
        let home = self.home_stream().inner();
        uses.for_each(0..self.size_bytes(), |uses| {
            for mark in uses.write.iter().chain(&uses.reads) {
                home.wait_for(mark.stream.inner(), mark.sequence)?;
            }
            Ok(())
        })
    }
}
