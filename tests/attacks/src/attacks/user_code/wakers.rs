//! Attacks by wakers, which the reactor's thread calls and drops.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, Result, Stream, Transfer};
use test_harness::{TestResult, ensure, ensure_eq};

use super::everything;
use crate::attack::attacks;
use crate::lab::Lab;

const N: usize = 1000;

fn started(context: &Context, stream: &Stream, value: u32) -> Result<Transfer<u32>> {
    let mut x = DeviceBuffer::<u32>::zeroed(stream, N)?;
    x.fill(stream, value)?;
    x.download_pinned(stream, PinnedBuffer::zeroed(context, N)?)
}

/// Blocks the work of a stream until it is dropped. It keeps the stream, which drops functions that have not run.
struct Gate {
    _sender: mpsc::Sender<()>,
    _stream: Stream,
}

/// Returns a transfer that is pending while the gate exists.
fn pending(context: &Context, value: u32) -> Result<(Transfer<u32>, Gate)> {
    let stream = context.stream()?;
    let (sender, opens) = mpsc::channel::<()>();
    stream.host_function(move || {
        let _ = opens.recv_timeout(Duration::from_secs(30));
    })?;
    let transfer = started(context, &stream, value)?;
    Ok((transfer, Gate { _sender: sender, _stream: stream }))
}

/// Panics when it is called, with a value that panics as it is dropped, and panics when it is dropped itself.
struct Bomb(Arc<AtomicUsize>, Arc<AtomicUsize>);

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        resume_unwind(Box::new("a payload is dropped"));
    }
}

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new(Payload));
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        if !thread::panicking() {
            resume_unwind(Box::new("a waker is dropped"));
        }
    }
}

/// Registers wakers that panic as they are called and dropped, and looks whether later tasks are still woken.
///
/// - row: wakers
/// - row: wakers, which are code of the executor
/// - targets: `DeviceBuffer::download_pinned`, `Transfer::wait`
fn wakers_that_panic_when_dropped(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (calls, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for round in 1..6usize {
        let (mut transfer, gate) = pending(&context, 7)?;
        {
            // The reactor has the last handle afterwards, and drops it.
            let waker = Waker::from(Arc::new(Bomb(calls.clone(), drops.clone())));
            let polled = Pin::new(&mut transfer).poll(&mut TaskContext::from_waker(&waker));
            ensure!(polled.is_pending(), "the host function has not run");
        }
        match lab.variant() {
            "replaced" => {
                // The drop of the first waker may panic on this thread.
                drop(catch_unwind(AssertUnwindSafe(|| {
                    let mut task = TaskContext::from_waker(Waker::noop());
                    Pin::new(&mut transfer).poll(&mut task).is_pending()
                })));
                drop(gate);
                ensure_eq!(transfer.wait()?[..], [7; N]);
            }
            "dropped" => {
                drop(catch_unwind(AssertUnwindSafe(|| drop(transfer))));
                drop(gate);
            }
            _ => {
                drop(gate);
                let begin = Instant::now();
                while calls.load(Ordering::SeqCst) < round {
                    ensure!(begin.elapsed() < Duration::from_secs(10), "the task is not woken");
                    thread::yield_now();
                }
                ensure_eq!(transfer.wait()?[..], [7; N]);
            }
        }
        let begin = Instant::now();
        while drops.load(Ordering::SeqCst) < round {
            ensure!(begin.elapsed() < Duration::from_secs(10), "the waker is kept");
            thread::yield_now();
        }
        // Another task is woken, by the same thread.
        let (mut next, gate) = pending(&context, 8)?;
        let (wake, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Sends(Mutex::new(Some(wake)))));
        ensure!(Pin::new(&mut next).poll(&mut TaskContext::from_waker(&waker)).is_pending());
        drop(gate);
        woken.recv_timeout(Duration::from_secs(10))?;
        ensure_eq!(next.wait()?[..], [8; N]);
    }
    if lab.variant() != "woken" {
        ensure_eq!(calls.load(Ordering::SeqCst), 0, "a task that is gone was woken");
    }
    ensure_eq!(DeviceBuffer::from_slice(&stream, &[1u8; 5])?.to_vec(&stream)?, [1; 5]);
    Ok(())
}

/// Says when it is called.
struct Sends(Mutex<Option<mpsc::Sender<()>>>);

impl Wake for Sends {
    fn wake(self: Arc<Self>) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The receiver waits.
            let _ = sender.send(());
        }
    }
}

/// Polls the transfer that it is woken for, launches graphs, and drops the transfer.
struct Polls {
    context: Context,
    transfer: Mutex<Option<Transfer<u32>>>,
    done: Mutex<Option<mpsc::Sender<Result<PinnedBuffer<u32>>>>>,
    graphs: Mutex<Result<()>>,
}

impl Wake for Polls {
    fn wake(self: Arc<Self>) {
        *self.graphs.lock().unwrap_or_else(PoisonError::into_inner) = everything(&self.context);
        // Spurious wakes are allowed: the next one polls again.
        let waker = Waker::from(self.clone());
        let mut place = self.transfer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(transfer) = &mut *place else { return };
        let Poll::Ready(done) = Pin::new(transfer).poll(&mut TaskContext::from_waker(&waker))
        else {
            return;
        };
        drop(place.take());
        if let Some(sender) = self.done.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The receiver waits.
            let _ = sender.send(done);
        }
    }
}

/// Runs whole tasks in their wakers, on the reactor's thread: each records and launches graphs, waits for the device
/// and for a thread, polls its transfer, and drops it.
///
/// - row: wakers
/// - row: wakers, which are code of the executor
/// - targets: `DeviceBuffer::download_pinned`, `PinnedBuffer::zeroed`
fn tasks_that_run_in_their_wakers(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (mut tasks, mut gates) = (Vec::new(), Vec::new());
    for value in 0..4u32 {
        let (transfer, gate) = pending(&context, value)?;
        let (send, receive) = mpsc::channel();
        let task = Arc::new(Polls {
            context: context.clone(),
            transfer: Mutex::new(Some(transfer)),
            done: Mutex::new(Some(send)),
            graphs: Mutex::new(Ok(())),
        });
        let waker = Waker::from(task.clone());
        {
            let mut place = task.transfer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut of = TaskContext::from_waker(&waker);
            let polled = place.as_mut().map(|transfer| Pin::new(transfer).poll(&mut of));
            ensure!(polled.is_some_and(|polled| polled.is_pending()), "the host function has run");
        }
        tasks.push((task, receive, value));
        gates.push(gate);
    }
    // All of them: the device may run a task's function, and nothing else until that has returned.
    drop(gates);
    while let Some((task, receive, value)) = tasks.pop() {
        let done = receive.recv_timeout(Duration::from_secs(10))??;
        ensure_eq!(done[..], [value; N]);
        std::mem::replace(
            &mut *task.graphs.lock().unwrap_or_else(PoisonError::into_inner),
            Ok(()),
        )?;
        let begin = Instant::now();
        while Arc::strong_count(&task) > 1 {
            ensure!(begin.elapsed() < Duration::from_secs(10), "a waker is kept");
            thread::yield_now();
        }
    }
    Ok(())
}

attacks![
    "user_code",
    right(wakers_that_panic_when_dropped).variants(&["woken", "replaced", "dropped"]),
    right(tasks_that_run_in_their_wakers),
];
