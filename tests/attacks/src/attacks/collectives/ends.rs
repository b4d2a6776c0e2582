//! Attacks on the ends of communicators: aborts, drops, panics, exits and forks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use cuda_nccl::{Communicator, Error, Group, ReduceOp};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq, limited_to};

use super::kit::{
    Guarded, LONG, config, each, is_free, made_or_ended, new_ones_work, on_each, ranks, ranks_with,
    works,
};
use crate::attack::attacks;
use crate::lab::Lab;

/// Aborts from several threads, again and again, while each rank's thread makes calls.
///
/// - row: no two threads are in NCCL with one communicator
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Communicator::abort_handle`, `Abort::abort`, `Abort::wait`, `Abort::is_aborted`, `Communicator::check`
fn aborts_while_calls_run(lab: &Lab) -> TestResult {
    for round in 0..6 {
        let (mut ranks, streams) = ranks(lab, 3)?;
        let aborts: Vec<_> = ranks.iter().map(Communicator::abort_handle).collect();
        let variant = lab.variant();
        let calls = |number: usize, (rank, stream): (&mut Communicator, &Stream)| -> TestResult {
            let mut x = Guarded::new(stream, &[number as u32; 720])?;
            loop {
                let sum = ReduceOp::Sum;
                let made = match variant {
                    "calls" => rank.all_reduce_in_place(stream, x.inside()?, sum),
                    "checks" => rank
                        .broadcast(stream, x.inside()?, 1)
                        .and_then(|()| rank.synchronize(stream))
                        .and_then(|()| rank.check()),
                    "splits" => rank.split(Some(number as u32 / 2), 0).map(drop),
                    _ => {
                        let inside = x.inside()?;
                        let mut group = Group::new([&mut *rank]);
                        let added =
                            group.on(0).and_then(|mut on| on.all_gather_in_place(stream, inside));
                        added.and_then(|()| group.run())
                    }
                };
                if let Err(Error::Invalid(text)) = &made {
                    return Err(Failure::new(text.to_string()));
                }
                let has_ended = made.is_err();
                // A new communicator fails by the abort of its peer.
                if variant != "splits" || !matches!(made, Err(Error::Asynchronous { .. })) {
                    made_or_ended(made)?;
                }
                if has_ended {
                    ensure!(matches!(rank.check(), Err(Error::Aborted)));
                    break;
                }
            }
            is_free(stream)?;
            ensure_eq!(x.values(stream)?.len(), 720);
            Ok(())
        };
        thread::scope(|scope| {
            for abort in aborts.iter().chain(&aborts) {
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(2 * round));
                    for _ in 0..3 {
                        abort.abort();
                        let _ = (abort.is_aborted(), abort.wait(Duration::from_micros(100)));
                    }
                });
            }
            each(ranks.iter_mut().zip(&streams), calls)?.into_iter().collect::<TestResult>()
        })?;
        ensure!(aborts.iter().all(|abort| abort.is_aborted() && abort.wait(LONG)));
        drop(ranks);
        aborts[0].abort();
    }
    new_ones_work(lab, 3)
}

/// Panics in one rank's thread while its peers wait for it on the device, and lets the unwinding drop the rank.
///
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Communicator::all_reduce_in_place`, `Communicator::check`, `Group::on`, `Communicator::split_all`
fn panics_with_peers_that_wait(lab: &Lab) -> TestResult {
    let (ranks, streams) = ranks(lab, 3)?;
    let variant = lab.variant();
    let seen = each(ranks.into_iter().zip(&streams), |number, (mut rank, stream)| -> TestResult {
        let mut x = DeviceBuffer::from_slice(stream, &[1u32; 2000])?;
        made_or_ended(rank.all_reduce_in_place(stream, &mut x, ReduceOp::Sum))?;
        if number == 1 {
            let caught = catch_unwind(AssertUnwindSafe(move || -> TestResult {
                let mut ranks = [rank];
                match variant {
                    "building a group" => {
                        let mut group = Group::new(&mut ranks);
                        group.on(0)?.all_reduce_in_place(stream, &mut x, ReduceOp::Sum)?;
                        let _on = group.on(0)?;
                        resume_unwind(Box::new("on purpose"))
                    }
                    "choosing colours" => {
                        let choose = |_| resume_unwind(Box::new("on purpose"));
                        Communicator::split_all(&mut ranks, choose).map(drop)?;
                    }
                    "holding a slice" => {
                        let _slice = x.slice_mut(5..)?;
                        resume_unwind(Box::new("on purpose"))
                    }
                    _ => resume_unwind(Box::new("on purpose")),
                }
                Ok(())
            }));
            ensure!(caught.is_err(), "there was no panic");
            return Ok(());
        }
        // Its peers are a call ahead of it, or learn that it is gone.
        made_or_ended(rank.all_reduce_in_place(stream, &mut x, ReduceOp::Sum))?;
        is_free(stream)?;
        let later = rank.all_reduce_in_place(stream, &mut x, ReduceOp::Sum);
        ensure!(matches!(later, Err(Error::Gone { rank: 1, .. })), "{later:?}");
        Ok(())
    })?;
    seen.into_iter().collect::<TestResult>()?;
    new_ones_work(lab, 3)
}

/// Drops ranks one after the other, in every order, each with work under way that the others have made too.
///
/// - row: a communicator lives until its work is done
/// - row: drops and aborts do not wait
/// - targets: `Group::run`, `Stream::host_function`, `Communicator::close`, `Communicator::set_timeout`
fn dropped_with_work_under_way(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 3)?;
    works(&mut ranks, &streams)?;
    let (release, released) = mpsc::channel::<()>();
    let mut x = on_each(&streams, |rank| vec![rank as u32; 3000])?;
    streams[1].host_function(move || {
        let _ = released.recv();
    })?;
    for _ in 0..4 {
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, x)) in streams.iter().zip(&mut x).enumerate() {
            group.on(rank)?.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
        }
        group.run()?;
    }
    // Nothing below waits for the host function, which waits for this thread.
    match lab.variant() {
        "in order" => ranks.into_iter().for_each(drop),
        "reversed" => ranks.into_iter().rev().for_each(drop),
        "by threads" => drop(each(ranks, |_, rank| drop(rank))?),
        "in captures" => {
            for (ordinal, rank) in ranks.into_iter().enumerate() {
                lab.context_of(ordinal)?.capture((), move |_, ()| {
                    drop(rank);
                    Ok(())
                })?;
            }
        }
        _ => {
            ranks.iter_mut().for_each(|rank| rank.set_timeout(Duration::from_millis(20)));
            let closed = Communicator::close(ranks);
            lab.refused(closed, "the end of the communicator")?;
        }
    }
    ensure!(!streams[1].is_done()?);
    drop(release);
    for (stream, x) in streams.iter().zip(&x) {
        ensure_eq!(x.to_vec(stream)?, vec![81; 3000]);
    }
    lab.communicators_are_gone()
}

/// Drops a rank whose peers have made calls that it has not, and aborts while work waits behind a host function.
///
/// Runs without a seed, because under a seed the device runs nothing beside a host function.
///
/// - row: a failure, a drop or a panic leaves no peer
/// - row: drops and aborts do not wait
/// - targets: `Communicator::all_reduce_in_place`, `Communicator::abort_handle`, `Communicator::synchronize`
fn a_rank_that_never_comes(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 3)?;
    works(&mut ranks, &streams)?;
    let (release, released) = mpsc::channel::<()>();
    let mut x = on_each(&streams, |_| vec![1; 3000])?;
    for rank in 0..2 {
        if lab.variant() == "message" {
            ranks[rank].recv(&streams[rank], &mut x[rank], 2)?;
        } else {
            ranks[rank].all_reduce_in_place(&streams[rank], &mut x[rank], ReduceOp::Sum)?;
        }
    }
    // The third device is busy as long as this thread wants.
    streams[2].host_function(move || {
        let _ = released.recv();
    })?;
    let last = ranks.pop();
    match lab.variant() {
        "aborted" => last.iter().for_each(|last| last.abort_handle().abort()),
        "timed out" => {
            ranks[0].set_timeout(Duration::from_millis(20));
            let waited = ranks[0].synchronize(&streams[0]);
            ensure!(matches!(waited, Err(Error::Timeout { .. })), "{waited:?}");
        }
        _ => drop(last),
    }
    for (rank, stream) in ranks.iter().zip(&streams) {
        is_free(stream)?;
        ensure!(rank.check().is_err());
    }
    ensure!(!streams[2].is_done()?);
    drop(release);
    for (stream, x) in streams.iter().zip(&x) {
        ensure_eq!(x.to_vec(stream)?.len(), 3000);
    }
    drop(ranks);
    new_ones_work(lab, 3)
}

/// Drops the memory of a call that is aborted, or uses it again, while the kernel of another rank still writes to it.
///
/// - row: a kernel that outlives an abort
/// - targets: `Abort::abort`, `Abort::wait`, `Communicator::all_reduce_in_place`, `Context::free_deferred`
fn memory_behind_an_abort(lab: &Lab) -> TestResult {
    lab.kernels_outlive_aborts();
    let (mut ranks, streams) = ranks(lab, 2)?;
    works(&mut ranks, &streams)?;
    let stream = &streams[0];
    let mut x = Some(DeviceBuffer::from_slice(stream, &[1; 3000])?);
    if let Some(x) = &mut x {
        ranks[0].all_reduce_in_place(stream, x, ReduceOp::Sum)?;
    }
    let abort = ranks[1].abort_handle();
    if lab.variant() == "dropped before" {
        x = None;
    }
    abort.abort();
    is_free(stream)?;
    if lab.variant() == "dropped behind" {
        x = None;
    }
    lab.context_of(0)?.free_deferred()?;
    if let Some(x) = &mut x {
        x.fill(stream, 7)?;
    }
    let make = |_| DeviceBuffer::from_slice(stream, &[7; 3000]);
    let mut all: Vec<DeviceBuffer<u32>> = (0..6).map(make).collect::<Result<_, _>>()?;
    all.extend(x);
    ensure!(abort.wait(LONG));
    for x in &all {
        ensure_eq!(x.to_vec(stream)?, [7; 3000]);
    }
    drop(ranks);
    lab.communicators_are_gone()
}

/// Shares communicators between threads by locks, so that each call is made by another thread.
///
/// - row: no two threads are in NCCL with one communicator
/// - targets: `Communicator::all_reduce_in_place`, `Communicator::check`, `Communicator::timeout`
fn every_call_by_another_thread(lab: &Lab) -> TestResult {
    let (ranks, streams) = ranks(lab, 2)?;
    let x = on_each(&streams, |_| vec![1; 400])?;
    let shared: Vec<_> = ranks.into_iter().zip(x).map(Mutex::new).collect();
    let looked = AtomicBool::new(false);
    let all = shared.iter().zip(&streams).cycle().take(8);
    let seen = each(all, |_, (shared, stream)| -> TestResult {
        for _ in 0..10 {
            let mut both = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let (rank, x) = &mut *both;
            rank.check()?;
            ensure!(rank.timeout() == LONG);
            rank.all_reduce_in_place(stream, x, ReduceOp::Max)?;
            looked.store(true, Ordering::Relaxed);
        }
        Ok(())
    })?;
    seen.into_iter().collect::<TestResult>()?;
    for (shared, stream) in shared.into_iter().zip(&streams) {
        let (_, x) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        ensure_eq!(x.to_vec(stream)?, [1; 400]);
    }
    Ok(())
}

/// Ends the process while ranks wait for peers that never come, while they are aborted, or while drops are under way.
///
/// - row: drops and aborts do not wait
/// - targets: `Communicator::abort_handle`, `Abort::abort`, `Communicator::all_reduce_in_place`
fn exits_with_communicators(lab: &Lab) -> TestResult {
    if lab.step() != "end" {
        let outcome = limited_to(lab.again("end")?, 15)?;
        ensure_eq!(outcome.status.code(), Some(7), "{}", outcome.stderr);
        return Ok(());
    }
    let (mut ranks, streams) = ranks(lab, 2)?;
    works(&mut ranks, &streams)?;
    let mut x = on_each(&streams, |_| vec![1; 3000])?;
    ranks[0].all_reduce_in_place(&streams[0], &mut x[0], ReduceOp::Sum)?;
    match lab.variant() {
        "waiting" => {}
        "aborted" => ranks[1].abort_handle().abort(),
        "dropped" => drop(ranks),
        "leaked" => std::mem::forget((ranks, x)),
        _ => {
            let mut second = ranks.remove(1);
            let (stream, y) = (&streams[1], &mut x[1]);
            thread::scope(|scope| {
                scope.spawn(move || {
                    let _ = second.all_reduce_in_place(stream, y, ReduceOp::Sum);
                    drop(second);
                    std::process::exit(7);
                });
            });
        }
    }
    std::process::exit(7)
}

/// Drops and aborts a communicator of many that use the same streams. The others work on.
///
/// - row: a failure, a drop or a panic leaves no peer
/// - row: a communicator lives until its work is done
/// - targets: `Communicator::abort_handle`, `Communicator::all_reduce_in_place`
fn one_of_many_communicators(lab: &Lab) -> TestResult {
    let config = config(lab)?;
    let (mut kept, streams) = ranks(lab, 2)?;
    works(&mut kept, &streams)?;
    for round in 0..10 {
        let (mut other, own) = ranks_with(lab, 2, &config)?;
        let mut x = on_each(&own, |_| vec![1; 3000])?;
        other[0].all_reduce_in_place(&own[0], &mut x[0], ReduceOp::Sum)?;
        match round % 3 {
            0 => other[1].abort_handle().abort(),
            1 => drop(other.pop()),
            _ => drop(other),
        }
        works(&mut kept, &streams)?;
        is_free(&own[0])?;
    }
    Ok(())
}

attacks![
    "collectives",
    right(aborts_while_calls_run)
        .variants(&["calls", "groups", "checks", "splits"])
        .devices(3)
        .limit(60),
    right(panics_with_peers_that_wait)
        .variants(&["between calls", "building a group", "choosing colours", "holding a slice"])
        .devices(3),
    right(dropped_with_work_under_way)
        .variants(&["in order", "reversed", "by threads", "in captures", "closed"])
        .devices(3),
    right(a_rank_that_never_comes)
        .variants(&["dropped", "aborted", "timed out", "message"])
        .devices(3)
        .without_seed(),
    right(memory_behind_an_abort)
        .variants(&["dropped before", "dropped behind", "used again"])
        .devices(2),
    right(every_call_by_another_thread).devices(2),
    right(exits_with_communicators)
        .variants(&["waiting", "aborted", "dropped", "leaked", "in a thread"])
        .devices(2),
    right(one_of_many_communicators).devices(2),
];
