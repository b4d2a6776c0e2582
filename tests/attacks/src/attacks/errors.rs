//! Attacks on what happens after errors, and at the end of threads.

mod blocked;
mod contexts;
mod faults;
#[cfg(unix)]
pub(super) mod forked;

use std::cell::RefCell;

use cuda_safe::{DeviceBuffer, Event, Stream};

use crate::harness::{Failure, Lab, TestResult, ensure_eq, list};
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
/// - must: right
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
/// - must: right
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

list![
    handles_left_to_a_thread,
    more_memory_than_there_is,
    calls_beside_a_capture,
    children_beside_work,
    closed_beside_one_handle,
    contexts_closed_by_threads,
    calls_that_fail_in_a_program,
    ends_with_work_in_flight,
    errors_of_many_drops,
    handles_after_a_trap,
    handles_of_a_context_that_is_gone,
    captures_race_with_waits,
    drops_beside_a_blocked_stream,
    work_beside_a_blocked_stream,
    contexts_that_are_called_invalid,
];
