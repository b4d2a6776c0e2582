//! Attacks on collectives: ranks that disagree, and slices that do not fit.

pub(super) mod circles;
pub(super) mod ends;
#[cfg(unix)]
pub(super) mod forks;
mod kit;
pub(super) mod order;
pub(super) mod splits;

use std::sync::Barrier;

use cuda_nccl::{Communicator, Group, ReduceOp, Result};
use cuda_safe::{DeviceBuffer, DeviceSliceMut, Stream, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;
use kit::{
    Guarded, config, each, is_free, made_or_ended, new_ones_work, on_each, ranks, ranks_with, works,
};

/// Makes one call of two kinds, of which the variant says how they differ.
fn one_or_other(
    variant: &str,
    is_other: bool,
    rank: &mut Communicator,
    stream: &Stream,
    mut x: DeviceSliceMut<'_, u32>,
) -> Result<()> {
    let (sum, len) = (ReduceOp::Sum, x.len());
    match (variant, is_other) {
        ("lengths", true) => rank.all_reduce_in_place(stream, x.slice_mut(..len / 2)?, sum),
        ("types", true) => rank.all_reduce_in_place(stream, x.cast_mut::<i32>()?, sum),
        ("operations", true) => rank.all_reduce_in_place(stream, x, ReduceOp::Min),
        ("kinds", true) => rank.all_gather_in_place(stream, x),
        ("kinds", false) => rank.reduce_scatter_in_place(stream, x, sum),
        ("roots", _) => rank.broadcast(stream, x, usize::from(is_other)),
        ("messages", true) => rank.recv(stream, x.slice_mut(..len / 2)?, 0),
        ("messages", false) => rank.send(stream, &x, 1),
        ("directions", _) => rank.send(stream, &x, 1 - rank.rank()),
        ("message or not", true) => rank.recv(stream, x, 0),
        ("splits", true) => rank.split(Some(0), 0).map(drop),
        _ => rank.all_reduce_in_place(stream, x, sum),
    }
}

/// Lets two threads make calls that differ, at the same time, with memory behind both slices that must stay as it is.
///
/// - row: NCCL is never called by ranks of one process that disagree
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Communicator::all_with`, `Communicator::all_reduce_in_place`, `Communicator::broadcast`,
///   `Communicator::send`, `Communicator::recv`, `Communicator::abort_handle`
fn threads_that_disagree(lab: &Lab) -> TestResult {
    let (values, variant): (Vec<u32>, _) = ((0..3000).collect(), lab.variant());
    for round in 0..8 {
        let (mut ranks, streams) = ranks(lab, 2)?;
        works(&mut ranks, &streams)?;
        let abort = ranks[0].abort_handle();
        let begin = &Barrier::new(2);
        let both = each(ranks.iter_mut().zip(&streams), |number, (rank, stream)| -> TestResult {
            let mut x = Guarded::new(stream, &values)?;
            begin.wait();
            if (number + round) % 2 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(50 * round as u64));
            }
            let made = one_or_other(variant, number == 1, rank, stream, x.inside()?);
            made_or_ended(made)?;
            // Nobody waits for a peer that has called something else.
            if variant == "directions" || variant == "message or not" {
                rank.abort_handle().abort();
            }
            is_free(stream)?;
            ensure_eq!(x.values(stream)?.len(), values.len());
            Ok(())
        })?;
        both.into_iter().collect::<TestResult>()?;
        drop(ranks);
        ensure!(abort.wait(kit::LONG), "the communicators are still there");
    }
    new_ones_work(lab, 2)
}

/// Gives one group calls of ranks that differ. Nothing is enqueued, and all ranks work on.
///
/// - row: NCCL is never called by ranks of one process that disagree
/// - targets: `Group::new`, `Group::on`, `Group::run`
fn groups_that_disagree(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 3)?;
    let (mut x, mut y) = (on_each(&streams, |_| vec![3; 90])?, on_each(&streams, |_| vec![4; 90])?);
    let sum = ReduceOp::Sum;
    for odd in 0..3 {
        let mut group = Group::new(&mut ranks);
        for (rank, (x, y)) in x.iter_mut().zip(&mut y).enumerate() {
            let (mut on, stream) = (group.on(rank)?, &streams[rank]);
            match (lab.variant(), rank == odd) {
                ("length", true) => on.all_reduce_in_place(stream, x.slice_mut(..89)?, sum)?,
                ("type", true) => {
                    let x = x.as_slice_mut().cast_mut::<f32>()?;
                    on.all_reduce_in_place(stream, x, sum)?;
                }
                ("operation", true) => on.all_reduce_in_place(stream, x, ReduceOp::Max)?,
                ("kind", true) => on.broadcast(stream, x, 0)?,
                ("root", _) => on.broadcast(stream, x, (rank == odd).into())?,
                ("order", true) => {
                    on.broadcast(stream, y, 0)?;
                    on.all_reduce_in_place(stream, x, sum)?;
                }
                ("order", false) => {
                    on.all_reduce_in_place(stream, x, sum)?;
                    on.broadcast(stream, y, 0)?;
                }
                ("number", true) => {
                    on.all_reduce_in_place(stream, x, sum)?;
                    on.all_reduce_in_place(stream, y, sum)?;
                }
                // Each rank sends, and receives less than it is sent by one of them.
                ("message", is_odd) => {
                    let least = if is_odd { 88 } else { 90 };
                    on.send(stream, &*x, (rank + 1) % 3)?;
                    on.recv(stream, y.slice_mut(..least)?, (rank + 2) % 3)?;
                }
                _ => on.all_reduce_in_place(stream, x, sum)?,
            }
        }
        lab.refused(group.run(), "but that of rank")?;
        for (stream, (x, y)) in streams.iter().zip(x.iter().zip(&y)) {
            ensure_eq!(x.to_vec(stream)?, [3; 90]);
            ensure_eq!(y.to_vec(stream)?, [4; 90]);
        }
        works(&mut ranks, &streams)?;
    }
    Ok(())
}

/// Lets one rank run ahead, and another disagree in the middle of what is enqueued: everything that waits for it must end.
///
/// - row: NCCL is never called by ranks of one process that disagree
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Communicator::all_reduce_in_place`, `Communicator::check`
fn disagreement_behind_the_other(lab: &Lab) -> TestResult {
    let refusal = "but that of rank";
    for good in [0, 1, 10] {
        let (mut ranks, streams) = ranks(lab, 2)?;
        let mut x = Guarded::new(&streams[0], &[1; 500])?;
        let mut y = Guarded::new(&streams[1], &[1; 500])?;
        let sum = ReduceOp::Sum;
        let mut ranks = ranks.iter_mut();
        let (Some(first), Some(second)) = (ranks.next(), ranks.next()) else { return Ok(()) };
        for _ in 0..20 {
            first.all_reduce_in_place(&streams[0], x.inside()?, sum)?;
        }
        for _ in 0..good {
            second.all_reduce_in_place(&streams[1], y.inside()?, sum)?;
        }
        let less = y.inside()?;
        let (less, _) = less.split_at_mut(499)?;
        lab.refused(second.all_reduce_in_place(&streams[1], less, sum), refusal)?;
        lab.refused(first.check(), refusal)?;
        lab.refused(first.all_reduce_in_place(&streams[0], x.inside()?, sum), refusal)?;
        for (stream, memory) in [(&streams[0], &x), (&streams[1], &y)] {
            is_free(stream)?;
            ensure_eq!(memory.values(stream)?.len(), 500);
        }
    }
    new_ones_work(lab, 2)
}

/// Records calls, whose launches nothing compares, without the unsafe promise for them.
///
/// - row: NCCL is never called by ranks of one process that disagree
/// - targets: `Communicator::all_reduce`, `Group::on`
fn recorded_without_the_promise(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    let context = lab.context_of(0)?;
    let state = (
        DeviceBuffer::from_slice(&streams[0], &[2u32; 50])?,
        DeviceBuffer::<u32>::zeroed(&streams[0], 50)?,
    );
    let mut refused = Ok(());
    let mut graph = context.capture(state, |stream, (x, y)| {
        refused = if lab.variant() == "call" {
            ranks[0].all_reduce(stream, &*x, &mut *y, ReduceOp::Sum)
        } else {
            let mut group = Group::new(&mut ranks);
            let added = group.on(0).and_then(|mut on| on.broadcast(stream, &mut *y, 0));
            added.and_then(|()| group.run())
        };
        y.copy_from(stream, &*x)
    })?;
    graph.launch(&streams[0])?;
    ensure_eq!(graph.state().1.to_vec(&streams[0])?, [2; 50]);
    drop(graph);
    lab.refused(refused, "allow_recording")?;
    works(&mut ranks, &streams)
}

/// Gives a rank memory or a stream of another device, also where its kernels could use that.
///
/// - row: a collective stays inside its slices
/// - targets: `Communicator::all_reduce`, `Communicator::all_reduce_in_place`, `Communicator::context`, `Group::on`
fn memory_of_another_device(lab: &Lab) -> TestResult {
    let refusal = "belongs to another context than the communicator of rank 0";
    let (mut ranks, streams) = ranks(lab, 2)?;
    if lab.variant() == "with peer access" {
        ranks[0].context().enable_peer_access(ranks[1].context())?;
        ranks[1].context().enable_peer_access(ranks[0].context())?;
    }
    let (sum, own, far) = (ReduceOp::Sum, &streams[0], &streams[1]);
    let mut x = DeviceBuffer::from_slice(own, &[1u32; 30])?;
    let mut y = DeviceBuffer::from_slice(far, &[1u32; 30])?;
    let mut seen = UnifiedBuffer::<u32>::managed(far, 30)?;
    let rank = &mut ranks[0];
    lab.refused(rank.all_reduce(own, &y, &mut x, sum), refusal)?;
    lab.refused(rank.all_reduce(own, &x, &mut y, sum), refusal)?;
    lab.refused(rank.all_reduce_in_place(far, &mut x, sum), refusal)?;
    lab.refused(rank.broadcast(own, &mut seen, 0), refusal)?;
    lab.refused(rank.broadcast(own, y.slice_mut(..0)?, 0), refusal)?;
    lab.refused(rank.send(own, &y, 1), refusal)?;
    let mut group = Group::new(&mut ranks);
    lab.refused(group.on(0)?.recv(own, &mut y, 1), refusal)?;
    lab.refused(group.on(0)?.all_gather_in_place(far, &mut x), refusal)?;
    group.run()?;
    ensure_eq!(x.to_vec(own)?, [1; 30]);
    ensure_eq!(y.to_vec(far)?, [1; 30]);
    works(&mut ranks, &streams)
}

/// Passes slices of lengths that do not fit, roots and peers that are no ranks, and parts that can't be divided.
///
/// - row: a collective stays inside its slices
/// - targets: `Communicator::all_gather`, `Communicator::reduce_scatter`, `Communicator::all_to_all`,
///   `Communicator::gather`, `Communicator::scatter`, `Communicator::reduce`, `Communicator::broadcast_from`
fn lengths_that_do_not_fit(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    let (sum, s) = (ReduceOp::Sum, &streams[0]);
    let x = DeviceBuffer::from_slice(s, &[1u32; 7])?;
    let mut y = DeviceBuffer::from_slice(s, &[2u32; 6])?;
    let mut odd = DeviceBuffer::from_slice(s, &[3u32; 7])?;
    let rank = &mut ranks[0];
    for (result, text) in [
        (rank.all_reduce(s, &x, &mut y, sum), "same length"),
        (rank.all_gather(s, &x, &mut y), "has 6 elements, and that of one has 7"),
        (rank.all_gather(s, x.slice(..0)?, &mut y), "has 6 elements, and that of one has 0"),
        (rank.reduce_scatter(s, &x, &mut y, sum), "has 7 elements"),
        (rank.all_to_all(s, &x, &mut y), "same length"),
        (rank.all_to_all(s, &x, &mut odd), "divided"),
        (rank.all_gather_in_place(s, &mut odd), "divided"),
        (rank.reduce_scatter_in_place(s, &mut odd, sum), "divided"),
        (rank.gather(s, &x, Some(y.as_slice_mut()), 0), "has 6 elements"),
        (rank.gather(s, &x, None, 0), "no slice"),
        (rank.scatter(s, Some(x.as_slice()), &mut y, 0), "has 7 elements"),
        (rank.scatter(s, None, &mut y, 0), "no slice"),
        (rank.reduce(s, &x, Some(y.as_slice_mut()), sum, 0), "same length"),
        (rank.reduce(s, &x, None, sum, 0), "no slice"),
        (rank.broadcast_from(s, Some(x.as_slice()), &mut y, 0), "same length"),
        (rank.broadcast_from(s, None, &mut y, 0), "no slice"),
        (rank.broadcast(s, &mut y, 2), "no rank 2"),
        (rank.broadcast(s, &mut y, usize::MAX), "no rank"),
        (rank.reduce_in_place(s, &mut y, sum, 1 << 32), "no rank"),
        (rank.send(s, &x, 0), "itself"),
        (rank.recv(s, &mut y, 3), "no rank 3"),
    ] {
        lab.refused(result, text)?;
    }
    lab.refused(Group::new(&mut ranks).on(2).map(drop), "no communicator 2")?;
    ensure_eq!(x.to_vec(s)?, [1; 7]);
    ensure_eq!(y.to_vec(s)?, [2; 6]);
    ensure_eq!(odd.to_vec(s)?, [3; 7]);
    works(&mut ranks, &streams)
}

/// Runs every collective on slices in the middle of buffers, of lengths that leave parts of blocks and of chunks, and of 0.
///
/// - row: a collective stays inside its slices
/// - targets: `Communicator::all_gather_in_place`, `Communicator::reduce_scatter_in_place`,
///   `Communicator::reduce_in_place`, `Communicator::all_to_all`, `Communicator::broadcast`
fn neighbours_of_slices(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 3)?;
    let sum = ReduceOp::Sum;
    for part in [0, 1, 31, 33, 1000] {
        let value = |rank: usize, i: usize| (1 + rank * 10_000 + i) as u32;
        let input = |rank: usize| (0..3 * part).map(|i| value(rank, i)).collect::<Vec<_>>();
        let added = |i: usize| (0..3).map(|rank| value(rank, i)).sum::<u32>();
        for kind in 0..6 {
            let seen = each(ranks.iter_mut().zip(&streams), |number, (rank, stream)| {
                let mut x = Guarded::new(stream, &input(number))?;
                let mut y = Guarded::new(stream, &vec![9; 3 * part])?;
                match kind {
                    0 => rank.all_reduce_in_place(stream, x.inside()?, sum)?,
                    1 => rank.reduce_in_place(stream, x.inside()?, sum, 2)?,
                    2 => rank.broadcast(stream, x.inside()?, 1)?,
                    3 => rank.all_gather_in_place(stream, x.inside()?)?,
                    4 => rank.reduce_scatter_in_place(stream, x.inside()?, sum)?,
                    _ => rank.all_to_all(stream, &x.inside()?, y.inside()?)?,
                }
                let seen = (x.values(stream)?, y.values(stream)?);
                Ok::<_, Failure>(seen)
            })?;
            for (number, seen) in seen.into_iter().enumerate() {
                let (x, y) = seen?;
                let own = number * part..(number + 1) * part;
                let is_right = (0..3 * part).all(|i| match kind {
                    0 => x[i] == added(i),
                    1 => x[i] == if number == 2 { added(i) } else { value(number, i) },
                    2 => x[i] == value(1, i),
                    3 => x[i] == value(i / part, i),
                    4 => !own.contains(&i) || x[i] == added(i),
                    _ => y[i] == value(i / part, own.start + i % part),
                });
                ensure!(is_right, "kind {kind}, rank {number}, parts of {part}: {x:?} {y:?}");
            }
        }
    }
    Ok(())
}

/// Puts communicators of two libraries in one group, and splits them together.
///
/// - row: NCCL is given no handle of another driver
/// - targets: `Group::new`, `Group::on`, `Communicator::split_all`
fn communicators_of_two_libraries(lab: &Lab) -> TestResult {
    let refusal = "different NCCL libraries";
    let (mut one, streams) = ranks_with(lab, 2, &config(lab)?)?;
    let (mut two, _) = ranks_with(lab, 2, &config(lab)?)?;
    let mut x = on_each(&streams, |_| vec![1; 10])?;
    let mut group = Group::new(one.iter_mut().chain(&mut two));
    for (index, (stream, x)) in [0, 3].into_iter().zip(streams.iter().zip(&mut x)) {
        lab.refused(group.on(index)?.broadcast(stream, x, 0), refusal)?;
    }
    group.run()?;
    let both = one.iter_mut().chain(&mut two);
    lab.refused(Communicator::split_all(both, |_| (Some(0), 0)), refusal)?;
    works(&mut one, &streams)?;
    works(&mut two, &streams)
}

/// Makes communicators of contexts that are none, twice the same, or of a library that may be on the machine.
///
/// - row: NCCL is given no handle of another driver
/// - row: NCCL writes the handle of a new communicator
/// - targets: `Communicator::all`, `Communicator::all_with`
fn communicators_of_no_contexts(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let config = config(lab)?;
    let twice = [a.clone(), b.clone(), a.clone()];
    lab.refused(Communicator::all_with(&[], &config), "at least one rank")?;
    lab.refused(Communicator::all_with(&twice, &config), "both of device 0")?;
    let odd = config.clone().blocks(3, 2);
    lab.refused(Communicator::all_with(&twice[..2], &odd), "thread blocks")?;
    // The system's NCCL, if there is one, calls another driver than these contexts'.
    ensure!(Communicator::all(&[a, b]).is_err());
    new_ones_work(lab, 2)
}

attacks![
    "collectives",
    right(threads_that_disagree)
        .variants(&[
            "lengths",
            "types",
            "operations",
            "kinds",
            "roots",
            "messages",
            "directions",
            "message or not",
            "splits"
        ])
        .devices(2)
        .limit(60),
    refused(groups_that_disagree)
        .variants(&["length", "type", "operation", "kind", "root", "order", "number", "message"])
        .devices(3),
    refused(disagreement_behind_the_other).devices(2),
    refused(recorded_without_the_promise).variants(&["call", "group"]).devices(2),
    refused(memory_of_another_device).variants(&["alone", "with peer access"]).devices(2),
    right(lengths_that_do_not_fit).devices(2),
    right(neighbours_of_slices).devices(3).limit(60),
    refused(communicators_of_two_libraries).devices(2),
    right(communicators_of_no_contexts).devices(2),
];
