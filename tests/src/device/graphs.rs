//! Graphs: captured, launched, changed, and ordered with all other work.

use std::cell::Cell;
use std::rc::Rc;

use cuda_safe::{
    DeviceBuffer, Event, GraphBuilder, GraphExec, GraphNode, Launch, PinnedBuffer, Recaptured,
    Result, Stream, UnifiedBuffer,
};

use super::MS;
use crate::harness::{Case, Failure, TestDevice, TestResult, ensure, ensure_eq, first_difference};
use crate::programs::{Basic, Delay};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::device("graphs::a_chain", a_chain),
        Case::device("graphs::sizes", sizes),
        Case::device("graphs::ordered_with_other_streams", ordered_with_other_streams),
        Case::device("graphs::captured_while_in_use", captured_while_in_use),
        Case::device("graphs::forks_wait_where_memory_asks", forks_wait_where_memory_asks),
        Case::device("graphs::forks_joined_by_hand", forks_joined_by_hand),
        Case::device("graphs::events_in_a_capture", events_in_a_capture),
        Case::device("graphs::what_cannot_be_recorded", what_cannot_be_recorded),
        Case::device("graphs::streams_of_ended_captures", streams_of_ended_captures),
        Case::device("graphs::memory_of_the_graph", memory_of_the_graph),
        Case::device("graphs::memory_that_escapes", memory_that_escapes),
        Case::device("graphs::uploads_and_fills", uploads_and_fills),
        Case::device("graphs::a_node_changes", a_node_changes),
        Case::device("graphs::a_node_beside_others", a_node_beside_others),
        Case::device("graphs::a_change_that_fails", a_change_that_fails),
        Case::device("graphs::recaptured", recaptured),
        Case::device("graphs::clones", clones),
        Case::device("graphs::children", children),
        Case::device("graphs::dot", dot),
        Case::device("graphs::parts", parts),
        Case::device("graphs::conditions", conditions),
        Case::device("graphs::loops", loops),
        Case::device("graphs::state_taken_back", state_taken_back),
        Case::device("graphs::others_go_on", others_go_on),
        Case::device("graphs::panics", panics),
        Case::device("graphs::threads", threads),
        Case::device("graphs::versions", versions),
    ]
}

const N: usize = 10_000;
const SHAPE: (u32, u32) = (8, 256);

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, N)
}

fn all_are(buffer: &DeviceBuffer<u32>, stream: &Stream, value: u32) -> TestResult {
    first_difference(&buffer.to_vec(stream)?, &vec![value; buffer.len()])
}

fn is_invalid<T>(result: Result<T>, part: &str) -> TestResult {
    match result {
        Ok(_) => Err(Failure::new(format!("no error about {part:?}"))),
        Err(error) => {
            ensure!(error.code().is_none(), "the driver was asked: {error}");
            ensure!(error.to_string().contains(part), "{error}");
            Ok(())
        }
    }
}

fn did_not_run() -> Failure {
    Failure::new("the closure did not run".to_owned())
}

/// The one launch that was named.
fn named<S>(graph: &GraphExec<'_, S>) -> std::result::Result<GraphNode, Failure> {
    graph.nodes().next().ok_or_else(|| Failure::new("no node was named".to_owned()))
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
            device.count(basic.add(stream, Launch::cover(n, 256), &mut *data, n as u64, 7))
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

fn a_node_changes(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let basic = &basic;
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let mut graph = device.context().capture(state, move |stream, (a, b)| {
        device.count(basic.add(stream, SHAPE, &mut *a, n, 1))?;
        stream.last_node()?;
        device.count(basic.copy(stream, SHAPE, &*a, &mut *b, n))?;
        stream.last_node()?;
        Ok(())
    })?;
    let [first, second] = graph.nodes().collect::<Vec<_>>()[..] else {
        return Err(Failure::new("two nodes were named".to_owned()));
    };
    graph.launch(&stream)?;
    all_are(&graph.state().1, &stream, 1)?;
    // Another value, and launches that are enqueued keep the old one.
    for value in 2..5 {
        graph.launch(&stream)?;
        graph.update(first, move |stream, (a, _)| basic.add(stream, SHAPE, &mut *a, n, value))?;
    }
    graph.launch(&stream)?;
    // 1 + 1 + 2 + 3 + 4.
    all_are(&graph.state().1, &stream, 11)?;
    // Another kernel, another shape and another buffer, which the graph then keeps.
    let (old, mut new) = (zeroed(&stream)?, zeroed(&stream)?);
    new.fill(&stream, 40)?;
    drop(old);
    graph.update(second, move |stream, (a, _)| {
        basic.copy(stream, (3, 128), &new, &mut *a, n)
        // `new` goes here; the graph keeps its memory.
    })?;
    let scribbled = (0..4).map(|_| zeroed(&stream)).collect::<Result<Vec<_>>>()?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 40)?;
    all_are(&graph.state().1, &stream, 11)?;
    drop(scribbled);
    graph.update(second, move |stream, (a, _)| basic.fill(stream, (3, 128), &mut *a, n, 6))?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 6)
}

/// With branches a node can't be given memory that a node beside it uses.
fn a_node_beside_others(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let basic = &basic;
    let state = [zeroed(&stream)?, zeroed(&stream)?, zeroed(&stream)?];
    let mut graph = device.context().capture(state, move |one, [a, b, c]| {
        let two = one.fork()?;
        device.count(basic.copy(one, SHAPE, &*a, &mut *b, n))?;
        one.last_node()?;
        device.count(basic.fill(&two, SHAPE, &mut *c, n, 3))
    })?;
    let node = named(&graph)?;
    let refused =
        graph.update(node, move |stream, [a, _, c]| basic.copy(stream, SHAPE, &*c, &mut *a, n));
    is_invalid(refused, "another node of the graph uses this memory")?;
    let refused =
        graph.update(node, move |stream, [_, _, c]| basic.fill(stream, SHAPE, &mut *c, n, 1));
    is_invalid(refused, "another node of the graph uses this memory")?;
    // What it has used itself it may go on using, the other way round too.
    graph.state_mut()[0].fill(&stream, 8)?;
    graph.state_mut()[1].fill(&stream, 9)?;
    graph.update(node, move |stream, [a, b, _]| basic.copy(stream, SHAPE, &*b, &mut *a, n))?;
    graph.launch(&stream)?;
    all_are(&graph.state()[0], &stream, 9)?;
    all_are(&graph.state()[2], &stream, 3)
}

fn a_change_that_fails(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let basic = &basic;
    let state = (zeroed(&stream)?, Vec::new());
    let mut graph = device.context().capture(state, move |stream, (data, list)| {
        list.push(is_invalid(stream.last_node(), "no launch"));
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))?;
        stream.last_node()?;
        list.push(is_invalid(stream.last_node(), "no launch"));
        data.slice_mut(..1)?.fill(stream, 5)?;
        list.push(is_invalid(stream.last_node(), "no launch"));
        Ok(())
    })?;
    let no_launch = std::mem::take(&mut graph.state_mut().1);
    ensure_eq!(no_launch.len(), 3);
    no_launch.into_iter().collect::<TestResult>()?;
    let node = named(&graph)?;
    is_invalid(graph.update(node, |_, _| Ok(())), "no launch was made")?;
    let twice = graph.update(node, move |stream, (data, _)| {
        basic.add(stream, SHAPE, &mut *data, n, 2)?;
        basic.add(stream, SHAPE, &mut *data, n, 3)
    });
    is_invalid(twice, "only be changed by one launch")?;
    is_invalid(graph.update(node, |stream, (data, _)| data.fill(stream, 1)), "only be changed")?;
    is_invalid(
        graph.update(node, move |stream, (data, _)| {
            basic.add(stream, Launch::from(SHAPE).cooperative(), &mut *data, n, 2)
        }),
        "keeps its attributes",
    )?;
    is_invalid(graph.update(node, |stream, _| stream.synchronize()), "can't be recorded")?;
    let mut other = device.context().capture((), |_, ()| Ok(()))?;
    is_invalid(other.update(node, |_, ()| Ok(())), "not one of this graph")?;
    graph.launch(&stream)?;
    // The first of the two launches has changed the node.
    first_difference(&graph.state().0.to_vec(&stream)?[1..], &vec![2; N - 1])
}

fn recaptured(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let basic = &basic;
    let state = (zeroed(&stream)?, zeroed(&stream)?);
    let mut graph = device.context().capture(state, move |stream, (a, b)| {
        device.count(basic.add(stream, SHAPE, &mut *a, n, 1))?;
        stream.last_node()?;
        device.count(basic.copy(stream, SHAPE, &*a, &mut *b, n))
    })?;
    let node = named(&graph)?;
    graph.launch(&stream)?;
    // Other arguments, the same shape; and then the other way round.
    let again = graph.recapture(move |stream, (a, b)| {
        device.count(basic.add(stream, SHAPE, &mut *b, n, 10))?;
        stream.last_node()?;
        device.count(basic.copy(stream, SHAPE, &*b, &mut *a, n))
    })?;
    ensure_eq!(again, Recaptured::Updated);
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 11)?;
    graph.update(node, move |stream, (_, b)| basic.add(stream, SHAPE, &mut *b, n, 100))?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 111)?;
    let again = graph.recapture(move |stream, (a, _)| basic.fill(stream, SHAPE, &mut *a, n, 7))?;
    ensure_eq!(again, Recaptured::Rebuilt);
    let old = graph.update(node, move |stream, (a, _)| basic.fill(stream, SHAPE, &mut *a, n, 8));
    is_invalid(old, "not one of this graph")?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 7)?;
    all_are(&graph.state().1, &stream, 111)
}

fn clones(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let basic = Basic::of(device)?;
    let n = N as u64;
    let basic = &basic;
    let mut fresh = zeroed(&other)?;
    let mut graph = device.context().capture(zeroed(&stream)?, move |stream, data| {
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))?;
        stream.last_node()?;
        Ok(())
    })?;
    let node = named(&graph)?;
    let mut copy = graph.try_clone("another state")?;
    for _ in 0..10 {
        graph.launch(&stream)?;
        copy.launch(&other)?;
    }
    all_are(graph.state(), &stream, 20)?;
    ensure_eq!(*copy.state(), "another state");
    // A change of one does not reach the other.
    copy.update(node, |stream, _| basic.add(stream, SHAPE, &mut fresh, n, 1))?;
    is_invalid(copy.try_clone(()).map(|_| ()), "were changed")?;
    copy.launch(&other)?;
    graph.launch(&stream)?;
    all_are(graph.state(), &stream, 21)?;
    // The memory lives as long as one of them.
    let state = graph.into_state();
    drop(copy);
    all_are(&state, &other, 21)
}

fn children(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let mut inner = device.context().capture(zeroed(&stream)?, |stream, data| {
        device.count(basic.add(stream, SHAPE, &mut *data, n, 1))
    })?;
    let inner = &mut inner;
    let mut outer = device.context().capture(zeroed(&stream)?, |stream, seen| {
        let side = stream.fork()?;
        inner.launch(stream)?;
        // On another stream of the recording, which has to wait for the child.
        device.count(basic.copy(&side, SHAPE, inner.state(), seen, n))?;
        inner.launch(stream)
    })?;
    outer.launch(&stream)?;
    outer.launch(&stream)?;
    all_are(outer.state(), &stream, 3)?;
    drop(outer);
    inner.launch(&stream)?;
    all_are(inner.state(), &stream, 5)
}

fn dot(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let mut graph = device.context().capture(zeroed(&stream)?, |stream, data| {
        device.count(basic.add(stream, SHAPE, &mut *data, N as u64, 1))?;
        data.fill(stream, 5)
    })?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("graph.dot");
    graph.write_dot(&path)?;
    let text = std::fs::read_to_string(&path)?;
    ensure!(text.contains("digraph") && text.contains("->"), "{text}");
    is_invalid(graph.write_dot("inner\0nul"), "no path")
}

fn parts(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = N as u64;
    let state = ([zeroed(&stream)?, zeroed(&stream)?, zeroed(&stream)?], None);
    let mut builder = GraphBuilder::new(device.context(), state)?;
    let (delay, basic) = (&delay, &basic);
    let one = builder.add(&[], move |stream, ([a, ..], _)| {
        device.count(delay.delayed_fill(stream, (1, 256), &mut *a, n, 3, 10 * MS))
    })?;
    // Not told to come after the first, but it has to: it reads what that one writes.
    builder.add(&[], move |stream, ([a, b, _], _)| {
        device.count(basic.copy(stream, SHAPE, &*a, &mut *b, n))
    })?;
    let made = builder.add(&[], move |stream, (_, scratch)| {
        let mut memory = DeviceBuffer::<u32>::zeroed(stream, N)?;
        device.count(basic.add(stream, SHAPE, &mut memory, n, 20))?;
        *scratch = Some(memory);
        Ok(())
    })?;
    builder.add(&[one, made], move |stream, ([_, b, c], scratch)| {
        if let Some(memory) = scratch.take() {
            device.count(basic.copy(stream, SHAPE, &memory, &mut *c, n))?;
        }
        device.count(basic.add(stream, SHAPE, &mut *b, n, 1))
    })?;
    let mut graph = builder.instantiate()?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        let ([a, b, c], _) = graph.state();
        all_are(a, &stream, 3)?;
        all_are(b, &stream, 4)?;
        all_are(c, &stream, 20)?;
    }
    let mut another = GraphBuilder::new(device.context(), ())?;
    is_invalid(another.add(&[one], |_, ()| Ok(())).map(|_| ()), "another graph")
}

fn conditions(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (DeviceBuffer::<u32>::zeroed(&stream, 3)?, zeroed(&stream)?, zeroed(&stream)?);
    let mut graph = device.context().capture(state, |stream, (flags, data, seen)| {
        let side = stream.fork()?;
        device.count(basic.copy(&side, SHAPE, &*data, &mut *seen, n))?;
        stream.record_if(flags.slice(..1)?, |stream| {
            device.count(basic.add(stream, SHAPE, &mut *data, n, 1))?;
            stream.record_if(flags.slice(1..)?, |stream| {
                device.count(basic.add(stream, SHAPE, &mut *data, n, 10))
            })
        })?;
        device.count(basic.add(stream, SHAPE, &mut *data, n, 100))
    })?;
    let mut expected = 0;
    for flags in [[0, 0, 0], [1, 0, 0], [0, 1, 0], [7, 3, 0], [1, 0, 1]] {
        graph.state_mut().0.upload(&stream, &flags)?;
        graph.launch(&stream)?;
        let (_, data, seen) = graph.state();
        all_are(seen, &stream, expected)?;
        expected += 100 + u32::from(flags[0] != 0) * (1 + 10 * u32::from(flags[1] != 0));
        all_are(data, &stream, expected)?;
    }
    let (flag, mut data) = (DeviceBuffer::<u32>::zeroed(&stream, 0)?, zeroed(&stream)?);
    is_invalid(stream.record_if(&flag, |_| Ok(())), "only a stream that records")?;
    let refused = device.context().capture(None, |stream, refused| {
        *refused = Some(is_invalid(stream.record_if(&flag, |_| Ok(())), "not within"));
        Ok(())
    })?;
    refused.into_state().unwrap_or_else(|| Err(did_not_run()))?;
    // What a body can't hold fails the whole capture, with its reason.
    let flags = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let failed = device.context().capture((), |stream, ()| {
        let outer = stream.clone();
        let body = stream.record_if(&flags, |_| basic.add(&outer, SHAPE, &mut data, n, 1));
        drop(body);
        Ok(())
    });
    is_invalid(failed.map(|_| ()), "the stream that its closure is given")
}

/// Counts down on the device.
fn loops(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (DeviceBuffer::<u32>::zeroed(&stream, 1)?, zeroed(&stream)?);
    let mut graph = device.context().capture(state, |stream, (left, data)| {
        stream.record_while(left, |stream, mut left| {
            device.count(basic.add(stream, SHAPE, &mut *data, n, 1))?;
            device.count(basic.add(stream, (1, 32), &mut left, 1, u32::MAX))
        })
    })?;
    let mut expected = 0;
    for count in [0, 1, 5, 0, 33] {
        graph.state_mut().0.upload(&stream, &[count])?;
        graph.launch(&stream)?;
        expected += count;
        all_are(&graph.state().1, &stream, expected)?;
        ensure_eq!(graph.state().0.to_vec(&stream)?, [0]);
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
    let (data, closed) = graph.close();
    closed?;
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
        for waited in [device.context().synchronize(), device.context().collect()] {
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
    ensure!(caught.is_err());
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
    ensure!(caught.is_err());
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
    ensure_eq!(after.1, before.1 + 2);
    Ok(stream.synchronize()?)
}
