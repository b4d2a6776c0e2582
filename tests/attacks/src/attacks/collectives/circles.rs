//! Attacks by work of collectives that waits for itself.

use std::time::Duration;

use cuda_nccl::{Communicator, ReduceOp};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Failure, TestResult, ensure};

use super::kit::{config, is_free, new_ones_work, on_each, ranks_with};
use crate::attack::attacks;
use crate::lab::Lab;

/// How long work may wait.
const SHORT: Duration = Duration::from_secs(2);

/// Makes calls of two communicators in one order on one device, and in the other order on the other device, and drops the
/// communicators: each device waits for the other, until the time limit ends the work.
///
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Communicator::all_reduce_in_place`
fn crossed_communicators_that_are_dropped(lab: &Lab) -> TestResult {
    let config = config(lab)?.timeout(SHORT);
    let (mut a, streams) = ranks_with(lab, 2, &config)?;
    let (mut b, _) = ranks_with(lab, 2, &config)?;
    let (mut x, mut y) = (on_each(&streams, |_| vec![1; 10])?, on_each(&streams, |_| vec![1; 10])?);
    let call = |rank: &mut Communicator, stream: &Stream, x: &mut DeviceBuffer<u32>| {
        rank.all_reduce_in_place(stream, x, ReduceOp::Sum)
    };
    let ([a0, a1], [b0, b1]) = (&mut a[..], &mut b[..]) else {
        return Err(Failure::new("two ranks"));
    };
    let ([x0, x1], [y0, y1]) = (&mut x[..], &mut y[..]) else {
        return Err(Failure::new("two ranks"));
    };
    let [s0, s1] = &streams[..] else { return Err(Failure::new("two ranks")) };
    std::thread::scope(|scope| {
        scope.spawn(move || call(a0, s0, x0).and_then(|()| call(b0, s0, y0)));
        scope.spawn(move || call(b1, s1, y1).and_then(|()| call(a1, s1, x1)));
    });
    drop((a, b));
    for stream in &streams {
        is_free(stream)?;
    }
    new_ones_work(lab, 2)
}

/// Makes the call of a rank wait on the device for the call of another rank that waits for it. In the first call of a kind
/// the library loads a kernel, and so waits for the device.
///
/// - row: a failure, a drop or a panic leaves no peer
/// - targets: `Communicator::all_reduce_in_place`, `Stream::wait_stream`
fn a_call_that_waits_for_itself(lab: &Lab) -> TestResult {
    let (mut ranks, streams) = ranks_with(lab, 2, &config(lab)?.timeout(SHORT))?;
    let mut x = on_each(&streams, |_| vec![1; 10])?;
    ranks[1].all_reduce_in_place(&streams[1], &mut x[1], ReduceOp::Sum)?;
    streams[0].wait_stream(&streams[1])?;
    let called = ranks[0].all_reduce_in_place(&streams[0], &mut x[0], ReduceOp::Sum);
    let waited = called.and_then(|()| ranks[0].synchronize(&streams[0]));
    ensure!(waited.is_err(), "a circle has ended by itself");
    drop(ranks);
    for stream in &streams {
        is_free(stream)?;
    }
    new_ones_work(lab, 2)
}

attacks![
    "collectives",
    right(crossed_communicators_that_are_dropped).devices(2).limit(60),
    right(a_call_that_waits_for_itself).devices(2).limit(60),
];
