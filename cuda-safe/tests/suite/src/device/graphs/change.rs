//! What becomes of a recorded graph: changed nodes, recaptures, clones, children, and graphs put
//! together from parts and conditions.

use std::cell::Cell;
use std::rc::Rc;

use cuda_safe::{DeviceBuffer, GraphBuilder, LaunchConfig, Recaptured, Result};

use super::super::MS;
use super::super::checks::{all_are, did_not_run, is_invalid, named, not_the_drivers};
use super::{N, SHAPE, zeroed};
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "graphs",
        device(a_node_changes),
        device(a_node_beside_others),
        device(a_change_that_fails),
        device(recaptured),
        device(clones),
        device(children),
        device(dot),
        device(parts),
        device(conditions),
        device(loops),
    ]
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
    is_invalid(refused, "another node of this graph")?;
    let refused =
        graph.update(node, move |stream, [_, _, c]| basic.fill(stream, SHAPE, &mut *c, n, 1));
    is_invalid(refused, "another node of this graph")?;
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
            basic.add(stream, LaunchConfig::from(SHAPE).cooperative(), &mut *data, n, 2)
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
    let renamed = Rc::new(Cell::new(None));
    let place = renamed.clone();
    let again = graph.recapture(move |stream, (a, b)| {
        device.count(basic.add(stream, SHAPE, &mut *b, n, 10))?;
        place.set(Some(stream.last_node()?));
        device.count(basic.copy(stream, SHAPE, &*b, &mut *a, n))
    })?;
    ensure_eq!(again, Recaptured::Updated);
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 11)?;
    // By the name that it has kept, and by the one that the recapture gave.
    for node in [Some(node), renamed.get()] {
        let node = node.ok_or_else(did_not_run)?;
        graph.update(node, move |stream, (_, b)| basic.add(stream, SHAPE, &mut *b, n, 50))?;
        graph.launch(&stream)?;
    }
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
        not_the_drivers(&body)
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
