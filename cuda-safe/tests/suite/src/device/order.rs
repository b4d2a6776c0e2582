//! Streams that use one buffer wait for each other where they must, and nowhere else.

use std::time::{Duration, Instant};

use cuda_safe::{DeviceBuffer, Stream};
use test_support::cost::least;

use super::MS;
use super::checks::all_are;
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "order",
        device(read_after_write),
        device(write_after_write),
        device(a_writer_waits_for_every_reader),
        device(more_readers_than_are_kept),
        device(freed_while_others_read),
        device(halves_do_not_wait).serial(),
        device(overlapping_halves_do),
        device(reading_again_is_free).serial(),
        device(to_and_fro).serial(),
        device(at_home_nothing_is_recorded).serial(),
        device(a_stream_dropped_with_work),
        device(downloads_and_uploads_too),
        device(two_readers_and_a_writer),
    ]
}

const N: usize = 10_000;

/// A buffer at home on `stream`, with `value` in each word. The host has seen it done.
fn made(stream: &Stream, value: u32) -> cuda_safe::Result<DeviceBuffer<u32>> {
    let mut buffer = DeviceBuffer::zeroed(stream, N)?;
    buffer.fill(stream, value)?;
    stream.synchronize()?;
    Ok(buffer)
}

fn read_after_write(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    // Written at home and read elsewhere; and the other way round.
    for (writer, reader) in [(&home, &other), (&other, &home)] {
        let mut buffer = made(&home, 1)?;
        let mut seen = made(reader, 0)?;
        let n = N as u64;
        device.count(delay.delayed_fill(writer, (1, 256), &mut buffer, n, 2, 30 * MS))?;
        device.count(basic.copy(reader, (8, 256), &buffer, &mut seen, n))?;
        all_are(&seen, reader, 2)?;
    }
    Ok(())
}

fn write_after_write(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    for (first, second) in [(&home, &other), (&other, &home)] {
        let mut buffer = made(&home, 1)?;
        device.count(delay.delayed_fill(first, (1, 256), &mut buffer, N as u64, 2, 30 * MS))?;
        device.count(basic.fill(second, (8, 256), &mut buffer, N as u64, 3))?;
        all_are(&buffer, first, 3)?;
    }
    Ok(())
}

/// The mistake of others: to remember the last reader only. Whichever of the two readers the
/// writer did not wait for would see the new value, since both are slow.
fn a_writer_waits_for_every_reader(device: &TestDevice) -> TestResult {
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    // The writer is at home, or is not; the home stream is among the readers, or is not; and the
    // slower reader comes first or last.
    for home in 0..3 {
        for (first_ms, second_ms) in [(40, 10), (10, 40)] {
            let [writer, first, second] = &streams;
            let mut buffer = made(&streams[home], 5)?;
            let mut seen = [made(first, 0)?, made(second, 0)?];
            let readers = [(first, first_ms), (second, second_ms)];
            for ((stream, ms), seen) in readers.into_iter().zip(&mut seen) {
                let n = N as u64;
                device.count(delay.delayed_copy(stream, (1, 256), &buffer, seen, n, ms * MS))?;
            }
            device.count(basic.fill(writer, (8, 256), &mut buffer, N as u64, 6))?;
            for (stream, seen) in [first, second].into_iter().zip(&seen) {
                all_are(seen, stream, 5)?;
            }
            all_are(&buffer, writer, 6)?;
        }
    }
    Ok(())
}

fn more_readers_than_are_kept(device: &TestDevice) -> TestResult {
    let (home, writer) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let mut buffer = made(&home, 5)?;
    let readers = (0..40).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
    let mut seen = readers.iter().map(|reader| made(reader, 0)).collect::<Result<Vec<_>, _>>()?;
    for (index, (reader, seen)) in (0..).zip(readers.iter().zip(&mut seen)) {
        // The first ones are the slowest.
        let nanoseconds = (10 - index / 4) * MS;
        let n = N as u64;
        device.count(delay.delayed_copy(reader, (1, 256), &buffer, seen, n, nanoseconds))?;
    }
    device.count(basic.fill(&writer, (8, 256), &mut buffer, N as u64, 6))?;
    for (reader, seen) in readers.iter().zip(&seen) {
        all_are(seen, reader, 5)?;
    }
    all_are(&buffer, &home, 6)
}

/// Freeing waits for the reader on the device: the memory is soon another buffer's.
fn freed_while_others_read(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    for _ in 0..3 {
        let buffer = made(&home, 8)?;
        let mut seen = made(&other, 0)?;
        let n = N as u64;
        device.count(delay.delayed_copy(&other, (1, 256), &buffer, &mut seen, n, 20 * MS))?;
        drop(buffer);
        let mut next =
            (0..4).map(|_| DeviceBuffer::<u32>::zeroed(&home, N)).collect::<Result<Vec<_>, _>>()?;
        for buffer in &mut next {
            device.count(basic.fill(&home, (8, 256), buffer, n, 9))?;
        }
        all_are(&seen, &other, 8)?;
    }
    Ok(())
}

/// Two times five kernels of 10 ms, one after the other, would take 100 ms.
const SIDE_BY_SIDE_MS: f64 = 90.0;

/// How long a busy machine is given for a measurement within the limit.
const PATIENCE: Duration = Duration::from_secs(20);

fn halves_do_not_wait(device: &TestDevice) -> TestResult {
    let [home, one, two] = [device.stream()?, device.stream()?, device.stream()?];
    let delay = Delay::of(device)?;
    let mut buffer = made(&home, 0)?;
    let (mut low, mut high) = buffer.split_at_mut(N / 2)?;
    let half = (N / 2) as u64;
    // The first use of the code may wait; it is not what is measured.
    device.count(delay.delayed_fill(&one, (1, 256), &mut low, half, 1, 0))?;
    device.count(delay.delayed_fill(&two, (1, 256), &mut high, half, 1, 0))?;
    device.context().synchronize()?;
    let before = device.context().stats();
    let measure = || -> Result<f64, Failure> {
        let begin = Instant::now();
        for round in 1..=5 {
            device.count(delay.delayed_fill(&one, (1, 256), &mut low, half, round, 10 * MS))?;
            device.count(delay.delayed_fill(
                &two,
                (1, 256),
                &mut high,
                half,
                round + 10,
                10 * MS,
            ))?;
        }
        one.synchronize()?;
        two.synchronize()?;
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    };
    let patience = if device.is_instrumented() { Duration::ZERO } else { PATIENCE };
    let elapsed = least(SIDE_BY_SIDE_MS, patience, measure)?;
    let after = device.context().stats();
    ensure_eq!(after.stream_waits, before.stream_waits);
    ensure_eq!(after.events_recorded, before.events_recorded);
    ensure!(
        device.is_instrumented() || elapsed <= SIDE_BY_SIDE_MS,
        "5 × 10 ms side by side took {elapsed} ms in the best of all measurements"
    );
    let got = buffer.to_vec(&home)?;
    first_difference(&got[..N / 2], &vec![5; N / 2])?;
    first_difference(&got[N / 2..], &vec![15; N - N / 2])
}

fn overlapping_halves_do(device: &TestDevice) -> TestResult {
    let [home, one, two] = [device.stream()?, device.stream()?, device.stream()?];
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let mut buffer = made(&home, 0)?;
    let most = (N / 2 + 1) as u64;
    let mut low = buffer.slice_mut(..N / 2 + 1)?;
    device.count(delay.delayed_fill(&one, (1, 256), &mut low, most, 1, 30 * MS))?;
    let mut high = buffer.slice_mut(N / 2..)?;
    device.count(basic.fill(&two, (8, 256), &mut high, (N / 2) as u64, 2))?;
    let got = buffer.to_vec(&two)?;
    first_difference(&got[..N / 2], &vec![1; N / 2])?;
    first_difference(&got[N / 2..], &vec![2; N - N / 2])
}

fn reading_again_is_free(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let basic = Basic::of(device)?;
    let mut buffer = made(&home, 0)?;
    let mut seen = made(&other, 0)?;
    device.count(basic.fill(&home, (8, 256), &mut buffer, N as u64, 4))?;
    let before = device.context().stats();
    for _ in 0..100 {
        device.count(basic.copy(&other, (8, 256), &buffer, &mut seen, N as u64))?;
    }
    let after = device.context().stats();
    ensure_eq!(after.events_recorded - before.events_recorded, 1);
    ensure_eq!(after.stream_waits - before.stream_waits, 1);
    all_are(&seen, &other, 4)?;

    // What the host has seen done is not waited for at all.
    device.count(basic.fill(&home, (8, 256), &mut buffer, N as u64, 5))?;
    home.synchronize()?;
    let before = device.context().stats();
    device.count(basic.copy(&other, (8, 256), &buffer, &mut seen, N as u64))?;
    // The fill itself had to wait for the reads on the other stream, long ago.
    let after = device.context().stats();
    ensure_eq!(after.stream_waits, before.stream_waits);
    all_are(&seen, &other, 5)
}

fn to_and_fro(device: &TestDevice) -> TestResult {
    const ROUNDS: u32 = 100;
    let (home, other) = (device.stream()?, device.stream()?);
    let basic = Basic::of(device)?;
    let mut buffer = made(&home, 0)?;
    let before = device.context().stats();
    for _ in 0..ROUNDS {
        for stream in [&home, &other] {
            device.count(basic.add(stream, (8, 256), &mut buffer, N as u64, 1))?;
        }
    }
    let after = device.context().stats();
    let changes = u64::from(2 * ROUNDS);
    ensure!(after.stream_waits - before.stream_waits <= changes, "one wait for each change");
    ensure!(after.events_recorded - before.events_recorded <= changes);
    all_are(&buffer, &home, 2 * ROUNDS)
}

fn at_home_nothing_is_recorded(device: &TestDevice) -> TestResult {
    let (home, basic) = (device.stream()?, Basic::of(device)?);
    let before = device.context().stats();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&home, N)?;
    for _ in 0..100 {
        device.count(basic.add(&home, (8, 256), &mut buffer, N as u64, 1))?;
    }
    let copy = buffer.try_clone(&home)?;
    drop(buffer);
    all_are(&copy, &home, 100)?;
    let after = device.context().stats();
    ensure_eq!(after.events_recorded, before.events_recorded);
    ensure_eq!(after.stream_waits, before.stream_waits);
    Ok(())
}

fn a_stream_dropped_with_work(device: &TestDevice) -> TestResult {
    let (home, reader) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let mut buffer = made(&home, 1)?;
    let writer = device.stream()?;
    device.count(delay.delayed_fill(&writer, (1, 256), &mut buffer, N as u64, 2, 30 * MS))?;
    drop(writer);
    let mut seen = made(&reader, 0)?;
    device.count(basic.copy(&reader, (8, 256), &buffer, &mut seen, N as u64))?;
    all_are(&seen, &reader, 2)?;

    // The home stream's own handle may go before the buffer does.
    drop(home);
    device.count(basic.add(&reader, (8, 256), &mut buffer, N as u64, 1))?;
    all_are(&buffer, &reader, 3)
}

fn downloads_and_uploads_too(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let delay = Delay::of(device)?;
    let mut buffer = made(&home, 1)?;
    let n = N as u64;
    device.count(delay.delayed_fill(&home, (1, 256), &mut buffer, n, 2, 20 * MS))?;
    all_are(&buffer, &other, 2)?;

    let mut seen = made(&home, 0)?;
    device.count(delay.delayed_copy(&home, (1, 256), &buffer, &mut seen, n, 20 * MS))?;
    buffer.upload(&other, &vec![3; N])?;
    all_are(&seen, &home, 2)?;
    all_are(&buffer, &home, 3)?;

    device.count(delay.delayed_copy(&home, (1, 256), &buffer, &mut seen, n, 20 * MS))?;
    buffer.fill(&other, 4)?;
    all_are(&seen, &home, 3)?;

    device.count(delay.delayed_fill(&other, (1, 256), &mut buffer, n, 5, 20 * MS))?;
    seen.copy_from(&home, &buffer)?;
    all_are(&seen, &home, 5)
}

/// The slow reader comes first, so a writer that waited for the newest alone would write over what it
/// still reads. What both have read in all rounds is looked at once, in the end.
fn two_readers_and_a_writer(device: &TestDevice) -> TestResult {
    const WORDS: usize = 64;
    let rounds = if device.runs_machine_code() && !device.is_instrumented() { 10_000 } else { 300 };
    let [writer, slow, fast] = [device.stream()?, device.stream()?, device.stream()?];
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = WORDS as u64;
    // At home with each of them in turn.
    for home in [&writer, &slow, &fast] {
        let mut buffer = DeviceBuffer::<u32>::zeroed(home, WORDS)?;
        let mut seen = [(&slow, 20_000), (&fast, 0)]
            .into_iter()
            .map(|(stream, nanoseconds)| {
                let all = DeviceBuffer::<u32>::zeroed(stream, WORDS * rounds)?;
                Ok((stream, nanoseconds, all))
            })
            .collect::<cuda_safe::Result<Vec<_>>>()?;
        for round in 0..rounds {
            device.count(basic.fill(&writer, (1, 64), &mut buffer, n, round as u32))?;
            for (stream, nanoseconds, all) in &mut seen {
                let row = all.slice_mut(round * WORDS..(round + 1) * WORDS)?;
                device.count(delay.delayed_copy(stream, (1, 64), &buffer, row, n, *nanoseconds))?;
            }
        }
        let wanted: Vec<u32> =
            (0..rounds as u32).flat_map(|round| std::iter::repeat_n(round, WORDS)).collect();
        for (stream, _, all) in &seen {
            first_difference(&all.to_vec(stream)?, &wanted)?;
        }
    }
    Ok(())
}
