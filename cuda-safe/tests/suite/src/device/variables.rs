//! Variables that kernels reach by name are ordered like buffers.

use std::sync::mpsc;

use cuda_safe::{DeviceBuffer, Result, Stream};

use super::MS;
use super::checks::{all_are, named, no_drop_errors};
use test_harness::programs::{Delay, Variables};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "variables",
        device(handles_and_kernels),
        device(two_kernels),
        device(through_a_pointer),
        device(tables_that_are_written_late),
        device(in_graphs),
        device(a_node_changes),
        device(graphs_of_another_thread),
        device(one_name_in_two_modules),
        device(a_graph_keeps_the_module),
    ]
}

const N: u64 = 1000;
const SHAPE: (u32, u32) = (4, 256);
const ONE: (u32, u32) = (1, 32);

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, 1000)
}

/// A kernel sees what was written before it on another stream, and not what is written after it.
fn handles_and_kernels(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, kernels) = (Delay::of(device)?, Variables::fresh(device)?);
    for value in 1..8 {
        let mut x = zeroed(&one)?;
        delay.delay(&two, (1, 1), 5 * MS)?;
        kernels.write(&two, "counter", value)?;
        kernels.take(&one, SHAPE, &mut x, N)?;
        all_are(&x, &one, value)?;
        delay.delay(&one, (1, 1), 5 * MS)?;
        kernels.take(&one, SHAPE, &mut x, N)?;
        kernels.write(&two, "counter", 1000 + value)?;
        all_are(&x, &one, value)?;
        // The other way round.
        delay.delay(&one, (1, 1), 5 * MS)?;
        kernels.set(&one, ONE, 7)?;
        let counter = kernels.module().global::<u32>(&two, "counter")?;
        ensure_eq!(counter.read(&two)?, [7]);
    }
    no_drop_errors(device.context())
}

/// Two kernels on one variable are ordered, if one of them writes it.
fn two_kernels(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, kernels) = (Delay::of(device)?, Variables::fresh(device)?);
    for value in 1..8 {
        let mut x = zeroed(&two)?;
        delay.delay(&one, (1, 1), 5 * MS)?;
        kernels.set(&one, ONE, value)?;
        kernels.take(&two, SHAPE, &mut x, N)?;
        all_are(&x, &two, value)?;
        delay.delay(&two, (1, 1), 5 * MS)?;
        kernels.take(&two, SHAPE, &mut x, N)?;
        kernels.set(&one, ONE, 1000 + value)?;
        all_are(&x, &two, value)?;
    }
    no_drop_errors(device.context())
}

/// A kernel that writes through a pointer in memory counts for what the pointer may hold.
fn through_a_pointer(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, kernels) = (Delay::of(device)?, Variables::fresh(device)?);
    for value in 1..8 {
        let mut x = zeroed(&two)?;
        delay.delay(&one, (1, 1), 5 * MS)?;
        kernels.follow(&one, ONE, value)?;
        kernels.peek(&two, SHAPE, &mut x, N)?;
        all_are(&x, &two, value)?;
        delay.delay(&two, (1, 1), 5 * MS)?;
        kernels.peek(&two, SHAPE, &mut x, N)?;
        kernels.follow(&one, ONE, 1000 + value)?;
        all_are(&x, &two, value)?;
    }
    Ok(())
}

/// Uses of a variable that no kernel writes are not recorded before the program asks for it: the first
/// write waits for them all the same.
fn tables_that_are_written_late(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let delay = Delay::of(device)?;
    let ascending: Vec<u32> = (0..1000).map(|i| i % 4 + 1).collect();
    for _ in 0..4 {
        let kernels = Variables::fresh(device)?;
        let (mut x, mut y) = (zeroed(&one)?, zeroed(&one)?);
        delay.delay(&one, (1, 1), 10 * MS)?;
        kernels.look(&one, SHAPE, &mut x, N)?;
        let table = kernels.module().global::<u32>(&two, "table")?;
        table.write(&two, &[9; 4])?;
        first_difference(&x.to_vec(&one)?, &ascending)?;
        // From now on they are recorded.
        delay.delay(&one, (1, 1), 5 * MS)?;
        kernels.look(&one, SHAPE, &mut y, N)?;
        table.write(&two, &[10; 4])?;
        all_are(&y, &one, 9)?;
        delay.delay(&two, (1, 1), 5 * MS)?;
        table.write(&two, &[11; 4])?;
        kernels.look(&one, SHAPE, &mut y, N)?;
        all_are(&y, &one, 11)?;
    }
    no_drop_errors(device.context())
}

/// A launch of a graph uses the variables that its kernels reach, also those that no kernel writes.
fn in_graphs(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, kernels) = (Delay::of(device)?, Variables::fresh(device)?);
    let state = (zeroed(&one)?, zeroed(&one)?);
    let mut graph = device.context().capture(state, |stream, (x, y)| {
        // Branches that meet in a variable alone.
        let side = stream.fork()?;
        kernels.set(&side, ONE, 5)?;
        kernels.take(stream, SHAPE, &mut *x, N)?;
        kernels.look(stream, SHAPE, &mut *y, N)
    })?;
    let table = kernels.module().global::<u32>(&two, "table")?;
    for value in 20..26 {
        delay.delay(&two, (1, 1), 5 * MS)?;
        table.write(&two, &[value; 4])?;
        kernels.write(&two, "counter", value)?;
        graph.launch(&one)?;
        all_are(&graph.state().1, &one, value)?;
        all_are(&graph.state().0, &one, 5)?;
        delay.delay(&one, (1, 1), 5 * MS)?;
        graph.launch(&one)?;
        table.write(&two, &[1000; 4])?;
        kernels.write(&two, "counter", 1000)?;
        all_are(&graph.state().1, &one, value)?;
        all_are(&graph.state().0, &one, 5)?;
        ensure_eq!(kernels.module().global::<u32>(&two, "counter")?.read(&two)?, [1000]);
    }
    no_drop_errors(device.context())
}

/// A node that is changed to a kernel that reaches a variable uses it from then on.
fn a_node_changes(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, kernels) = (Delay::of(device)?, Variables::fresh(device)?);
    let other = Variables::fresh(device)?;
    let mut graph = device.context().capture(zeroed(&one)?, |stream, x| {
        other.take(stream, SHAPE, x, N)?;
        stream.last_node().map(drop)
    })?;
    let node = named(&graph)?;
    graph.update(node, |stream, x| kernels.take(stream, SHAPE, x, N))?;
    for value in 1..6 {
        delay.delay(&two, (1, 1), 5 * MS)?;
        kernels.set(&two, ONE, value)?;
        graph.launch(&one)?;
        all_are(graph.state(), &one, value)?;
        delay.delay(&one, (1, 1), 5 * MS)?;
        graph.launch(&one)?;
        kernels.set(&two, ONE, 1000)?;
        all_are(graph.state(), &one, value)?;
    }
    no_drop_errors(device.context())
}

/// Nothing slips in between the kernels of a graph that another thread launches.
fn graphs_of_another_thread(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let kernels = Variables::fresh(device)?;
    let counter = kernels.module().global::<u32>(&two, "counter")?;
    let mut graph = device.context().capture(zeroed(&one)?, |stream, x| {
        kernels.set(stream, ONE, 7)?;
        kernels.take(stream, SHAPE, x, N)
    })?;
    let (over, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let kernels = &kernels;
        let writer = scope.spawn(move || -> Result<()> {
            let mut value = 1000;
            while let Err(mpsc::TryRecvError::Empty) = ended.try_recv() {
                counter.write(&two, &[value])?;
                kernels.set(&two, ONE, value + 1)?;
                value += 2;
                // Not more work than the graphs can wait for.
                two.synchronize()?;
            }
            Ok(())
        });
        let mut launched = || -> TestResult {
            for _ in 0..40 {
                graph.launch(&one)?;
                all_are(graph.state(), &one, 7)?;
            }
            Ok(())
        };
        let launched = launched();
        drop(over);
        let wrote = writer.join().map_err(|_| Failure::new("a thread panicked".to_owned()))?;
        launched.and(Ok(wrote?))
    })
}

/// Variables of one name in two modules are two variables.
fn one_name_in_two_modules(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (left, right) = (Variables::fresh(device)?, Variables::fresh(device)?);
    let (mut x, mut y) = (zeroed(&one)?, zeroed(&two)?);
    left.set(&one, ONE, 1)?;
    right.set(&two, ONE, 2)?;
    left.take(&two, SHAPE, &mut y, N)?;
    right.take(&one, SHAPE, &mut x, N)?;
    all_are(&x, &one, 2)?;
    all_are(&y, &two, 1)
}

/// A graph in which a variable is written keeps the module.
fn a_graph_keeps_the_module(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernels = Variables::fresh(device)?;
    let counter = kernels.module().global::<u32>(&stream, "counter")?;
    let mut graph = device.context().capture((), move |stream, ()| counter.write(stream, &[3]))?;
    let read = kernels.module().global::<u32>(&stream, "counter")?;
    drop(kernels);
    graph.launch(&stream)?;
    ensure_eq!(read.read(&stream)?, [3]);
    drop(read);
    device.context().free_deferred()?;
    graph.launch(&stream)?;
    stream.synchronize()?;
    no_drop_errors(device.context())
}
