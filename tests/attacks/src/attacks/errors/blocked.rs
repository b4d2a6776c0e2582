//! Attacks by streams that can't go on, and by waits beside captures.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use cuda_safe::{
    Context, DeviceBuffer, Event, LaunchConfig, PinnedBuffer, Stream, UnifiedBuffer, kernels,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i reads and writes element i of x, if i < n.
    unsafe in r#"
        extern "C" __global__ void increment(unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += 1;
        }
    "# {
        safe fn increment(x: &mut [u32], n: u32) where n <= x.len();
    }
}

const N: usize = 1000;

/// Keeps a stream from going on until something is sent, or 20 seconds later.
fn block(stream: &Stream) -> Result<(Sender<()>, mpsc::Receiver<bool>), Failure> {
    let (go, goes) = mpsc::channel::<()>();
    let (ended, ends) = mpsc::channel();
    stream.host_function(move || {
        // The receiver is gone if the attack has failed.
        let _ = ended.send(goes.recv_timeout(Duration::from_secs(20)).is_ok());
    })?;
    Ok((go, ends))
}

/// Makes calls of all kinds on other memory and another stream while a stream can't go on.
///
/// Runs without a seed, because a stream without a wait must go on by itself.
///
/// - row: a stream waits only for what it does not wait for already
/// - row: when the host reads, all writes are done
/// - targets: `UnifiedBuffer::host_mut`, `Event::synchronize`, `Context::capture`, `DeviceBuffer::from_slice`,
///   `Context::device`, `Context::driver`
pub(super) fn work_beside_a_blocked_stream(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let kernels = Kernels::load(&context)?;
    let (blocked, stream) = (context.stream()?, context.stream()?);
    ensure!(context.device().driver() == context.driver(), "another driver");
    let mut x = DeviceBuffer::<u32>::zeroed(&blocked, N)?;
    let mut other = UnifiedBuffer::<u32>::pinned(&blocked, N)?;
    let (go, ends) = block(&blocked)?;
    x.upload(&blocked, &[1; N])?;
    other.as_slice_mut().fill(&blocked, 2)?;
    let pending = x.download_pinned(&blocked, PinnedBuffer::zeroed(&context, N)?)?;
    for round in 0..5u32 {
        let mut y = DeviceBuffer::from_slice(&stream, &[round; N])?;
        kernels.increment(&stream, LaunchConfig::cover(N, 64), &mut y, N as u32)?;
        let mut z = y.try_clone(&context.stream()?)?;
        ensure_eq!(z.to_vec(&stream)?, [round + 1; N]);
        let large = DeviceBuffer::from_slice(&stream, &vec![round; 9 << 18])?;
        ensure!(large.to_vec(&stream)?.iter().all(|x| *x == round), "round {round}");
        let pinned = PinnedBuffer::from_slice(&context, &[9u32; N])?;
        let pinned = z.upload_pinned(&stream, pinned)?.wait()?;
        ensure_eq!(z.download_pinned(&stream, pinned)?.wait()?[..], [9; N]);
        let mut unified = UnifiedBuffer::<u32>::managed(&stream, N)?;
        unified.copy_from(&stream, &z)?;
        unified.host_mut()?[0] = 3;
        let event = Event::new(&context)?;
        event.record(&stream)?;
        event.synchronize()?;
        let mut graph = context
            .capture(z, |s, z| kernels.increment(s, LaunchConfig::cover(N, 64), z, N as u32))?;
        graph.launch(&stream)?;
        ensure_eq!(graph.state().to_vec(&stream)?, [10; N]);
        stream.mark()?.synchronize()?;
    }
    ensure!(!pending.is_done()?, "the stream was not blocked");
    ensure!(!blocked.is_done()?, "the stream was not blocked");
    go.send(())?;
    ensure_eq!(pending.wait()?[..], [1; N]);
    ensure_eq!(other.host()?[..], [2; N]);
    ensure!(ends.recv_timeout(Duration::from_secs(10))?, "a call waited for the blocked stream");
    Ok(())
}

/// Drops everything in use by a stream that can't go on: no drop waits for it.
///
/// Runs without a seed, because a stream without a wait must go on by itself.
///
/// - row: a drop never waits, never panics
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::try_clone`, `DeviceBuffer::close`, `Stream::close`, `Event::close`,
///   `DeviceBuffer::download_pinned`, `Context::capture`, `UnifiedBuffer::register`
pub(super) fn drops_beside_a_blocked_stream(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let blocked = context.stream()?;
    let kept = DeviceBuffer::from_slice(&blocked, &[5u32; N])?;
    let mut all: Vec<Box<dyn std::any::Any + Send>> = Vec::new();
    let mut results = Vec::new();
    // Loading a module may wait for the device.
    let modules: Vec<_> = (0..4).map(|_| Kernels::load(&context)).collect::<Result<_, _>>()?;
    let (go, ends) = block(&blocked)?;
    for (round, kernels) in (0u32..).zip(modules) {
        let home = context.stream()?;
        let mut x = DeviceBuffer::from_slice(&home, &[round; N])?;
        results.push((x.try_clone(&blocked)?, round));
        let mut unified = UnifiedBuffer::register(&home, vec![0u32; N])?;
        unified.copy_from(&blocked, &kept)?;
        let pinned = PinnedBuffer::zeroed(&context, N)?;
        all.push(Box::new(x.download_pinned(&blocked, pinned)?));
        let event = Event::new(&context)?;
        event.record(&blocked)?;
        let closed = Event::new(&context)?;
        closed.record(&blocked)?;
        ensure!(closed.close().is_ok(), "an event in use is not closed");
        let mut graph = context.capture(x.try_clone(&home)?, |s, y| y.copy_from(s, &kept))?;
        graph.launch(&blocked)?;
        kernels.increment(&blocked, LaunchConfig::cover(N, 64), &mut x, N as u32)?;
        let last = x.try_clone(&blocked)?;
        ensure!(last.close().is_ok(), "a buffer in use is not closed");
        let reader = context.stream()?;
        reader.wait_stream(&blocked)?;
        ensure!(reader.close().is_ok(), "a stream with work is not closed");
        all.push(Box::new(kernels));
        all.push(Box::new(graph.into_state()));
        all.push(Box::new((event, unified)));
        all.push(Box::new((home, x)));
        all.push(Box::new(PinnedBuffer::<u32>::zeroed(&context, N)?));
    }
    let begin = Instant::now();
    match lab.variant() {
        "forwards" => drop(all),
        "backwards" => while all.pop().is_some() {},
        "another_thread" => std::thread::spawn(move || drop(all))
            .join()
            .map_err(|_| Failure::new("a drop panicked"))?,
        _ => {
            let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _all = all;
                std::panic::resume_unwind(Box::new("on purpose"));
            }));
            ensure!(unwound.is_err_and(|thrown| thrown.is::<&str>()), "another panic");
        }
    }
    ensure!(begin.elapsed() < Duration::from_secs(10), "a drop has waited");
    ensure!(!blocked.is_done()?, "the stream was not blocked");
    go.send(())?;
    for (copy, round) in &results {
        ensure_eq!(copy.to_vec(&blocked)?, [*round; N]);
    }
    ensure!(ends.recv_timeout(Duration::from_secs(10))?, "a drop waited for the blocked stream");
    ensure_eq!(kept.to_vec(&blocked)?, [5; N]);
    Ok(())
}

fn captures(context: &Context, number: u32) -> TestResult {
    let stream = context.stream()?;
    for round in 0..15 {
        let x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
        let mut graph = context.capture(x, |s, x| {
            x.fill(s, number)?;
            x.fill(s, number + round)
        })?;
        graph.launch(&stream)?;
        ensure_eq!(graph.state().to_vec(&stream)?, [number + round; 100]);
    }
    Ok(())
}

/// Captures graphs in some threads while others wait for the whole context, collect, and await transfers.
///
/// - row: a capture is not spoilt by safe calls
/// - row: wakers, which are code of the executor
/// - targets: `Context::synchronize`, `Context::free_deferred`, `Context::capture`, `Context::is_recording`
pub(super) fn captures_race_with_waits(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (context, ended) = (&context, &AtomicBool::new(false));
    let results = std::thread::scope(|scope| {
        let captures = [1000u32, 2000].map(|number| scope.spawn(move || captures(context, number)));
        let waits = scope.spawn(move || -> TestResult {
            while !ended.load(Ordering::SeqCst) {
                drop(PinnedBuffer::<u32>::zeroed(context, 100)?);
                for result in [context.synchronize(), context.free_deferred()] {
                    // Refused while somebody records, and only so.
                    if result.is_err() {
                        lab_refused(result)?;
                    }
                }
                let _ = context.is_recording();
            }
            Ok(())
        });
        let awaits = scope.spawn(move || -> TestResult {
            let stream = context.stream()?;
            let x = DeviceBuffer::from_slice(&stream, &[7u32; N])?;
            while !ended.load(Ordering::SeqCst) {
                let pinned = PinnedBuffer::zeroed(context, N)?;
                let mut transfer = x.download_pinned(&stream, pinned)?;
                let mut task = TaskContext::from_waker(Waker::noop());
                loop {
                    if let Poll::Ready(done) = Pin::new(&mut transfer).poll(&mut task) {
                        ensure_eq!(done?[..], [7; N]);
                        break;
                    }
                    std::thread::yield_now();
                }
            }
            Ok(())
        });
        let captures = captures.map(|thread| thread.join());
        ended.store(true, Ordering::SeqCst);
        captures.into_iter().chain([waits.join(), awaits.join()]).collect::<Vec<_>>()
    });
    for result in results {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    Ok(())
}

/// Checks that a call was refused because of a recording. (`Lab` belongs to one thread.)
fn lab_refused(result: cuda_safe::Result<()>) -> TestResult {
    let Err(error) = result else { return Ok(()) };
    let text = error.to_string();
    ensure!(text.contains("record") && !text.contains("CUDA_ERROR"), "{text}");
    Ok(())
}
