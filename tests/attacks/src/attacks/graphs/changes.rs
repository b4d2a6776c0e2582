//! Attacks on graphs that are changed: updates, recaptures, clones, and what is built from parts.

use std::mem::take;

use cuda_safe::{
    DeviceBuffer, Event, GraphBuilder, GraphNode, LaunchConfig, Recaptured, Stream, UnifiedBuffer,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kit, LEN, N, all, on_purpose, unnamed};
use crate::attack::attacks;
use crate::lab::Lab;

/// Makes no launch, two, a fill, one elsewhere, and one of other attributes in the place of a node.
///
/// - row: a changed node keeps what it uses now
/// - targets: `GraphExec::update`, `LaunchConfig::priority`, `LaunchConfig::cooperative`
fn updates_that_are_no_launch(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let (kit, other) = (&kit, lab.stream()?);
    let other = &other;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture(x, |s, x| {
        kit.add(s, all(), 1, &mut *x, LEN)?;
        s.last_node().map(drop)
    })?;
    let node = graph.nodes().next().ok_or_else(unnamed)?;
    lab.refused(graph.update(node, |_, _| Ok(())), "no launch was made to change the node to")?;
    lab.refused(
        graph.update(node, |s, x| {
            kit.add(s, all(), 2, &mut *x, LEN)?;
            kit.add(s, all(), 2, x, LEN)
        }),
        "a node for a launch can only be changed by one launch",
    )?;
    lab.refused(
        graph.update(node, |s, x| x.fill(s, 3)),
        "a node for a launch can only be changed by one launch",
    )?;
    lab.refused(
        graph.update(node, |s, x| x.upload(s, &[3; N])),
        "a node for a launch can only be changed by one launch",
    )?;
    lab.refused(
        graph.update(node, |s, _| s.fork().map(drop)),
        "a node for a launch can only be changed by one launch",
    )?;
    lab.refused(
        graph.update(node, |s, x| kit.add(s, LaunchConfig::cover(0, 64), 9, x, LEN)),
        "no launch was made to change the node to",
    )?;
    lab.refused(
        graph.update(node, |s, x| kit.add(s, LaunchConfig::new(0, 64), 9, x, LEN)),
        "a grid of (0, 1, 1) has no blocks",
    )?;
    lab.refused(graph.update(node, |s, x| kit.add(s, all().priority(-1), 9, x, LEN)), "a node keeps its attributes, which are those of: grid (4, 1, 1), block (64, 1, 1), 0 bytes")?;
    lab.refused(graph.update(node, |s, x| kit.add(s, all().cooperative(), 9, x, LEN)), "a node keeps its attributes, which are those of: grid (4, 1, 1), block (64, 1, 1), 0 bytes")?;
    lab.refused(graph.update(node, |s, x| kit.add(s, all(), 9, x, LEN + 1)), "n <=")?;
    lab.refused(
        graph.update(node, |s, _| s.host_function_mut(|| ())),
        "a node for a launch can only be changed by one launch",
    )?;
    graph.launch(&stream)?;
    let seen = graph.state().to_vec(&stream)?;
    // The documentation allows that a launch stays which a failing closure has made before its error.
    ensure!(seen.iter().all(|v| *v == 1 || *v == 2), "{:?}", &seen[..4]);
    // A launch elsewhere runs at once and is no node.
    lab.refused(
        graph.update(node, |_, x| kit.fill(other, all(), 500, x, LEN)),
        "no launch was made to change the node to",
    )?;
    ensure_eq!(graph.state().to_vec(&stream)?, [500; N]);
    graph.update(node, |s, x| kit.add(s, all(), 5, x, LEN))?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().to_vec(&stream)?, [505; N]);
    Ok(())
}

/// Keeps the stream of an update, and uses it in later updates and after them.
///
/// - row: a stream of a recording that has ended does nothing
/// - targets: `GraphExec::update`, `Stream::fork`, `Stream::last_node`
fn stream_of_an_ended_update(lab: &Lab) -> TestResult {
    let refusal = "record";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture((x, Vec::<Stream>::new()), |s, (x, _)| {
        kit.add(s, all(), 1, x, LEN)?;
        s.last_node().map(drop)
    })?;
    let node = graph.nodes().next().ok_or_else(unnamed)?;
    graph.update(node, |s, (x, kept)| {
        kept.push(s.clone());
        kit.add(s, all(), 2, x, LEN)
    })?;
    let refused = graph.update(node, |s, (x, kept)| {
        let ended = take(kept);
        kept.push(s.clone());
        kit.add(&ended[0], all(), 3, x, LEN)
    });
    lab.refused(refused, refusal)?;
    let kept = take(&mut graph.state_mut().1);
    for ended in &kept {
        let (x, _) = graph.state_mut();
        lab.refused(kit.add(ended, all(), 4, x, LEN), refusal)?;
        lab.refused(ended.fork(), refusal)?;
        lab.refused(DeviceBuffer::<u32>::zeroed(ended, 4), refusal)?;
        ensure!(ended.last_node().is_err());
        ensure!(Event::new(&context)?.record(ended).is_err());
    }
    drop(kept);
    graph.launch(&stream)?;
    ensure_eq!(graph.state().0.to_vec(&stream)?, [2; N]);
    Ok(())
}

/// Updates a node again and again to use new memory, dropping the old while launches of it are under way.
///
/// - row: a changed node keeps what it uses now
/// - targets: `GraphExec::update`, `GraphExec::launch`
fn updated_in_flight(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let y = DeviceBuffer::<u32>::zeroed(&other, N)?;
    let mut graph = context.capture((Some(x), y), |s, (x, y)| {
        let Some(x) = x else { return Err(on_purpose()) };
        kit.add(s, all(), 1, &mut *x, LEN)?;
        s.last_node()?;
        kit.mix(s, all(), &*x, y, LEN)?;
        s.last_node().map(drop)
    })?;
    let nodes: Vec<GraphNode> = graph.nodes().collect();
    let mut expected = 0u32;
    for round in 0..8u32 {
        graph.launch(if round % 2 == 0 { &stream } else { &other })?;
        expected = expected.wrapping_mul(3).wrapping_add(1);
        let fresh = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        drop(graph.state_mut().0.replace(fresh));
        // The second node still reads the old memory for one update.
        graph.update(nodes[0], |s, (x, _)| match x {
            Some(x) => kit.add(s, all(), 1, x, LEN),
            None => Err(on_purpose()),
        })?;
        graph.update(nodes[1], |s, (x, y)| match x {
            Some(x) => kit.mix(s, all(), &*x, y, LEN),
            None => Err(on_purpose()),
        })?;
        let spoil = DeviceBuffer::from_slice(&stream, &[99u32; N])?;
        drop(spoil);
    }
    ensure_eq!(graph.state().1.to_vec(&stream)?, [expected; N]);
    Ok(())
}

/// Updates a node of a graph with branches to use the memory of another branch.
///
/// - row: a changed node keeps what it uses now
/// - row: inside, streams of one recording are ordered
/// - targets: `GraphExec::update`, `GraphBuilder::add`
fn update_to_the_memory_of_a_branch(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = UnifiedBuffer::<u32>::pinned(&stream, N)?;
    let y = UnifiedBuffer::<u32>::pinned(&stream, N)?;
    let one = |s: &Stream, x: &mut UnifiedBuffer<u32>| {
        kit.add(s, all(), 1, x, LEN)?;
        s.last_node().map(drop)
    };
    let mut graph = if lab.variant() == "parts" {
        let mut builder = GraphBuilder::new(&context, (x, y))?;
        builder.add(&[], |s, (x, _)| one(s, x))?;
        builder.add(&[], |s, (_, y)| one(s, y))?;
        builder.instantiate()?
    } else {
        context.capture((x, y), |s, (x, y)| {
            one(s, x)?;
            one(&s.fork()?, y)
        })?
    };
    let node = graph.nodes().next().ok_or_else(unnamed)?;
    lab.refused(
        graph.update(node, |s, (_, y)| kit.add(s, all(), 9, y, LEN)),
        "another node of this graph, which has branches, uses this memory: it is not known whether",
    )?;
    lab.refused(
        graph.update(node, |s, (x, y)| kit.mix(s, all(), &*y, x, LEN)),
        "another node of this graph, which has branches, uses this memory: it is not known whether",
    )?;
    if lab.variant() == "while looked at" {
        // An update is no launch: it may be made under a leaked guard, and the launch is refused.
        std::mem::forget(graph.state().0.host()?);
        let _ = graph.update(node, |s, (x, _)| kit.add(s, all(), 2, x, LEN));
        lab.refused(
            graph.launch(&stream),
            "the host is reading the buffer: its `host()` guard is alive, or was leaked",
        )?;
        ensure_eq!(graph.state().0.host()?[..], [0; N]);
        return Ok(());
    }
    graph.update(node, |s, (x, _)| kit.add(s, all(), 5, x, LEN))?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().0.host()?[..], [5; N]);
    ensure_eq!(graph.state().1.host()?[..], [1; N]);
    Ok(())
}

/// Updates by names that a rebuilding recapture has ended, that a failed recapture has given, and that are a clone's.
///
/// - row: a recapture that fails leaves the graph as it was
/// - targets: `GraphExec::recapture`, `GraphExec::nodes`, `GraphExec::try_clone`, `GraphExec::update`
fn names_of_earlier_recordings(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture((x, Vec::new()), |s, (x, names)| {
        for v in [1, 10] {
            kit.add(s, all(), v, &mut *x, LEN)?;
            names.push(s.last_node()?);
        }
        Ok(())
    })?;
    let old: Vec<GraphNode> = graph.nodes().collect();
    ensure_eq!(old, graph.state().1);
    let failed = graph.recapture(|s, (x, names)| {
        kit.fill(s, all(), 1, &mut *x, LEN)?;
        names.push(s.last_node()?);
        kit.add(s, all(), 100, &mut *x, LEN)?;
        names.push(s.last_node()?);
        Err(on_purpose())
    });
    lab.refused(failed, "on purpose")?;
    let of_failed = graph.state().1[2];
    let applied = graph.update(of_failed, |s, (x, _)| kit.add(s, all(), 1000, x, LEN));
    ensure!(applied.is_err(), "a name of a failed recapture is a name");
    graph.launch(&stream)?;
    ensure_eq!(graph.state().0.to_vec(&stream)?, [11; N]);
    // A clone's nodes keep their names; changes of one don't reach the other.
    let mut clone = graph.try_clone(DeviceBuffer::<u32>::zeroed(&stream, N)?)?;
    clone.update(old[0], |s, x| kit.add(s, all(), 500, x, LEN))?;
    clone.launch(&stream)?;
    ensure_eq!(graph.state().0.to_vec(&stream)?, [21; N]);
    ensure_eq!(clone.state().to_vec(&stream)?, [500; N]);
    lab.refused(
        clone.try_clone(()),
        "nodes of the graph were changed, which its copies don't show",
    )?;
    // Another shape makes it anew, and ends the names.
    let came = graph.recapture(|s, (x, _)| {
        x.fill(s, 4)?;
        kit.add(s, all(), 1, &mut *x, LEN)?;
        s.last_node()?;
        kit.add(s, all(), 1, &mut *x, LEN)
    })?;
    ensure_eq!(came, Recaptured::Rebuilt);
    for old in old {
        lab.refused(graph.update(old, |s, (x, _)| kit.add(s, all(), 1000, x, LEN)), "node")?;
    }
    let node = graph.nodes().next().ok_or_else(unnamed)?;
    lab.refused(clone.update(node, |s, x| kit.add(s, all(), 1, x, LEN)), "node")?;
    graph.update(node, |s, (x, _)| kit.add(s, all(), 20, x, LEN))?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().0.to_vec(&stream)?, [25; N]);
    Ok(())
}

/// Records a graph anew in turn with one shape, another, and one that swaps the places of two launches, while
/// launches of it are under way.
///
/// - row: a recapture that fails leaves the graph as it was
/// - row: a launch is ordered with all other work
/// - targets: `GraphExec::recapture`, `GraphExec::nodes`, `GraphExec::update`
fn recaptured_in_flight(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let y = DeviceBuffer::<u32>::zeroed(&other, N)?;
    let mut graph = context.capture((x, y), |s, (x, y)| kit.mix(s, all(), &*x, y, LEN))?;
    let (mut ex, mut ey) = (0u32, 0u32);
    let mix = |to: &mut u32, from: u32| *to = to.wrapping_mul(3).wrapping_add(from);
    for round in 0..12u32 {
        let on = if round % 2 == 0 { &stream } else { &other };
        match round % 4 {
            0 => {
                graph.recapture(move |s, (x, y)| {
                    kit.add(s, all(), round + 1, &mut *x, LEN)?;
                    s.last_node()?;
                    kit.mix(s, all(), &*x, y, LEN)
                })?;
                ex = ex.wrapping_add(round + 1);
                mix(&mut ey, ex);
            }
            1 => {
                graph.recapture(move |s, (x, y)| {
                    kit.mix(s, all(), &*y, &mut *x, LEN)?;
                    kit.add(s, all(), round, y, LEN)?;
                    s.last_node().map(drop)
                })?;
                let node = graph.nodes().next().ok_or_else(unnamed)?;
                graph.update(node, move |s, (_, y)| kit.add(s, all(), round + 50, y, LEN))?;
                mix(&mut ex, ey);
                ey = ey.wrapping_add(round + 50);
            }
            2 => {
                graph.recapture(move |s, (x, y)| {
                    let fork = s.fork()?;
                    kit.add(&fork, all(), 3, &mut *x, LEN)?;
                    kit.add(s, all(), 4, &mut *y, LEN)?;
                    kit.mix(&fork, all(), &*y, x, LEN)
                })?;
                ex = ex.wrapping_add(3);
                ey = ey.wrapping_add(4);
                mix(&mut ex, ey);
            }
            _ => {
                // New memory in the place of the old, which is freed in flight.
                let fresh = DeviceBuffer::from_slice(on, &[round; N])?;
                drop(std::mem::replace(&mut graph.state_mut().0, fresh));
                ex = round;
                graph.recapture(move |s, (x, y)| kit.mix(s, all(), &*x, y, LEN))?;
                mix(&mut ey, ex);
            }
        }
        graph.launch(on)?;
        if round % 3 == 0 {
            ensure_eq!(graph.state().1.to_vec(&stream)?, [ey; N], "round {round}");
        }
    }
    ensure_eq!(graph.state().0.to_vec(&other)?, [ex; N]);
    ensure_eq!(graph.state().1.to_vec(&other)?, [ey; N]);
    Ok(())
}

/// Builds a graph of parts of another graph, of parts that conflict though they name nothing, of a part that fails,
/// and moves the builder to another thread between parts.
///
/// - row: inside, streams of one recording are ordered
/// - row: memory of a graph is used inside it alone
/// - targets: `GraphBuilder::add`, `GraphBuilder::instantiate`, `GraphBuilder::new`
fn parts_out_of_order(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let mut foreign = GraphBuilder::new(&context, ())?;
    let strange = foreign.add(&[], |_, ()| Ok(()))?;
    let strange_too = foreign.add(&[strange], |_, ()| Ok(()))?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let y = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut builder = GraphBuilder::new(&context, (x, y, None))?;
    lab.refused(
        builder.add(&[strange], |s, (x, _, _)| kit.add(s, all(), 9, x, LEN)),
        "the part to come after is of another graph",
    )?;
    let a = builder.add(&[], |s, (x, _, _)| kit.add(s, all(), 1, x, LEN))?;
    lab.refused(
        builder.add(&[a, strange_too], |_, _| Ok(())),
        "the part to come after is of another graph",
    )?;
    // A buffer made in one part, used in a second that names nothing, dropped in a third.
    builder.add(&[], |s, (_, _, made)| {
        let mut buffer = DeviceBuffer::<u32>::zeroed(s, N)?;
        kit.add(s, all(), 5, &mut buffer, LEN)?;
        *made = Some(buffer);
        Ok(())
    })?;
    let failed = builder.add(&[a], |s, (_, y, _)| {
        kit.add(s, all(), 100, y, LEN)?;
        Err(on_purpose())
    });
    lab.refused(failed, "on purpose")?;
    let built = std::thread::scope(|scope| {
        scope
            .spawn(move || {
                builder.add(&[], |s, (x, _, made)| match made {
                    Some(made) => kit.mix(s, all(), &*made, x, LEN),
                    None => Err(on_purpose()),
                })?;
                builder.add(&[], |s, (x, y, _)| kit.mix(s, all(), &*x, y, LEN))?;
                builder.add(&[], |_, (_, _, made)| {
                    drop(made.take());
                    Ok(())
                })?;
                builder.instantiate()
            })
            .join()
    });
    let Ok(built) = built else { return Err(Failure::new("the thread has panicked")) };
    let mut graph = built?;
    let (mut x, mut y) = (0u32, 0u32);
    for _ in 0..4 {
        graph.launch(&stream)?;
        x = (x + 1) * 3 + 5;
        // What was enqueued before the error stays.
        y = (y + 100) * 3 + x;
    }
    ensure_eq!(graph.state().0.to_vec(&stream)?, [x; N]);
    ensure_eq!(graph.state().1.to_vec(&stream)?, [y; N]);
    // One that still holds the graph's memory is no graph.
    let mut builder = GraphBuilder::new(&context, None)?;
    builder.add(&[], |s, made| {
        *made = Some(DeviceBuffer::<u32>::zeroed(s, N)?);
        Ok(())
    })?;
    lab.refused(
        builder.instantiate(),
        "1 buffers made while recording are still alive when it ends",
    )
}

/// Launches and clones graphs of memory that is allocated in each launch, on two streams at once.
///
/// - row: memory of a graph is used inside it alone
/// - row: a launch is ordered with all other work
/// - targets: `GraphExec::try_clone`, `GraphExec::recapture`, `GraphExec::write_dot`
fn graphs_that_allocate(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let make = |s: &Stream, x: &mut DeviceBuffer<u32>, v: u32| {
        let made = DeviceBuffer::from_slice(s, &[v; N])?;
        let copy = made.try_clone(s)?;
        drop(made);
        kit.mix(s, all(), &copy, x, LEN)
    };
    let mut one =
        context.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| make(s, x, 1))?;
    let mut two =
        context.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| make(s, x, 2))?;
    let (mut a, mut b) = (0u32, 0u32);
    for _ in 0..6 {
        one.launch(&stream)?;
        two.launch(&other)?;
        (a, b) = (a * 3 + 1, b * 3 + 2);
    }
    ensure_eq!(one.state().to_vec(&other)?, [a; N]);
    ensure_eq!(two.state().to_vec(&stream)?, [b; N]);
    // A clone, if there is one, allocates for itself.
    if let Ok(mut clone) = one.try_clone(()) {
        clone.launch(&other)?;
        a = a * 3 + 1;
        ensure_eq!(one.state().to_vec(&stream)?, [a; N]);
    }
    one.recapture(|s, x| make(s, x, 7))?;
    one.launch(&other)?;
    ensure_eq!(one.state().to_vec(&stream)?, [a * 3 + 7; N]);
    for path in ["", "no/such/folder/graph.dot", "graph\0.dot", "."] {
        ensure!(one.write_dot(path).is_err(), "written to {path:?}");
    }
    one.write_dot("graph.dot")?;
    ensure!(std::fs::read_to_string("graph.dot")?.contains("graph"));
    one.launch(&stream)?;
    ensure_eq!(one.state().to_vec(&stream)?, [(a * 3 + 7) * 3 + 7; N]);
    Ok(())
}

attacks![
    "graphs",
    right(updates_that_are_no_launch),
    refused(stream_of_an_ended_update),
    right(updated_in_flight),
    right(update_to_the_memory_of_a_branch).variants(&["forks", "parts", "while looked at"]),
    right(names_of_earlier_recordings),
    right(recaptured_in_flight),
    right(parts_out_of_order),
    right(graphs_that_allocate),
];
