//! The order of work of several devices: around copies, in graphs and between threads.

use std::sync::Barrier;

use cuda_safe::{Context, DeviceBuffer, GraphExec};

use super::{MS, Side, count, joined};
use test_harness::{Case, Failure, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "several",
        several(copies_wait_for_slow_kernels),
        several(writers_wait_for_graphs),
        several(branches_are_ordered_by_memory),
        several(threads),
    ]
}

const N: usize = 1000;
const SLOW: (u32, u32) = (1, 256);
const SHAPE: (u32, u32) = (4, 256);

/// A copy from the second device to the first.
fn copying<'a>(
    [first, second]: [&Side; 2],
    value: u32,
) -> cuda_safe::Result<GraphExec<'a, (DeviceBuffer<u32>, DeviceBuffer<u32>)>> {
    let state = (second.buffer(&[value; N])?, first.zeroed(N)?);
    first.context.capture(state, |stream, (source, target)| {
        target.as_slice_mut().copy_from_peer(stream, &*source)
    })
}

/// A graph copies what a slow kernel of the other device has written, and into what one still reads or writes.
fn copies_wait_for_slow_kernels(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let n = N as u64;
    for [near, far] in [[first, second], [second, first]] {
        for launched in [&near.stream, &near.other] {
            let mut graph = copying([near, far], 1)?;
            let source = &mut graph.state_mut().0;
            count(far.delay.delayed_fill(&far.other, SLOW, source, n, 2, 10 * MS))?;
            graph.launch(launched)?;
            near.holds(&graph.state().1, &[2; N])?;
            // The target is written and read by slow kernels, and the copy comes last.
            let mut read = near.zeroed(N)?;
            let target = &mut graph.state_mut().1;
            count(near.delay.delayed_fill(&near.other, SLOW, &mut *target, n, 9, 5 * MS))?;
            count(near.delay.delayed_copy(&near.stream, SLOW, &*target, &mut read, n, 5 * MS))?;
            graph.launch(launched)?;
            near.holds(&read, &[9; N])?;
            near.holds(&graph.state().1, &[2; N])?;
        }
    }
    Ok(())
}

/// What writes the source or reads the target of a graph's copy waits for the launch, on either device; so does the free
/// of memory.
fn writers_wait_for_graphs(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let n = N as u64;
    for [near, far] in [[first, second], [second, first]] {
        let mut graph = copying([near, far], 4)?;
        // The launch has to wait; meanwhile both sides are used.
        count(near.delay.delay(&near.stream, (1, 1), 10 * MS))?;
        graph.launch(&near.stream)?;
        let (source, target) = graph.state_mut();
        count(far.basic.fill(&far.stream, SHAPE, &mut *source, n, 5))?;
        far.holds(source, &[5; N])?;
        near.holds(target, &[4; N])?;
        count(near.delay.delay(&near.stream, (1, 1), 10 * MS))?;
        graph.launch(&near.stream)?;
        let (source, target) = graph.state_mut();
        count(near.basic.fill(&near.other, SHAPE, &mut *target, n, 6))?;
        near.holds(target, &[6; N])?;
        far.holds(source, &[5; N])?;
        // The graph and its memory go while it runs, and the memory is soon another buffer's.
        let mut seen = near.zeroed(N)?;
        count(near.delay.delay(&near.stream, (1, 1), 10 * MS))?;
        graph.launch(&near.stream)?;
        seen.copy_from(&near.other, &graph.state().1)?;
        drop(graph);
        let mut next = far.zeroed(N)?;
        count(far.basic.fill(&far.stream, SHAPE, &mut next, n, 9))?;
        near.holds(&seen, &[5; N])?;
        far.holds(&next, &[9; N])?;
    }
    Ok(())
}

/// Within a graph: a slow kernel before the copy that reads its result, and a kernel that overwrites the source behind it,
/// each on a stream of its own device.
fn branches_are_ordered_by_memory(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let n = N as u64;
    for [near, far] in [[first, second], [second, first]] {
        let state = (far.zeroed(N)?, near.zeroed(N)?, near.zeroed(N)?);
        let both = [&near.context, &far.context];
        let mut graph = Context::capture_on(&both, state, |streams, (source, target, last)| {
            let [on_near, on_far] = streams else { return Ok(()) };
            count(far.delay.delayed_fill(on_far, SLOW, &mut *source, n, 3, 5 * MS))?;
            // Read after write, of another device.
            target.as_slice_mut().copy_from_peer(on_near, &*source)?;
            // Write after read, of another device.
            count(far.basic.fill(on_far, SHAPE, &mut *source, n, 8))?;
            // Write after write, and a second copy by the other stream.
            last.as_slice_mut().copy_from_peer(on_far, &*source)?;
            count(near.basic.add(on_near, SHAPE, &mut *last, n, 1))?;
            count(near.basic.add(on_near, SHAPE, target, n, 1))
        })?;
        for _ in 0..3 {
            graph.launch(&near.stream)?;
            far.holds(&graph.state().0, &[8; N])?;
            near.holds(&graph.state().1, &[4; N])?;
            near.holds(&graph.state().2, &[9; N])?;
        }
    }
    Ok(())
}

/// Threads launch graphs of two devices, in which each is first once, and copy their memory, to and fro: nobody waits for
/// ever, and what each does together is not interrupted.
fn threads(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let begin = &Barrier::new(3);
    let adding = |[near, far]: [&Side; 2]| -> Result<_, Failure> {
        let both = [&near.context, &far.context];
        let near_basic = near.basic.clone();
        let state = (near.zeroed(N)?, far.zeroed(N)?);
        Ok(Context::capture_on(&both, state, move |streams, (here, there)| {
            count(near_basic.add(&streams[0], SHAPE, &mut *here, N as u64, 1))?;
            there.as_slice_mut().copy_from_peer(&streams[1], &*here)
        })?)
    };
    const ROUNDS: u32 = 20;
    let mut one = adding([first, second])?;
    let mut two = adding([second, first])?;
    // The second graph's memory, which its state has no more: its launches write it without a borrow.
    let empty = (second.zeroed(1)?, first.zeroed(1)?);
    let (mut here, mut there) = std::mem::replace(two.state_mut(), empty);
    std::thread::scope(|scope| {
        let launches = |graph: &mut GraphExec<'_, _>, side: &Side| -> TestResult {
            begin.wait();
            for _ in 0..ROUNDS {
                graph.launch(&side.stream)?;
            }
            Ok(())
        };
        let (one, two) = (&mut one, &mut two);
        let first_thread = scope.spawn(move || launches(one, first));
        let second_thread = scope.spawn(move || launches(two, second));
        begin.wait();
        for round in 0..ROUNDS {
            // Both copies, or neither, see one state of the graph's memory.
            let (mut a, mut b) = (second.zeroed(N)?, first.zeroed(N)?);
            let memory = [here.allocation().clone(), there.allocation().clone()];
            first.other.graph_lock(&memory).run(|| {
                a.as_slice_mut().copy_from(&second.other, &here)?;
                b.as_slice_mut().copy_from(&first.other, &there)?;
                // Between the devices, both of them memory of the graph.
                match round % 2 {
                    0 => there.as_slice_mut().copy_from_peer(&first.other, &here),
                    _ => here.as_slice_mut().copy_from_peer(&second.other, &there),
                }
            })?;
            let (a, b) = (a.to_vec(&second.other)?, b.to_vec(&first.other)?);
            if a != b {
                return Err(Failure::new(format!("round {round}: {} beside {}", a[0], b[0])));
            }
        }
        for thread in [first_thread, second_thread] {
            thread.join().map_err(|_| Failure::new("a thread panicked"))??;
        }
        Ok(())
    })?;
    first.holds(&one.state().0, &[ROUNDS; N])?;
    second.holds(&one.state().1, &[ROUNDS; N])?;
    second.holds(&here, &[ROUNDS; N])?;
    first.holds(&there, &[ROUNDS; N])
}
