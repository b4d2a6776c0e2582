//! Attacks on the order of launches of graphs, and of the branches in them.

use std::cell::RefCell;
use std::thread;

use cuda_safe::{DeviceBuffer, GraphExec, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kit, LEN, N, all, on_purpose, unnamed};
use crate::attack::attacks;
use crate::lab::Lab;

/// Launches one graph on four streams in turn, between kernels on other streams that use the same memory.
///
/// - row: a launch is ordered with all other work
/// - targets: `GraphExec::launch`, `GraphExec::state_mut`, `GraphExec::state`
fn one_graph_on_four_streams(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let streams = (0..4).map(|_| context.stream()).collect::<Result<Vec<_>, _>>()?;
    let kit = Kit::load(&context)?;
    let mut y = DeviceBuffer::from_slice(&streams[1], &[1u32; N])?;
    let x = DeviceBuffer::<u32>::zeroed(&streams[0], N)?;
    let source = DeviceBuffer::from_slice(&streams[1], &[5u32; N])?;
    let mut graph = context.capture(x, |s, x| {
        kit.add(s, all(), 7, &mut *x, LEN)?;
        kit.mix(s, all(), &source, x, LEN)
    })?;
    let (mut expected, mut expected_y) = (0u32, 1u32);
    for round in 0..20 {
        graph.launch(&streams[round % 4])?;
        expected = (expected.wrapping_add(7)).wrapping_mul(3).wrapping_add(5);
        kit.mix(&streams[(round + 1) % 4], all(), graph.state(), &mut y, LEN)?;
        expected_y = expected_y.wrapping_mul(3).wrapping_add(expected);
        kit.mix(&streams[(round + 2) % 4], all(), &y, graph.state_mut(), LEN)?;
        expected = expected.wrapping_mul(3).wrapping_add(expected_y);
    }
    ensure_eq!(graph.state().to_vec(&streams[3])?, [expected; N]);
    ensure_eq!(y.to_vec(&streams[2])?, [expected_y; N]);
    Ok(())
}

/// Records a writer, two readers and a writer again on four forks of one recording, none of which is joined.
///
/// - row: inside, streams of one recording are ordered
/// - targets: `Stream::fork`, `Context::capture`
fn forks_that_are_not_joined(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let buffers = [0u32, 1, 2].map(|v| DeviceBuffer::from_slice(&stream, &[v; N]));
    let [x, y, z] = buffers;
    let mut graph = context.capture((x?, y?, z?), |s, (x, y, z)| {
        let (a, b, c, d) = (s.fork()?, s.fork()?, s.fork()?, s.fork()?);
        kit.fill(&a, all(), 10, &mut *x, LEN)?;
        kit.mix(&b, all(), &*x, &mut *y, LEN)?;
        kit.mix(&c, all(), &*x, &mut *z, LEN)?;
        kit.fill(&d, all(), 20, &mut *x, LEN)?;
        // Each fork waits for another's memory again.
        kit.mix(&b, all(), &*z, &mut *x, LEN)?;
        kit.mix(&a, all(), &*x, &mut *y, LEN)?;
        kit.mix(&c, all(), &*y, z, LEN)
    })?;
    let (mut y, mut z) = (1u32, 2u32);
    let mut last = 0;
    for _ in 0..5 {
        graph.launch(&stream)?;
        (y, z) = (3 * y + 10, 3 * z + 10);
        last = 60u32.wrapping_add(z);
        y = y.wrapping_mul(3).wrapping_add(last);
        z = z.wrapping_mul(3).wrapping_add(y);
    }
    let (gx, gy, gz) = graph.state();
    ensure_eq!(gx.to_vec(&stream)?, [last; N]);
    ensure_eq!(gy.to_vec(&stream)?, [y; N]);
    ensure_eq!(gz.to_vec(&stream)?, [z; N]);
    Ok(())
}

/// Closes, drops and leaks forks of forks before their recording ends.
///
/// - row: inside, streams of one recording are ordered
/// - row: a capture is not spoilt by safe calls
/// - targets: `Stream::fork`, `Stream::close`, `Stream::wait_stream`
fn forks_closed_and_leaked(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture(x, |s, x| {
        let fork = s.fork()?;
        let deep = fork.fork()?.fork()?;
        kit.add(&deep, all(), 1, &mut *x, LEN)?;
        fork.wait_stream(&deep)?;
        std::mem::forget(deep);
        kit.add(&fork, all(), 2, &mut *x, LEN)?;
        let empty = s.fork()?;
        let twice = empty.clone();
        if fork.close().is_err() || empty.close().is_ok() {
            return Err(on_purpose());
        }
        drop(twice);
        kit.add(s, all(), 4, x, LEN)
    })?;
    for _ in 0..3 {
        graph.launch(&stream)?;
    }
    ensure_eq!(graph.state().to_vec(&stream)?, [21; N]);
    context.synchronize()?;
    Ok(())
}

/// Records a launch of a graph in another graph, then changes, records anew and drops the inner one.
///
/// - row: a launch is ordered with all other work
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - targets: `GraphExec::launch`, `GraphExec::update`, `GraphExec::recapture`
fn inner_graph_changed_and_dropped(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut inner = context.capture(Some(x), |s, x| {
        let Some(x) = x else { return Ok(()) };
        kit.add(s, all(), 1, x, LEN)?;
        s.last_node().map(drop)
    })?;
    let y = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut outer = context.capture(y, |s, y| {
        inner.launch(s)?;
        inner.launch(&s.fork()?)?;
        kit.add(s, all(), 1, y, LEN)
    });
    // The outer closure has borrowed the inner graph: the test of changes is made with one that owns it.
    if let Ok(graph) = &mut outer {
        graph.launch(&other)?;
    }
    let first = outer?.into_state();
    ensure_eq!(first.to_vec(&stream)?, [1; N]);
    ensure_eq!(inner.state().as_ref().map(|x| x.to_vec(&stream)).transpose()?, Some(vec![2; N]));

    let mut outer = context.capture((inner, first), |s, (inner, y)| {
        inner.launch(s)?;
        kit.add(s, all(), 1, y, LEN)
    })?;
    let (inner, _) = outer.state_mut();
    let node = inner.nodes().next().ok_or_else(unnamed)?;
    inner.update(node, |s, x| match x {
        Some(x) => kit.add(s, all(), 100, x, LEN),
        None => Err(on_purpose()),
    })?;
    outer.launch(&other)?;
    let (inner, _) = outer.state_mut();
    ensure_eq!(inner.state().as_ref().map(|x| x.to_vec(&stream)).transpose()?, Some(vec![3; N]));
    let spare = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let kept = inner.state_mut().replace(spare);
    inner.recapture(|s, x| match x {
        Some(x) => kit.fill(s, all(), 55, x, LEN),
        None => Err(on_purpose()),
    })?;
    drop(kept);
    let others =
        (0..4).map(|_| DeviceBuffer::<u32>::zeroed(&stream, N)).collect::<Result<Vec<_>, _>>()?;
    outer.launch(&other)?;
    outer.launch(&stream)?;
    for other in &others {
        ensure_eq!(other.to_vec(&stream)?, [0; N], "the inner copy wrote freed memory");
    }
    let (inner, y) = outer.state();
    ensure_eq!(inner.state().as_ref().map(|x| x.to_vec(&stream)).transpose()?, Some(vec![0; N]));
    ensure_eq!(y.to_vec(&stream)?, [4; N]);
    Ok(())
}

/// Launches a graph and two clones of it, each on a stream of its own, all of which add to the same memory; the
/// original is dropped in flight.
///
/// - row: a launch is ordered with all other work
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - targets: `GraphExec::try_clone`, `GraphExec::into_state`
fn clones_that_write_the_same(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let streams = (0..3).map(|_| context.stream()).collect::<Result<Vec<_>, _>>()?;
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&streams[0], N)?;
    let mut graph = context.capture(x, |s, x| {
        kit.add(s, all(), 1, &mut *x, LEN)?;
        kit.add(s, all(), 1, x, LEN)
    })?;
    let mut clones = vec![graph.try_clone(())?, graph.try_clone(())?];
    let third = clones[0].try_clone(())?;
    clones.push(third);
    for round in 0..8 {
        graph.launch(&streams[0])?;
        for (i, clone) in clones.iter_mut().enumerate() {
            clone.launch(&streams[(i + round) % 3])?;
        }
    }
    let x = graph.into_state();
    ensure_eq!(x.to_vec(&streams[2])?, [64; N]);
    for clone in &mut clones {
        clone.launch(&streams[1])?;
    }
    ensure_eq!(x.to_vec(&streams[0])?, [70; N]);
    drop(x);
    let fresh = DeviceBuffer::<u32>::zeroed(&streams[0], N)?;
    for clone in &mut clones {
        clone.launch(&streams[2])?;
    }
    ensure_eq!(fresh.to_vec(&streams[1])?, [0; N]);
    Ok(())
}

/// Gives up a graph while it runs, and overwrites what it uses on another stream at once.
///
/// - row: a launch is ordered with all other work
/// - targets: `GraphExec::into_state`, `GraphExec::close`, `GraphExec::upload`
fn given_up_in_flight(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    for round in 1..8 {
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let mut y = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let mut graph = context.capture((), |s, ()| {
            for _ in 0..4 {
                kit.add(s, all(), round, &mut x, LEN)?;
            }
            kit.mix(s, all(), &x, &mut y, LEN)
        })?;
        graph.upload(&other)?;
        graph.launch(&stream)?;
        match lab.variant() {
            "given up" => graph.into_state(),
            "closed" => drop(graph.close()),
            _ => drop(graph),
        }
        x.fill(&other, 9)?;
        ensure_eq!(y.to_vec(&other)?, [4 * round; N]);
        ensure_eq!(x.to_vec(&stream)?, [9; N]);
    }
    Ok(())
}

/// Launches graphs that share a buffer from three threads, while a fourth uses it through its owner.
///
/// - row: nothing slips in between
/// - row: nobody waits for the device with the graph lock held
/// - targets: `GraphExec::try_clone`, `DeviceBuffer::copy_from`, `GraphExec::launch`
fn threads_launch_clones(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture(x, |s, x| kit.add(s, all(), 1, x, LEN))?;
    let clones =
        (0..3).map(|_| graph.try_clone(())).collect::<Result<Vec<GraphExec<'_, ()>>, _>>()?;
    let mut y = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let results: Vec<TestResult> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for mut clone in clones {
            let context = context.clone();
            threads.push(scope.spawn(move || -> TestResult {
                let own = context.stream()?;
                for _ in 0..20 {
                    clone.launch(&own)?;
                }
                Ok(own.synchronize()?)
            }));
        }
        let (graph, y, stream, kit) = (&mut graph, &mut y, &stream, &kit);
        threads.push(scope.spawn(move || -> TestResult {
            let mut last = 0;
            for round in 0..20 {
                kit.add(stream, all(), 1000, graph.state_mut(), LEN)?;
                y.copy_from(stream, graph.state())?;
                let seen = y.to_vec(stream)?;
                ensure!(seen.iter().all(|v| *v == seen[0]), "a copy is torn: {:?}", &seen[..4]);
                ensure_eq!(seen[0] / 1000, round + 1);
                ensure!(seen[0] % 1000 >= last % 1000, "{} after {last}", seen[0]);
                last = seen[0];
            }
            Ok(())
        }));
        threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::new("a thread has panicked")))
            })
            .collect()
    });
    results.into_iter().collect::<TestResult>()?;
    ensure_eq!(graph.state().to_vec(&stream)?, [20_060; N]);
    Ok(())
}

/// Launches a graph whose memory the host looks at, through an inner copy in another graph too.
///
/// - row: while a guard lives nothing that conflicts is enqueued
/// - targets: `UnifiedBuffer::host`, `GraphExec::launch`, `GraphExec::try_clone`
fn launched_under_a_guard(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let x = UnifiedBuffer::<u32>::pinned(&stream, N)?;
    let mut graph = context.capture(x, |s, x| kit.add(s, all(), 1, x, LEN))?;
    let mut clone = graph.try_clone(())?;
    let inner = graph.try_clone(())?;
    let mut outer = context.capture(inner, |s, inner| inner.launch(s))?;
    {
        let seen = graph.state().host()?;
        lab.refused(
            clone.launch(&stream),
            "the host is reading the buffer: its `host()` guard is alive, or was leaked",
        )?;
        lab.refused(
            outer.launch(&stream),
            "the host is reading the buffer: its `host()` guard is alive, or was leaked",
        )?;
        stream.synchronize()?;
        ensure_eq!(seen[..], [0; N]);
    }
    clone.launch(&stream)?;
    outer.launch(&stream)?;
    ensure_eq!(graph.state().host()?[..], [2; N]);
    // A leaked guard counts for ever; reading goes on.
    std::mem::forget(graph.state().host()?);
    lab.refused(
        clone.launch(&stream),
        "the host is reading the buffer: its `host()` guard is alive, or was leaked",
    )?;
    lab.refused(
        graph.launch(&stream),
        "the host is reading the buffer: its `host()` guard is alive, or was leaked",
    )?;
    ensure_eq!(graph.state().host()?[..], [2; N]);
    Ok(())
}

/// Records memory that a closure has borrowed for a moment alone, from a cell, and looks at it, frees it and takes it
/// elsewhere while the graph can be launched.
///
/// - row: what its closures have borrowed stays borrowed
/// - row: a launch is ordered with all other work
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - row: memory that a closure reaches without a borrow
/// - targets: `Context::capture`, `DeviceBuffer::as_slice`, `GraphExec::launch`
fn borrowed_from_a_cell(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let cell = RefCell::new(Some(DeviceBuffer::<u32>::zeroed(&stream, N)?));
    let mut graph = context.capture((), |s, ()| match &mut *cell.borrow_mut() {
        Some(x) => kit.add(s, all(), 1, x, LEN),
        None => Err(on_purpose()),
    })?;
    {
        let lent = cell.borrow();
        let Some(x) = &*lent else { return Err(Failure::new("the buffer is gone")) };
        let mut copy = DeviceBuffer::<u32>::zeroed(&other, N)?;
        for round in 1..10 {
            graph.launch(&stream)?;
            // A view does not keep the graph away, but each use is whole, and in order.
            copy.copy_from(&other, x.as_slice())?;
            ensure_eq!(copy.to_vec(&other)?, [round; N]);
        }
    }
    let Some(x) = cell.take() else { return Err(Failure::new("the buffer is gone")) };
    ensure!(x.into_raw().is_err(), "memory of a graph was given up");
    let others =
        (0..4).map(|_| DeviceBuffer::<u32>::zeroed(&stream, N)).collect::<Result<Vec<_>, _>>()?;
    graph.launch(&other)?;
    for other in &others {
        ensure_eq!(other.to_vec(&stream)?, [0; N]);
    }
    Ok(())
}

attacks![
    "graphs",
    right(borrowed_from_a_cell),
    right(one_graph_on_four_streams),
    right(forks_that_are_not_joined),
    right(forks_closed_and_leaked),
    right(inner_graph_changed_and_dropped),
    right(clones_that_write_the_same),
    right(given_up_in_flight).variants(&["given up", "closed", "dropped"]),
    right(threads_launch_clones),
    right(launched_under_a_guard),
];
