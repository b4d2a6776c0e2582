//! Memory that host and device both see: what each writes the other finds, the host waits for what
//! it must and no more, and guards keep the device away.

use std::time::Instant;

use cuda_safe::{DeviceBuffer, Error, ErrorKind, Stream, UnifiedBuffer};

use super::{MS, SIZES};
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "unified",
        device(both_see_what_is_written),
        device(copies_both_ways),
        device(made_of_zeros),
        device(reading_waits_for_writers),
        device(writing_waits_for_readers),
        device(others_are_not_waited_for).serial(),
        device(order_between_streams),
        device(leaked_guards_refuse_uses),
        device(a_vector_comes_back),
        device(a_vector_held_elsewhere),
        device(dropped_while_in_use).serial(),
        device(prefetching),
        device(views_and_types),
    ]
}

/// The ways to make such memory.
#[derive(Debug, Clone, Copy)]
enum Made {
    Managed,
    Pinned,
    Registered,
}

const ALL: [Made; 3] = [Made::Managed, Made::Pinned, Made::Registered];

impl Made {
    /// `len` zeros.
    fn zeros(self, stream: &Stream, len: usize) -> cuda_safe::Result<UnifiedBuffer<u32>> {
        match self {
            Self::Managed => UnifiedBuffer::managed(stream, len),
            Self::Pinned => UnifiedBuffer::pinned(stream, len),
            Self::Registered => UnifiedBuffer::register(stream, vec![0; len]),
        }
    }
}

fn said_invalid(what: &str, result: cuda_safe::Result<()>) -> Result<Error, Failure> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::Invalid(_)) => Ok(error),
        other => Err(Failure::new(format!("{what}: {other:?}"))),
    }
}

fn both_see_what_is_written(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let mut rng = device.rng(60);
    for made in ALL {
        for n in SIZES {
            let mut buffer = made.zeros(&stream, n)?;
            ensure_eq!((buffer.len(), buffer.size_bytes()), (n, 4 * n));
            device.count(basic.iota(&stream, (64, 256), &mut buffer, n as u64, 3))?;
            let expected: Vec<u32> = (3..3 + n as u32).collect();
            first_difference(&buffer.host()?, &expected)?;

            let words = rng.words(n);
            buffer.host_mut()?.copy_from_slice(&words);
            let mut seen = DeviceBuffer::<u32>::zeroed(&stream, n)?;
            device.count(basic.copy(&stream, (64, 256), &buffer, &mut seen, n as u64))?;
            first_difference(&seen.to_vec(&stream)?, &words)?;
            first_difference(&buffer.host()?, &words)?;
        }
    }
    Ok(())
}

fn copies_both_ways(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(61);
    for made in ALL {
        for n in SIZES {
            let words = rng.words(n);
            let on_device = DeviceBuffer::from_slice(&stream, &words)?;
            let mut buffer = made.zeros(&stream, n)?;
            buffer.copy_from(&stream, &on_device)?;
            first_difference(&buffer.host()?, &words)?;
            let mut back = DeviceBuffer::<u32>::zeroed(&stream, n)?;
            back.copy_from(&stream, &buffer)?;
            first_difference(&back.to_vec(&stream)?, &words)?;
            for other in ALL {
                let mut copy = other.zeros(&stream, n)?;
                copy.copy_from(&stream, &buffer)?;
                first_difference(&copy.host()?, &words)?;
            }

            // As with device memory: uploads, downloads, fills.
            let words = rng.words(n);
            buffer.as_slice_mut().upload(&stream, &words)?;
            first_difference(&buffer.as_slice().to_vec(&stream)?, &words)?;
            first_difference(&buffer.host()?, &words)?;
            buffer.as_slice_mut().fill(&stream, 0x0102_0304)?;
            first_difference(&buffer.host()?, &vec![0x0102_0304; n])?;
        }
        let mut buffer = made.zeros(&stream, 10)?;
        let shorter = DeviceBuffer::<u32>::zeroed(&stream, 9)?;
        said_invalid("lengths", buffer.copy_from(&stream, &shorter))?;
    }
    Ok(())
}

fn made_of_zeros(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for round in 0..3 {
        for made in ALL {
            let mut buffer = made.zeros(&stream, 5000)?;
            ensure!(buffer.host()?.iter().all(|word| *word == 0), "round {round}, {made:?}");
            buffer.host_mut()?.fill(0xdddd_dddd);
        }
        device.context().free_deferred()?;
    }
    let refused = UnifiedBuffer::<u64>::pinned(&stream, usize::MAX).map(drop);
    said_invalid("more than there can be", refused)?;
    let refused = UnifiedBuffer::<u64>::managed(&stream, usize::MAX).map(drop);
    said_invalid("more than there can be", refused).map(drop)
}

fn reading_waits_for_writers(device: &TestDevice) -> TestResult {
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let delay = Delay::of(device)?;
    for made in ALL {
        let mut buffer = made.zeros(&streams[0], 1000)?;
        for (round, stream) in (1..).zip([&streams[0], &streams[1], &streams[2], &streams[0]]) {
            let filled = delay.delayed_fill(stream, (1, 128), &mut buffer, 1000, round, 20 * MS);
            device.count(filled)?;
            first_difference(&buffer.host()?, &[round; 1000])?;
        }
        // Two halves, written at the same time.
        {
            let (mut low, mut high) = buffer.as_slice_mut().split_at_mut(500)?;
            device.count(delay.delayed_fill(&streams[1], (1, 128), &mut low, 500, 8, 30 * MS))?;
            device.count(delay.delayed_fill(&streams[2], (1, 128), &mut high, 500, 9, 10 * MS))?;
        }
        let seen = buffer.host()?;
        first_difference(&seen[..500], &[8; 500])?;
        first_difference(&seen[500..], &[9; 500])?;
    }
    Ok(())
}

/// Whichever reader the host did not wait for would see what it writes.
fn writing_waits_for_readers(device: &TestDevice) -> TestResult {
    let (home, first, second) = (device.stream()?, device.stream()?, device.stream()?);
    let delay = Delay::of(device)?;
    for made in ALL {
        for (first_ms, second_ms) in [(30, 5), (5, 30)] {
            let mut buffer = made.zeros(&home, 1000)?;
            buffer.host_mut()?.fill(5);
            let mut seen = Vec::new();
            for (stream, ms) in [(&first, first_ms), (&second, second_ms)] {
                let mut copy = DeviceBuffer::<u32>::zeroed(stream, 1000)?;
                let copied =
                    delay.delayed_copy(stream, (1, 128), &buffer, &mut copy, 1000, ms * MS);
                device.count(copied)?;
                seen.push((stream, copy));
            }
            buffer.host_mut()?.fill(6);
            for (stream, copy) in seen {
                first_difference(&copy.to_vec(stream)?, &[5; 1000])?;
            }
            first_difference(&buffer.host()?, &[6; 1000])?;
        }
    }
    Ok(())
}

/// Neither a kernel that has nothing to do with the buffer, nor for reading one that reads it.
fn others_are_not_waited_for(device: &TestDevice) -> TestResult {
    let (home, busy, reader) = (device.stream()?, device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    for made in ALL {
        let mut buffer = made.zeros(&home, 1000)?;
        device.count(basic.fill(&home, (8, 128), &mut buffer, 1000, 1))?;
        first_difference(&buffer.host()?, &[1; 1000])?;
        let mut copy = DeviceBuffer::<u32>::zeroed(&reader, 1000)?;
        reader.synchronize()?;

        device.count(delay.delay(&busy, (1, 1), 300 * MS))?;
        device.count(basic.fill(&home, (8, 128), &mut buffer, 1000, 2))?;
        let copied = delay.delayed_copy(&reader, (1, 128), &buffer, &mut copy, 1000, 300 * MS);
        device.count(copied)?;
        let start = Instant::now();
        first_difference(&buffer.host()?, &[2; 1000])?;
        let once = start.elapsed();
        let records = device.context().stats().events_recorded;
        first_difference(&buffer.host()?, &[2; 1000])?;
        ensure_eq!(device.context().stats().events_recorded, records, "it was seen done before");
        if !device.is_instrumented() {
            ensure!(!busy.is_done()?, "{made:?}: waited for another stream, {once:?}");
            ensure!(!reader.is_done()?, "{made:?}: waited for a reader, {once:?}");
        }
        drop(buffer.host_mut()?);
        ensure!(reader.is_done()?, "{made:?}: the reader had to be waited for");
        first_difference(&copy.to_vec(&reader)?, &[2; 1000])?;
        busy.synchronize()?;
    }
    Ok(())
}

fn order_between_streams(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    for made in ALL {
        for (writer, reader) in [(&home, &other), (&other, &home)] {
            let mut buffer = made.zeros(&home, 1000)?;
            let mut seen = DeviceBuffer::<u32>::zeroed(reader, 1000)?;
            device.count(delay.delayed_fill(writer, (1, 128), &mut buffer, 1000, 2, 20 * MS))?;
            device.count(basic.copy(reader, (8, 128), &buffer, &mut seen, 1000))?;
            device.count(basic.fill(writer, (8, 128), &mut buffer, 1000, 3))?;
            first_difference(&seen.to_vec(reader)?, &[2; 1000])?;
            first_difference(&buffer.host()?, &[3; 1000])?;
        }
    }
    Ok(())
}

fn leaked_guards_refuse_uses(device: &TestDevice) -> TestResult {
    let (stream, other, basic) = (device.stream()?, device.stream()?, Basic::of(device)?);
    for made in ALL {
        let mut buffer = made.zeros(&stream, 1000)?;
        let mut copy = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
        std::mem::forget(buffer.host()?);
        // The device and the host may read; writing is refused, on every stream.
        device.count(basic.copy(&stream, (8, 128), &buffer, &mut copy, 1000))?;
        device.count(basic.copy(&other, (8, 128), &buffer, &mut copy, 1000))?;
        first_difference(&buffer.host()?, &[0; 1000])?;
        for stream in [&stream, &other] {
            let written = basic.fill(stream, (8, 128), &mut buffer, 1000, 1);
            let error = said_invalid("a launch", written)?;
            ensure!(error.to_string().contains("host()"), "{error}");
            said_invalid("a copy", buffer.copy_from(stream, &copy))?;
            said_invalid("an upload", buffer.as_slice_mut().upload(stream, &[1; 1000]))?;
        }
        said_invalid("a second guard", buffer.host_mut().map(drop))?;
        first_difference(&buffer.host()?, &[0; 1000])?;

        let mut buffer = made.zeros(&stream, 1000)?;
        std::mem::forget(buffer.host_mut()?);
        let read = basic.copy(&stream, (8, 128), &buffer, &mut copy, 1000);
        let error = said_invalid("a launch", read)?;
        ensure!(error.to_string().contains("host_mut()"), "{error}");
        said_invalid("a download", buffer.as_slice().to_vec(&stream).map(drop))?;
        said_invalid("a guard", buffer.host().map(drop))?;
        said_invalid("a second guard", buffer.host_mut().map(drop))?;
        // A guard that is dropped on another thread is as good as any.
        let mut buffer = made.zeros(&stream, 1000)?;
        let guard = buffer.host_mut()?;
        std::thread::scope(|scope| scope.spawn(move || drop(guard)).join())
            .map_err(|_| Failure::new("panicked"))?;
        device.count(basic.fill(&stream, (8, 128), &mut buffer, 1000, 1))?;
    }
    device.context().synchronize()?;
    Ok(())
}

fn a_vector_comes_back(device: &TestDevice) -> TestResult {
    let (home, other, delay) = (device.stream()?, device.stream()?, Delay::of(device)?);
    for n in SIZES {
        let mut vector = Vec::with_capacity(n + 7);
        vector.extend(device.rng(62).words(n));
        let (start, capacity, words) = (vector.as_ptr(), vector.capacity(), vector.clone());
        let buffer = UnifiedBuffer::register(&home, vector)?;
        first_difference(&buffer.host()?, &words)?;
        let vector = buffer.into_vec()?;
        ensure_eq!((vector.as_ptr(), vector.capacity()), (start, capacity));
        first_difference(&vector, &words)?;

        // With what a slow kernel on another stream writes.
        let mut buffer = UnifiedBuffer::register(&home, vector)?;
        device.count(delay.delayed_fill(&other, (1, 256), &mut buffer, n as u64, 4, 10 * MS))?;
        let vector = buffer.into_vec()?;
        ensure_eq!(vector.as_ptr(), start);
        first_difference(&vector, &vec![4; n])?;
    }
    for made in [Made::Managed, Made::Pinned] {
        let buffer = made.zeros(&home, 10)?;
        let (buffer, error) = match buffer.into_vec() {
            Err(refused) => refused.into_parts(),
            Ok(_) => return Err(Failure::new(format!("{made:?} memory is of no vector"))),
        };
        ensure!(error.hint().is_some_and(|hint| hint.contains("to_vec")), "{error}");
        ensure_eq!(buffer.host()?.to_vec(), [0; 10]);
    }
    Ok(())
}

fn a_vector_held_elsewhere(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let buffer = UnifiedBuffer::register(&stream, vec![1_u32, 2, 3])?;
    let held = buffer.allocation().clone();
    let (buffer, error) = match buffer.into_vec() {
        Err(refused) => refused.into_parts(),
        Ok(_) => return Err(Failure::new("given back though somebody holds the allocation")),
    };
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    ensure_eq!(*buffer.host()?, [1, 2, 3]);
    drop(held);
    let vector = buffer.into_vec()?;
    ensure_eq!(vector, [1, 2, 3]);
    Ok(())
}

/// Nothing waits, and nothing is pulled away from a kernel that still uses it.
fn dropped_while_in_use(device: &TestDevice) -> TestResult {
    let (home, other, delay) = (device.stream()?, device.stream()?, Delay::of(device)?);
    let context = device.context();
    context.free_deferred()?;
    for made in ALL {
        let mut buffer = made.zeros(&home, 10_000)?;
        buffer.host_mut()?.fill(7);
        let mut copy = DeviceBuffer::<u32>::zeroed(&other, 10_000)?;
        other.synchronize()?;
        let copied = delay.delayed_copy(&other, (1, 256), &buffer, &mut copy, 10_000, 500 * MS);
        device.count(copied)?;
        let start = Instant::now();
        drop(buffer);
        let took = start.elapsed();
        if !device.is_instrumented() {
            ensure!(!other.is_done()?, "dropping {made:?} memory took {took:?}");
        }
        ensure_eq!(context.stats().deferred_frees, 1, "{made:?}");
        // Something else that may come to lie there.
        let mut next = made.zeros(&home, 10_000)?;
        next.host_mut()?.fill(0xdddd_dddd);
        first_difference(&copy.to_vec(&other)?, &[7; 10_000])?;
        drop(next);
        context.free_deferred()?;
        ensure_eq!(context.stats().deferred_frees, 0, "{made:?}");
    }
    let errors = context.take_drop_errors();
    ensure!(errors.is_empty(), "{errors:?}");
    Ok(())
}

fn prefetching(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    for n in SIZES {
        let mut buffer = UnifiedBuffer::<u32>::managed(&stream, n)?;
        buffer.host_mut()?.fill(3);
        buffer.prefetch_to_device(&stream)?;
        device.count(basic.add(&stream, (64, 256), &mut buffer, n as u64, 4))?;
        buffer.prefetch_to_host(&stream)?;
        first_difference(&buffer.host()?, &vec![7; n])?;
        // Pages may move while the host reads them.
        let seen = buffer.host()?;
        buffer.prefetch_to_device(&stream)?;
        first_difference(&seen, &vec![7; n])?;
    }
    for made in [Made::Pinned, Made::Registered] {
        let buffer = made.zeros(&stream, 10)?;
        said_invalid("to the device", buffer.prefetch_to_device(&stream))?;
        said_invalid("to the host", buffer.prefetch_to_host(&stream))?;
    }
    Ok(())
}

fn views_and_types(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let mut buffer = UnifiedBuffer::<u64>::pinned(&stream, 100)?;
    ensure!(buffer.slice(..101).is_err() && buffer.slice_mut(101..).is_err());
    {
        let mut words = buffer.slice_mut(10..20)?.cast_mut::<u32>()?;
        device.count(basic.fill(&stream, (1, 32), &mut words, 20, 1))?;
    }
    let expected: Vec<u64> =
        (0..100).map(|index| if (10..20).contains(&index) { 1 << 32 | 1 } else { 0 }).collect();
    first_difference(&buffer.host()?, &expected)?;
    first_difference(&buffer.slice(5..15)?.to_vec(&stream)?, &expected[5..15])?;
    let guard = buffer.host()?;
    let copy = std::thread::scope(|scope| scope.spawn(|| guard.to_vec()).join())
        .map_err(|_| Failure::new("panicked"))?;
    first_difference(&copy, &expected)?;
    ensure!(format!("{buffer:?}").contains("u64"));
    Ok(())
}
