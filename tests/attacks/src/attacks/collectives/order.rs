//! Attacks on the order of collectives with all other work, and on the memory that they use.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_nccl::{Communicator, Group, ReduceOp};
use cuda_safe::{DeviceBuffer, LaunchConfig, Stream, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{each, new_ones_work, on_each, ranks, works};
use crate::attack::attacks;
use crate::attacks::graphs::kit::Kit;
use crate::lab::Lab;

/// The number of elements, and the same for kernels: several chunks of a message.
const LEN: usize = 3000;
const N: u32 = 3000;

/// Writes, sums and reads buffers on three streams of each device in turn, and never waits.
///
/// - row: the memory of a call is ordered with all other uses
/// - targets: `Group::new`, `Group::on`, `Group::run`, `Communicator::all_reduce_in_place`
fn used_on_other_streams_all_around(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 3)?;
    let mut sums = on_each(&streams, |_| vec![0; LEN])?;
    let mut copies = on_each(&streams, |_| vec![0; LEN])?;
    let more: Vec<[Stream; 2]> = (streams.iter())
        .map(|stream| Ok::<_, Failure>([stream.context().stream()?, stream.context().stream()?]))
        .collect::<Result<_, _>>()?;
    let kits: Vec<Kit> =
        streams.iter().map(|stream| Kit::load(&stream.context())).collect::<Result<_, _>>()?;
    let shape = LaunchConfig::cover(LEN, 128);
    let (mut value, mut mixed) = (0u32, 0u32);
    for round in 1..20u32 {
        // Rank r adds r + round on a second stream, all sum up, and a third stream reads.
        for (rank, ([second, _], x)) in more.iter().zip(&mut sums).enumerate() {
            kits[rank].add(second, shape, rank as u32 + round, x, N)?;
        }
        if lab.variant() == "groups" {
            let mut group = Group::new(&mut ranks);
            for (rank, (stream, x)) in streams.iter().zip(&mut sums).enumerate() {
                group.on(rank)?.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
            }
            group.run()?;
        } else {
            let uses = ranks.iter_mut().zip(&streams).zip(&mut sums);
            let sum = |_, ((rank, stream), x): ((&mut Communicator, &Stream), &mut _)| {
                rank.all_reduce_in_place(stream, x, ReduceOp::Sum)
            };
            each(uses, sum)?.into_iter().collect::<Result<(), _>>()?;
        }
        for (rank, ([_, third], (x, copy))) in
            more.iter().zip(sums.iter().zip(&mut copies)).enumerate()
        {
            kits[rank].mix(third, shape, x, copy, N)?;
        }
        value = (0..3).fold(0, |sum: u32, rank| sum.wrapping_add(value.wrapping_add(rank + round)));
        mixed = mixed.wrapping_mul(3).wrapping_add(value);
    }
    for (stream, (x, copy)) in streams.iter().zip(sums.iter().zip(&copies)) {
        ensure_eq!(copy.to_vec(stream)?, vec![mixed; LEN]);
        ensure_eq!(x.to_vec(stream)?, vec![value; LEN]);
    }
    Ok(())
}

/// Makes another stream wait for the stream of collectives from a second thread, at any moment of a call, and reads their
/// results on that stream: what it has waited for before must not count as the call.
///
/// - row: the memory of a call is ordered with all other uses
/// - row: a stream waits only for what it does not wait for already
/// - targets: `Group::run`, `Communicator::all_reduce_in_place`, `DeviceBuffer::copy_from`
fn waits_in_the_middle_of_a_call(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    works(&mut ranks, &streams)?;
    let (stream, third) = (&streams[0], streams[0].context().stream()?);
    let mut x = on_each(&streams, |_| vec![0; LEN])?;
    let mut seen = Vec::new();
    // The round that has begun; the largest number ends the other thread.
    let begun = AtomicU32::new(0);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| -> TestResult {
            let mut y = DeviceBuffer::<u32>::zeroed(stream, 8)?;
            let mut z = DeviceBuffer::<u32>::zeroed(&third, 8)?;
            let mut last = 0;
            loop {
                let round = begun.load(Ordering::Acquire);
                if round == u32::MAX {
                    return Ok(());
                }
                if round == last {
                    std::hint::spin_loop();
                    continue;
                }
                last = round;
                // Once in a round, at another moment each time: a later wait would cover the call.
                let (start, delay) = (Instant::now(), Duration::from_micros(8 * u64::from(round)));
                while start.elapsed() < delay {
                    std::hint::spin_loop();
                }
                y.fill(stream, 3)?;
                z.copy_from(&third, &y)?;
            }
        });
        let mut calls = || -> TestResult {
            for round in 1..60u32 {
                for (stream, x) in streams.iter().zip(&mut x) {
                    x.fill(stream, round)?;
                }
                let mut copy = DeviceBuffer::<u32>::zeroed(&third, LEN)?;
                if lab.variant() == "groups" {
                    let mut group = Group::new(&mut ranks);
                    for (rank, (stream, x)) in streams.iter().zip(&mut x).enumerate() {
                        group.on(rank)?.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
                    }
                    begun.store(round, Ordering::Release);
                    group.run()?;
                } else {
                    // The first rank last, whose call the other thread meets.
                    begun.store(round, Ordering::Release);
                    for ((rank, stream), x) in ranks.iter_mut().zip(&streams).zip(&mut x).rev() {
                        rank.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
                    }
                }
                copy.copy_from(&third, &x[0])?;
                seen.push(copy);
            }
            Ok(())
        };
        let called = calls();
        begun.store(u32::MAX, Ordering::Release);
        let waited = waiting.join().map_err(|_| Failure::new("a thread panicked"))?;
        called.and(waited)
    })?;
    for (round, copy) in (1..).zip(&seen) {
        ensure_eq!(copy.to_vec(&third)?, vec![2 * round; LEN]);
    }
    Ok(())
}

/// Drops the buffers of collectives right behind them, takes memory of their size at once, on the same stream and others,
/// and checks that nobody has written to it, and that the peers have what they were sent.
///
/// - row: the memory of a call is ordered with all other uses
/// - row: device memory is freed after the last work
/// - targets: `Group::run`, `DeviceBuffer::zeroed`, `Communicator::split_all`
fn dropped_and_taken_again_right_behind(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 3)?;
    let others: Vec<Stream> =
        streams.iter().map(|stream| stream.context().stream()).collect::<Result<_, _>>()?;
    let again = if lab.variant() == "same stream" { &streams } else { &others };
    let mut kept = on_each(&streams, |_| vec![0; 3 * LEN])?;
    let mut taken = Vec::new();
    for round in 1..15u32 {
        let sent = on_each(&streams, |rank| vec![10 * round + rank as u32; LEN])?;
        let mut summed = on_each(&streams, |_| vec![round; LEN])?;
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, x)) in streams.iter().zip(&mut kept).enumerate() {
            group.on(rank)?.all_gather(stream, &sent[rank], x)?;
        }
        for (rank, (stream, x)) in streams.iter().zip(&mut summed).enumerate() {
            group.on(rank)?.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
        }
        group.run()?;
        drop((sent, summed));
        for stream in again {
            let mut x = DeviceBuffer::<u32>::zeroed(stream, LEN)?;
            x.fill(stream, round)?;
            taken.push((round, stream, x));
        }
        if round % 5 == 0 {
            for (value, stream, x) in taken.drain(..) {
                ensure_eq!(x.to_vec(stream)?, vec![value; LEN]);
            }
            for (stream, x) in streams.iter().zip(&kept) {
                let x = x.to_vec(stream)?;
                let is_right = |(i, x): (usize, &u32)| *x == 10 * round + (i / LEN) as u32;
                ensure!(x.iter().enumerate().all(is_right), "round {round} has {:?}", x[LEN]);
            }
        }
    }
    works(&mut ranks, &streams)
}

/// Makes hundreds of small calls of two communicators on two streams, by a thread for each rank, all of which read one
/// buffer of their device.
///
/// - row: the memory of a call is ordered with all other uses
/// - row: no two threads are in NCCL with one communicator
/// - targets: `Communicator::split_all`, `Communicator::all_reduce`, `Communicator::all_gather`
fn a_storm_on_shared_memory(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 3)?;
    let second = Communicator::split_all(&mut ranks, |rank| (Some(7), -(rank as i32)))?;
    let seen =
        each(ranks.into_iter().zip(second).zip(&streams), |number, ((one, two), stream)| {
            let (mut one, mut two) = (one, two.ok_or_else(|| Failure::new("no communicator"))?);
            ensure_eq!(two.rank(), 2 - number);
            let other = stream.context().stream()?;
            let shared = DeviceBuffer::from_slice(stream, &[number as u32 + 1; 33])?;
            let mut sums = DeviceBuffer::<u32>::zeroed(stream, 33)?;
            let mut parts = DeviceBuffer::<u32>::zeroed(&other, 99)?;
            let mut total = DeviceBuffer::<u32>::zeroed(&other, 33)?;
            for _ in 0..60 {
                one.all_reduce(stream, &shared, &mut sums, ReduceOp::Sum)?;
                two.all_gather(&other, &shared, &mut parts)?;
                two.all_reduce(&other, &sums, &mut total, ReduceOp::Max)?;
                one.all_reduce(stream, &total, &mut sums, ReduceOp::Min)?;
            }
            ensure_eq!(sums.to_vec(&other)?, [6; 33]);
            let wanted: Vec<u32> = [3, 2, 1].into_iter().flat_map(|value| [value; 33]).collect();
            ensure_eq!(parts.to_vec(stream)?, wanted);
            Ok(())
        })?;
    seen.into_iter().collect()
}

/// Reads and writes unified memory on the host right behind collectives that use it.
///
/// - row: the memory of a call is ordered with all other uses
/// - row: when the host reads, all writes are done
/// - row: while a guard lives nothing that conflicts
/// - targets: `UnifiedBuffer::host`, `UnifiedBuffer::host_mut`, `Group::run`
fn host_borrows_right_behind(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    let make = |stream: &Stream| match lab.variant() {
        "managed" => UnifiedBuffer::<u32>::managed(stream, LEN),
        _ => UnifiedBuffer::<u32>::pinned(stream, LEN),
    };
    let mut memory = streams.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    for round in 1..20u32 {
        for (rank, x) in memory.iter_mut().enumerate() {
            x.host_mut()?.fill(round + rank as u32);
        }
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, x)) in streams.iter().zip(&mut memory).enumerate() {
            group.on(rank)?.all_reduce_in_place(stream, x.as_slice_mut(), ReduceOp::Sum)?;
        }
        group.run()?;
        for x in &mut memory {
            ensure!(x.host()?.iter().all(|x| *x == 2 * round + 1), "round {round}");
            x.host_mut()?.fill(u32::MAX);
        }
    }
    // A guard that lives for ever keeps collectives away, and the group is refused as a whole.
    std::mem::forget(memory[1].host_mut()?);
    let mut group = Group::new(&mut ranks);
    for (rank, (stream, x)) in streams.iter().zip(&mut memory).enumerate() {
        group.on(rank)?.all_reduce_in_place(stream, x.as_slice_mut(), ReduceOp::Sum)?;
    }
    lab.refused(group.run(), "host")?;
    let seen = memory[0].host()?;
    ensure!(seen.iter().all(|x| *x == u32::MAX), "a part of the group was enqueued");
    drop(seen);
    works(&mut ranks, &streams)
}

/// Drops groups with calls in them, also while a panic unwinds and in closures of a capture. Nothing of them is enqueued.
///
/// - row: the memory of a call is ordered with all other uses
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Group::new`, `Group::on`
fn groups_that_never_run(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    let mut x = on_each(&streams, |_| vec![5; 100])?;
    let mut fill = |ending: fn(Group<'_>)| -> TestResult {
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, x)) in streams.iter().zip(&mut x).enumerate() {
            let mut on = group.on(rank)?;
            if rank == 0 {
                on.send(stream, &*x, 1)?;
            } else {
                on.broadcast(stream, x, 0)?;
            }
        }
        ending(group);
        Ok(())
    };
    let context = lab.context_of(0)?;
    let panics: fn(Group<'_>) = |_group| std::panic::resume_unwind(Box::new("on purpose"));
    let mut caught = |ending: fn(Group<'_>)| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fill(ending))).is_err()
    };
    match lab.variant() {
        "dropped" => fill(|group| drop(group))?,
        "forgotten" => fill(|group| std::mem::forget(group))?,
        "panics" => ensure!(caught(panics)),
        "in a capture" => {
            let mut filled = Ok(());
            context.capture((), |_, ()| {
                filled = fill(|group| drop(group));
                Ok(())
            })?;
            filled?;
        }
        _ => {
            let mut is_caught = false;
            context.capture((), |_, ()| {
                is_caught = caught(panics);
                Ok(())
            })?;
            ensure!(is_caught);
        }
    }
    for (stream, x) in streams.iter().zip(&x) {
        ensure_eq!(x.to_vec(stream)?, [5; 100]);
    }
    works(&mut ranks, &streams)
}

/// Drops the streams, contexts and buffers of collectives that wait behind a host function.
///
/// - row: the memory of a call is ordered with all other uses
/// - row: a communicator lives until its work is done
/// - targets: `Group::run`, `Communicator::context`, `Stream::host_function`
fn everything_dropped_behind_a_wait(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    works(&mut ranks, &streams)?;
    let (release, released) = mpsc::channel::<()>();
    streams[0].host_function(move || {
        let _ = released.recv();
    })?;
    let mut out = on_each(&streams, |_| vec![0; LEN])?;
    for _ in 0..5 {
        let sent = on_each(&streams, |rank| vec![rank as u32 + 4; LEN])?;
        let own: Vec<Stream> =
            streams.iter().map(|stream| stream.context().stream()).collect::<Result<_, _>>()?;
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, x)) in own.iter().zip(&mut out).enumerate() {
            group.on(rank)?.all_reduce(stream, &sent[rank], x, ReduceOp::Sum)?;
        }
        group.run()?;
    }
    ensure!(!streams[0].is_done()?);
    drop((ranks, streams));
    drop(release);
    for (ordinal, x) in out.iter().enumerate() {
        ensure_eq!(x.to_vec(&lab.context_of(ordinal)?.stream()?)?, vec![9; LEN]);
    }
    drop(out);
    new_ones_work(lab, 2)
}

/// Forgets a communicator, an abort handle, a buffer and a group at the same time, with work under way.
///
/// - row: a communicator lives until its work is done
/// - row: the memory of a call is ordered with all other uses
/// - targets: `Communicator::abort_handle`, `Group::new`, `Communicator::all_reduce_in_place`
fn everything_forgotten(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    let mut x = on_each(&streams, |_| vec![8; LEN])?;
    let seen = on_each(&streams, |_| vec![0; LEN])?;
    for _ in 0..3 {
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, x)) in streams.iter().zip(&mut x).enumerate() {
            group.on(rank)?.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
        }
        group.run()?;
    }
    std::mem::forget(ranks[0].abort_handle());
    let mut group = Group::new(&mut ranks);
    group.on(0)?.broadcast(&streams[0], &mut x[0], 1)?;
    std::mem::forget(group);
    let mut copies = seen;
    for ((x, copy), stream) in x.iter().zip(&mut copies).zip(&streams) {
        copy.copy_from(stream, x)?;
    }
    std::mem::forget((ranks, x));
    lab.leaks_communicators(2);
    for (stream, copy) in streams.iter().zip(&copies) {
        ensure_eq!(copy.to_vec(stream)?, vec![64; LEN]);
    }
    new_ones_work_beside(lab)
}

/// New communicators of the same devices work beside those that were forgotten.
fn new_ones_work_beside(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    works(&mut ranks, &streams)
}

attacks![
    "collectives",
    right(used_on_other_streams_all_around).variants(&["groups", "threads"]).devices(3).limit(60),
    right(waits_in_the_middle_of_a_call).variants(&["groups", "calls"]).devices(2).limit(60),
    right(dropped_and_taken_again_right_behind)
        .variants(&["same stream", "other stream"])
        .devices(3)
        .limit(60),
    right(a_storm_on_shared_memory).devices(3).limit(60),
    right(host_borrows_right_behind).variants(&["managed", "pinned"]).devices(2),
    right(groups_that_never_run)
        .variants(&["dropped", "forgotten", "panics", "in a capture", "in a panicking capture"])
        .devices(2),
    right(everything_dropped_behind_a_wait).devices(2),
    right(everything_forgotten).devices(2),
];
