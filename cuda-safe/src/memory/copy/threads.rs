//! Large copies, spread over the context's helpers.
//!
//! Each thread that takes part claims chunk after chunk and brings it through two blocks of the
//! ring in turn, so that the bus is busy with one while the thread copies the other. Blocks are
//! handed out by the calling thread: what the others call needs no current context.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_sys::CUdeviceptr;

use super::crew::Claim;
use super::{InFlight, copy_from_block, copy_to_block, fresh, read_block};
use crate::error::{Error, Result};
use crate::memory::staging::{BLOCK_BYTES, StagingBlock};
use crate::stream::StreamInner;

/// Copies from this size on are spread over threads. It takes a few chunks for each of several
/// threads to make up for waking them, which costs some tens of microseconds.
pub(super) const LARGE_BYTES: usize = 8 << 20;

/// Bytes that a thread claims at a time: a block's. From 2 MiB on a copy runs at the bus's full
/// rate; smaller chunks end more evenly among threads, and 2 MiB is a huge page of fresh memory,
/// which one thread then faults in.
const CHUNK_BYTES: usize = BLOCK_BYTES;

/// Blocks of one thread.
const BLOCKS: usize = 2;

/// A copy that threads take part in.
struct Shared<'a, C> {
    stream: &'a StreamInner,
    /// The chunks that nobody has claimed: each is the host's end, and its place in the whole.
    chunks: Mutex<Vec<(usize, C)>>,
    /// Blocks that no thread has taken, and that the device is done with.
    blocks: Mutex<Vec<StagingBlock>>,
    /// The first error.
    failed: Mutex<Option<Error>>,
    finished: AtomicUsize,
}

impl<'a, C: Send> Shared<'a, C> {
    /// Runs `part` on each thread that there are blocks for, until all chunks are done.
    fn run(
        stream: &'a StreamInner,
        claim: &Claim<'_>,
        (blocks, chunks): (Vec<StagingBlock>, impl Iterator<Item = C>),
        part: impl Fn(&Self) -> Result<()> + Sync,
    ) -> Result<()> {
        let threads = blocks.len() / BLOCKS;
        // The last one is claimed first, so this makes it the first.
        let mut chunks: Vec<_> = chunks.enumerate().collect();
        chunks.reverse();
        let total = chunks.len();
        let shared = Self {
            stream,
            chunks: Mutex::new(chunks),
            blocks: Mutex::new(blocks),
            failed: Mutex::new(None),
            finished: AtomicUsize::new(0),
        };
        stream.context.counters.threaded_copies.fetch_add(1, Ordering::Relaxed);
        claim.run(threads, &|| {
            if let Err(error) = part(&shared) {
                shared.fail(error);
            }
        });
        for block in shared.blocks.into_inner().unwrap_or_else(PoisonError::into_inner) {
            stream.context.staging.release(block);
        }
        match shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None if shared.finished.load(Ordering::Relaxed) == total => Ok(()),
            None => Err(Error::invalid("a thread that took part in the copy has panicked")),
        }
    }

    fn next_chunk(&self) -> Option<(usize, C)> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn take_block(&self) -> Option<StagingBlock> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, block: StagingBlock) {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).push(block);
    }

    /// Keeps the first error, and leaves nothing to claim.
    fn fail(&self, error: Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn finish_one(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two blocks for each of as many threads as the copy has chunks for, or fewer if the ring has no
/// more without a wait. `None` if that would be one thread's.
fn blocks_for(stream: &StreamInner, bytes: usize) -> Result<Option<Vec<StagingBlock>>> {
    let staging = &stream.context.staging;
    let threads = stream.context.crew.threads().min(bytes.div_ceil(CHUNK_BYTES));
    let mut blocks = Vec::with_capacity(threads * BLOCKS);
    let mut enough = Ok(());
    while blocks.len() < threads * BLOCKS {
        match staging.try_acquire(&stream.context) {
            Ok(Some(block)) => blocks.push(block),
            Ok(None) => break,
            Err(error) => {
                enough = Err(error);
                break;
            }
        }
    }
    if enough.is_ok() && blocks.len() >= 2 * BLOCKS {
        return Ok(Some(blocks));
    }
    for block in blocks {
        staging.release(block);
    }
    enough.map(|()| None)
}

/// Uploads with the crew's help. `None` if there is none to be had: then nothing was done.
pub(super) fn upload(stream: &StreamInner, to: CUdeviceptr, source: &[u8]) -> Option<Result<()>> {
    let claim = stream.context.crew.claim()?;
    let blocks = match blocks_for(stream, source.len()) {
        Ok(blocks) => blocks?,
        Err(error) => return Some(Err(error)),
    };
    let work = (blocks, source.chunks(CHUNK_BYTES));
    Some(Shared::run(stream, &claim, work, |shared| upload_part(shared, to)))
}

/// One thread's part of an upload. Returns when the last chunk is enqueued, not when it is done.
fn upload_part(shared: &Shared<'_, &[u8]>, to: CUdeviceptr) -> Result<()> {
    let stream = shared.stream;
    let mut mine = InFlight::new(stream);
    loop {
        stream.state().usable()?;
        let fresh = if mine.len() < BLOCKS { shared.take_block() } else { None };
        if fresh.is_none() && mine.len() == 0 {
            // Nothing to bring a chunk through: other threads have all the blocks.
            return Ok(());
        }
        let Some((index, chunk)) = shared.next_chunk() else {
            fresh.into_iter().for_each(|block| shared.give_back(block));
            return Ok(());
        };
        let block = match fresh {
            Some(block) => block,
            None => match mine.wait_for_oldest()? {
                Some((block, ())) => block,
                None => return Ok(()),
            },
        };
        let to = to + (index * CHUNK_BYTES) as u64;
        let copied = copy_from_block(stream, &block, 0, to, chunk);
        mine.push(block, (), copied)?;
        shared.finish_one();
    }
}

/// Downloads with the crew's help, as [`upload`]. With `populate` each thread makes the memory of
/// its chunks present before it writes them.
pub(super) fn download(
    stream: &StreamInner,
    from: CUdeviceptr,
    target: &mut [MaybeUninit<u8>],
    populate: bool,
) -> Option<Result<()>> {
    let claim = stream.context.crew.claim()?;
    let blocks = match blocks_for(stream, target.len()) {
        Ok(blocks) => blocks?,
        Err(error) => return Some(Err(error)),
    };
    let work = (blocks, target.chunks_mut(CHUNK_BYTES));
    Some(Shared::run(stream, &claim, work, |shared| download_part(shared, from, populate)))
}

/// One thread's part of a download. Returns when its chunks are written.
fn download_part(
    shared: &Shared<'_, &mut [MaybeUninit<u8>]>,
    from: CUdeviceptr,
    populate: bool,
) -> Result<()> {
    let stream = shared.stream;
    let mut mine = InFlight::new(stream);
    let mut spare = None;
    loop {
        while mine.len() < BLOCKS {
            stream.state().usable()?;
            let Some(block) = spare.take().or_else(|| shared.take_block()) else { break };
            let Some((index, chunk)) = shared.next_chunk() else {
                shared.give_back(block);
                break;
            };
            let copied =
                copy_to_block(stream, &block, from + (index * CHUNK_BYTES) as u64, chunk.len());
            mine.push(block, chunk, copied)?;
            if populate && let Some(chunk) = mine.newest() {
                fresh::populate(chunk);
            }
        }
        let Some((block, chunk)) = mine.wait_for_oldest()? else { return Ok(()) };
        read_block(&block, chunk);
        spare = Some(block);
        shared.finish_one();
    }
}
