//! Graphs of several devices.

use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Recaptured, Stream};

use super::{Side, apart, count, joined, words};
use crate::device::checks::no_drop_errors;
use test_harness::{Case, TestDevice, TestResult, cases, count_launches, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "several",
        several(ring),
        several(ring_without_access),
        several(ring_of_forks),
        several(kernels_use_peers),
        several(recaptured),
        several(in_other_graphs),
        several(dropped_while_it_runs),
    ]
}

const N: usize = 1000;
const SHAPE: (u32, u32) = (4, 256);

fn contexts(sides: &[Side]) -> Vec<Context> {
    sides.iter().map(|side| side.context.clone()).collect()
}

/// Two buffers of each device: what it has, and what the one before it sends.
type Pairs = Vec<[DeviceBuffer<u32>; 2]>;

fn pairs(sides: &[Side]) -> cuda_safe::Result<Pairs> {
    let pair = |(index, side): (usize, &Side)| {
        Ok([side.buffer(&words(index as u32, N))?, side.zeroed(N)?])
    };
    sides.iter().enumerate().map(pair).collect()
}

/// Each device sends what it has to the next one, which adds its number and has that from then on.
fn send(sides: &[Side], streams: &[Stream], pairs: &mut Pairs) -> cuda_safe::Result<()> {
    let n = sides.len();
    for from in 0..n {
        let to = (from + 1) % n;
        // By whichever of the two.
        let stream = &streams[if from % 2 == 0 { from } else { to }];
        let [has, _] = &pairs[from];
        let has = has.allocation().clone();
        // SAFETY: the graph's memory, of which the other buffer of another device is written below.
        let has = unsafe { has.view::<u32>(0..N * 4) }?;
        pairs[to][1].as_slice_mut().copy_from_peer(stream, has)?;
    }
    for (index, (side, [has, sent])) in sides.iter().zip(pairs).enumerate() {
        has.copy_from(&streams[index], &*sent)?;
        count(side.basic.add(&streams[index], SHAPE, has, N as u64, index as u32 + 1))?;
    }
    Ok(())
}

/// The same on the host.
fn sent(has: &mut [Vec<u32>]) {
    has.rotate_right(1);
    for (index, words) in has.iter_mut().enumerate() {
        words.iter_mut().for_each(|word| *word = word.wrapping_add(index as u32 + 1));
    }
}

fn ring_of(sides: &[Side], rounds: usize) -> TestResult {
    if sides.is_empty() {
        return Ok(());
    }
    let mut expected: Vec<Vec<u32>> = (0..sides.len()).map(|i| words(i as u32, N)).collect();
    // Outside of a graph.
    let streams: Vec<Stream> = sides.iter().map(|side| side.stream.clone()).collect();
    let mut pairs = pairs(sides)?;
    for _ in 0..3 {
        send(sides, &streams, &mut pairs)?;
        sent(&mut expected);
    }
    for (side, ([has, _], words)) in sides.iter().zip(pairs.iter().zip(&expected)) {
        side.holds(has, words)?;
    }
    // As a graph, on the same memory.
    let mut graph = Context::capture_on(&contexts(sides), pairs, |streams, pairs| {
        ensure_same(streams, sides)?;
        send(sides, streams, pairs)
    })?;
    for round in 0..rounds {
        // Now and then from another stream of the first context.
        graph.launch(if round % 7 == 3 { &sides[0].other } else { &sides[0].stream })?;
        count_launches(sides.len() as u64);
        sent(&mut expected);
    }
    for (side, ([has, _], words)) in sides.iter().zip(graph.state().iter().zip(&expected)) {
        side.holds(has, words)?;
    }
    // What it used can be used as any memory of a graph.
    let mut pairs = graph.into_state();
    for (side, ([has, _], words)) in sides.iter().zip(pairs.iter_mut().zip(&mut expected)) {
        count(side.basic.add(&side.other, SHAPE, &mut *has, N as u64, 5))?;
        words.iter_mut().for_each(|word| *word = word.wrapping_add(5));
        side.holds(has, words)?;
    }
    Ok(())
}

fn ensure_same(streams: &[Stream], sides: &[Side]) -> cuda_safe::Result<()> {
    let same = |(stream, side): (&Stream, &Side)| stream.context() == side.context;
    let recording = sides.iter().all(|side| side.context.is_recording());
    match streams.len() == sides.len() && recording && streams.iter().zip(sides).all(same) {
        true => Ok(()),
        false => Err(cuda_safe::Error::invalid("not a stream of each context")),
    }
}

fn ring(device: &TestDevice) -> TestResult {
    ring_of(&joined(device)?, 100)
}

/// Through memory of the host, which the graph has for each copy.
fn ring_without_access(device: &TestDevice) -> TestResult {
    ring_of(&apart(device)?, 20)
}

/// Copies on forks of the streams, joined in one order or another.
fn ring_of_forks(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, ..] = &sides[..] else { return Ok(()) };
    let n = sides.len();
    let mut expected: Vec<Vec<u32>> = (0..n).map(|i| words(i as u32, N)).collect();
    let mut graph = Context::capture_on(&contexts(&sides), pairs(&sides)?, |streams, pairs| {
        let forks: Vec<Stream> = streams.iter().map(Stream::fork).collect::<Result<_, _>>()?;
        send(&sides, &forks, pairs)?;
        // By hand, of the first half; the others are joined when the capture ends.
        for (stream, fork) in streams.iter().zip(&forks).take(n / 2) {
            stream.wait_stream(fork)?;
        }
        for (stream, other) in streams.iter().zip(&forks).skip(1) {
            // Of another context.
            streams[0].wait_stream(other)?;
            stream.wait_stream(&streams[0])?;
        }
        Ok(())
    })?;
    for _ in 0..5 {
        graph.launch(&first.stream)?;
        count_launches(n as u64);
        sent(&mut expected);
    }
    for (side, ([has, _], words)) in sides.iter().zip(graph.state().iter().zip(&expected)) {
        side.holds(has, words)?;
    }
    Ok(())
}

/// Kernels of each device read and write memory of the next one, in a graph as outside.
fn kernels_use_peers(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    if !first.context.can_access_peer(&second.context)? {
        println!("the devices can't access each other's memory: nothing is tested");
        return Ok(());
    }
    let state = (first.buffer(&words(1, N))?, second.buffer(&words(2, N))?, second.zeroed(N)?);
    let both = [&first.context, &second.context];
    let mut graph = Context::capture_on(&both, state, |streams, (near, far, out)| {
        let n = N as u64;
        // The second device reads the first one's memory, and then the first writes the second one's.
        count(second.basic.copy(&streams[1], SHAPE, &*near, &mut *out, n))?;
        count(first.basic.add(&streams[0], SHAPE, &mut *far, n, 3))?;
        count(second.basic.add(&streams[1], SHAPE, &mut *far, n, 4))?;
        count(first.basic.copy(&streams[0], SHAPE, &*far, near, n))
    })?;
    let (mut near, mut far) = (words(1, N), words(2, N));
    for _ in 0..10 {
        graph.launch(&first.stream)?;
        let out = near.clone();
        far.iter_mut().for_each(|word| *word = word.wrapping_add(7));
        near.clone_from(&far);
        let state = graph.state();
        second.holds(&state.2, &out)?;
        first.holds(&state.0, &near)?;
        second.holds(&state.1, &far)?;
    }
    Ok(())
}

/// A graph of several contexts is made anew, on fewer, on the same and on more of them; a launch is changed.
fn recaptured(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let both = [&first.context, &second.context];
    let state = (first.zeroed(N)?, second.zeroed(N)?);
    type State = (DeviceBuffer<u32>, DeviceBuffer<u32>);
    let record = |by: u32| {
        move |streams: &[Stream], (near, far): &mut State| {
            count(first.basic.add(&streams[0], SHAPE, &mut *near, N as u64, by))?;
            streams[0].last_node()?;
            count(second.basic.add(&streams[1], SHAPE, &mut *far, N as u64, 100))?;
            far.as_slice_mut().copy_from_peer(&streams[0], &*near)
        }
    };
    let mut graph = Context::capture_on(&both, state, record(1))?;
    graph.launch(&first.stream)?;
    second.holds(&graph.state().1, &[1; N])?;
    // The node is one of the first context, and is given another number.
    let node = graph.nodes().next().ok_or_else(|| test_harness::Failure::new("no node"))?;
    graph.update(node, |stream, (near, _)| first.basic.add(stream, SHAPE, near, N as u64, 10))?;
    graph.launch(&first.stream)?;
    second.holds(&graph.state().1, &[11; N])?;
    ensure_eq!(graph.recapture_on(&both, record(100))?, Recaptured::Rebuilt);
    graph.launch(&first.other)?;
    second.holds(&graph.state().1, &[111; N])?;
    let alone = graph.recapture(|stream, (near, far)| {
        count(first.basic.add(stream, SHAPE, &mut *near, N as u64, 1000))?;
        far.as_slice_mut().copy_from_peer(stream, &*near)
    })?;
    ensure_eq!(alone, Recaptured::Rebuilt);
    graph.launch(&first.stream)?;
    second.holds(&graph.state().1, &[1111; N])?;
    // The graph belongs to the first context, and stays as it is.
    let other = graph.recapture_on(&[&second.context], |_, _| Ok(()));
    super::is_invalid(other, "another context")?;
    graph.launch(&first.stream)?;
    second.holds(&graph.state().1, &[2111; N])?;
    graph.close()?;
    Ok(())
}

/// A graph of several contexts as a part of another one, and copies of one.
fn in_other_graphs(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let both = [&first.context, &second.context];
    let state = (first.zeroed(N)?, second.zeroed(N)?);
    let inner = Context::capture_on(&both, state, |streams, (near, far)| {
        count(first.basic.add(&streams[0], SHAPE, &mut *near, N as u64, 1))?;
        far.as_slice_mut().copy_from_peer(&streams[1], &*near)?;
        count(second.basic.add(&streams[1], SHAPE, far, N as u64, 10))
    })?;
    let mut outer = first.context.capture(inner, |stream, inner| {
        inner.launch(stream)?;
        inner.launch(stream)
    })?;
    let mut copy = outer.state_mut().try_clone(())?;
    outer.launch(&first.stream)?;
    second.holds(&outer.state().state().1, &[12; N])?;
    outer.state_mut().launch(&first.other)?;
    second.holds(&outer.state().state().1, &[13; N])?;
    copy.launch(&first.stream)?;
    second.holds(&outer.state().state().1, &[14; N])?;
    // A copy keeps what it needs.
    outer.launch(&first.stream)?;
    let (near, far) = outer.into_state().into_state();
    copy.launch(&first.other)?;
    second.holds(&far, &[17; N])?;
    first.holds(&near, &[7; N])
}

/// The graph goes while it runs, with all that only it has held; the contexts are waited for in either order.
fn dropped_while_it_runs(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let both = [&first.context, &second.context];
    for order in [[first, second], [second, first]] {
        let mut result = second.zeroed(N)?;
        let state = (first.zeroed(N)?, second.zeroed(N)?);
        // Kernels that nothing else holds.
        let slow = test_harness::programs::Delay::load(&first.context)?;
        let last = test_harness::programs::Basic::load(&second.context)?;
        let out = &mut result;
        let mut graph = Context::capture_on(&both, state, move |streams, (near, far)| {
            count(slow.delayed_fill(
                &streams[0],
                (1, 256),
                &mut *near,
                N as u64,
                7,
                5 * super::MS,
            ))?;
            far.as_slice_mut().copy_from_peer(&streams[1], &*near)?;
            far.slice_mut(..1)?.upload(&streams[1], &[8])?;
            count(last.copy(&streams[1], SHAPE, &*far, out, N as u64))
        })?;
        graph.launch(&first.stream)?;
        drop(graph);
        for side in order {
            side.context.free_deferred()?;
        }
        let mut wanted = vec![7; N];
        wanted[0] = 8;
        second.holds(&result, &wanted)?;
        no_drop_errors(&first.context)?;
        // Copies through memory of the host hold that.
        let state = (first.buffer(&words(3, N))?, second.zeroed(N)?);
        let mut graph = first.context.capture(state, |stream, (near, far)| {
            count(first.basic.nothing(stream, LaunchConfig::new(1, 32)))?;
            far.as_slice_mut().copy_from_peer(stream, &*near)
        })?;
        graph.launch(&first.stream)?;
        let (_, far) = graph.into_state();
        second.holds(&far, &words(3, N))?;
    }
    Ok(())
}
