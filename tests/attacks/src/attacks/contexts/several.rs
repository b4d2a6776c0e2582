//! Attacks on graphs of several devices, and on the locks that their launches take.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use cuda_safe::{Context, DeviceBuffer, Devices, GraphExec, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::attacks::graphs::kit::{Kit, LEN, N, all, on_purpose};
use crate::lab::Lab;

/// A graph that writes a value to memory of the second context, and that memory, which the graph's state has no more.
fn writing<'a>(
    [a, b]: [&Context; 2],
    kit: &'a Kit,
    value: u32,
) -> Result<(GraphExec<'a, ()>, DeviceBuffer<u32>), Failure> {
    let state = (
        DeviceBuffer::<u32>::zeroed(&a.stream()?, N)?,
        DeviceBuffer::<u32>::zeroed(&b.stream()?, N)?,
    );
    let mut graph = Context::capture_on(&[a, b], state, move |streams, (x, y)| {
        kit.fill(&streams[0], all(), value, &mut *x, LEN)?;
        y.as_slice_mut().copy_from_peer(&streams[0], &*x)
    })?;
    // The copy keeps both buffers.
    let copy = graph.try_clone(())?;
    Ok((copy, graph.into_state().1))
}

/// Launches a graph of two devices between two enqueues of another thread that hold the lock of the second device's
/// context alone.
///
/// - row: nothing slips in between
/// - row: several enqueues that belong together
/// - targets: `Context::capture_on`, `GraphExec::launch`, `Stream::graph_lock`, `GraphLock::run`,
///   `GraphExec::try_clone`, `GraphExec::into_state`
fn launches_between_enqueues_of_the_second(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let kit = Kit::load(&a)?;
    let (mut graph, mut y) = writing([&a, &b], &kit, 2)?;
    let mut out = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    let (begun, begins) = mpsc::channel();
    std::thread::scope(|scope| {
        let launching = scope.spawn(move || {
            let _ = begins.recv();
            graph.launch(&on_a)
        });
        let memory = [y.allocation().clone()];
        on_b.graph_lock(&memory).run(|| {
            let begun = begun;
            y.fill(&on_b, 1)?;
            let _ = begun.send(());
            // Long enough for a launch that nothing keeps out.
            std::thread::sleep(Duration::from_millis(100));
            out.copy_from(&on_b, &y)
        })?;
        launching.join().map_err(|_| Failure::new("a thread panicked"))??;
        Ok::<_, Failure>(())
    })?;
    ensure_eq!(out.to_vec(&on_b)?, [1; N]);
    ensure_eq!(y.to_vec(&on_b)?, [2; N]);
    Ok(())
}

/// Takes the locks of two contexts in both orders, by launches of graphs, copies and closures of two threads at once.
///
/// - row: two threads that use the graph locks of two contexts
/// - targets: `GraphExec::launch`, `DeviceSliceMut::copy_from_peer`, `Stream::graph_lock`, `GraphLock::run`
fn locks_in_both_orders(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (kit_a, kit_b) = (Kit::load(&a)?, Kit::load(&b)?);
    let begin = &Barrier::new(2);
    let turn = |[near, far]: [&Context; 2], kit: &Kit| -> TestResult {
        let (on_near, on_far) = (near.stream()?, far.stream()?);
        let (mut graph, mut y) = writing([near, far], kit, 5)?;
        let z = DeviceBuffer::<u32>::zeroed(&on_near, N)?;
        let mut other = near.capture(z, |stream, z| kit.add(stream, all(), 1, z, LEN))?;
        begin.wait();
        for round in 0..200 {
            graph.launch(&on_near)?;
            other.launch(&on_near)?;
            // Named in this thread's order, which is the other one's reversed.
            let memory = [other.state().allocation().clone(), y.allocation().clone()];
            match round % 3 {
                0 => y.as_slice_mut().copy_from_peer(&on_near, other.state())?,
                1 => on_near.graph_lock(&memory).run(|| {
                    graph.launch(&on_near)?;
                    y.as_slice_mut().copy_from_peer(&on_far, other.state())
                })?,
                _ => on_far.graph_lock(memory.iter().rev()).run(|| other.launch(&on_near))?,
            }
        }
        on_near.synchronize()?;
        on_far.synchronize()?;
        Ok(())
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| turn([&b, &a], &kit_b));
        let mine = turn([&a, &b], &kit_a);
        let other = thread.join().map_err(|_| Failure::new("a thread panicked"))?;
        mine.and(other)
    })
}

/// Launches a graph of two contexts in a closure that holds the lock of one of them.
///
/// - row: two threads that use the graph locks of two contexts
/// - targets: `Stream::graph_lock`, `GraphLock::run`, `GraphExec::launch`, `DeviceSliceMut::copy_from_peer`
fn a_second_lock_within_a_closure(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let kit = Kit::load(&a)?;
    let (mut graph, y) = writing([&a, &b], &kit, 3)?;
    let mut of_a =
        a.capture(DeviceBuffer::<u32>::zeroed(&on_a, N)?, |s, x| kit.add(s, all(), 1, x, LEN))?;
    let held = match lab.variant() {
        "first" => of_a.state().allocation().clone(),
        _ => y.allocation().clone(),
    };
    let stream = if lab.variant() == "first" { &on_a } else { &on_b };
    // On the stream of the second context its own lock is held, too, so that is not enough for the first.
    let mut results = Vec::new();
    stream.graph_lock([&held]).run(|| {
        results.push(graph.launch(&on_a));
        results.push(of_a.state_mut().as_slice_mut().copy_from_peer(stream, &y));
        Ok(())
    })?;
    for result in results {
        lab.refused(result, "while this thread holds the lock for")?;
    }
    graph.launch(&on_a)?;
    of_a.launch(&on_a)?;
    ensure_eq!(y.to_vec(&on_b)?, [3; N]);
    ensure_eq!(of_a.state().to_vec(&on_a)?, [1; N]);
    Ok(())
}

/// Waits for each of the contexts, in the closure and in another thread, while streams of both record.
///
/// - row: a capture is not spoilt by safe calls
/// - targets: `Context::capture_on`, `Context::synchronize`, `Devices::synchronize`, `Devices::capture`
fn waits_for_contexts_that_record(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let devices = Devices::of(a.driver(), &[0, 1])?;
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let state = (DeviceBuffer::<u32>::zeroed(&on_a, N)?, DeviceBuffer::<u32>::zeroed(&on_b, N)?);
    let mut results = Vec::new();
    let mut graph = devices.capture((state, &mut results), |streams, ((x, y), results)| {
        x.fill(&streams[0], 1)?;
        y.fill(&streams[1], 2)?;
        let mut wait = || {
            results.extend([b.synchronize(), a.synchronize(), devices.synchronize()]);
        };
        match lab.variant() {
            "here" => wait(),
            _ => std::thread::scope(|scope| drop(scope.spawn(wait).join())),
        }
        x.as_slice_mut().copy_from_peer(&streams[1], &*y)
    })?;
    graph.launch(&on_a)?;
    ensure_eq!(graph.state().0.0.to_vec(&on_a)?, [2; N]);
    let ((_, _), results) = graph.into_state();
    ensure_eq!(results.len(), 3);
    for result in std::mem::take(results) {
        lab.refused(result, "is being recorded")?;
    }
    devices.synchronize()?;
    Ok(())
}

/// Uses memory of a third context, of the capture on the other device, and of a peer without access, in a graph of two.
///
/// - row: memory of a peer is used only where
/// - row: memory of a graph is used inside it alone
/// - targets: `Context::capture_on`, `DeviceSliceMut::copy_from_peer`, `DeviceBuffer::zeroed`,
///   `Context::enable_peer_access`
fn memory_that_is_not_of_the_graph(lab: &Lab) -> TestResult {
    let (a, b, c) = (lab.context_of(0)?, lab.context_of(1)?, lab.context_of(2)?);
    let (on_a, on_b, on_c) = (a.stream()?, b.stream()?, c.stream()?);
    let (kit_a, kit_b) = (&Kit::load(&a)?, &Kit::load(&b)?);
    a.enable_peer_access(&c)?;
    let mut third = DeviceBuffer::<u32>::zeroed(&on_c, N)?;
    let state = (DeviceBuffer::<u32>::zeroed(&on_a, N)?, DeviceBuffer::<u32>::zeroed(&on_b, N)?);
    let mut graph = Context::capture_on(&[&a, &b], state, |streams, (x, y)| {
        let [one, two] = streams else { return Err(on_purpose()) };
        let mut inside = DeviceBuffer::<u32>::zeroed(one, N)?;
        let refused = [
            // A context that does not record, whose memory kernels could reach.
            kit_a.add(one, all(), 1, &mut third, LEN).is_err(),
            third.fill(one, 1).is_err(),
            // Memory of the capture, and memory without access.
            kit_b.add(two, all(), 1, &mut inside, LEN).is_err(),
            y.as_slice_mut().copy_from_peer(two, &inside).is_err(),
            inside.as_slice_mut().copy_from_peer(one, &*y).is_err(),
            kit_a.add(one, all(), 1, &mut *y, LEN).is_err(),
            kit_b.add(two, all(), 1, &mut *x, LEN).is_err(),
            x.copy_from(one, &*y).is_err(),
            DeviceBuffer::<u32>::zeroed(two, N).is_err(),
            // A copy by a stream of neither context.
            third.as_slice_mut().copy_from_peer(two, &*x).is_err(),
        ];
        drop(inside);
        if refused.contains(&false) {
            return Err(on_purpose());
        }
        // A copy to a context that does not record is one of the graph, too.
        kit_a.add(one, all(), 4, &mut *x, LEN)?;
        third.as_slice_mut().copy_from_peer(one, &*x)?;
        y.as_slice_mut().copy_from_peer(two, &*x)
    })?;
    graph.launch(&on_a)?;
    graph.launch(&on_a)?;
    ensure_eq!(graph.state().1.to_vec(&on_b)?, [8; N]);
    drop(graph);
    ensure_eq!(third.to_vec(&on_c)?, [8; N]);
    Ok(())
}

/// Ends a capture of two devices by a panic, keeps its streams, and drops the graph of a second one while it runs, with
/// the kernels that only it has held.
///
/// - row: a stream of a recording that has ended
/// - row: the memory, code, pinned sources
/// - row: code and pinned memory of every context
/// - targets: `Context::capture_on`, `Stream::fork`, `Context::free_deferred`, `GraphExec::into_state`
fn panics_and_drops(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let mut kept: Vec<Stream> = Vec::new();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let made = Context::capture_on(&[&a, &b], (), |streams, ()| {
            kept.extend(streams.iter().cloned());
            kept.push(streams[1].fork()?);
            resume_unwind(Box::new("on purpose"))
        });
        made.map(drop)
    }));
    ensure!(caught.is_err() && !a.is_recording() && !b.is_recording());
    let mut y = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    ensure!(kept.iter().all(|stream| y.fill(stream, 1).is_err()) && kept.len() == 3);
    drop(kept);
    let (kit_a, kit_b) = (Kit::load(&a)?, Kit::load(&b)?);
    let x = DeviceBuffer::<u32>::zeroed(&on_a, N)?;
    let mut graph = Context::capture_on(&[&a, &b], (x, y), move |streams, (x, y)| {
        for _ in 0..50 {
            kit_a.add(&streams[0], all(), 1, &mut *x, LEN)?;
        }
        y.as_slice_mut().copy_from_peer(&streams[1], &*x)?;
        kit_b.add(&streams[1], all(), 1, y, LEN)
    })?;
    graph.launch(&on_a)?;
    let (x, y) = graph.into_state();
    drop(x);
    // The second context's own work is done: what it frees is not what the launch needs.
    b.free_deferred()?;
    let other = DeviceBuffer::from_slice(&on_a, &[9u32; N])?;
    ensure_eq!(y.to_vec(&on_b)?, [51; N]);
    ensure_eq!(other.to_vec(&on_a)?, [9; N]);
    a.free_deferred()?;
    b.free_deferred()?;
    Ok(())
}

/// Opens devices that are not there, one of them twice, and the same ones by two lists, whose handles are then mixed.
///
/// - row: handles of different contexts or drivers do not mix
/// - row: memory of a peer is used only where
/// - targets: `Devices::all`, `Devices::open`, `Devices::of`, `Devices::contexts`, `Devices::iter`, `Devices::streams`,
///   `Devices::can_access`, `Devices::link`
fn lists_of_devices(lab: &Lab) -> TestResult {
    let driver = lab.context()?.driver();
    // Of the system's driver, if there is one.
    drop((Devices::all(), Devices::open(&[]), Devices::open(&[usize::MAX, 0, 0])));
    for ordinals in [&[][..], &[0, 0], &[1, 0, 1], &[2], &[0, usize::MAX]] {
        ensure!(Devices::of(driver, ordinals).is_err(), "{ordinals:?}");
    }
    let (one, two) = (Devices::of(driver, &[0, 1])?, Devices::of(driver, &[1, 0])?);
    for index in [2, 3, usize::MAX, usize::MAX / 2 + 1] {
        for other in [0, 1, index] {
            ensure!(!one.can_access(index, other) && !one.can_access(other, index));
            ensure!(one.link(index, other).is_err() && one.link(other, index).is_err());
        }
    }
    ensure!(one.iter().eq(two.contexts().iter().rev()));
    let (streams, turned) = (one.streams()?, two.streams()?);
    let mut x = DeviceBuffer::from_slice(&streams[0], &[4u32; N])?;
    // A peer's memory, by streams of the other list.
    let kit = Kit::load(&two[0])?;
    for round in 0..4 {
        kit.add(&turned[0], all(), round, &mut x, LEN)?;
        x = x.try_clone(&turned[1])?;
    }
    drop((one, two, streams));
    ensure_eq!(x.to_vec(&turned[1])?, [10; N]);
    Ok(())
}

attacks![
    "contexts",
    right(launches_between_enqueues_of_the_second).devices(2),
    right(locks_in_both_orders).devices(2),
    refused(a_second_lock_within_a_closure).variants(&["first", "second"]).devices(2),
    refused(waits_for_contexts_that_record).variants(&["here", "elsewhere"]).devices(2),
    right(memory_that_is_not_of_the_graph).devices(3),
    right(panics_and_drops).devices(2),
    right(lists_of_devices).devices(2),
];
