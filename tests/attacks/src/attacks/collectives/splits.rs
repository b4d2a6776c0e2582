//! Attacks on splits of communicators.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use cuda_nccl::{Communicator, Error, ReduceOp};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{
    LONG, config, each, is_free, made_or_ended, new_ones_work, ranks, ranks_with, works,
};
use crate::attack::attacks;
use crate::lab::Lab;

/// Splits while one rank does not come, makes another call, aborts, is dropped or panics. NCCL may write the new handle
/// long after the call has returned.
///
/// - row: NCCL writes the handle of a new communicator
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Communicator::split`, `Communicator::abort_handle`, `Communicator::set_timeout`
fn splits_that_a_rank_does_not_join(lab: &Lab) -> TestResult {
    for _ in 0..4 {
        let (ranks, streams) = ranks(lab, 3)?;
        let abort = ranks[0].abort_handle();
        let variant = lab.variant();
        let seen = each(ranks.into_iter().zip(&streams), |number, (mut rank, stream)| {
            if number != 2 {
                let limit = if variant == "aborts" || variant == "drops" { 10_000 } else { 100 };
                rank.set_timeout(Duration::from_millis(limit));
                let made = rank.split(Some(1), 0).map(drop);
                let is_timeout = matches!(made, Err(Error::Timeout { .. }));
                return if is_timeout { Ok(()) } else { made_or_ended(made) };
            }
            thread::sleep(Duration::from_millis(10));
            let mut x = DeviceBuffer::from_slice(stream, &[1u32; 10])?;
            match variant {
                "calls" => {
                    let made = rank.all_reduce_in_place(stream, &mut x, ReduceOp::Sum);
                    ensure!(made.is_err());
                }
                "aborts" => rank.abort_handle().abort(),
                "drops" => drop(rank),
                "panics" => {
                    let caught = catch_unwind(AssertUnwindSafe(move || {
                        let _rank = rank;
                        resume_unwind(Box::new("on purpose"))
                    }));
                    let _: Result<(), _> = caught;
                }
                "comes late" => {
                    thread::sleep(Duration::from_millis(91));
                    let made = rank.split(Some(1), 0).map(drop);
                    let is_timeout = matches!(made, Err(Error::Timeout { .. }));
                    return if is_timeout { Ok(()) } else { made_or_ended(made) };
                }
                _ => {
                    thread::sleep(Duration::from_millis(150));
                    ensure!(matches!(rank.check(), Err(Error::Timeout { .. })));
                }
            }
            is_free(stream)
        })?;
        seen.into_iter().collect::<TestResult>()?;
        drop(streams);
        ensure!(abort.wait(LONG));
    }
    new_ones_work(lab, 3)
}

/// Splits again and again: into one, by colours, in reversed order, without a colour, and of what was split; and drops
/// parents before children.
///
/// - row: NCCL writes the handle of a new communicator
/// - row: a communicator lives until its work is done
/// - row: NCCL is never called by ranks of one process that disagree
/// - targets: `Communicator::split_all`, `Communicator::rank`, `Communicator::ranks`, `Communicator::split`
fn splits_of_splits(lab: &Lab) -> TestResult {
    let (mut parents, streams) = ranks(lab, 4)?;
    let reversed = Communicator::split_all(&mut parents, |rank| (Some(3), -(rank as i32)))?;
    let none = Communicator::split_all(&mut parents, |_| (None, 0))?;
    ensure!(none.iter().all(Option::is_none));
    let most = i32::MAX as u32;
    let seen = each(reversed.into_iter().zip(&streams), |number, (rank, stream)| -> TestResult {
        let mut rank = rank.ok_or_else(|| Failure::new("no communicator"))?;
        ensure_eq!((rank.rank(), rank.ranks()), (3 - number, 4));
        for round in 0..6 {
            let color = (number % 2) as u32 * most;
            let pair = rank.split(Some(color), round)?;
            let mut pair = pair.ok_or_else(|| Failure::new("no communicator"))?;
            ensure_eq!((pair.rank(), pair.ranks()), (usize::from(number < 2), 2));
            // In a split of the pair, one rank is alone and the other joins nothing.
            let alone = pair.split((pair.rank() == 0).then_some(9), 0)?;
            ensure!(alone.is_some() == (pair.rank() == 0));
            let mut x = DeviceBuffer::from_slice(stream, &vec![number as u32; 500])?;
            if round % 2 == 0 {
                pair.all_reduce_in_place(stream, &mut x, ReduceOp::Sum)?;
            }
            if let Some(mut alone) = alone {
                alone.all_reduce_in_place(stream, &mut x, ReduceOp::Sum)?;
            }
            if round % 2 == 1 {
                pair.all_reduce_in_place(stream, &mut x, ReduceOp::Sum)?;
            }
            drop(pair);
            // Of ranks 0 and 2, or of 1 and 3.
            ensure_eq!(x.to_vec(stream)?, vec![2 + 2 * (number as u32 % 2); 500]);
        }
        Ok(())
    })?;
    seen.into_iter().collect::<TestResult>()?;
    let children = Communicator::split_all(&mut parents, |rank| (Some(0), rank as i32))?;
    let mut children: Vec<Communicator> = children.into_iter().flatten().collect();
    works(&mut parents, &streams)?;
    drop(parents);
    works(&mut children, &streams)
}

/// Passes colours that NCCL takes for others, and closures that panic. The communicators work on.
///
/// - row: NCCL writes the handle of a new communicator
/// - targets: `Communicator::split_all`, `Communicator::split`
fn colours_that_are_none(lab: &Lab) -> TestResult {
    let refusal = "is above 2147483647";
    let (mut ranks, streams) = ranks(lab, 2)?;
    for color in [1 << 31, u32::MAX] {
        lab.refused(Communicator::split_all(&mut ranks, |_| (Some(color), 0)), refusal)?;
        lab.refused(
            Communicator::split_all(&mut ranks, |rank| (Some(color * rank as u32), 0)),
            refusal,
        )?;
        lab.refused(ranks[0].split(Some(color), 0), refusal)?;
    }
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Communicator::split_all(&mut ranks, |rank| match rank {
            0 => (Some(0), 0),
            _ => resume_unwind(Box::new("on purpose")),
        })
    }));
    ensure!(caught.is_err());
    let nobody: [&mut Communicator; 0] = [];
    ensure!(Communicator::split_all(nobody, |_| (Some(0), 0))?.is_empty());
    works(&mut ranks, &streams)
}

/// Splits only some of the ranks that one thread drives, by a call that waits for the others.
///
/// - row: a failure, a drop or a panic leaves no peer
/// - row: NCCL writes the handle of a new communicator
/// - targets: `Communicator::split_all`, `Config::timeout`
fn splits_of_some_ranks(lab: &Lab) -> TestResult {
    let short = config(lab)?.timeout(Duration::from_millis(50));
    let (mut some, streams): (_, Vec<Stream>) = ranks_with(lab, 3, &short)?;
    let made = Communicator::split_all(&mut some[..2], |_| (Some(0), 0));
    ensure!(matches!(made, Err(Error::Timeout { .. })), "{made:?}");
    for rank in &mut some {
        ensure!(matches!(rank.split(None, 0), Err(Error::Timeout { .. })));
    }
    // Ranks of two communicators in one call, of which one has failed, or is not whole.
    let (mut whole, _) = ranks_with(lab, 3, &short)?;
    let mixed = whole.iter_mut().chain(some.iter_mut().take(1));
    let made = Communicator::split_all(mixed, |_| (Some(0), 0));
    ensure!(matches!(made, Err(Error::Timeout { .. })), "{made:?}");
    works(&mut whole, &streams)?;
    let (mut part, _) = ranks_with(lab, 3, &short)?;
    let mixed = whole.iter_mut().chain(part.iter_mut().take(1));
    let made = Communicator::split_all(mixed, |_| (Some(0), 0));
    ensure!(matches!(made, Err(Error::Timeout { .. })), "{made:?}");
    ensure!(whole.iter().chain(&part).all(|rank| rank.check().is_err()));
    drop((some, whole, part));
    new_ones_work(lab, 3)
}

attacks![
    "collectives",
    right(splits_that_a_rank_does_not_join)
        .variants(&["never comes", "calls", "aborts", "drops", "panics", "comes late"])
        .devices(3)
        .limit(60),
    right(splits_of_splits).devices(4).limit(60),
    refused(colours_that_are_none).devices(2),
    right(splits_of_some_ranks).devices(3),
];
