//! Shared parts of the attacks on collectives.

use std::thread;
use std::time::{Duration, Instant};

use cuda_nccl::{Communicator, Config, Error, Group, ReduceOp};
use cuda_safe::{Context, DeviceBuffer, DeviceSliceMut, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// How long a call may wait for another rank.
pub(super) const LONG: Duration = Duration::from_secs(10);

/// Elements of guards before and behind a slice.
const GUARD: usize = 40;
/// What the guards hold.
const UNTOUCHED: u32 = 0xdead_beef;

/// The ranks of a communicator, each with a stream.
pub(super) type Ranks = (Vec<Communicator>, Vec<Stream>);

/// Returns the settings with a library of the lab.
pub(super) fn config(lab: &Lab) -> Result<Config, Failure> {
    Ok(Config::new().library(lab.nccl()?).timeout(LONG))
}

/// Makes communicators of the first devices.
pub(super) fn ranks(lab: &Lab, count: usize) -> Result<Ranks, Failure> {
    ranks_with(lab, count, &config(lab)?)
}

/// Makes communicators of the first devices, with these settings.
pub(super) fn ranks_with(lab: &Lab, count: usize, config: &Config) -> Result<Ranks, Failure> {
    let contexts: Vec<Context> =
        (0..count).map(|ordinal| lab.context_of(ordinal)).collect::<Result<_, _>>()?;
    let streams = contexts.iter().map(Context::stream).collect::<Result<_, _>>()?;
    Ok((Communicator::all_with(&contexts, config)?, streams))
}

/// Sums ones of all ranks, as proof that the communicators work.
pub(super) fn works(ranks: &mut [Communicator], streams: &[Stream]) -> TestResult {
    let count = ranks.len() as u32;
    let mut buffers = on_each(streams, |_| vec![1u32; 70])?;
    let mut group = Group::new(ranks);
    for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
        group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
    }
    group.run()?;
    for (stream, buffer) in streams.iter().zip(&buffers) {
        ensure_eq!(buffer.to_vec(stream)?, vec![count; 70]);
    }
    Ok(())
}

/// New communicators of all devices work, and go.
pub(super) fn new_ones_work(lab: &Lab, count: usize) -> TestResult {
    let (mut ranks, streams) = ranks(lab, count)?;
    works(&mut ranks, &streams)?;
    Communicator::close(ranks)?;
    Ok(())
}

/// Makes a buffer on each stream.
pub(super) fn on_each(
    streams: &[Stream],
    values: impl Fn(usize) -> Vec<u32>,
) -> Result<Vec<DeviceBuffer<u32>>, Failure> {
    let make = |(rank, stream)| DeviceBuffer::from_slice(stream, &values(rank));
    Ok(streams.iter().enumerate().map(make).collect::<Result<_, _>>()?)
}

/// Memory with guards around it.
pub(super) struct Guarded(DeviceBuffer<u32>);

impl Guarded {
    pub(super) fn new(stream: &Stream, values: &[u32]) -> Result<Self, Failure> {
        let guard = [UNTOUCHED; GUARD];
        Ok(Self(DeviceBuffer::from_slice(stream, &[&guard, values, &guard].concat())?))
    }

    /// Returns the slice between the guards.
    pub(super) fn inside(&mut self) -> Result<DeviceSliceMut<'_, u32>, Failure> {
        let end = self.0.len() - GUARD;
        Ok(self.0.slice_mut(GUARD..end)?)
    }

    /// Returns what is between the guards, which must be as they were.
    pub(super) fn values(&self, stream: &Stream) -> Result<Vec<u32>, Failure> {
        let mut all = self.0.to_vec(stream)?;
        let after = all.split_off(all.len() - GUARD);
        let values = all.split_off(GUARD);
        ensure!(all.iter().chain(&after).all(|value| *value == UNTOUCHED), "beyond its slice");
        Ok(values)
    }
}

/// Waits until the stream has nothing to do, though a rank may be missing.
pub(super) fn is_free(stream: &Stream) -> TestResult {
    let begin = Instant::now();
    while !stream.is_done()? {
        ensure!(begin.elapsed() < LONG, "the stream still waits for a peer");
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Fails unless the call was made, or is refused as one of a communicator that has failed.
pub(super) fn made_or_ended<T>(result: Result<T, Error>) -> TestResult {
    match result {
        Ok(_) | Err(Error::Mismatch { .. } | Error::Gone { .. } | Error::Aborted) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Runs a closure for each rank in a thread of its own, and returns the results.
pub(super) fn each<R: Send, T: Send>(
    ranks: impl IntoIterator<Item = T>,
    run: impl Fn(usize, T) -> R + Sync,
) -> Result<Vec<R>, Failure> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (ranks.into_iter().enumerate())
            .map(|(rank, of)| scope.spawn(move || run(rank, of)))
            .collect();
        let panicked = |_| Failure::new("a thread panicked");
        threads.into_iter().map(|thread| thread.join().map_err(panicked)).collect()
    })
}
