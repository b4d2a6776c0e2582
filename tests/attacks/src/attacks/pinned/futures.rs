//! Attacks on transfers as futures.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use cuda_safe::{
    Context, DeviceBuffer, Driver, LaunchConfig, PinnedBuffer, Stream, Transfer, kernels,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq, limited_to};

use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: the kernel touches no memory.
    unsafe in r#"extern "C" __global__ void stop() { __trap(); }"# {
        safe fn stop();
    }
}

const N: usize = 1000;

struct Unparks(Thread, AtomicUsize);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

fn unparks() -> Arc<Unparks> {
    Arc::new(Unparks(std::thread::current(), AtomicUsize::new(0)))
}

/// Polls only when woken.
fn block_on<F: Future + Unpin>(mut future: F) -> Result<F::Output, Failure> {
    let counter = unparks();
    let waker = Waker::from(counter.clone());
    let begin = Instant::now();
    let mut woken = 0;
    loop {
        if let Poll::Ready(value) = Pin::new(&mut future).poll(&mut TaskContext::from_waker(&waker))
        {
            return Ok(value);
        }
        while counter.1.load(Ordering::SeqCst) == woken {
            ensure!(begin.elapsed() < Duration::from_secs(15), "the task was not woken");
            std::thread::park_timeout(Duration::from_millis(50));
        }
        woken = counter.1.load(Ordering::SeqCst);
    }
}

fn started(context: &Context, stream: &Stream, value: u32) -> cuda_safe::Result<Transfer<u32>> {
    let mut x = DeviceBuffer::<u32>::zeroed(stream, N)?;
    x.fill(stream, value)?;
    x.download_pinned(stream, PinnedBuffer::zeroed(context, N)?)
}

/// Awaits hundreds of transfers on many streams and several threads, and drops every third while it is pending.
///
/// - row: dropped or forgotten in flight
/// - row: wakers, which are code of the executor
/// - targets: `DeviceBuffer::download_pinned`
pub(super) fn hundreds_of_tasks(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let context = &context;
    let ended = std::thread::scope(|scope| {
        let threads = [0u32, 1, 2].map(|number| {
            scope.spawn(move || -> TestResult {
                let mut all = Vec::new();
                for i in 0..60 {
                    all.push((started(context, &context.stream()?, number * 1000 + i)?, i));
                }
                let waker = Waker::from(unparks());
                for (i, (transfer, _)) in all.iter_mut().enumerate() {
                    // Pending here, and awaited with another waker later.
                    let polled = Pin::new(transfer).poll(&mut TaskContext::from_waker(&waker));
                    if let Poll::Ready(done) = polled {
                        ensure_eq!(done?[..], [number * 1000 + i as u32; N]);
                        drop(all.remove(i));
                        break;
                    }
                }
                all.retain(|(_, i)| i % 3 != 0);
                while let Some((transfer, i)) = all.pop() {
                    ensure_eq!(block_on(transfer)??[..], [number * 1000 + i; N]);
                }
                Ok(())
            })
        });
        threads.map(|thread| thread.join())
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    Ok(())
}

/// Polls a transfer with one waker after another, on several threads, and looks which of them is woken.
///
/// - row: wakers, which are code of the executor
/// - row: a thread may end at any time
/// - targets: `DeviceBuffer::download_pinned`, `Transfer::is_done`
pub(super) fn tasks_that_change_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    for round in 0..10 {
        let mut transfer = started(&context, &stream, round)?;
        let first = unparks();
        let moved = std::thread::scope(|scope| {
            let waker = Waker::from(first.clone());
            scope
                .spawn(move || {
                    let polled = Pin::new(&mut transfer).poll(&mut TaskContext::from_waker(&waker));
                    (transfer, polled)
                })
                .join()
        });
        let (transfer, polled) = moved.map_err(|_| Failure::new("a poll panicked"))?;
        let done = match polled {
            Poll::Ready(done) => done,
            Poll::Pending => block_on(transfer)?,
        };
        ensure_eq!(done?[..], [round; N]);
        let begin = Instant::now();
        while Arc::strong_count(&first) > 1 {
            ensure!(begin.elapsed() < Duration::from_secs(10), "a replaced waker is kept");
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Drops transfers after they were polled, and looks whether their wakers are kept or called.
///
/// - row: dropped or forgotten in flight
/// - row: wakers, which are code of the executor
/// - targets: `DeviceBuffer::download_pinned`, `Transfer::wait`, `Transfer::close`
pub(super) fn wakers_of_transfers_that_are_gone(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    for round in 0..20 {
        let mut transfer = started(&context, &stream, round)?;
        let counter = unparks();
        let waker = Waker::from(counter.clone());
        let polled = Pin::new(&mut transfer).poll(&mut TaskContext::from_waker(&waker));
        drop(waker);
        if polled.is_pending() {
            match lab.variant() {
                "dropped" => drop(transfer),
                "closed" => ensure!(transfer.close().is_ok(), "a transfer was not closed"),
                _ => ensure_eq!(transfer.wait()?[..], [round; N]),
            }
        }
        let woken = counter.1.load(Ordering::SeqCst);
        stream.synchronize()?;
        std::thread::sleep(Duration::from_millis(2));
        if lab.variant() == "dropped" {
            // One that is being called as the transfer is dropped may still come.
            ensure!(counter.1.load(Ordering::SeqCst) <= woken + 1, "woken after the end");
        }
        let begin = Instant::now();
        while Arc::strong_count(&counter) > 1 {
            ensure!(begin.elapsed() < Duration::from_secs(10), "round {round}: a waker is kept");
            std::thread::yield_now();
        }
    }
    context.free_deferred()?;
    Ok(())
}

/// Polls a transfer again after it was ready: the buffer must not come a second time.
///
/// - row: the host can't touch a pinned buffer
/// - targets: `DeviceBuffer::upload_pinned`, `Transfer::wait`
pub(super) fn polled_after_the_end(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut transfer = x.upload_pinned(&stream, PinnedBuffer::from_slice(&context, &[4; N])?)?;
    let mut source = block_on(&mut transfer)??;
    source.fill(5);
    let second = catch_unwind(AssertUnwindSafe(|| match lab.variant() {
        "polled" => block_on(&mut transfer).is_ok_and(|again| again.is_ok()),
        "waited" => transfer.wait().is_ok(),
        "asked" => transfer.is_done().is_ok_and(|done| !done),
        _ => {
            drop(transfer);
            false
        }
    }));
    // A panic or an error: futures need not answer more than once.
    ensure!(!second.unwrap_or(false), "the buffer came twice");
    ensure_eq!(source[..], [5; N]);
    ensure_eq!(x.to_vec(&stream)?, [4; N]);
    Ok(())
}

/// What a waker has at hand when it is called or dropped.
struct Reenters {
    stream: Stream,
    other: Mutex<Option<Transfer<u32>>>,
    results: Arc<Mutex<Vec<cuda_safe::Result<()>>>>,
    task: Thread,
}

impl Reenters {
    fn enter(&self) {
        let work = || -> cuda_safe::Result<()> {
            let context = self.stream.context();
            let mut x = DeviceBuffer::<u32>::zeroed(&self.stream, N)?;
            let up = x.upload_pinned(&self.stream, PinnedBuffer::from_slice(&context, &[3; N])?)?;
            drop(up);
            let other = self.other.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut other) = other {
                // Registers a task, and takes it back.
                let _ = Pin::new(&mut other).poll(&mut TaskContext::from_waker(Waker::noop()));
                drop(other);
            }
            x.to_vec(&self.stream)?;
            context.free_deferred()?;
            context.synchronize()
        };
        let result = work();
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
    }
}

impl Wake for Reenters {
    fn wake(self: Arc<Self>) {
        self.enter();
        self.task.unpark();
    }
}

impl Drop for Reenters {
    fn drop(&mut self) {
        self.enter();
    }
}

/// Calls the crate in a waker, and in what a waker drops: it copies, awaits, collects and waits for the device.
///
/// - row: wakers, which are code of the executor
/// - row: wakers
/// - targets: `DeviceBuffer::download_pinned`, `PinnedBuffer::from_slice`, `Context::free_deferred`
pub(super) fn wakers_that_call_the_crate(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let results = Arc::new(Mutex::new(Vec::new()));
    for round in 0..5 {
        let mut transfer = started(&context, &stream, round)?;
        let reenters = Arc::new(Reenters {
            stream: context.stream()?,
            other: Mutex::new(Some(started(&context, &stream, 99)?)),
            results: results.clone(),
            task: std::thread::current(),
        });
        let weak = Arc::downgrade(&reenters);
        let waker = Waker::from(reenters);
        let begin = Instant::now();
        loop {
            let mut task = TaskContext::from_waker(&waker);
            if let Poll::Ready(done) = Pin::new(&mut transfer).poll(&mut task) {
                ensure_eq!(done?[..], [round; N]);
                break;
            }
            ensure!(begin.elapsed() < Duration::from_secs(15), "the task was not woken");
            std::thread::park_timeout(Duration::from_secs(1));
        }
        drop((waker, transfer));
        while weak.strong_count() > 0 {
            ensure!(begin.elapsed() < Duration::from_secs(15), "the waker is kept");
            std::thread::yield_now();
        }
    }
    let begin = Instant::now();
    loop {
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        if results.len() >= 5 {
            return Ok(results.drain(..).collect::<cuda_safe::Result<()>>()?);
        }
        drop(results);
        ensure!(begin.elapsed() < Duration::from_secs(15), "a waker was not dropped");
        std::thread::yield_now();
    }
}

/// Awaits transfers behind a kernel that stops with a trap, in a process of its own.
///
/// - row: an error wakes a task as the end of the copy does
/// - row: after a fatal error the driver is not asked
/// - targets: `DeviceBuffer::download_pinned`, `PinnedBuffer::zeroed`
pub(super) fn tasks_behind_an_error(lab: &Lab) -> TestResult {
    if lab.step() != "trap" {
        let outcome = limited_to(lab.again("trap")?, 25)?;
        ensure!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
        return Ok(());
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let before = started(&context, &context.stream()?, 6)?;
    ensure_eq!(block_on(before)??[..], [6; N]);
    kernels.stop(&stream, LaunchConfig::new(1, 32))?;
    let behind = [started(&context, &stream, 7), started(&context, &stream, 8)];
    let elsewhere = context.stream().and_then(|other| started(&context, &other, 9));
    for transfer in behind.into_iter().chain([elsewhere]) {
        // Enqueued in time, or refused since the error is known by now.
        let Ok(transfer) = transfer else { continue };
        match block_on(transfer)? {
            // The last one has nothing to do with the kernel, and may have been first.
            Ok(done) => ensure_eq!(done[..], [9; N]),
            Err(error) => ensure!(error.is_fatal(), "{error}"),
        }
    }
    let Err(error) = stream.synchronize() else { return Err(Failure::new("no error")) };
    ensure!(error.is_fatal(), "{error}");
    ensure!(started(&context, &stream, 1).is_err(), "a device that is lost");
    Ok(())
}

/// Awaits transfers of contexts that are closed and opened again between them.
///
/// - row: wakers, which are code of the executor
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Context::close`, `DeviceBuffer::download_pinned`, `Device::context`
pub(super) fn awaited_in_contexts_that_are_closed(_: &Lab) -> TestResult {
    for round in 0..8 {
        let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
        let stream = context.stream()?;
        let mut first = started(&context, &stream, round)?;
        let waker = Waker::from(unparks());
        // Pending or not, one is given up and the other awaited.
        let _ = Pin::new(&mut first).poll(&mut TaskContext::from_waker(&waker));
        drop(first);
        ensure_eq!(block_on(started(&context, &stream, round + 1)?)??[..], [round + 1; N]);
        drop(stream);
        ensure!(context.close().is_ok(), "round {round}: the context is kept by a task");
    }
    Ok(())
}
