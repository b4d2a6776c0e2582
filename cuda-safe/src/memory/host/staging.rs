//! The staging ring: pinned blocks of this crate that uploads and downloads go through, so that the driver never holds
//! a pointer into a caller's slice after a call has returned.

use std::collections::VecDeque;
use std::ptr::NonNull;

use cuda_sys::{CUevent, CUresult};

use super::pages;
use crate::context::{ContextInner, Deferred};
use crate::error::Result;
use crate::stream::{StreamInner, create_event};
use crate::sync::Lock;

/// The size of a block: large enough that a block's event is paid for by many small uploads, and
/// that a large copy runs at the bus's speed.
pub(crate) const BLOCK_BYTES: usize = 2 << 20;

/// The most blocks that one context holds: two for each thread of a large copy, and some that
/// streams pack small uploads into. When all are in flight, a copy waits for the oldest.
const MOST_BLOCKS: usize = 24;

/// A pinned block and the event that says when the device is done with it. Its holder owns it;
/// the ring frees it.
pub(crate) struct StagingBlock {
    start: NonNull<u8>,
    event: CUevent,
}

// SAFETY: the block owns its memory and event, and the driver ties neither to a thread.
unsafe impl Send for StagingBlock {}

impl StagingBlock {
    #[inline]
    pub(in crate::memory) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Records the block's event on `stream`: it is done when the copies enqueued so far are.
    pub(in crate::memory) fn record(&self, stream: &StreamInner) -> Result<()> {
        // SAFETY: both handles are live: the block owns the event.
        unsafe { call!(stream, cuEventRecord(self.event, stream.raw)) }
    }

    /// Waits until the copies before the last record are done.
    pub(in crate::memory) fn wait(&self, context: &ContextInner) -> Result<()> {
        // SAFETY: the block owns the event.
        unsafe { call!(context, cuEventSynchronize(self.event)) }
    }

    pub(in crate::memory) fn is_done(&self, context: &ContextInner) -> Result<bool> {
        // SAFETY: the block owns the event.
        match unsafe { context.state.sys.cuEventQuery(self.event) } {
            Ok(CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
            other => context.answer("cuEventQuery", other).map(|()| true),
        }
    }
}

#[derive(Default)]
pub(crate) struct Staging {
    ring: Lock<Ring>,
}

#[derive(Default)]
struct Ring {
    free: Vec<StagingBlock>,
    /// Recorded and perhaps still read or written by the device, oldest first.
    busy: VecDeque<StagingBlock>,
    /// Blocks that exist: free, busy, and held by streams and copies.
    blocks: usize,
}

/// The result of a request for a block.
enum Found {
    Idle(StagingBlock),
    /// Nothing, but there may be one block more.
    Room,
    Full,
}

impl Ring {
    /// Returns a free block, or the oldest busy one if it is done.
    fn find(&mut self, context: &ContextInner) -> Result<Found> {
        if let Some(block) = self.free.pop() {
            return Ok(Found::Idle(block));
        }
        if let Some(oldest) = self.busy.front()
            && oldest.is_done(context)?
            && let Some(block) = self.busy.pop_front()
        {
            return Ok(Found::Idle(block));
        }
        Ok(if self.blocks < MOST_BLOCKS { Found::Room } else { Found::Full })
    }
}

impl Staging {
    /// Returns a block that the device is done with: a free one at once, or else the oldest busy one after a wait.
    pub(in crate::memory) fn acquire(&self, context: &ContextInner) -> Result<StagingBlock> {
        let waited_for = {
            let mut ring = self.ring.lock()?;
            let oldest = match ring.find(context)? {
                Found::Idle(block) => return Ok(block),
                Found::Full => ring.busy.pop_front(),
                Found::Room => None,
            };
            // Holders may all be other threads' streams, so that nothing is busy at the limit: one
            // block more is then better than waiting for them.
            ring.blocks += usize::from(oldest.is_none());
            oldest
        };
        match waited_for {
            // Waiting happens outside the lock: other threads go on.
            Some(block) => match block.wait(context) {
                Ok(()) => Ok(block),
                Err(error) => {
                    self.discard(context, block);
                    Err(error)
                }
            },
            None => self.create(context),
        }
    }

    /// Returns a block that the device is done with, if one can be had without waiting for the device.
    pub(in crate::memory) fn try_acquire(
        &self,
        context: &ContextInner,
    ) -> Result<Option<StagingBlock>> {
        {
            let mut ring = self.ring.lock()?;
            match ring.find(context)? {
                Found::Idle(block) => return Ok(Some(block)),
                Found::Full => return Ok(None),
                Found::Room => ring.blocks += 1,
            }
        }
        self.create(context).map(Some)
    }

    /// Makes a block that has been counted already.
    fn create(&self, context: &ContextInner) -> Result<StagingBlock> {
        create_block(context).inspect_err(|_| {
            self.one_less();
        })
    }

    /// Returns a block that the device is done with, or a new one, also beyond the limit: without a wait.
    pub(in crate::memory) fn acquire_now(&self, context: &ContextInner) -> Result<StagingBlock> {
        {
            let mut ring = self.ring.lock()?;
            match ring.find(context)? {
                Found::Idle(block) => return Ok(block),
                Found::Room | Found::Full => ring.blocks += 1,
            }
        }
        self.create(context)
    }

    /// Takes back a block that the device is done with.
    pub(in crate::memory) fn release(&self, block: StagingBlock) {
        if let Ok(mut ring) = self.ring.lock() {
            ring.free.push(block);
        }
    }

    /// Takes back a block that copies enqueued on `stream` still use.
    pub(crate) fn retire(&self, stream: &StreamInner, block: StagingBlock) {
        if !stream.state().is_usable() {
            // The device is lost, so the driver is not called any more.
            return;
        }
        match block.record(stream) {
            Ok(()) => self.park(&stream.context, block),
            Err(error) => {
                stream.context.keep_drop_error(error);
                self.discard(&stream.context, block);
            }
        }
    }

    /// Takes back a block whose event is recorded behind the last copy that uses it.
    pub(in crate::memory) fn park(&self, context: &ContextInner, block: StagingBlock) {
        if context.state.is_usable()
            && let Ok(mut ring) = self.ring.lock()
        {
            ring.busy.push_back(block);
        }
    }

    /// Moves a block to the deferred-free list, if it is unknown whether the device still uses it.
    pub(in crate::memory) fn discard(&self, context: &ContextInner, block: StagingBlock) {
        self.one_less();
        if !context.state.is_usable() {
            return;
        }
        context.deferred.put(Deferred::PinnedInFlight { start: block.start, bytes: BLOCK_BYTES });
        // SAFETY: the block owned the event; destroying a pending one is allowed.
        let destroyed = unsafe { call!(context, cuEventDestroy_v2(block.event)) };
        context.keep_drop_result(destroyed);
    }

    fn one_less(&self) {
        if let Ok(mut ring) = self.ring.lock() {
            ring.blocks -= 1;
        }
    }

    /// Returns 0 where the lock can't be waited for.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.ring.lock().map_or(0, |ring| (ring.blocks * BLOCK_BYTES) as u64)
    }

    /// Frees all blocks that no caller holds. Waits for the device.
    pub(crate) fn empty(&self, context: &ContextInner) -> Result<()> {
        let blocks: Vec<_> = {
            let mut ring = self.ring.lock()?;
            let ring = &mut *ring;
            let blocks: Vec<_> = ring.free.drain(..).chain(ring.busy.drain(..)).collect();
            ring.blocks -= blocks.len();
            blocks
        };
        let mut first_error = Ok(());
        for block in blocks {
            // SAFETY: the block owned the event.
            let result = unsafe { context.state.sys.cuEventDestroy_v2(block.event) };
            context
                .deferred
                .put(Deferred::PinnedInFlight { start: block.start, bytes: BLOCK_BYTES });
            first_error = first_error.and(context.answer("cuEventDestroy", result));
        }
        first_error
    }
}

fn create_block(context: &ContextInner) -> Result<StagingBlock> {
    let event = create_event(context)?;
    match pages::allocate(context, BLOCK_BYTES) {
        Ok(start) => Ok(StagingBlock { start, event }),
        Err(error) => {
            if context.state.is_usable() {
                // SAFETY: made above and never recorded.
                let _ = unsafe { context.state.sys.cuEventDestroy_v2(event) };
            }
            Err(error)
        }
    }
}
