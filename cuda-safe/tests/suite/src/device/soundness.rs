//! What an adversary would try: safe calls in an order that nobody needs.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cuda_safe::{DeviceBuffer, Event, GraphBuilder, Result, Stream};

use super::MS;
use super::checks::{
    all_are, did_not_run, has_panicked, is_invalid, named, no_drop_errors, not_the_drivers,
};
use test_harness::programs::{Basic, Delay, TEMPLATES};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "soundness",
        device(streams_of_recordings_closed),
        device(a_global_in_a_capture),
        device(events_on_a_recorder),
        device(a_source_is_kept),
        device(a_body_that_panics),
        device(a_change_that_panics),
        device(another_launch_is_named),
        device(streams_of_earlier_parts),
        device(a_launch_beside_a_download),
        device(memory_goes_with_the_graph),
        device(a_body_in_another_thread),
        device(a_body_in_a_body),
        device(launches_of_other_streams),
        device(globals_made_anew),
    ]
}

const N: usize = 1000;
const SHAPE: (u32, u32) = (4, 256);

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, N)
}

fn thread_panicked<T>(_: T) -> Failure {
    Failure::new("a thread panicked".to_owned())
}

/// Closing a handle of a recording stream neither takes it from the capture nor destroys it twice.
fn streams_of_recordings_closed(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (zeroed(&stream)?, Vec::new());
    let mut graph = device.context().capture(state, |stream, (data, kept)| {
        let side = stream.fork()?;
        basic.add(&side, SHAPE, &mut *data, n, 1)?;
        side.close()?;
        kept.push(stream.clone());
        kept.push(stream.fork()?);
        basic.add(stream, SHAPE, &mut *data, n, 1)
    })?;
    for ended in std::mem::take(&mut graph.state_mut().1) {
        ended.close()?;
    }
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 2)?;
    no_drop_errors(device.context())
}

/// A stream that records is nobody's home.
fn a_global_in_a_capture(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = device.module(&TEMPLATES)?;
    let graph = device.context().capture(None, |stream, refused| {
        let made = module.global::<u32>(stream, "counters");
        *refused = Some(is_invalid(made, "can't be recorded"));
        Ok(())
    })?;
    graph.into_state().unwrap_or_else(|| Err(did_not_run()))?;
    // One that is at home elsewhere is written by the graph.
    let counters = module.global::<u32>(&stream, "counters")?;
    let before = counters.read(&stream)?;
    let mut graph =
        device.context().capture((), |stream, ()| counters.write(stream, &[5, 6, 7, 8]))?;
    ensure_eq!(counters.read(&stream)?, before);
    graph.launch(&device.stream()?)?;
    ensure_eq!(counters.read(&stream)?, [5, 6, 7, 8]);
    Ok(counters.write(&stream, &before)?)
}

/// Where a launch is changed nothing else can be recorded, so no event either.
fn events_on_a_recorder(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let (basic, n) = (&basic, N as u64);
    let event = Event::new(device.context())?;
    let state = (zeroed(&stream)?, Vec::new());
    let mut graph = device.context().capture(state, move |stream, (data, _)| {
        basic.add(stream, SHAPE, &mut *data, n, 1)?;
        stream.last_node().map(drop)
    })?;
    let node = named(&graph)?;
    graph.update(node, |stream, (data, refused)| {
        refused.push(is_invalid(event.record(stream), "only be changed by one launch"));
        refused.push(is_invalid(stream.wait_event(&event), "only be changed by one launch"));
        basic.add(stream, SHAPE, &mut *data, n, 2)
    })?;
    let refused = std::mem::take(&mut graph.state_mut().1);
    ensure_eq!(refused.len(), 2);
    refused.into_iter().collect::<TestResult>()?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 2)
}

/// What a graph copies from stays, whatever goes.
fn a_source_is_kept(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let state = (zeroed(&stream)?, None);
    let mut graph = device.context().capture(state, |stream, (data, kept)| {
        *kept = Some(stream.clone());
        data.upload(stream, &[7; N])
    })?;
    graph.state_mut().1 = None;
    device.context().free_deferred()?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 7)
}

/// A body that is only half recorded never runs, also if its panic is caught.
fn a_body_that_panics(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let mut data = zeroed(&stream)?;
    let graph = device.context().capture((), |stream, ()| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            stream.record_if(&flag, |stream| {
                basic.add(stream, SHAPE, &mut data, n, 1)?;
                resume_unwind(Box::new("on purpose"))
            })
        }));
        has_panicked(caught)
    });
    let graph = graph.map(drop);
    not_the_drivers(&graph)?;
    ensure!(graph.is_err(), "a graph whose body uses memory that it does not keep");
    Ok(())
}

/// A change that was made counts as one, also if its closure panics afterwards.
fn a_change_that_panics(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let (basic, n) = (&basic, N as u64);
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let mut graph = device.context().capture(state, move |stream, (a, _)| {
        basic.add(stream, SHAPE, &mut *a, n, 1)?;
        stream.last_node().map(drop)
    })?;
    let node = named(&graph)?;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        graph.update(node, move |stream, (_, b)| {
            basic.add(stream, SHAPE, &mut *b, n, 1)?;
            resume_unwind(Box::new("on purpose"))
        })
    }));
    has_panicked(caught)?;
    is_invalid(graph.try_clone(()).map(|_| ()), "were changed")
}

/// Recaptured in the same shape, but with another launch named: changing it must not make the graph
/// let go of what the first one uses.
fn another_launch_is_named(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let (basic, n) = (&basic, N as u64);
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let event = Event::new(device.context())?;
    let mut graph = device.context().capture(state, |stream, (a, b)| {
        // Enqueued, but no node: counting what is enqueued does not do.
        event.record(stream)?;
        basic.add(stream, SHAPE, &mut *a, n, 1)?;
        stream.last_node()?;
        basic.add(stream, SHAPE, &mut *b, n, 10)
    })?;
    graph.recapture(move |stream, (a, b)| {
        basic.add(stream, SHAPE, &mut *a, n, 1)?;
        basic.add(stream, SHAPE, &mut *b, n, 10)?;
        stream.last_node().map(drop)
    })?;
    let node = named(&graph)?;
    graph.update(node, move |stream, (a, _)| basic.add(stream, SHAPE, &mut *a, n, 100))?;
    let held = |buffer: &DeviceBuffer<u32>| Arc::strong_count(buffer.allocation()) - 1;
    ensure!(held(&graph.state().0) > 0, "the graph has let go of what both launches use");
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 101)?;
    all_are(&graph.state().1, &stream, 0)
}

/// A stream of an earlier part records no more, not even what uses no memory.
fn streams_of_earlier_parts(device: &TestDevice) -> TestResult {
    let basic = Basic::of(device)?;
    let context = device.context();
    let event = Event::new(context)?;
    let mut empty = context.capture((), |_, ()| Ok(()))?;
    let mut builder = GraphBuilder::new(context, (None, Vec::new()))?;
    builder.add(&[], |stream, (kept, _)| {
        *kept = Some(stream.clone());
        Ok(())
    })?;
    builder.add(&[], |_, (kept, refused)| {
        let Some(stream) = kept else { return Ok(()) };
        refused.push(is_invalid(basic.nothing(stream, SHAPE), "has ended"));
        refused.push(is_invalid(stream.host_function_mut(|| ()), "has ended"));
        refused.push(is_invalid(event.record(stream), "has ended"));
        refused.push(is_invalid(empty.launch(stream), "has ended"));
        Ok(())
    })?;
    let (_, refused) = builder.instantiate()?.into_state();
    ensure_eq!(refused.len(), 4);
    refused.into_iter().collect()
}

/// Somebody who waits for a download of memory that a graph uses keeps nobody from launching.
fn a_launch_beside_a_download(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let basic = Basic::of(device)?;
    let (basic, n) = (&basic, N as u64);
    let capture = |stream| {
        let record = move |stream: &Stream, data: &mut DeviceBuffer<u32>| {
            basic.add(stream, SHAPE, data, n, 1)
        };
        device.context().capture(zeroed(stream)?, record)
    };
    let (mut first, mut second) = (capture(&one)?, capture(&two)?);
    first.launch(&one)?;
    let (launched, waiting) = mpsc::channel();
    let (told, outcome) = mpsc::channel();
    one.host_function(move || {
        let _ = told.send(waiting.recv_timeout(Duration::from_secs(20)).is_ok());
    })?;
    std::thread::scope(|scope| {
        let launching = scope.spawn(|| {
            // The other thread is waiting by now, most likely; if not, nothing is tested.
            std::thread::sleep(Duration::from_millis(200));
            second.launch(&two)?;
            let _ = launched.send(());
            Ok::<_, cuda_safe::Error>(())
        });
        all_are(first.state(), &one, 1)?;
        Ok::<_, Failure>(launching.join().map_err(thread_panicked)??)
    })?;
    // A checker may make launches wait for the device.
    ensure!(outcome.recv() == Ok(true) || device.is_instrumented());
    Ok(())
}

/// A stream that outlives its capture keeps none of its memory.
fn memory_goes_with_the_graph(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let graph = device.context().capture((zeroed(&stream)?, None), |stream, (data, kept)| {
        *kept = Some(stream.clone());
        basic.add(stream, SHAPE, &mut *data, n, 1)
    })?;
    let (data, kept) = graph.into_state();
    ensure!(kept.is_some());
    ensure_eq!(Arc::strong_count(data.allocation()), 1);
    // Nor does one that outlives a body.
    let state = (zeroed(&stream)?, zeroed(&stream)?, None);
    let graph = device.context().capture(state, |stream, (flag, data, kept)| {
        stream.record_if(&*flag, |stream| {
            *kept = Some(stream.clone());
            basic.add(stream, SHAPE, &mut *data, n, 1)
        })
    })?;
    let (_, data, kept) = graph.into_state();
    ensure!(kept.is_some());
    ensure_eq!(Arc::strong_count(data.allocation()), 1);
    Ok(())
}

/// A thread that is sent the stream records no body, whether the closure waits for it or ends before. The
/// capture goes on and ends as if nothing had been.
fn a_body_in_another_thread(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    for waits in [false, true] {
        let (mut data, mut mine) = (zeroed(&stream)?, zeroed(&stream)?);
        std::thread::scope(|scope| {
            let mut graph = device.context().capture(None, |stream, body| {
                let sent = stream.clone();
                let (flag, data, basic) = (&flag, &mut data, &basic);
                let thread = scope.spawn(move || {
                    sent.record_if(flag, |stream| basic.add(stream, SHAPE, data, n, 1))
                });
                while waits && !thread.is_finished() {
                    std::thread::yield_now();
                }
                *body = Some(thread);
                basic.add(stream, SHAPE, &mut mine, n, 1)
            })?;
            let body = graph.state_mut().take().ok_or_else(did_not_run)?;
            let recorded = body.join().map_err(thread_panicked)?;
            not_the_drivers(&recorded)?;
            ensure!(recorded.is_err(), "a body of another thread");
            graph.launch(&stream)?;
            Ok::<_, Failure>(())
        })?;
        all_are(&data, &stream, 0)?;
        all_are(&mine, &stream, 1)?;
        device.context().synchronize()?;
    }
    no_drop_errors(device.context())
}

/// Nor a body in a body. All captures end: one that stays open would fail every wait for the context.
fn a_body_in_a_body(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let (mut data, mut mine) = (zeroed(&stream)?, zeroed(&stream)?);
    std::thread::scope(|scope| {
        let mut graph = device.context().capture(None, |stream, body| {
            stream.record_if(&flag, |stream| {
                let sent = stream.clone();
                let (flag, data, basic) = (&flag, &mut data, &basic);
                *body = Some(scope.spawn(move || {
                    sent.record_if(flag, |stream| basic.add(stream, SHAPE, data, n, 1))
                }));
                stream.record_if(flag, |stream| basic.add(stream, SHAPE, &mut mine, n, 1))
            })
        })?;
        let body = graph.state_mut().take().ok_or_else(did_not_run)?;
        let recorded = body.join().map_err(thread_panicked)?;
        not_the_drivers(&recorded)?;
        ensure!(recorded.is_err(), "a body of another thread");
        graph.launch(&stream)?;
        Ok::<_, Failure>(())
    })?;
    all_are(&data, &stream, 0)?;
    all_are(&mine, &stream, 1)?;
    device.context().synchronize()?;
    no_drop_errors(device.context())
}

/// The newest launch of a stream is its own, whatever other streams of the recording do.
fn launches_of_other_streams(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let mut graph = device.context().capture(state, |stream, (one, two)| {
        let other = stream.fork()?;
        basic.add(stream, SHAPE, &mut *one, n, 1)?;
        basic.add(&other, SHAPE, &mut *two, n, 1)?;
        stream.last_node().map(drop)
    })?;
    let node = named(&graph)?;
    graph.update(node, |stream, (one, _)| basic.add(stream, SHAPE, one, n, 10))?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 10)?;
    all_are(&graph.state().1, &stream, 1)
}

/// Handles to one global see each other's writes, also if there was a time without any.
fn globals_made_anew(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let delay = Delay::of(device)?;
    let module = device.module(&TEMPLATES)?;
    let before = module.global::<u32>(&one, "counters")?.read(&one)?;
    for value in 1..20 {
        let counters = module.global::<u32>(&one, "counters")?;
        delay.delay(&one, (1, 1), 20 * MS)?;
        counters.write(&one, &[value; 4])?;
        drop(counters);
        ensure_eq!(module.global::<u32>(&two, "counters")?.read(&two)?, [value; 4]);
    }
    Ok(module.global::<u32>(&one, "counters")?.write(&one, &before)?)
}
