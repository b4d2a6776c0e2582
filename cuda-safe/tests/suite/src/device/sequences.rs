//! `Stream::graph_lock`: what other threads launch does not come between enqueues that belong together.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use cuda_safe::{Context, DeviceBuffer, Error, Result, Stream};

use super::RawContext;
use super::checks::{all_are, has_panicked, is_invalid, no_drop_errors};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "sequences",
        device(keep_launches_out),
        device(forgotten),
        device(that_panic),
        device(of_threads_that_end),
        device(nested),
        device(of_two_contexts),
    ]
}

const N: usize = 1000;

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, N)
}

fn thread_panicked<T>(_: T) -> Failure {
    Failure::new("a thread panicked".to_owned())
}

/// A graph of another thread that overwrites scratch memory waits until both enqueues are made.
fn keep_launches_out(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let mut graph =
        device.context().capture(zeroed(&one)?, |stream, scratch| scratch.fill(stream, 2))?;
    // The graph goes on using the memory.
    let mut scratch = std::mem::replace(graph.state_mut(), zeroed(&one)?);
    let mut out = zeroed(&one)?;
    let (begun, begins) = mpsc::channel();
    std::thread::scope(|scope| {
        let launching = scope.spawn(move || {
            let _ = begins.recv();
            graph.launch(&two)
        });
        one.graph_lock([scratch.allocation()]).run(|| {
            // Dropped on an error too, so that the other thread does not wait for ever.
            let begun = begun;
            scratch.fill(&one, 1)?;
            let _ = begun.send(());
            // Long enough for a launch that nothing keeps out.
            std::thread::sleep(Duration::from_millis(20));
            out.copy_from(&one, &scratch)
        })?;
        Ok::<_, Failure>(launching.join().map_err(thread_panicked)??)
    })?;
    all_are(&out, &one, 1)?;
    all_are(&scratch, &one, 2)
}

/// A sequence that is never run, and is forgotten, holds nothing.
fn forgotten(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let shared = zeroed(&stream)?;
    let mut out = zeroed(&stream)?;
    let mut graph = device.context().capture((), |stream, ()| out.copy_from(stream, &shared))?;
    std::thread::scope(|scope| {
        let forgetting = scope.spawn(|| std::mem::forget(stream.graph_lock([shared.allocation()])));
        forgetting.join().map_err(thread_panicked)
    })?;
    graph.launch(&stream)?;
    Ok(stream.synchronize()?)
}

/// A panic in a sequence, and in one within it, leaves nothing locked.
fn that_panic(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut graph =
        device.context().capture(zeroed(&stream)?, |stream, data| data.fill(stream, 2))?;
    for depth in 1..3 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let memory = graph.state().allocation();
            let panics = || -> Result<()> { resume_unwind(Box::new("on purpose")) };
            match depth {
                1 => stream.graph_lock([memory]).run(panics),
                _ => stream.graph_lock([memory]).run(|| stream.graph_lock([memory]).run(panics)),
            }
        }));
        has_panicked(panicked)?;
        let launched = std::thread::scope(|scope| scope.spawn(|| graph.launch(&stream)).join());
        launched.map_err(thread_panicked)??;
    }
    all_are(graph.state(), &stream, 2)
}

/// Threads that end during unwinding, or after a sequence, leave nothing locked either: their numbers and
/// their memory are used again by later threads.
fn of_threads_that_end(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut graph =
        device.context().capture(zeroed(&stream)?, |stream, data| data.fill(stream, 2))?;
    for round in 0..8 {
        std::thread::scope(|scope| {
            let sequence = stream.graph_lock([graph.state().allocation()]);
            let ended = scope.spawn(move || {
                sequence.run(|| match round % 2 {
                    0 => Ok(()),
                    _ => resume_unwind(Box::new("on purpose")),
                })
            });
            ensure!(ended.join().is_err() == (round % 2 == 1), "the wrong threads panicked");
            Ok::<_, Failure>(())
        })?;
        let launched = std::thread::scope(|scope| scope.spawn(|| graph.launch(&stream)).join());
        launched.map_err(thread_panicked)??;
    }
    all_are(graph.state(), &stream, 2)
}

/// An inner sequence does not end the outer one, and graphs of this thread may be launched in it.
fn nested(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let mut graph =
        device.context().capture(zeroed(&one)?, |stream, scratch| scratch.fill(stream, 2))?;
    let mut mine = device.context().capture(zeroed(&one)?, |stream, data| data.fill(stream, 7))?;
    let mut scratch = std::mem::replace(graph.state_mut(), zeroed(&one)?);
    let memory = scratch.allocation().clone();
    let mut out = zeroed(&one)?;
    let (begun, begins) = mpsc::channel();
    std::thread::scope(|scope| {
        let launching = scope.spawn(move || {
            let _ = begins.recv();
            graph.launch(&two)
        });
        one.graph_lock([&memory]).run(|| {
            // As above.
            let begun = begun;
            one.graph_lock([&memory]).run(|| scratch.fill(&one, 1))?;
            mine.launch(&one)?;
            let _ = begun.send(());
            std::thread::sleep(Duration::from_millis(20));
            out.copy_from(&one, &scratch)
        })?;
        Ok::<_, Failure>(launching.join().map_err(thread_panicked)??)
    })?;
    all_are(mine.state(), &one, 7)?;
    all_are(&out, &one, 1)
}

/// Two threads nest sequences of two contexts, one this way and one the other way round. Both inner ones are
/// refused: otherwise each would wait for the other.
fn of_two_contexts(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let owner = RawContext::new(driver)?;
    let raw = owner.raw();
    // SAFETY: the token keeps the context alive.
    let foreign = unsafe { Context::from_raw(driver, raw, owner) }?;
    {
        let sides = [device.context(), &foreign].map(|context| {
            let stream = context.stream()?;
            let graph = context.capture(zeroed(&stream)?, |stream, data| data.fill(stream, 2))?;
            Ok::<_, Error>((stream, graph))
        });
        let [(ours, mut our_graph), (theirs, mut their_graph)] = {
            let [ours, theirs] = sides;
            [ours?, theirs?]
        };
        let (our_memory, their_memory) =
            (our_graph.state().allocation().clone(), their_graph.state().allocation().clone());
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            let spawned = scope.spawn(|| {
                ours.graph_lock([&our_memory]).run(|| {
                    both.wait();
                    let inner = theirs.graph_lock([&their_memory]).run(|| Ok(()));
                    let launched = their_graph.launch(&theirs);
                    both.wait();
                    Ok((inner, launched))
                })
            });
            let here = theirs.graph_lock([&their_memory]).run(|| {
                both.wait();
                let inner = ours.graph_lock([&our_memory]).run(|| Ok(()));
                let launched = our_graph.launch(&ours);
                both.wait();
                Ok((inner, launched))
            });
            for (inner, launched) in [spawned.join().map_err(thread_panicked)??, here?] {
                is_invalid(inner, "graphs of another context")?;
                is_invalid(launched, "graphs of another context")?;
            }
            Ok::<_, Failure>(())
        })?;
        // Afterwards, and where nothing is nested, both are free.
        our_graph.launch(&ours)?;
        their_graph.launch(&theirs)?;
        all_are(our_graph.state(), &ours, 2)?;
        all_are(their_graph.state(), &theirs, 2)?;
    }
    no_drop_errors(&foreign)?;
    Ok(foreign.close()?)
}
