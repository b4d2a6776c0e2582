//! Attacks by forks of a process with communicators.

use std::time::Duration;

use cuda_nccl::{Communicator, Group, ReduceOp};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{config, on_each, ranks, works};
use crate::attack::attacks;
use crate::lab::Lab;

/// Forks with communicators alive. The child's calls are refused, and its drops and aborts do nothing to the parent.
///
/// - row: drops and aborts do not wait
/// - row: a forked child does not call the driver
/// - targets: `Communicator::check`, `Communicator::all_reduce_in_place`, `Communicator::split`, `Abort::abort`
fn forked_children(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks(lab, 2)?;
    works(&mut ranks, &streams)?;
    let mut x = on_each(&streams, |_| vec![2; 600])?;
    let abort = ranks[0].abort_handle();
    let config = config(lab)?;
    let contexts = [lab.context_of(0)?, lab.context_of(1)?];
    let (mut given, variant) = (Some((ranks, &mut x)), lab.variant());
    let held = lab.in_fork(|| {
        let Some((mut ranks, x)) = given.take() else { return false };
        match variant {
            "calls" => {
                let called =
                    ranks[0].all_reduce_in_place(&streams[0], &mut x[0], ReduceOp::Sum).is_err();
                let split = ranks[1].split(Some(0), 0).is_err();
                let checked = ranks[1].check().is_err();
                let mut group = Group::new(&mut ranks);
                let grouped = match group.on(0) {
                    Ok(mut on) => on.broadcast(&streams[0], &mut x[0], 0).is_err(),
                    Err(_) => true,
                };
                called && split && checked && grouped
            }
            "drops" => {
                drop(ranks);
                true
            }
            "aborts" => {
                abort.abort();
                abort.abort();
                !abort.wait(Duration::from_millis(5))
            }
            _ => Communicator::all_with(&contexts, &config).is_err(),
        }
    })?;
    ensure!(held, "the child was not refused, or hangs");
    let Some((mut ranks, x)) = given else { return Err(Failure::new("the parent has no ranks")) };
    ensure!(!abort.is_aborted());
    let mut group = Group::new(&mut ranks);
    for (rank, (stream, x)) in streams.iter().zip(&mut *x).enumerate() {
        group.on(rank)?.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
    }
    group.run()?;
    for (stream, x) in streams.iter().zip(&*x) {
        ensure_eq!(x.to_vec(stream)?, [4; 600]);
    }
    works(&mut ranks, &streams)
}

attacks![
    "collectives",
    right(forked_children).variants(&["calls", "drops", "aborts", "makes"]).devices(2),
];
