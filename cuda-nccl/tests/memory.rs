//! The memory of calls that fail, and which ranks share their failures.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use cuda_nccl::raw::ncclResult_t;
use cuda_nccl::{Communicator, Config, Error, Group, ReduceOp, Result, UniqueId};
use cuda_safe::{Context, DeviceBuffer, Stream};

mod fake;

/// How long an abort takes here.
const ABORT: Duration = Duration::from_millis(100);

fn config() -> Config {
    Config::new().library(fake::library())
}

fn ranks(count: usize) -> Result<(Vec<Communicator>, Vec<Stream>)> {
    let contexts = fake::contexts(count);
    let streams = contexts.iter().map(Context::stream).collect::<Result<_, _>>()?;
    Ok((Communicator::all_with(&contexts, &config())?, streams))
}

/// Sums over all ranks, and returns what they have.
fn all_reduce(ranks: &mut [Communicator], streams: &[Stream]) -> Result<Vec<DeviceBuffer<i32>>> {
    let buffers = streams.iter().map(|stream| DeviceBuffer::from_slice(stream, &[1; 1000]));
    let mut buffers: Vec<DeviceBuffer<i32>> = buffers.collect::<Result<_, _>>()?;
    let mut group = Group::new(ranks);
    for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
        group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
    }
    group.run()?;
    Ok(buffers)
}

/// Nothing is left, and new communicators work.
fn all_is_well() -> Result<()> {
    fake::all_gone();
    let (mut ranks, streams) = ranks(fake::DEVICES)?;
    drop(all_reduce(&mut ranks, &streams)?);
    Communicator::close(ranks)?;
    assert_eq!(fake::alive(), 0);
    for context in fake::contexts(fake::DEVICES) {
        assert!(context.take_drop_errors().is_empty());
    }
    fake::no_misuse();
    Ok(())
}

/// Returns the result, which came soon.
#[track_caller]
fn soon<R>(call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    assert!(start.elapsed() < Duration::from_millis(50), "it took {:?}", start.elapsed());
    result
}

/// Waits until the communicator has failed.
fn failure(rank: &Communicator) -> Error {
    let start = Instant::now();
    loop {
        match rank.check() {
            Err(error) => return error,
            Ok(()) => assert!(start.elapsed() < Duration::from_secs(10), "it did not fail"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A peer's kernel that ends later than the aborted rank's writes to memory that nobody else has yet.
#[test]
fn memory_of_an_aborted_call_is_kept_until_all_ranks_have_ended() -> Result<()> {
    for keeps in [false, true] {
        let _alone = fake::alone();
        fake::faults().abort_takes = Duration::from_millis(100);
        fake::faults().late_writes = true;
        let (mut ranks, streams) = ranks(2)?;
        let abort = ranks[0].abort_handle();
        let (first, stream) = (&mut ranks[0], &streams[0]);
        std::thread::scope(|scope| {
            let call = scope.spawn(move || {
                let mut x = DeviceBuffer::from_slice(stream, &[1_i32; 1000])?;
                let result = first.all_reduce_in_place(stream, &mut x, ReduceOp::Sum);
                assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
                if keeps {
                    x.upload(stream, &[3; 1000])?;
                    std::thread::sleep(Duration::from_millis(50));
                    assert_eq!(x.to_vec(stream)?, [3; 1000]);
                    return Ok(());
                }
                let address = x.device_ptr();
                drop(x);
                let next: Vec<DeviceBuffer<i32>> = (0..8)
                    .map(|_| DeviceBuffer::from_slice(stream, &[7; 1000]))
                    .collect::<cuda_safe::Result<_>>()?;
                assert!(next.iter().all(|next| next.device_ptr() != address));
                std::thread::sleep(Duration::from_millis(200));
                for next in &next {
                    assert_eq!(next.to_vec(stream)?, [7; 1000]);
                }
                Ok::<_, Error>(())
            });
            while fake::calls() == 0 {
                std::thread::yield_now();
            }
            soon(|| abort.abort());
            call.join().unwrap_or(Err(Error::Aborted))
        })?;
        drop(ranks);
        all_is_well()?;
    }
    Ok(())
}

/// The work of a rank fails after its communicator was dropped: it is aborted with its peers, and its memory is kept.
#[test]
fn a_drop_whose_work_fails_aborts_all_ranks() -> Result<()> {
    let _alone = fake::alone();
    fake::faults().abort_takes = ABORT;
    let (mut ranks, streams) = ranks(2)?;
    let buffers = all_reduce(&mut ranks, &streams)?;
    fake::fail_rank(0, ncclResult_t::ncclRemoteError);
    let first = ranks.remove(0);
    let start = Instant::now();
    soon(|| drop(first));
    let error = failure(&ranks[0]).to_string();
    assert!(error.contains("earlier work of rank 0 failed"), "{error}");
    for (buffer, stream) in buffers.iter().zip(&streams) {
        assert_eq!(buffer.to_vec(stream)?, [2; 1000]);
        assert!(start.elapsed() >= ABORT, "read after {:?}", start.elapsed());
    }
    drop(ranks);
    all_is_well()
}

/// Makes two ranks of this process by an identifier, as ranks of two processes are, and drives each by a thread.
fn by_identifier(run: impl Fn(Communicator, &Stream, &Barrier) -> Result<()> + Sync) -> Result<()> {
    let both = Barrier::new(2);
    let contexts = fake::contexts(2);
    let id = UniqueId::of(fake::library())?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = contexts
            .iter()
            .enumerate()
            .map(|(rank, context)| {
                let (run, both) = (&run, &both);
                scope.spawn(move || {
                    // SAFETY: both make the same calls.
                    let rank = unsafe { Communicator::new_with(id, 2, rank, context, &config()) }?;
                    run(rank, &context.stream()?, both)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// NCCL ends all ranks of a communicator in one process together, so they share their failures.
#[test]
fn ranks_of_one_identifier_end_together() -> Result<()> {
    for of_split in [false, true] {
        let _alone = fake::alone();
        fake::faults().abort_takes = ABORT;
        by_identifier(|mut rank, stream, both| {
            let mut child = match of_split {
                true => rank.split(Some(5), 0)?.ok_or(Error::Aborted)?,
                false => return fails_with_its_peer(rank, stream, both),
            };
            let mut x = DeviceBuffer::from_slice(stream, &[1_i32; 1000])?;
            child.all_reduce_in_place(stream, &mut x, ReduceOp::Sum)?;
            fails_with_its_peer(child, stream, both)?;
            // The one that was split goes on.
            rank.all_reduce_in_place(stream, &mut x, ReduceOp::Sum)?;
            assert_eq!(x.to_vec(stream)?, [4; 1000]);
            Communicator::close([rank])
        })?;
        all_is_well()?;
    }
    Ok(())
}

/// Rank 0 aborts itself, and so its peer.
fn fails_with_its_peer(mut rank: Communicator, stream: &Stream, both: &Barrier) -> Result<()> {
    let mut x = DeviceBuffer::from_slice(stream, &[1_i32; 1000])?;
    rank.all_reduce_in_place(stream, &mut x, ReduceOp::Sum)?;
    // Nobody is in the call any more.
    both.wait();
    if rank.rank() == 0 {
        soon(|| rank.abort_handle().abort());
    }
    let start = Instant::now();
    assert!(matches!(failure(&rank), Error::Aborted));
    assert_eq!(x.to_vec(stream)?, [2; 1000]);
    assert!(rank.rank() > 0 || start.elapsed() >= ABORT, "read after {:?}", start.elapsed());
    assert!(rank.abort_handle().wait(Duration::from_secs(10)));
    Ok(())
}

/// A rank that can't be made leaves no other one of this process waiting.
#[test]
fn a_rank_that_is_not_made_is_the_end_of_the_others() -> Result<()> {
    let _alone = fake::alone();
    let contexts = fake::contexts(2);
    let id = UniqueId::of(fake::library())?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            // SAFETY: rank 1 makes no calls.
            unsafe { Communicator::new_with(id, 2, 0, &contexts[0], &config()) }
        });
        while fake::alive() == 0 {
            std::thread::yield_now();
        }
        fake::faults().codes.insert("ncclCommInitRankConfig", 3);
        // SAFETY: as above.
        let second = unsafe { Communicator::new_with(id, 2, 1, &contexts[1], &config()) };
        assert!(matches!(second, Err(Error::Nccl { .. })), "{second:?}");
        let first = first.join().unwrap_or(Err(Error::Aborted));
        assert!(matches!(first, Err(Error::Nccl { .. })), "{first:?}");
    });
    assert!(start.elapsed() < Duration::from_secs(10));
    fake::faults().codes.clear();
    all_is_well()
}

/// When communicators are closed, nothing of them uses their streams.
#[test]
fn what_is_closed_is_gone() -> Result<()> {
    let _alone = fake::alone();
    for _ in 0..30 {
        let (mut ranks, streams) = ranks(2)?;
        drop(all_reduce(&mut ranks, &streams)?);
        Communicator::close(ranks)?;
        for stream in streams {
            stream.close().map_err(cuda_safe::Error::from)?;
        }
    }
    all_is_well()
}
