//! Attacks on the graph locks of contexts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::attacks::graphs::kit::{Kit, LEN, N, all, on_purpose};
use crate::lab::Lab;

/// Nests the graph locks of two devices in two threads, one this way and one the other way round, by every kind of use.
///
/// - row: two threads that use the graph locks of two contexts
/// - row: closures of `GraphLock::run`, and panic hooks
/// - targets: `Stream::graph_lock`, `GraphLock::run`, `GraphExec::launch`, `DeviceBuffer::upload`,
///   `DeviceBuffer::to_vec`, `DeviceBuffer::fill`, `DeviceBuffer::try_clone`, `DeviceBuffer::download_pinned`
fn locks_of_two_devices(lab: &Lab) -> TestResult {
    let sides = [lab.context_of(0)?, lab.context_of(1)?];
    let both = Barrier::new(2);
    let enter = |own: usize| -> Result<Vec<Result<()>>, Failure> {
        let (mine, other) = (sides[own].stream()?, sides[1 - own].stream()?);
        let held =
            sides[own].capture(DeviceBuffer::<u32>::zeroed(&mine, N)?, |s, x| x.fill(s, 2))?;
        let mut graph =
            sides[1 - own].capture(DeviceBuffer::<u32>::zeroed(&other, N)?, |s, x| x.fill(s, 3))?;
        let mut theirs = std::mem::replace(graph.state_mut(), DeviceBuffer::zeroed(&other, 1)?);
        let memory = theirs.allocation().clone();
        let kit = Kit::load(&sides[1 - own])?;
        let pinned = PinnedBuffer::<u32>::zeroed(&sides[1 - own], N)?;
        let results = mine.graph_lock([held.state().allocation()]).run(|| {
            both.wait();
            let results = vec![
                graph.launch(&other),
                other.graph_lock([&memory]).run(|| Ok(())),
                theirs.fill(&other, 9),
                theirs.upload(&other, &[9; N]),
                theirs.to_vec(&other).map(drop),
                theirs.try_clone(&other).map(drop),
                kit.add(&other, all(), 9, &mut theirs, LEN),
                theirs.download_pinned(&other, pinned).map(drop),
            ];
            both.wait();
            Ok(results)
        })?;
        // Refused, none of them has written. Afterwards all of it works.
        ensure_eq!(theirs.to_vec(&other)?, [0; N]);
        graph.launch(&other)?;
        theirs
            .try_clone(&mine.context().stream()?)
            .map_or(Ok(()), |_| Err(Failure::new("memory of another context was used")))?;
        ensure_eq!(theirs.to_vec(&other)?, [3; N]);
        Ok(results)
    };
    for _ in 0..3 {
        let enter = &enter;
        let results = thread::scope(|scope| {
            let spawned = scope.spawn(move || enter(1));
            (enter(0), spawned.join())
        });
        let there = results.1.map_err(|_| Failure::new("a thread panicked"))??;
        let here = results.0?;
        ensure_eq!((here.len(), there.len()), (8, 8));
        for result in here.into_iter().chain(there) {
            lab.refused(
                result,
                "memory that graphs of one context use can't be used while this thread",
            )?;
        }
    }
    Ok(())
}

/// Records, launches and drops graphs, takes guards of the host and nests sequences in a sequence, while other threads launch a graph of the same memory and must wait.
///
/// - row: closures of `GraphLock::run`, and panic hooks
/// - row: several enqueues that belong together
/// - targets: `Stream::graph_lock`, `GraphLock::run`, `Context::capture`, `UnifiedBuffer::host_mut`,
///   `GraphExec::launch`, `Context::free_deferred`
fn everything_in_a_sequence(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let mut graph =
        context.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| x.fill(s, 50))?;
    let mut x = std::mem::replace(graph.state_mut(), DeviceBuffer::zeroed(&stream, 1)?);
    let memory = x.allocation().clone();
    let mut unified = UnifiedBuffer::<u32>::pinned(&stream, N)?;
    let (begin, begins) = mpsc::channel::<()>();
    let launched = AtomicUsize::new(0);
    let ended = thread::scope(|scope| {
        let (launched, context) = (&launched, &context);
        let launches = scope.spawn(move || -> Result<()> {
            let other = context.stream()?;
            while begins.recv().is_ok() {
                graph.launch(&other)?;
                launched.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
        let work = || -> TestResult {
            for round in 1..6u32 {
                let seen = launched.load(Ordering::SeqCst);
                stream.graph_lock([&memory]).run(|| {
                    x.fill(&stream, round)?;
                    // Wakes the thread, which must not come between.
                    let _ = begin.send(());
                    let mut own =
                        context.capture((), |s, ()| kit.add(s, all(), 100, &mut x, LEN))?;
                    stream.graph_lock([&memory]).run(|| own.launch(&stream))?;
                    drop(own);
                    unified.host_mut()?.fill(round);
                    kit.mix(&stream, all(), &unified, &mut x, LEN)?;
                    context.free_deferred()?;
                    thread::sleep(Duration::from_millis(5));
                    if launched.load(Ordering::SeqCst) != seen {
                        return Err(on_purpose());
                    }
                    unified.copy_from(&stream, &x)
                })?;
                ensure_eq!(unified.host()?[..], [3 * (round + 100) + round; N]);
                while launched.load(Ordering::SeqCst) == seen {
                    ensure!(!launches.is_finished(), "the other thread has ended");
                    thread::yield_now();
                }
                ensure_eq!(x.to_vec(&stream)?, [50; N]);
            }
            Ok(())
        };
        let worked = catch_unwind(AssertUnwindSafe(work));
        drop(begin);
        (worked, launches.join())
    });
    ended.0.map_err(|_| Failure::new("a panic"))??;
    ended.1.map_err(|_| Failure::new("a thread panicked"))??;
    ensure_eq!(launched.load(Ordering::SeqCst), 5);
    Ok(())
}

/// Takes the graph lock of a second device in the drop of what a panic in a sequence unwinds.
///
/// - row: closures of `GraphLock::run`, and panic hooks
/// - row: two threads that use the graph locks of two contexts
/// - targets: `GraphLock::run`, `GraphExec::launch`
fn another_device_while_a_sequence_unwinds(lab: &Lab) -> TestResult {
    struct Launches<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Launches<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let (one, two) = (lab.context_of(0)?, lab.context_of(1)?);
    let (stream, other) = (one.stream()?, two.stream()?);
    let mut here = one.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| x.fill(s, 2))?;
    let mut there = two.capture(DeviceBuffer::<u32>::zeroed(&other, N)?, |s, x| x.fill(s, 3))?;
    let memory = here.state().allocation().clone();
    let mut results = Vec::new();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        stream.graph_lock([&memory]).run(|| -> Result<()> {
            let _within = Launches(|| {
                results.push(there.launch(&other));
                results.push(here.launch(&stream));
            });
            std::panic::panic_any("on purpose")
        })
    }));
    ensure!(unwound.is_err(), "the panic is lost");
    ensure_eq!(results.len(), 2);
    // Its own graph may be launched while it unwinds.
    results.pop().unwrap_or_else(|| Err(on_purpose()))?;
    lab.refused(
        results.pop().unwrap_or(Ok(())),
        "memory that graphs of one context use can't be used while this thread",
    )?;
    ensure_eq!(there.state().to_vec(&other)?, [0; N]);
    ensure_eq!(here.state().to_vec(&stream)?, [2; N]);
    // The lock is free, for this thread and for others.
    two.capture((), |_, ()| Ok(()))?;
    thread::scope(|scope| {
        let launched = scope.spawn(|| here.launch(&stream).and_then(|()| there.launch(&other)));
        launched.join().map_err(|_| Failure::new("a thread panicked"))?.map_err(Failure::from)
    })?;
    ensure_eq!(there.state().to_vec(&other)?, [3; N]);
    Ok(())
}

attacks![
    "user_code",
    refused(locks_of_two_devices).devices(2).limit(20),
    right(everything_in_a_sequence).limit(20),
    refused(another_device_while_a_sequence_unwinds).devices(2).limit(15),
];
