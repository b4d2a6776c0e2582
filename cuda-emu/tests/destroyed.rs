//! Streams that are destroyed while they take part in a capture.

use core::ptr;

use cuda_sys::*;

mod common;
use common::*;

/// A capture with a fork: word 0 is set before the fork, word 1 on the fork if it works.
struct Fork {
    origin: CUstream,
    fork: CUstream,
    target: u64,
}

fn fork(works: bool) -> Fork {
    let (origin, fork, there, target) = (stream(1), stream(1), event(), allocate(64));
    // It does not wait by itself, and the streams of these tests do not wait for it.
    ok!(cuMemsetD32_v2(target, 0, 4));
    ok!(cuCtxSynchronize());
    begin(origin);
    ok!(cuMemsetD32Async(target, 5, 1, origin));
    ok!(cuEventRecord(there, origin));
    ok!(cuStreamWaitEvent(fork, there, 0));
    if works {
        ok!(cuMemsetD32Async(target + 4, 6, 1, fork));
    }
    Fork { origin, fork, target }
}

fn join(fork: &Fork) {
    let back = event();
    ok!(cuEventRecord(back, fork.fork));
    ok!(cuStreamWaitEvent(fork.origin, back, 0));
}

fn is_active(stream: CUstream) -> bool {
    let mut status = CUstreamCaptureStatus(9);
    ok!(cuStreamIsCapturing(stream, &raw mut status));
    status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
}

#[test]
fn a_fork_that_has_joined_may_go() {
    context();
    for works in [true, false] {
        let fork = fork(works);
        join(&fork);
        ok!(cuStreamDestroy_v2(fork.fork));
        assert!(is_active(fork.origin));
        ok!(cuMemsetD32Async(fork.target + 8, 7, 1, fork.origin));
        let graph = end(fork.origin);
        assert_eq!(nodes(graph).len(), if works { 3 } else { 2 });
        run(instantiate(graph), stream(1));
        assert_eq!(words(fork.target, 4), [5, if works { 6 } else { 0 }, 7, 0]);
    }
}

#[test]
fn a_fork_that_has_not_joined_is_missed_at_the_end() {
    context();
    for join_first in [false, true] {
        let fork = fork(true);
        if join_first {
            // Work behind the join is not joined.
            join(&fork);
            ok!(cuMemsetD32Async(fork.target + 12, 8, 1, fork.fork));
        }
        ok!(cuStreamDestroy_v2(fork.fork));
        assert!(is_active(fork.origin));
        let mut graph = ptr::dangling_mut();
        fails!(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(fork.origin, &raw mut graph));
        assert!(graph.is_null());
        // The origin works again.
        ok!(cuMemsetD32Async(fork.target, 9, 1, fork.origin));
        ok!(cuStreamSynchronize(fork.origin));
    }
}

#[test]
fn an_event_joins_a_fork_that_is_gone() {
    context();
    let (fork, back) = (fork(true), event());
    ok!(cuEventRecord(back, fork.fork));
    ok!(cuStreamDestroy_v2(fork.fork));
    ok!(cuStreamWaitEvent(fork.origin, back, 0));
    let graph = end(fork.origin);
    assert_eq!(nodes(graph).len(), 2);
}

#[test]
fn a_capture_ends_with_its_origin() {
    context();
    let fork = fork(true);
    ok!(cuStreamDestroy_v2(fork.origin));
    assert!(!is_active(fork.fork));
    ok!(cuMemsetD32Async(fork.target + 4, 3, 1, fork.fork));
    ok!(cuStreamSynchronize(fork.fork));
    assert_eq!(words(fork.target, 2), [0, 3]);
}
