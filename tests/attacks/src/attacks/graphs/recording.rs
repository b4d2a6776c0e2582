//! Attacks on what a recording can hold, and on what comes of it when it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use cuda_safe::{
    DeviceBuffer, Event, GraphBuilder, LaunchConfig, Module, PinnedBuffer, Stream, UnifiedBuffer,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kit, LEN, N, all, on_purpose, unnamed};
use crate::attack::attacks;
use crate::lab::Lab;

/// Waits, asks and downloads in every way inside a capture, and goes on recording after each error.
///
/// - row: a capture is not spoilt by safe calls
/// - targets: `Stream::mark`, `Stream::synchronize`, `Context::free_deferred`, `Context::memory_info`,
///   `DeviceBuffer::download`, `Stream::host_function`
fn every_wait_inside_a_capture(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let y = DeviceBuffer::from_slice(&stream, &[3u32; N])?;
    let event = Event::timing(&context)?;
    event.record(&stream)?;
    let mark = stream.mark()?;
    let pending = y.download_pinned(&stream, PinnedBuffer::zeroed(&context, N)?)?;
    let mut unified = UnifiedBuffer::<u32>::managed(&stream, N)?;
    let state = (x, Vec::new(), Some(pending));
    let mut graph = context.capture(state, |s, (x, accepted, pending)| {
        let mut must_fail = |name: &'static str, ok: bool| {
            if ok {
                accepted.push(name);
            }
        };
        must_fail("synchronize", s.synchronize().is_ok());
        must_fail("is_done", s.is_done().is_ok());
        must_fail("to_vec", x.to_vec(s).is_ok());
        must_fail("download", y.download(s, &mut [0; N]).is_ok());
        must_fail("mark", s.mark().is_ok());
        must_fail("host_function", s.host_function(|| ()).is_ok());
        must_fail("wait_event", s.wait_event(&event).is_ok());
        must_fail("wait_stream", s.wait_stream(&stream).is_ok());
        must_fail("waited for", stream.wait_stream(s).is_ok());
        must_fail("context", context.synchronize().is_ok());
        kit.add(s, all(), 1, &mut *x, LEN)?;
        // These may be refused or not; none may spoil the capture.
        let _ = s.wait_mark(&mark);
        let _ = context.free_deferred();
        let _ = context.memory_info();
        let _ = context.trim_pool(0);
        let _ = s.priority();
        let _ = event.synchronize();
        let _ = event.is_done();
        let _ = pending.as_ref().map(|pending| pending.is_done());
        let _ = unified.host_mut().map(|mut host| host[0] = 5);
        let _ = unified.prefetch_to_device(s);
        let _ = y.to_vec(&stream);
        let _ = PinnedBuffer::<u32>::zeroed(&context, 3).map(PinnedBuffer::close);
        let _ = y.try_clone(&stream).map(DeviceBuffer::close);
        let _ = kit.add_kernel().load();
        let _ = kit.add_kernel().attributes();
        let _ = Module::compile(&context, r#"extern "C" __global__ void once(int* x) { *x = 1; }"#)
            .map(Module::close);
        kit.add(s, all(), 2, x, LEN)
    })?;
    graph.launch(&stream)?;
    let (x, accepted, pending) = graph.into_state();
    ensure!(accepted.is_empty(), "accepted: {accepted:?}");
    ensure_eq!(x.to_vec(&stream)?, [3; N]);
    if let Some(pending) = pending {
        ensure_eq!(pending.wait()?[..], [3; N]);
    }
    Ok(())
}

/// Records events in a capture, and waits for them outside, in another capture, and after the capture has ended.
///
/// - row: a capture is not spoilt by safe calls
/// - targets: `Event::record`, `Stream::wait_event`, `Event::elapsed_ms`, `Event::timing`, `Event::close`
fn events_of_ended_captures(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let (inside, joined) = (Event::new(&context)?, Event::new(&context)?);
    let timed = Event::timing(&context)?;
    let before = Event::timing(&context)?;
    before.record(&stream)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture(x, |s, x| {
        let fork = s.fork()?;
        kit.add(&fork, all(), 1, &mut *x, LEN)?;
        joined.record(&fork)?;
        s.wait_event(&joined)?;
        kit.add(s, all(), 2, &mut *x, LEN)?;
        inside.record(s)?;
        let _ = timed.record(s);
        // The same recording may wait; no other stream may.
        fork.wait_event(&inside)?;
        if stream.wait_event(&inside).is_ok() {
            return Err(on_purpose());
        }
        kit.add(&fork, all(), 4, x, LEN)
    })?;
    lab.refused(
        stream.wait_event(&inside),
        "work that is recorded can't wait for an event recorded outside the recording, nor the",
    )?;
    let second = context.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| {
        if s.wait_event(&inside).is_ok() || s.wait_event(&joined).is_ok() {
            return Err(on_purpose());
        }
        kit.add(s, all(), 1, x, LEN)
    });
    drop(second?);
    // Waiting for it on the host must not hang, nor must measuring.
    for event in [&inside, &joined, &timed] {
        let _ = event.synchronize();
        let _ = event.is_done();
        let _ = before.elapsed_ms(event);
    }
    graph.launch(&stream)?;
    ensure_eq!(graph.state().to_vec(&stream)?, [7; N]);
    drop(graph);
    // Recorded anew outside, they are ordinary events again.
    for event in [&inside, &joined, &timed] {
        event.record(&stream)?;
        lab.stream()?.wait_event(event)?;
        event.synchronize()?;
        ensure!(event.is_done()?);
    }
    ensure!(before.elapsed_ms(&timed)? >= 0.0);
    for event in [inside, joined, timed, before] {
        ensure!(event.close().is_ok());
    }
    Ok(())
}

/// Panics in captures, parts, updates, recaptures and their inner closures, and uses the graphs afterwards.
///
/// - row: a changed node keeps what it uses now
/// - row: a recapture that fails leaves the graph as it was
/// - row: a capture is not spoilt by safe calls
/// - targets: `Context::capture`, `GraphBuilder::add`, `GraphExec::update`, `GraphExec::recapture`,
///   `Context::is_recording`
fn panics_in_closures(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let panics = |result: thread::Result<()>| {
        ensure!(result.is_err(), "no panic came out");
        ensure!(!context.is_recording(), "the context still records");
        Ok::<(), Failure>(())
    };
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    panics(catch_unwind(AssertUnwindSafe(|| {
        drop(context.capture((), |s, ()| {
            kit.add(&s.fork()?, all(), 1, &mut x, LEN)?;
            let _made = DeviceBuffer::<u32>::zeroed(s, N)?;
            panic!("in a capture")
        }));
    })))?;
    ensure_eq!(x.to_vec(&stream)?, [0; N]);
    let mut graph = context.capture(x, |s, x| {
        kit.add(s, all(), 1, &mut *x, LEN)?;
        s.last_node().map(drop)
    })?;
    let node = graph.nodes().next().ok_or_else(unnamed)?;
    panics(catch_unwind(AssertUnwindSafe(|| {
        drop(graph.update(node, |s, x| {
            kit.add(s, all(), 10, x, LEN)?;
            panic!("in an update")
        }));
    })))?;
    panics(catch_unwind(AssertUnwindSafe(|| {
        drop(graph.recapture(|s, x| {
            kit.add(s, all(), 10, x, LEN)?;
            panic!("in a recapture")
        }));
    })))?;
    graph.launch(&stream)?;
    let seen = graph.state().to_vec(&stream)?[0];
    ensure!(seen == 1 || seen == 10, "{seen}");
    graph.recapture(|s, x| kit.fill(s, all(), 77, x, LEN))?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().to_vec(&stream)?, [77; N]);

    let mut builder = GraphBuilder::new(&context, DeviceBuffer::<u32>::zeroed(&stream, N)?)?;
    let first = builder.add(&[], |s, x| kit.add(s, all(), 1, x, LEN))?;
    panics(catch_unwind(AssertUnwindSafe(|| {
        drop(builder.add(&[first], |s, x| {
            kit.add(s, all(), 2, x, LEN)?;
            panic!("in a part")
        }));
    })))?;
    // Whatever was enqueued before stays, or the builder is of no more use.
    if let Ok(mut graph) = builder.instantiate() {
        graph.launch(&stream)?;
        let seen = graph.state().to_vec(&stream)?;
        ensure!(seen.iter().all(|v| *v == 1 || *v == 3), "{:?}", &seen[..4]);
    }
    Ok(())
}

/// Captures inside a capture, launches a graph there on an ordinary stream, and uses the streams of the two
/// recordings with each other.
///
/// - row: a capture is not spoilt by safe calls
/// - targets: `Context::capture`, `Stream::wait_stream`, `Stream::is_recording`
fn a_capture_in_a_capture(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut y = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut outer = context.capture(x, |s, x| {
        kit.add(s, all(), 1, &mut *x, LEN)?;
        let mut inner = context.capture((), |t, ()| {
            // The recordings don't mix.
            if t.wait_stream(s).is_ok() || s.wait_stream(t).is_ok() || t == s {
                return Err(on_purpose());
            }
            if !t.is_recording() || !s.is_recording() {
                return Err(on_purpose());
            }
            kit.add(t, all(), 1, &mut y, LEN)?;
            // This goes to the outer graph.
            kit.add(s, all(), 10, &mut *x, LEN)
        })?;
        inner.launch(&stream)?;
        inner.launch(s)?;
        drop(inner);
        kit.add(s, all(), 100, x, LEN)
    })?;
    outer.launch(&stream)?;
    let x = outer.into_state();
    ensure_eq!(x.to_vec(&stream)?, [111; N]);
    ensure_eq!(y.to_vec(&stream)?, [2; N]);
    ensure!(!context.is_recording());
    Ok(())
}

/// Captures on three threads at once while two others allocate, copy, compile and wait for the context.
///
/// - row: a capture is not spoilt by safe calls
/// - row: nobody waits for the device with the graph lock held
/// - targets: `Context::capture`, `Context::synchronize`, `Context::free_deferred`
fn captures_beside_other_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let kit = Kit::load(&context)?;
    let results: Vec<TestResult> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for id in 0..3 {
            let (context, kit) = (&context, &kit);
            threads.push(scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                for round in 0..8 {
                    let x = DeviceBuffer::from_slice(&stream, &[id; N])?;
                    let mut graph = context.capture(x, |s, x| {
                        let made = DeviceBuffer::<u32>::zeroed(s, N)?;
                        kit.add(s, all(), round, &mut *x, LEN)?;
                        thread::yield_now();
                        kit.mix(&s.fork()?, all(), &made, x, LEN)
                    })?;
                    graph.launch(&stream)?;
                    ensure_eq!(graph.state().to_vec(&stream)?, [3 * (id + round); N]);
                }
                Ok(())
            }));
        }
        for _ in 0..2 {
            let context = &context;
            threads.push(scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                for round in 0..12u32 {
                    let x = DeviceBuffer::from_slice(&stream, &[round; N])?;
                    let pinned = PinnedBuffer::<u32>::zeroed(context, N)?;
                    let back = x.download_pinned(&stream, pinned)?.wait()?;
                    ensure_eq!(back[..], [round; N]);
                    if let Err(error) = context.synchronize() {
                        ensure!(!error.to_string().contains("CUDA_ERROR"), "{error}");
                    }
                    drop((x, back));
                    if let Err(error) = context.free_deferred() {
                        ensure!(!error.to_string().contains("CUDA_ERROR"), "{error}");
                    }
                }
                Ok(())
            }));
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked"))))
            .collect()
    });
    results.into_iter().collect()
}

/// Keeps streams of a recording, of its forks and of its parts in a thread that records on while the capture ends.
///
/// - row: a stream of a recording that has ended does nothing
/// - targets: `Context::capture`, `Stream::fork`, `GraphBuilder::instantiate`
fn recorded_on_after_the_end(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    for round in 0..6 {
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let (send, receive) = mpsc::channel::<Stream>();
        let (mut graph, x) = thread::scope(|scope| {
            let kit = &kit;
            let late = scope.spawn(move || {
                let mut refused = 0;
                if let Ok(s) = receive.recv() {
                    for _ in 0..30 {
                        refused += usize::from(kit.add(&s, all(), 1, &mut x, LEN).is_err());
                        let _ = s.fork().map(|fork| kit.add(&fork, all(), 1, &mut x, LEN));
                        let _ = s.last_node();
                        let _ = DeviceBuffer::<u32>::zeroed(&s, 8);
                    }
                }
                (refused, x)
            });
            let graph = context.capture((), move |s, ()| {
                // The thread only goes on while this capture ends.
                drop(send.send(if round % 2 == 0 { s.clone() } else { s.fork()? }));
                thread::yield_now();
                Ok(())
            });
            (graph, late.join().map(|(_, x)| x))
        });
        let Ok(x) = x else { return Err(Failure::new("the thread has panicked")) };
        // What the thread has recorded in time is in the graph, and nothing of it has run.
        ensure_eq!(x.to_vec(&stream)?, [0; N]);
        if let Ok(graph) = &mut graph {
            drop(x);
            graph.launch(&stream)?;
            stream.synchronize()?;
        }
    }
    Ok(())
}

/// Captures nothing, nothing of nothing, and launches of no blocks, and names, clones and launches that.
///
/// - row: a launch is ordered with all other work
/// - targets: `GraphExec::try_clone`, `GraphBuilder::new`, `GraphBuilder::instantiate`, `Stream::last_node`
fn graphs_of_nothing(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let mut empty = context.capture((), |_, ()| Ok(()))?;
    let mut clone = empty.try_clone(5u8)?;
    let none = DeviceBuffer::<u32>::zeroed(&stream, 0)?;
    let mut hollow = context.capture((none, true), |s, (x, named)| {
        s.fork()?;
        kit.fill(s, LaunchConfig::cover(0, 32), 1, &mut *x, 0)?;
        *named = s.last_node().is_ok();
        x.fill(s, 1)?;
        x.upload(s, &[])?;
        empty.launch(s)?;
        DeviceBuffer::<u32>::zeroed(s, 0).map(drop)
    })?;
    ensure!(!hollow.state().1, "a launch of no blocks has a name");
    let mut built = GraphBuilder::new(&context, ())?.instantiate()?;
    let mut builder = GraphBuilder::new(&context, ())?;
    let first = builder.add(&[], |_, ()| Ok(()))?;
    let second = builder.add(&[first, first], |_, ()| Ok(()))?;
    builder.add(&[second, first], |s, ()| s.fork().map(drop))?;
    let mut parts = builder.instantiate()?;
    for _ in 0..3 {
        clone.launch(&stream)?;
        hollow.launch(&stream)?;
        built.launch(&stream)?;
        parts.launch(&stream)?;
        built.upload(&stream)?;
    }
    ensure_eq!(*clone.state(), 5);
    stream.synchronize()?;
    drop(hollow);
    Ok(empty.launch(&stream)?)
}

attacks![
    "graphs",
    right(every_wait_inside_a_capture),
    right(events_of_ended_captures),
    right(panics_in_closures),
    right(a_capture_in_a_capture),
    right(captures_beside_other_threads),
    right(recorded_on_after_the_end),
    right(graphs_of_nothing),
];
