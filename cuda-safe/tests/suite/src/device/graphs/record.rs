//! What is recorded, and how launches of it are ordered with all other work.

use std::cell::Cell;
use std::rc::Rc;

use cuda_safe::{DeviceBuffer, Event, LaunchConfig, PinnedBuffer, Result, UnifiedBuffer};

use super::super::MS;
use super::super::checks::{all_are, did_not_run, has_panicked, is_invalid, named};
use super::{N, SHAPE, zeroed};
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "graphs",
        device(a_chain),
        device(sizes),
        device(ordered_with_other_streams),
        device(captured_while_in_use),
        device(forks_wait_where_memory_asks),
        device(forks_joined_by_hand),
        device(events_in_a_capture),
        device(what_cannot_be_recorded),
        device(streams_of_ended_captures),
        device(memory_of_the_graph),
        device(memory_that_escapes),
        device(uploads_and_fills),
        device(state_taken_back),
        device(others_go_on),
        device(panics),
        device(threads),
        device(versions),
        device(versions_in_the_order_of_writes),
    ]
}

/// 2 × 50 steps, launched 10 times: in place and out of place, on one stream.
fn a_chain(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let n = N as u64;
    let mut graph = device.context().capture(state, |stream, (now, next)| {
        for _ in 0..50 {
            device.count(basic.add(stream, SHAPE, &mut *now, n, 1))?;
            device.count(basic.copy(stream, SHAPE, &*now, &mut *next, n))?;
        }
        Ok(())
    })?;
    all_are(&graph.state().0, &stream, 0)?;
    for _ in 0..10 {
        graph.launch(&stream)?;
    }
    all_are(&graph.state().0, &stream, 500)?;
    all_are(&graph.state().1, &stream, 500)
}

fn sizes(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    for n in [0usize, 1, 31, 32, 33, 100_000] {
        let state = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let mut graph = device.context().capture(state, |stream, data| {
            device.count(basic.add(stream, LaunchConfig::cover(n, 256), &mut *data, n as u64, 7))
        })?;
        graph.launch(&stream)?;
        graph.launch(&stream)?;
        all_are(graph.state(), &stream, 14)?;
    }
    // A graph without nodes is one too.
    let mut empty = device.context().capture((), |_, ()| Ok(()))?;
    empty.launch(&stream)?;
    Ok(stream.synchronize()?)
}

/// A launch waits for slow work on another stream, and slow work in it is waited for.
fn ordered_with_other_streams(device: &TestDevice) -> TestResult {
    let (home, other, third) = (device.stream()?, device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = N as u64;
    let mut graph = device.context().capture(zeroed(&home)?, |stream, data| {
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))?;
        device.count(delay.delay(stream, (1, 1), 5 * MS))?;
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))
    })?;
    for launched in [&home, &other] {
        device.count(delay.delayed_fill(&third, (1, 256), graph.state_mut(), n, 10, 20 * MS))?;
        graph.launch(launched)?;
        let mut seen = zeroed(&third)?;
        device.count(basic.copy(&third, SHAPE, graph.state(), &mut seen, n))?;
        all_are(&seen, &third, 12)?;
        // A reader before it, and two streams that launch it.
        device.count(delay.delayed_copy(&third, (1, 256), graph.state(), &mut seen, n, 20 * MS))?;
        graph.launch(launched)?;
        graph.launch(&third)?;
        all_are(graph.state(), &home, 16)?;
        all_are(&seen, &other, 12)?;
    }
    Ok(())
}

/// Nothing is waited for while capturing, and each launch waits.
fn captured_while_in_use(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = N as u64;
    let mut data = zeroed(&home)?;
    device.count(delay.delayed_fill(&other, (1, 256), &mut data, n, 5, 30 * MS))?;
    let mut graph = device
        .context()
        .capture(data, |stream, data| device.count(basic.add(stream, SHAPE, &mut *data, n, 1)))?;
    graph.launch(&home)?;
    all_are(graph.state(), &home, 6)
}

/// Streams of one recording that use the same memory: each branch is slow where it would show.
fn forks_wait_where_memory_asks(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = N as u64;
    let state = [zeroed(&stream)?, zeroed(&stream)?, zeroed(&stream)?, zeroed(&stream)?];
    let mut graph = device.context().capture(state, |one, [data, left, right, sum]| {
        let (two, three) = (one.fork()?, one.fork()?);
        device.count(delay.delayed_fill(one, (1, 256), &mut *data, n, 3, 5 * MS))?;
        // Two readers on two streams, a writer on the first.
        device.count(delay.delayed_copy(&two, (1, 256), &*data, &mut *left, n, 10 * MS))?;
        device.count(delay.delayed_copy(&three, (1, 256), &*data, &mut *right, n, 3 * MS))?;
        device.count(basic.fill(one, SHAPE, &mut *data, n, 9))?;
        device.count(basic.copy(&three, SHAPE, &*left, &mut *sum, n))?;
        device.count(basic.add(one, SHAPE, &mut *sum, n, 1))
    })?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        let [data, left, right, sum] = graph.state();
        all_are(left, &stream, 3)?;
        all_are(right, &stream, 3)?;
        all_are(data, &stream, 9)?;
        all_are(sum, &stream, 4)?;
    }
    Ok(())
}

fn forks_joined_by_hand(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let mut graph = device.context().capture(state, |one, (a, b)| {
        let two = one.fork()?;
        let idle = two.fork()?;
        device.count(basic.add(one, SHAPE, &mut *a, n, 1))?;
        device.count(basic.add(&two, SHAPE, &mut *b, n, 1))?;
        one.wait_stream(&two)?;
        two.wait_stream(one)?;
        idle.wait_stream(&two)?;
        device.count(basic.add(&idle, SHAPE, &mut *a, n, 1))?;
        drop(two);
        device.count(basic.add(one, SHAPE, &mut *b, n, 1))
    })?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 2)?;
    all_are(&graph.state().1, &stream, 2)
}

fn events_in_a_capture(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let (inside, outside) = (Event::new(device.context())?, Event::new(device.context())?);
    outside.record(&stream)?;
    let inside = &inside;
    let mut graph = device.context().capture(zeroed(&stream)?, |one, data| {
        let two = one.fork()?;
        device.count(basic.add(one, SHAPE, &mut *data, n, 1))?;
        inside.record(one)?;
        two.wait_event(inside)?;
        device.count(basic.add(&two, SHAPE, &mut *data, n, 1))
    })?;
    is_invalid(stream.wait_event(inside), "outside the recording")?;
    is_invalid(inside.is_done(), "recorded in a capture")?;
    is_invalid(inside.synchronize(), "recorded in a capture")?;
    graph.launch(&stream)?;
    all_are(graph.state(), &stream, 2)?;
    // Recorded outside again it is as good as ever.
    inside.record(&stream)?;
    inside.synchronize()?;
    ensure!(inside.is_done()?);
    Ok(())
}

/// Each is refused before the driver is asked, so that the capture lives on.
fn what_cannot_be_recorded(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let basic = Basic::of(device)?;
    let n = N as u64;
    let event = Event::new(device.context())?;
    event.record(&other)?;
    let state = (zeroed(&stream)?, Vec::new());
    let mut graph = device.context().capture(state, |stream, (data, list)| {
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))?;
        let mut host = vec![0; N];
        list.push(is_invalid(stream.synchronize(), "can't be recorded"));
        list.push(is_invalid(stream.is_done(), "can't be recorded"));
        list.push(is_invalid(data.to_vec(stream), "can't be recorded"));
        list.push(is_invalid(data.download(stream, &mut host), "can't be recorded"));
        list.push(is_invalid(stream.wait_event(&event), "outside the recording"));
        list.push(is_invalid(stream.wait_stream(&other), "outside the recording"));
        list.push(is_invalid(other.wait_stream(stream), "outside the recording"));
        list.push(is_invalid(stream.host_function(|| ()), "once"));
        list.push(is_invalid(other.fork(), "only a stream that records"));
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))
    })?;
    let failures = std::mem::take(&mut graph.state_mut().1);
    ensure_eq!(failures.len(), 9);
    failures.into_iter().collect::<TestResult>()?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 2)
}

fn streams_of_ended_captures(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (zeroed(&stream)?, None);
    let mut graph = device.context().capture(state, |stream, (data, kept)| {
        *kept = Some((stream.clone(), stream.fork()?));
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))
    })?;
    graph.launch(&stream)?;
    let mut data = zeroed(&stream)?;
    let Some((one, two)) = graph.state_mut().1.take() else { return Err(did_not_run()) };
    for ended in [&one, &two] {
        is_invalid(basic.add(ended, SHAPE, &mut data, n, 1), "has ended")?;
        is_invalid(DeviceBuffer::<u32>::zeroed(ended, 5).map(|_| ()), "has ended")?;
        is_invalid(graph.launch(ended), "has ended")?;
        is_invalid(ended.fork(), "has ended")?;
    }
    all_are(&graph.state().0, &stream, 1)
}

/// Scratch memory that the graph allocates and frees, on two streams of the recording.
fn memory_of_the_graph(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let mut graph = device.context().capture(zeroed(&stream)?, |stream, data| {
        for _ in 0..3 {
            let mut scratch = DeviceBuffer::<u32>::zeroed(stream, N)?;
            device.count(basic.copy(stream, SHAPE, &*data, &mut scratch, n))?;
            let side = stream.fork()?;
            device.count(basic.add(&side, SHAPE, &mut scratch, n, 1))?;
            device.count(basic.copy(stream, SHAPE, &scratch, &mut *data, n))?;
            drop(scratch);
        }
        Ok(())
    })?;
    for round in 1..=4 {
        graph.launch(&stream)?;
        all_are(graph.state(), &stream, 3 * round)?;
    }
    Ok(())
}

fn memory_that_escapes(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let kept = Rc::new(Cell::new(None));
    let place = kept.clone();
    let captured = device.context().capture((), move |stream, ()| {
        place.set(Some(zeroed(stream)?));
        Ok(())
    });
    is_invalid(captured, "still alive")?;
    let Some(mut escaped) = kept.take() else { return Err(did_not_run()) };
    is_invalid(basic.add(&stream, SHAPE, &mut escaped, n, 1), "only while its graph runs")?;
    is_invalid(escaped.to_vec(&stream), "only while its graph runs")?;
    let refused = device.context().capture(None, |stream, refused| {
        let used = basic.add(stream, SHAPE, &mut escaped, n, 1);
        *refused = Some(is_invalid(used, "another capture"));
        Ok(())
    })?;
    refused.into_state().unwrap_or_else(|| Err(did_not_run()))
}

/// Each launch copies what the slice held while recording; patterns of any size.
fn uploads_and_fills(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut host: Vec<u32> = (0..N as u32).collect();
    let expected = host.clone();
    let state = (zeroed(&stream)?, DeviceBuffer::<[u8; 12]>::zeroed(&stream, 1001)?);
    let (slice, pattern) = (&mut host, *b"twelve bytes");
    let mut graph = device.context().capture(state, move |stream, (data, twelves)| {
        data.upload(stream, slice)?;
        slice.fill(77);
        twelves.fill(stream, pattern)?;
        twelves.slice_mut(1..2)?.fill(stream, [0; 12])
    })?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        let (data, twelves) = graph.state_mut();
        first_difference(&data.to_vec(&stream)?, &expected)?;
        let twelves_now = twelves.to_vec(&stream)?;
        ensure!(
            twelves_now
                .iter()
                .enumerate()
                .all(|(index, value)| { *value == if index == 1 { [0; 12] } else { pattern } })
        );
        data.fill(&stream, 0)?;
        twelves.fill(&stream, [1; 12])?;
    }
    Ok(())
}

fn state_taken_back(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = N as u64;
    let mut graph = device.context().capture(zeroed(&stream)?, |stream, data| {
        device.count(delay.delayed_fill(stream, (1, 256), &mut *data, n, 4, 20 * MS))
    })?;
    graph.launch(&other)?;
    let data = graph.close()?;
    all_are(&data, &stream, 4)?;
    // The graph goes while it runs, with the last handle to its memory.
    let mut graph = device.context().capture(data, |stream, data| {
        device.count(delay.delayed_fill(stream, (1, 256), &mut *data, n, 5, 20 * MS))
    })?;
    graph.launch(&other)?;
    drop(graph);
    let mut next = (0..4).map(|_| zeroed(&stream)).collect::<Result<Vec<_>>>()?;
    for buffer in &mut next {
        device.count(basic.add(&stream, SHAPE, buffer, n, 1))?;
    }
    other.synchronize()?;
    next.iter().try_for_each(|buffer| all_are(buffer, &stream, 1))
}

/// What others do while a graph is recorded goes on as ever, and spoils nothing. Only the context as
/// a whole can't be waited for: the driver would end the capture.
fn others_go_on(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let other = &stream;
    let mut graph = device.context().capture(zeroed(&stream)?, |stream, data| {
        basic.add(stream, SHAPE, &mut *data, n, 1)?;
        let mut mine = zeroed(other)?;
        basic.add(other, SHAPE, &mut mine, n, 5)?;
        let seen = mine.to_vec(other)?;
        assert_eq!(seen, vec![5; N]);
        Event::timing(device.context())?.record(other)?;
        let pinned = PinnedBuffer::from_slice(device.context(), &[1u32; N])?;
        mine.upload_pinned(other, pinned)?.wait()?;
        other.synchronize()?;
        device.context().memory_info()?;
        drop(UnifiedBuffer::<u32>::managed(other, 10)?);
        for waited in [device.context().synchronize(), device.context().free_deferred()] {
            assert!(is_invalid(waited, "being recorded").is_ok());
        }
        basic.add(stream, SHAPE, &mut *data, n, 1)
    })?;
    graph.launch(&stream)?;
    all_are(graph.state(), &stream, 2)
}

/// A closure that panics or fails leaves nothing behind.
fn panics(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let mut data = zeroed(&stream)?;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let graph = device.context().capture((), |stream, ()| {
            basic.add(stream, SHAPE, &mut data, n, 1)?;
            std::panic::resume_unwind(Box::new("on purpose"))
        });
        graph.map(|_| ())
    }));
    has_panicked(caught)?;
    let failed = device.context().capture((), |stream, ()| {
        basic.add(stream, SHAPE, &mut data, n, 1)?;
        data.slice(..N + 1).map(|_| ())
    });
    is_invalid(failed, "not within")?;
    let basic = &basic;
    let mut graph = device.context().capture(data, move |stream, data| {
        basic.add(stream, SHAPE, &mut *data, n, 1)?;
        stream.last_node()?;
        Ok(())
    })?;
    let node = named(&graph)?;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        graph.update(node, move |stream, data| {
            basic.add(stream, SHAPE, &mut *data, n, 2)?;
            std::panic::resume_unwind(Box::new("on purpose"))
        })
    }));
    has_panicked(caught)?;
    graph.launch(&stream)?;
    all_are(graph.state(), &stream, 2)
}

/// Two threads, each with a graph on its own stream, and memory that both share: one by a graph that
/// has kept it, the other by a buffer that it owns.
fn threads(device: &TestDevice) -> TestResult {
    const ROUNDS: u32 = 200;
    let (one, two) = (device.stream()?, device.stream()?);
    let basic = Basic::of(device)?;
    let n = N as u64;
    let mut graph = device
        .context()
        .capture(zeroed(&one)?, |stream, data| basic.add(stream, SHAPE, &mut *data, n, 1))?;
    // The buffer leaves the graph, which goes on using its memory.
    let mut taken = std::mem::replace(graph.state_mut(), zeroed(&one)?);
    std::thread::scope(|scope| {
        let launching = scope.spawn(|| {
            (0..ROUNDS).try_for_each(|_| graph.launch(&one))?;
            Ok::<_, cuda_safe::Error>(())
        });
        let adding = (0..ROUNDS).try_for_each(|_| basic.add(&two, SHAPE, &mut taken, n, 1));
        let launched = launching.join();
        launched.map_err(|_| Failure::new("a thread panicked".to_owned()))??;
        adding?;
        Ok::<_, Failure>(())
    })?;
    all_are(&taken, &two, 2 * ROUNDS)
}

/// Each launch counts as a write of what the graph may write.
fn versions(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let mut graph = device
        .context()
        .capture(state, |stream, (a, b)| basic.copy(stream, SHAPE, &*a, &mut *b, n))?;
    let of = |buffer: &DeviceBuffer<u32>| buffer.allocation().version(buffer.byte_range());
    let before = (of(&graph.state().0), of(&graph.state().1));
    graph.launch(&stream)?;
    graph.launch(&stream)?;
    let after = (of(&graph.state().0), of(&graph.state().1));
    ensure_eq!(after.0, before.0);
    ensure!(after.1 > before.1);
    graph.launch(&stream)?;
    ensure!(of(&graph.state().1) > after.1);
    Ok(stream.synchronize()?)
}

/// Of two writes the later one has the greater version: in one launch of a graph, also by a node that was
/// changed, and by a graph in a graph. In both orders, as the buffers lie where they lie.
fn versions_in_the_order_of_writes(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let (n, basic) = (N as u64, &basic);
    let of = |buffer: &DeviceBuffer<u32>| buffer.allocation().version(buffer.byte_range());
    for first in 0..2 {
        let mut state = [zeroed(&stream)?, zeroed(&stream)?, zeroed(&stream)?];
        state[first].fill(&stream, 1)?;
        ensure!(of(&state[first]) > of(&state[1 - first]), "without a graph");
        let mut graph = device.context().capture(state, move |stream, state| {
            device.count(basic.fill(stream, SHAPE, &mut state[1 - first], n, 1))?;
            device.count(basic.fill(stream, SHAPE, &mut state[first], n, 1))?;
            stream.last_node()?;
            device.count(basic.fill(stream, SHAPE, &mut state[1 - first], n, 1))
        })?;
        let node =
            graph.nodes().next().ok_or_else(|| Failure::new("a node was named".to_owned()))?;
        for _ in 0..2 {
            graph.launch(&stream)?;
            let state = graph.state();
            ensure!(of(&state[first]) < of(&state[1 - first]), "in a launch");
        }
        graph.update(node, move |stream, state| basic.fill(stream, SHAPE, &mut state[2], n, 1))?;
        graph.launch(&stream)?;
        let state = graph.state();
        ensure!(of(&state[2]) < of(&state[1 - first]), "the node has kept its place");
        ensure!(of(&state[2]) > of(&state[first]), "not written any more");
        // A graph in a graph.
        let state = [zeroed(&stream)?, zeroed(&stream)?];
        let mut part = device.context().capture(state, move |stream, state| {
            device.count(basic.fill(stream, SHAPE, &mut state[first], n, 1))?;
            device.count(basic.fill(stream, SHAPE, &mut state[1 - first], n, 1))
        })?;
        let mut whole = device.context().capture((), |stream, ()| part.launch(stream))?;
        whole.launch(&stream)?;
        drop(whole);
        ensure!(of(&part.state()[first]) < of(&part.state()[1 - first]), "in a part");
    }
    Ok(stream.synchronize()?)
}
