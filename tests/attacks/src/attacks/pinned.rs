//! Attacks on transfers of pinned memory.

mod futures;
mod lifetime;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Wake, Waker};
use std::time::{Duration, Instant};

use cuda_safe::{DeviceBuffer, PinnedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;
use futures::{
    awaited_in_contexts_that_are_closed, hundreds_of_tasks, polled_after_the_end,
    tasks_behind_an_error, tasks_that_change_threads, wakers_of_transfers_that_are_gone,
    wakers_that_call_the_crate,
};
use lifetime::{
    dropped_in_many_sizes, everything_else_dropped_under_a_transfer, lengths_that_differ,
    pinned_memory_of_many_threads, transfers_between_contexts, transfers_in_a_capture,
};

/// Forgets and drops transfers in flight, and fills new pinned memory at once.
///
/// - row: dropped or forgotten in flight
/// - row: the host can't touch a pinned buffer
/// - targets: `DeviceBuffer::upload_pinned`, `PinnedBuffer::from_slice`
fn transfers_that_nobody_waits_for(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let n = 1 << 16;
    for round in 1..20u32 {
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let transfer =
            x.upload_pinned(&stream, PinnedBuffer::from_slice(&context, &vec![round; n])?)?;
        match lab.variant() {
            "forgotten" => std::mem::forget(transfer),
            _ => drop(transfer),
        }
        let mut next = PinnedBuffer::<u32>::zeroed(&context, n)?;
        next.fill(u32::MAX);
        let seen = x.to_vec(&stream)?;
        ensure!(seen.iter().all(|seen| *seen == round), "round {round} saw {:?}", &seen[..4]);
    }
    Ok(())
}

struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("the waker panics"));
    }
}

/// Awaits transfers with a waker that panics, and then with one that does not.
///
/// - row: wakers, which are code of the executor
/// - row: wakers
/// - targets: `DeviceBuffer::download_pinned`, `Transfer::wait`
fn wakers_that_panic(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let x = DeviceBuffer::from_slice(&stream, &[3u32; 1000])?;
    let counter = Arc::new(Panics(AtomicUsize::new(0)));
    let panicking = Waker::from(counter.clone());
    for _ in 0..5 {
        let transfer = x.download_pinned(&stream, PinnedBuffer::zeroed(&context, 1000)?)?;
        let mut transfer = pin!(transfer);
        let begin = Instant::now();
        loop {
            let mut task = TaskContext::from_waker(&panicking);
            if let std::task::Poll::Ready(done) = transfer.as_mut().poll(&mut task) {
                ensure_eq!(done?[..], [3u32; 1000]);
                break;
            }
            if begin.elapsed() > Duration::from_secs(20) {
                return Err(Failure::new("the transfer did not end"));
            }
            std::thread::yield_now();
        }
    }
    let target = x.download_pinned(&stream, PinnedBuffer::zeroed(&context, 1000)?)?.wait()?;
    ensure_eq!(target[..], [3u32; 1000]);
    Ok(())
}

attacks![
    "pinned",
    right(transfers_that_nobody_waits_for).variants(&["dropped", "forgotten"]),
    right(wakers_that_panic),
    right(hundreds_of_tasks),
    right(polled_after_the_end).variants(&["polled", "waited", "asked", "dropped"]),
    right(tasks_behind_an_error),
    right(tasks_that_change_threads),
    right(wakers_of_transfers_that_are_gone).variants(&["dropped", "waited", "closed"]),
    right(wakers_that_call_the_crate),
    right(everything_else_dropped_under_a_transfer),
    refused(lengths_that_differ),
    right(pinned_memory_of_many_threads),
    right(transfers_between_contexts).variants(&["waited", "dropped", "forgotten"]).devices(2),
    right(transfers_in_a_capture).variants(&["waited", "dropped", "forgotten", "closed"]),
    right(awaited_in_contexts_that_are_closed),
    right(dropped_in_many_sizes).variants(&["pinned", "unified", "registered", "recorded"]),
];
