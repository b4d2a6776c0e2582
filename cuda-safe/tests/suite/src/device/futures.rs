//! Transfers that are awaited.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use cuda_safe::{DeviceBuffer, PinnedBuffer, Stream, Transfer};

use super::checks::is_invalid;
use super::{MS, SIZES};
use test_harness::programs::Delay;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "futures",
        device(there_and_back),
        device(on_several_streams),
        device(dropped_while_pending).serial(),
        device(polled_with_another_waker),
        device(polled_again_when_over),
        device(a_waker_that_panics),
    ]
}

/// Counts wakes, and lets a thread wait for them.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<usize>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}

impl Bell {
    pub(crate) fn rung(&self) -> usize {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first wake after `seen` of them. A minute is for ever.
    pub(crate) fn wait(&self, seen: usize) -> Result<usize, Failure> {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (rung, timeout) = self
            .changed
            .wait_timeout_while(rung, Duration::from_secs(60), |rung| *rung <= seen)
            .unwrap_or_else(PoisonError::into_inner);
        ensure!(!timeout.timed_out(), "nobody is woken");
        Ok(*rung)
    }
}

/// The smallest executor: polls when woken, and only then.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, Failure> {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut future = pin!(future);
    let mut seen = 0;
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return Ok(output),
            Poll::Pending => seen = bell.wait(seen)?,
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Polls a future whose task was woken once. If the query of the thread that wakes it has failed, the work goes on, and the
/// task is woken once more.
fn finished<F: Future + Unpin>(
    future: &mut F,
    waker: &Waker,
    bell: &Bell,
) -> Result<F::Output, Failure> {
    if let Poll::Ready(output) = poll(future, waker) {
        return Ok(output);
    }
    bell.wait(1)?;
    match poll(future, waker) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(Failure::new("woken twice, and not done")),
    }
}

fn there_and_back(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    let mut rng = device.rng(32);
    for n in SIZES {
        let words = rng.words(n);
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let pinned = PinnedBuffer::from_slice(context, &words)?;
        let copies = async {
            let mut pinned = buffer.upload_pinned(&stream, pinned)?.await?;
            pinned.fill(0xdddd_dddd);
            buffer.download_pinned(&stream, pinned)?.await
        };
        first_difference(&block_on(copies)??, &words)?;
    }
    Ok(())
}

/// Starts a download that takes `milliseconds`, of words that are all `value`.
pub(crate) fn slow(
    device: &TestDevice,
    stream: &Stream,
    value: u32,
    milliseconds: u64,
) -> Result<Transfer<u32>, Failure> {
    let delay = Delay::of(device)?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(stream, 1000)?;
    let time = milliseconds * MS;
    device.count(delay.delayed_fill(stream, (1, 128), &mut buffer, 1000, value, time))?;
    let target = PinnedBuffer::zeroed(device.context(), 1000)?;
    Ok(buffer.download_pinned(stream, target)?)
}

/// Each wakes its own task, in whatever order they end.
fn on_several_streams(device: &TestDevice) -> TestResult {
    let mut transfers = Vec::new();
    for index in 0..6_u32 {
        let stream = device.stream()?;
        let transfer = slow(device, &stream, index, 5 + u64::from(5 - index))?;
        let bell = Arc::new(Bell::default());
        transfers.push((index, transfer, Waker::from(bell.clone()), bell));
    }
    let mut pending = Vec::new();
    for (index, mut transfer, waker, bell) in transfers {
        match poll(&mut transfer, &waker) {
            // Over before it was polled, so that nobody has to be woken. Most are not.
            Poll::Ready(early) => first_difference(&early?, &[index; 1000])?,
            Poll::Pending => pending.push((index, transfer, waker, bell)),
        }
    }
    for (index, mut transfer, waker, bell) in pending {
        bell.wait(0)?;
        ensure_eq!(bell.rung(), 1, "woken once");
        first_difference(&finished(&mut transfer, &waker, &bell)??, &[index; 1000])?;
    }
    Ok(())
}

fn dropped_while_pending(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    context.free_deferred()?;
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut transfer = slow(device, &stream, 1, 30)?;
    let pending = match poll(&mut transfer, &waker) {
        Poll::Ready(words) => words.map(|_| false)?,
        Poll::Pending => true,
    };
    drop(transfer);
    drop(waker);
    // The reactor has let go of the task at once, and there is nothing left to wake.
    ensure_eq!(Arc::strong_count(&bell), 1);
    stream.synchronize()?;
    std::thread::sleep(Duration::from_millis(5));
    ensure!(!pending || bell.rung() == 0);
    if !device.is_instrumented() {
        ensure!(pending, "the kernel before it takes 30 ms");
    }
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);
    Ok(())
}

fn polled_with_another_waker(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (first, second) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    let (one, two) = (Waker::from(first.clone()), Waker::from(second.clone()));
    let mut transfer = slow(device, &stream, 3, 30)?;
    let mut is_pending = |waker| match poll(&mut transfer, waker) {
        Poll::Ready(words) => words.map(|_| false),
        Poll::Pending => Ok(true),
    };
    if is_pending(&one)? && is_pending(&two)? {
        second.wait(0)?;
        ensure_eq!(second.rung(), 1, "the newest waker is woken");
        // Under a seed or a tool the work may complete while the second poll runs, which then wakes both.
        if !device.is_seeded() && !device.is_instrumented() {
            ensure_eq!(first.rung(), 0, "the newest waker is the only one");
        }
        first_difference(&finished(&mut transfer, &two, &second)??, &[3; 1000])?;
    }
    drop((one, two, transfer));
    if first.rung() == 0 {
        ensure_eq!(Arc::strong_count(&first), 1, "let go of when the other came");
    }
    // The thread that has woken one may be about to let go of it still.
    let begin = Instant::now();
    while Arc::strong_count(&first) > 1 || Arc::strong_count(&second) > 1 {
        ensure!(begin.elapsed() < Duration::from_secs(60), "a waker is kept");
        std::thread::yield_now();
    }
    Ok(())
}

fn polled_again_when_over(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut transfer = slow(device, &stream, 4, 1)?;
    first_difference(&block_on(&mut transfer)??, &[4; 1000])?;
    for _ in 0..2 {
        match poll(&mut transfer, Waker::noop()) {
            Poll::Ready(Err(error)) => ensure!(error.to_string().contains("over"), "{error}"),
            Poll::Ready(Ok(_)) => return Err(Failure::new("the buffer is given back twice")),
            Poll::Pending => return Err(Failure::new("over, and pending")),
        }
    }
    is_invalid(transfer.wait(), "over")
}

/// The next task is woken all the same.
fn a_waker_that_panics(device: &TestDevice) -> TestResult {
    struct Panics(AtomicUsize);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            // Without the hook, which would print it.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    let stream = device.stream()?;
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let mut transfer = slow(device, &stream, 5, 20)?;
    if let Poll::Ready(words) = poll(&mut transfer, &Waker::from(panics.clone())) {
        words?;
        ensure!(device.is_instrumented(), "20 ms were over at once");
        return Ok(());
    }
    let next = slow(device, &stream, 6, 5)?;
    first_difference(&block_on(next)??, &[6; 1000])?;
    let begin = Instant::now();
    while panics.0.load(Ordering::SeqCst) == 0 {
        ensure!(begin.elapsed() < Duration::from_secs(60), "nobody is woken");
        std::thread::yield_now();
    }
    first_difference(&transfer.wait()?, &[5; 1000])
}
