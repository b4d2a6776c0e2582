//! Scratch memory of two threads, of which one launches within a sequence.

use cuda_safe::{DeviceBuffer, Result, Stream};
use geom_kernels::algorithms::Algorithms;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

use crate::Geometry;

pub(super) fn cases() -> Vec<Case> {
    cases!["sequences", device(sorts_that_share_scratch),]
}

const N: usize = 1000;

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, N)
}

fn thread_panicked<T>(_: T) -> Failure {
    Failure::new("a thread panicked".to_owned())
}

/// One thread sorts in scratch memory within a sequence on that, another one without a sequence: neither waits
/// for what the other holds.
fn sorts_that_share_scratch(device: &TestDevice) -> TestResult {
    const ROUNDS: usize = 50;
    let (one, two) = (device.stream()?, device.stream()?);
    let sort = device.geometry().algorithms();
    let bytes = Algorithms::scan_scratch(N);
    let mut scratch = DeviceBuffer::<u8>::zeroed(&one, bytes)?;
    let memory = scratch.allocation().clone();
    let given = sort.with_scratch(&mut scratch);
    let ones = DeviceBuffer::from_slice(&one, &[1u32; N])?;
    let [mut first, mut second] = [zeroed(&one)?, zeroed(&one)?];
    // Loads the kernels, too.
    given.inclusive_scan(&one, &ones, &mut first)?;
    let mut recorded = zeroed(&one)?;
    let (given, ones) = (&given, &ones);
    let graph = device
        .context()
        .capture((), |stream, ()| given.inclusive_scan(stream, ones, &mut recorded))?;
    ensure!(memory.is_captured(), "the graph does not use the scratch memory");
    std::thread::scope(|scope| {
        let plain = scope
            .spawn(|| (0..ROUNDS).try_for_each(|_| given.inclusive_scan(&two, ones, &mut second)));
        let within = (0..ROUNDS).try_for_each(|_| {
            one.graph_lock([&memory]).run(|| {
                std::thread::yield_now();
                given.inclusive_scan(&one, ones, &mut first)
            })
        });
        plain.join().map_err(thread_panicked)??;
        Ok::<_, Failure>(within?)
    })?;
    let last = |sums: DeviceBuffer<u32>| Ok::<_, Failure>(sums.to_vec(&one)?.last().copied());
    for sums in [first, second] {
        ensure!(last(sums)? == Some(N as u32), "a sum is wrong");
    }
    drop(graph);
    Ok(())
}
