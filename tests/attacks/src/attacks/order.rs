//! Attacks on the order between streams.

mod arguments;
mod events;
pub(in crate::attacks) mod random;
mod tables;
mod threads;

use cuda_safe::{DeviceBuffer, LaunchConfig, kernels};
use test_harness::{TestResult, ensure};

use crate::attack::attacks;
use crate::lab::Lab;
use arguments::{arguments_in_other_orders, copies_between_devices};
use events::{
    events_of_ended_captures, events_that_change_after_a_wait, marks_of_streams_that_are_gone,
    recorded_again_while_measured, streams_that_wait_in_a_ring, time_between_unlike_events,
    waits_for_another_device,
};
use random::random_programs;
use tables::tables_written_late;
use threads::{
    events_of_many_threads, globals_of_many_threads, readers_and_writers_of_many_threads,
    streams_that_come_and_go,
};

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i of x, and reads element i of y, if i < n. The kernels use `counter` alone of
    // the module, which is four bytes.
    unsafe in r#"
        __device__ unsigned counter;
        extern "C" __global__ void take(unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = counter;
        }
        extern "C" __global__ void put(unsigned value) {
            if (blockIdx.x == 0 && threadIdx.x == 0) counter = value;
        }
        extern "C" __global__ void add(const unsigned* y, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += y[i];
        }
    "# {
        safe fn take(x: &mut [u32], n: u32) where n <= x.len();
        safe fn put(#[any] value: u32);
        safe fn add(y: &[u32], x: &mut [u32], n: u32) where n <= x.len(), n <= y.len();
    }
}

const N: usize = 4096;

/// Writes a global on one stream while a safe kernel reads it on another.
///
/// - row: globals of a module are ordered
/// - row: kernels that reach a variable of their module by name
/// - targets: `Module::global`, `Global::write`, `Context::stream`
fn global_written_beside_a_kernel(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, other) = (context.stream()?, context.stream()?);
    let kernels = Kernels::load(&context)?;
    let counter = kernels.module().global::<u32>(&other, "counter")?;
    for i in 1..50 {
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        counter.write(&other, &[i])?;
        kernels.take(&stream, LaunchConfig::cover(N, 256), &mut x, N as u32)?;
        counter.write(&other, &[1000 + i])?;
        let seen = x.to_vec(&stream)?;
        ensure!(seen.iter().all(|seen| *seen == i), "launch {i} saw {:?}", &seen[..4]);
    }
    Ok(())
}

/// Writes a `__device__` variable in a safe kernel on one stream, and reads it in one on another.
///
/// - row: kernels that reach a variable of their module by name
/// - targets: `Context::stream`, `DeviceBuffer::zeroed`
fn global_of_two_kernels(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, other) = (context.stream()?, context.stream()?);
    let kernels = Kernels::load(&context)?;
    for i in 1..50 {
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        kernels.put(&other, LaunchConfig::new(1, 32), i)?;
        kernels.take(&stream, LaunchConfig::cover(N, 256), &mut x, N as u32)?;
        kernels.put(&other, LaunchConfig::new(1, 32), 1000 + i)?;
        let seen = x.to_vec(&stream)?;
        ensure!(seen.iter().all(|seen| *seen == i), "launch {i} saw {:?}", &seen[..4]);
    }
    Ok(())
}

/// Overwrites a buffer after more readers, each on its own stream, than the crate keeps apart.
///
/// - row: a writer waits for every reader
/// - row: work that uses the same bytes
/// - targets: `DeviceBuffer::try_clone`, `DeviceBuffer::fill`, `DeviceBuffer::from_slice`
fn forty_readers_then_a_writer(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let stream = context.stream()?;
    let mut x = DeviceBuffer::from_slice(&stream, &[7u32; N])?;
    let mut copies = Vec::new();
    for _ in 0..40 {
        let reader = context.stream()?;
        copies.push((x.try_clone(&reader)?, reader));
    }
    x.fill(&context.stream()?, 9)?;
    for (index, (copy, reader)) in copies.iter().enumerate() {
        let seen = copy.to_vec(reader)?;
        ensure!(seen.iter().all(|seen| *seen == 7), "reader {index} saw {:?}", &seen[..4]);
    }
    Ok(())
}

/// Adds to overlapping parts of a buffer on three streams in turn.
///
/// - row: work that uses the same bytes
/// - row: a stream waits only for what it does not wait for already
/// - targets: `DeviceBuffer::slice_mut`, `DeviceBuffer::slice`
fn overlapping_parts_on_three_streams(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let streams = [context.stream()?, context.stream()?, context.stream()?];
    let kernels = Kernels::load(&context)?;
    let ones = DeviceBuffer::from_slice(&streams[0], &[1u32; N])?;
    let mut x = DeviceBuffer::<u32>::zeroed(&streams[1], N)?;
    let mut expected = vec![0u32; N];
    for round in 0..30 {
        let begin = (round * 37) % (N / 2);
        let part = begin..begin + N / 2;
        let stream = &streams[round % 3];
        let launch = LaunchConfig::cover(N / 2, 128);
        kernels.add(
            stream,
            launch,
            ones.slice(part.clone())?,
            x.slice_mut(part.clone())?,
            N as u32 / 2,
        )?;
        expected[part].iter_mut().for_each(|x| *x += 1);
    }
    let seen = x.to_vec(&streams[2])?;
    ensure!(seen == expected, "{:?}", seen.iter().zip(&expected).position(|(a, b)| a != b));
    Ok(())
}

/// Reads a buffer for the first time on other streams, from several threads, while its home stream goes on.
///
/// - row: the first use on another stream misses no use
/// - targets: `DeviceBuffer::try_clone`, `Stream::context`
fn first_reads_of_many_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let home = context.stream()?;
    for round in 1..20u32 {
        let mut x = DeviceBuffer::<u32>::zeroed(&home, N)?;
        x.fill(&home, round)?;
        let x = &x;
        let seen = std::thread::scope(|scope| {
            let readers = [0; 4].map(|_| {
                let context = home.context();
                scope.spawn(move || -> cuda_safe::Result<Vec<u32>> {
                    let stream = context.stream()?;
                    x.try_clone(&stream)?.to_vec(&stream)
                })
            });
            readers.map(|reader| reader.join())
        });
        for seen in seen {
            let Ok(seen) = seen else { continue };
            ensure!(seen?.iter().all(|seen| *seen == round), "round {round}");
        }
    }
    Ok(())
}

attacks![
    "order",
    right(global_written_beside_a_kernel),
    right(global_of_two_kernels),
    right(forty_readers_then_a_writer),
    right(overlapping_parts_on_three_streams),
    right(first_reads_of_many_threads),
    right(events_of_ended_captures).variants(&["ended", "failed"]),
    right(events_that_change_after_a_wait).variants(&["recorded", "dropped", "closed", "never"]),
    right(marks_of_streams_that_are_gone),
    right(streams_that_wait_in_a_ring),
    refused(recorded_again_while_measured),
    right(time_between_unlike_events).devices(2),
    right(waits_for_another_device).variants(&["mark", "event", "stream"]).devices(2),
    right(random_programs).variants(&["1", "2", "3"]),
    right(globals_of_many_threads),
    right(readers_and_writers_of_many_threads),
    right(streams_that_come_and_go),
    right(arguments_in_other_orders).limit(20),
    right(copies_between_devices).devices(2),
    right(events_of_many_threads),
    right(tables_written_late).variants(&["streams", "threads", "graph", "captured"]),
];
