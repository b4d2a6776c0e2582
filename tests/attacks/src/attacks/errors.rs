//! Attacks on what happens after errors, and at the end of threads.

mod blocked;
mod contexts;
mod faults;
#[cfg(unix)]
pub(super) mod forked;

use std::cell::RefCell;

use cuda_safe::{DeviceBuffer, Event, Stream};
use test_harness::{Failure, TestResult, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;
use blocked::{
    captures_race_with_waits, drops_beside_a_blocked_stream, work_beside_a_blocked_stream,
};
use contexts::{
    calls_beside_a_capture, children_beside_work, closed_beside_one_handle,
    contexts_closed_by_threads,
};
use faults::{
    calls_that_fail_in_a_program, contexts_that_are_called_invalid, ends_with_work_in_flight,
    errors_of_many_drops, handles_after_a_trap, handles_of_a_context_that_is_gone,
};

thread_local! {
    static KEPT: RefCell<Vec<(Stream, DeviceBuffer<u32>, Event)>> = const { RefCell::new(Vec::new()) };
}

/// Leaves buffers, streams and events to the destructors of a thread.
///
/// - row: a thread may end at any time
/// - targets: `DeviceBuffer::from_slice`, `Event::new`, `Context::stream`
fn handles_left_to_a_thread(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let left = std::thread::scope(|scope| {
        scope
            .spawn(|| -> cuda_safe::Result<()> {
                for round in 0..10 {
                    let stream = context.stream()?;
                    let x = DeviceBuffer::from_slice(&stream, &[round; 1000])?;
                    let event = Event::new(&context)?;
                    event.record(&stream)?;
                    KEPT.with_borrow_mut(|kept| kept.push((stream, x, event)));
                }
                Ok(())
            })
            .join()
    });
    left.map_err(|_| Failure::new("the thread panicked"))??;
    context.synchronize()?;
    Ok(())
}

/// Asks for more memory than there is, and for sizes that overflow.
///
/// - row: no answer of the driver makes the crate panic
/// - targets: `DeviceBuffer::zeroed`, `DeviceBuffer::uninit`
fn more_memory_than_there_is(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    for n in [usize::MAX, usize::MAX / 8, usize::MAX / 8 + 1, 1 << 60, 1 << 50] {
        if DeviceBuffer::<u64>::zeroed(&stream, n).is_ok()
            || DeviceBuffer::uninit(&stream, n)
                .is_ok_and(|x: DeviceBuffer<std::mem::MaybeUninit<u64>>| x.len() == n)
        {
            return Err(Failure::new(format!("{n} elements")));
        }
    }
    ensure_eq!(DeviceBuffer::from_slice(&stream, &[1u64; 10])?.to_vec(&stream)?, [1; 10]);
    Ok(())
}

attacks![
    "errors",
    right(handles_left_to_a_thread),
    right(more_memory_than_there_is),
    right(calls_beside_a_capture).variants(&[
        "capture",
        "recapture",
        "builder",
        "condition",
        "thread"
    ]),
    right(children_beside_work),
    right(closed_beside_one_handle).variants(&[
        "stream",
        "mark",
        "event",
        "buffer",
        "allocation",
        "pinned",
        "transfer",
        "unified",
        "graph",
        "builder",
        "function"
    ]),
    right(contexts_closed_by_threads),
    right(calls_that_fail_in_a_program)
        .variants(&[
            "cuEventRecord",
            "cuEventCreate",
            "cuStreamWaitEvent",
            "cuMemcpyDtoDAsync_v2",
            "cuMemsetD32Async",
            "cuMemAllocFromPoolAsync",
            "cuMemcpyHtoDAsync_v2",
            "cuLaunchKernel",
            "cuEventSynchronize",
            "cuMemcpyDtoHAsync_v2"
        ])
        .limit(60),
    right(ends_with_work_in_flight).variants(&[
        "leaving",
        "exiting",
        "in_a_function",
        "in_a_thread",
        "forgotten"
    ]),
    right(errors_of_many_drops),
    right(handles_after_a_trap),
    right(handles_of_a_context_that_is_gone).variants(&["before", "between", "after"]),
    right(captures_race_with_waits),
    right(drops_beside_a_blocked_stream)
        .variants(&["forwards", "backwards", "another_thread", "unwinding"])
        .without_seed(),
    right(work_beside_a_blocked_stream).without_seed(),
    right(contexts_that_are_called_invalid)
        .variants(&["CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_CONTEXT_IS_DESTROYED"])
        .limit(60),
];
