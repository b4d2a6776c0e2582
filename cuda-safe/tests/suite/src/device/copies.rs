//! Copies between the host's slices and the device: sizes, many of them, and who may touch what
//! when.

use cuda_safe::{DeviceBuffer, LaunchConfig};

use super::MS;
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, deep, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "copies",
        device(of_many_sizes),
        device(large_ones_at_odd_places),
        device(ten_thousand_small_uploads),
        device(the_slice_may_change_at_once),
        device(uploads_wait_for_their_turn),
        device(downloads_see_earlier_work),
        device(from_several_threads),
        device(spread_over_threads).serial(),
        device(threads_keep_the_order).serial(),
        device(a_large_upload_does_not_wait).serial(),
        device(staging_is_bounded).serial(),
    ]
}

fn of_many_sizes(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(20);
    // Around powers of two, where packing, blocks and rings begin and end.
    for log in 0..if deep() { 27 } else { 24 } {
        for bytes in [(1_usize << log) - 1, 1 << log, (1 << log) + 1] {
            let source = rng.bytes(bytes);
            let buffer = DeviceBuffer::from_slice(&stream, &source)?;
            first_difference(&buffer.to_vec(&stream)?, &source)?;
        }
    }
    Ok(())
}

fn large_ones_at_odd_places(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(21);
    for bytes in [(5 << 20) + 3, 40 << 20] {
        let source = rng.bytes(bytes);
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, bytes + 10)?;
        for offset in [1, 7] {
            buffer.slice_mut(offset..offset + bytes)?.upload(&stream, &source)?;
            // All of it, and a piece from the middle.
            let got = buffer.slice(offset..offset + bytes)?.to_vec(&stream)?;
            first_difference(&got, &source)?;
            let (from, to) = (1_000_001, bytes - 3);
            let mut piece = vec![0; to - from];
            buffer.slice(offset + from..offset + to)?.download(&stream, &mut piece)?;
            first_difference(&piece, &source[from..to])?;
        }
        let edges = [buffer.slice(..1)?, buffer.slice(bytes + 7..)?];
        ensure_eq!(edges[0].to_vec(&stream)?, [0]);
        ensure_eq!(edges[1].to_vec(&stream)?, [0; 3]);
    }
    Ok(())
}

fn ten_thousand_small_uploads(device: &TestDevice) -> TestResult {
    const COUNT: usize = 10_000;
    const BYTES: usize = 100;
    let stream = device.stream()?;
    let mut rng = device.rng(22);
    let mut model = Vec::with_capacity(COUNT * BYTES);
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, COUNT * BYTES)?;
    for index in 0..COUNT {
        let piece = rng.bytes(BYTES);
        buffer.slice_mut(index * BYTES..(index + 1) * BYTES)?.upload(&stream, &piece)?;
        model.extend(piece);
    }
    first_difference(&buffer.to_vec(&stream)?, &model)
}

fn the_slice_may_change_at_once(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let mut rng = device.rng(23);
    for bytes in [1, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20] {
        let source = rng.bytes(bytes);
        let mut slice = source.clone();
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, bytes)?;
        // The copy can't begin before this is over, long after the slice has changed.
        device.count(delay.delay(&stream, (1, 1), 10 * MS))?;
        buffer.upload(&stream, &slice)?;
        slice.fill(0xee);
        drop(slice);
        first_difference(&buffer.to_vec(&stream)?, &source)?;
    }
    Ok(())
}

/// An upload overwrites only what earlier work on its stream has finished reading.
fn uploads_wait_for_their_turn(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let n = 10_000;
    let (old, new) = (vec![1_u32; n], vec![2_u32; n]);
    let mut buffer = DeviceBuffer::from_slice(&stream, &old)?;
    let mut seen = DeviceBuffer::<u32>::zeroed(&stream, n)?;
    device.count(delay.delayed_copy(&stream, (1, 256), &buffer, &mut seen, n as u64, 20 * MS))?;
    buffer.upload(&stream, &new)?;
    first_difference(&seen.to_vec(&stream)?, &old)?;
    first_difference(&buffer.to_vec(&stream)?, &new)
}

fn downloads_see_earlier_work(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    for n in [1_usize, 1000, 3 << 20] {
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        device.count(delay.delayed_fill(&stream, (1, 256), &mut buffer, n as u64, 77, 10 * MS))?;
        first_difference(&buffer.to_vec(&stream)?, &vec![77; n])?;
    }
    Ok(())
}

/// Uploads and downloads of several threads on one stream, each in buffers of its own.
fn from_several_threads(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let stream = &stream;
                scope.spawn(move || -> TestResult {
                    let mut rng = device.rng(100 + thread);
                    for _ in 0..if deep() { 400 } else { 100 } {
                        let bytes = 1 + rng.below(300_000);
                        let source = rng.bytes(bytes);
                        let buffer = DeviceBuffer::from_slice(stream, &source)?;
                        first_difference(&buffer.to_vec(stream)?, &source)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("panicked"))))
    })
}

/// Runs `act` with copies spread over each of these numbers of threads.
fn with_threads(device: &TestDevice, act: impl Fn() -> TestResult) -> TestResult {
    let context = device.context();
    let before = context.copy_threads();
    let result = [2, 3, 8].into_iter().try_for_each(|threads| {
        context.set_copy_threads(threads);
        act()
    });
    context.set_copy_threads(before);
    result
}

fn spread_over_threads(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    with_threads(device, || {
        let mut rng = device.rng(25);
        for bytes in [8 << 20, (8 << 20) + 1, (33 << 20) - 1] {
            let before = context.stats().threaded_copies;
            let source = rng.bytes(bytes);
            let buffer = DeviceBuffer::from_slice(&stream, &source)?;
            first_difference(&buffer.to_vec(&stream)?, &source)?;
            let mut target = vec![0; bytes - 1];
            buffer.slice(1..)?.download(&stream, &mut target)?;
            first_difference(&target, &source[1..])?;
            let large = 2 + u64::from(bytes > 8 << 20);
            ensure_eq!(context.stats().threaded_copies - before, large);
            ensure!(context.stats().copy_helpers < 8);
        }
        Ok(())
    })
}

/// The slice may change when an upload returns, though the stream has not got to it; and what is
/// downloaded is what was there in the stream's order.
fn threads_keep_the_order(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    with_threads(device, || {
        let n = 5 << 20;
        let words = device.rng(26).words(n);
        let mut source = words.clone();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        device.count(delay.delay(&stream, (1, 1), 10 * MS))?;
        buffer.upload(&stream, &source)?;
        source.fill(0xeeee_eeee);
        first_difference(&buffer.to_vec(&stream)?, &words)?;
        let launch = (1, 256);
        device.count(delay.delayed_fill(&stream, launch, &mut buffer, n as u64, 7, 10 * MS))?;
        let seen = buffer.to_vec(&stream)?;
        buffer.upload(&stream, &words)?;
        first_difference(&seen, &vec![7; n])?;
        first_difference(&buffer.to_vec(&stream)?, &words)
    })
}

/// What fits the ring is uploaded while the stream still waits for something that only the host
/// will do, with however many threads.
fn a_large_upload_does_not_wait(device: &TestDevice) -> TestResult {
    with_threads(device, || {
        let stream = device.stream()?;
        let source = device.rng(27).bytes(20 << 20);
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, source.len())?;
        let (done, wait) = std::sync::mpsc::channel::<()>();
        stream.host_function(move || {
            // Answers when the other end is dropped, too.
            let _ = wait.recv();
        })?;
        buffer.upload(&stream, &source)?;
        ensure!(!stream.is_done()?);
        drop(done);
        first_difference(&buffer.to_vec(&stream)?, &source)
    })
}

/// However much is uploaded to a stream that does not get on, the pinned memory stays small.
fn staging_is_bounded(device: &TestDevice) -> TestResult {
    let (stream, delay, basic) = (device.stream()?, Delay::of(device)?, Basic::of(device)?);
    let words = device.rng(24).words(1 << 20);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, words.len())?;
    let before = device.context().stats();
    device.count(delay.delay(&stream, (1, 1), 20 * MS))?;
    for _ in 0..20 {
        buffer.upload(&stream, &words)?;
    }
    let n = words.len() as u64;
    device.count(basic.add(&stream, LaunchConfig::cover(words.len(), 256), &mut buffer, n, 1))?;
    let after = device.context().stats();
    ensure_eq!(after.staged_bytes - before.staged_bytes, 20 * 4 * n);
    ensure!(after.staging_bytes <= 64 << 20, "{after:?}");
    let wanted: Vec<u32> = words.iter().map(|word| word.wrapping_add(1)).collect();
    first_difference(&buffer.to_vec(&stream)?, &wanted)
}
