//! Large copies, spread over the context's helpers.
//!
//! Each thread that takes part claims chunk after chunk and brings it through two blocks of the
//! ring in turn, so that the bus is busy with one while the thread copies the other. The calling thread hands out the
//! blocks, so the other threads' calls need no current context.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_sys::CUdeviceptr;

use super::helpers::{Claim, MOST_THREADS};
use super::{InFlight, copy_from_block, copy_to_block, fresh, read_block};
use crate::error::{Error, Result};
use crate::memory::host::staging::{BLOCK_BYTES, StagingBlock};
use crate::stream::StreamInner;
use crate::sync::Lock;

/// Copies from this size on are spread over threads. It takes a few chunks for each of several
/// threads to make up for waking them, which costs some tens of microseconds.
pub(super) const LARGE_BYTES: usize = 8 << 20;

/// Bytes that a thread claims at a time: a block's. From 2 MiB on a copy runs at the bus's full
/// rate; smaller chunks end more evenly among threads, and 2 MiB is a huge page of fresh memory,
/// which one thread then faults in.
const CHUNK_BYTES: usize = BLOCK_BYTES;

/// Blocks that a thread uses in turn.
const BLOCKS: usize = 2;

/// The most blocks of one copy, whatever its threads.
const MOST_BLOCKS: usize = MOST_THREADS * BLOCKS;

/// A copy that threads take part in.
struct Shared<'a, C> {
    stream: &'a StreamInner,
    rest: Lock<Rest<C>>,
    /// Whether there was a block for each chunk, so that none has to be used again.
    fits: bool,
    /// The first error.
    failed: Lock<Option<Error>>,
    finished: AtomicUsize,
}

/// The part that no thread has claimed.
struct Rest<C> {
    /// Each is the host's end, and its place in the whole; the first one comes last.
    chunks: Vec<(usize, C)>,
    /// The device is done with them.
    blocks: Vec<StagingBlock>,
}

impl<'a, C: Send> Shared<'a, C> {
    /// Runs `part` on each thread that there are blocks for, until all chunks are done.
    fn run(
        stream: &'a StreamInner,
        claim: &Claim<'_>,
        (blocks, chunks): (Vec<StagingBlock>, impl Iterator<Item = C>),
        part: impl Fn(&Self) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut chunks: Vec<_> = chunks.enumerate().collect();
        chunks.reverse();
        let total = chunks.len();
        let fits = total <= blocks.len();
        let threads = if fits { total } else { blocks.len() / BLOCKS };
        let shared = Self {
            stream,
            fits,
            rest: Lock::new(Rest { chunks, blocks }),
            failed: Lock::new(None),
            finished: AtomicUsize::new(0),
        };
        stream.context.counters.threaded_copies.fetch_add(1, Ordering::Relaxed);
        claim.run(threads.min(stream.context.helpers.threads()), &|| {
            if let Err(error) = part(&shared) {
                shared.fail(error);
            }
        });
        for block in shared.rest.into_inner().blocks {
            stream.context.staging.release(block);
        }
        match shared.failed.into_inner() {
            Some(error) => Err(error),
            None if shared.finished.load(Ordering::Relaxed) == total => Ok(()),
            None => Err(Error::invalid("a thread that took part in the copy has panicked")),
        }
    }

    /// Returns the next chunk, with a block for it if the thread wants `another` and there is one. Returns `None` if no
    /// chunk is left, or if no block is left and the thread `has` none. Chunk and block are taken together, so no
    /// thread gets a chunk without a block.
    fn claim(&self, another: bool, has: bool) -> Option<(usize, C, Option<StagingBlock>)> {
        let mut rest = self.rest.lock().ok()?;
        if rest.chunks.is_empty() {
            return None;
        }
        let block = if another { rest.blocks.pop() } else { None };
        if block.is_none() && !has {
            return None;
        }
        rest.chunks.pop().map(|(index, chunk)| (index, chunk, block))
    }

    fn give_back(&self, block: StagingBlock) {
        if let Ok(mut rest) = self.rest.lock() {
            rest.blocks.push(block);
        }
    }

    /// Keeps the first error, and leaves nothing to claim.
    fn fail(&self, error: Error) {
        if let (Ok(mut failed), Ok(mut rest)) = (self.failed.lock(), self.rest.lock()) {
            failed.get_or_insert(error);
            rest.chunks.clear();
        }
    }

    fn finish_one(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns two blocks for each thread, or one for each chunk where that is what the ring can hold: then an upload waits
/// for nothing that its stream has yet to do. Fewer if the ring has no more without a wait; `None` if that is not
/// enough for two threads.
fn take_blocks(stream: &StreamInner, bytes: usize) -> Result<Option<Vec<StagingBlock>>> {
    let staging = &stream.context.staging;
    let wanted = match bytes.div_ceil(CHUNK_BYTES) {
        chunks @ ..=MOST_BLOCKS => chunks,
        _ => stream.context.helpers.threads() * BLOCKS,
    };
    let mut blocks = Vec::with_capacity(wanted);
    let mut enough = Ok(());
    while blocks.len() < wanted {
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

/// Uploads with the helpers. Returns `None` and does nothing if no helper is available.
pub(super) fn upload(stream: &StreamInner, to: CUdeviceptr, source: &[u8]) -> Option<Result<()>> {
    let claim = stream.context.helpers.claim()?;
    let blocks = match take_blocks(stream, source.len()) {
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
        // A block that was just in use is in the cache still, if the device is done with it.
        let another = mine.len() < BLOCKS || shared.fits && !mine.is_oldest_done()?;
        let Some((index, chunk, block)) = shared.claim(another, mine.len() > 0) else {
            return Ok(());
        };
        let block = match block {
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

/// Downloads with the helpers, as [`upload`]. With `populate` each thread makes the memory of
/// its chunks present before it writes them.
pub(super) fn download(
    stream: &StreamInner,
    from: CUdeviceptr,
    target: &mut [MaybeUninit<u8>],
    populate: bool,
) -> Option<Result<()>> {
    let claim = stream.context.helpers.claim()?;
    let blocks = match take_blocks(stream, target.len()) {
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
            let Some((index, chunk, block)) = shared.claim(spare.is_none(), spare.is_some()) else {
                break;
            };
            let Some(block) = block.or_else(|| spare.take()) else { break };
            let copied =
                copy_to_block(stream, &block, from + (index * CHUNK_BYTES) as u64, chunk.len());
            mine.push(block, chunk, copied)?;
            if populate && let Some(chunk) = mine.newest() {
                fresh::populate(chunk);
            }
        }
        spare.take().into_iter().for_each(|block| shared.give_back(block));
        let Some((block, chunk)) = mine.wait_for_oldest()? else { return Ok(()) };
        read_block(&block, chunk);
        spare = Some(block);
        shared.finish_one();
    }
}
