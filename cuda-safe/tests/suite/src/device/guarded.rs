//! Memory behind a `cuda_safe::Gate`: held back while work that was made to fail may still use it.

use std::time::{Duration, Instant};

use cuda_safe::dlpack::Consumer;
use cuda_safe::{DeviceBuffer, Stream, UnifiedBuffer};

use super::checks::is_invalid;
use super::dlpack::Given;
use super::gate::Gate as Blocker;
use test_harness::programs::Basic;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "guarded",
        device(open_gates_change_nothing),
        device(a_drop_is_freed_when_its_work_is_done),
        device(a_drop_before_the_end_is_held),
        device(behind_two_gates),
        device(later_uses_wait_until_it_opens),
        device(later_uses_are_refused_after_a_second),
        device(the_host_waits_for_what_it_sees),
        device(graphs_wait),
        device(consumed),
        device(given_away_when_its_work_is_done),
        device(used_by_other_code),
        device(more_memory_than_gates_list),
    ]
}

/// How long a wait must last to be one.
const WAIT: Duration = Duration::from_millis(30);

fn zeroed(stream: &Stream) -> cuda_safe::Result<DeviceBuffer<u8>> {
    DeviceBuffer::zeroed(stream, 1 << 20)
}

fn words(stream: &Stream) -> cuda_safe::Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, 33)
}

/// Runs `call` on a thread while the gate is closed, opens the gate after [`WAIT`], and returns the result, which came after
/// unless it is an error.
fn while_shut<R: Send, E: Send>(
    gate: &cuda_safe::Gate,
    call: impl FnOnce() -> Result<R, E> + Send,
) -> Result<Result<R, E>, Failure> {
    gate.close()?;
    std::thread::scope(|scope| {
        let start = Instant::now();
        let thread = scope.spawn(move || (call(), start.elapsed()));
        std::thread::sleep(WAIT);
        let early = thread.is_finished();
        gate.open();
        let (result, after) = thread.join().map_err(|_| Failure::new("the thread panicked"))?;
        ensure!(result.is_err() || (!early && after >= WAIT), "it waited {after:?}");
        Ok(result)
    })
}

fn open_gates_change_nothing(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let gate = cuda_safe::Gate::new();
    for n in [0, 1, 31, 32, 33, 100_000] {
        let values = device.rng(1).words(n);
        let mut buffer = DeviceBuffer::from_slice(&stream, &values)?;
        for _ in 0..3 {
            gate.protect(buffer.allocation())?;
        }
        first_difference(&buffer.to_vec(&other)?, &values)?;
        buffer.fill(&other, 7)?;
        first_difference(&buffer.to_vec(&stream)?, &vec![7; n])?;
        drop(buffer);
        // Opened for good, a gate refuses what is new.
        let gate = cuda_safe::Gate::new();
        gate.open();
        gate.close()?;
        let buffer = words(&stream)?;
        is_invalid(gate.protect(buffer.allocation()), "the gate of the memory was closed")?;
        first_difference(&buffer.to_vec(&stream)?, &[0; 33])?;
    }
    gate.open();
    Ok(())
}

/// Returns a buffer behind the gate whose use by the stream ends when the blocker is dropped.
fn used(stream: &Stream, gate: &cuda_safe::Gate) -> Result<(DeviceBuffer<u8>, Blocker), Failure> {
    let mut buffer = zeroed(stream)?;
    gate.protect(buffer.allocation())?;
    let blocker = Blocker::close(stream)?;
    buffer.fill(stream, 1)?;
    Ok((buffer, blocker))
}

fn a_drop_is_freed_when_its_work_is_done(device: &TestDevice) -> TestResult {
    let (stream, gate) = (device.stream()?, cuda_safe::Gate::new());
    let (buffer, blocker) = used(&stream, &gate)?;
    let address = buffer.device_ptr();
    drop(buffer);
    ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
    // The stream's order alone would let its next allocation have the memory.
    let next = zeroed(&stream)?;
    ensure!(next.device_ptr() != address, "the memory was given away while its work may run on");
    gate.protect(next.allocation())?;
    ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
    blocker.open();
    stream.synchronize()?;
    gate.protect(next.allocation())?;
    ensure!(format!("{gate:?}").contains("held: 0"), "{gate:?}");
    Ok(())
}

fn a_drop_before_the_end_is_held(device: &TestDevice) -> TestResult {
    let (stream, gate) = (device.stream()?, cuda_safe::Gate::new());
    let (buffer, blocker) = used(&stream, &gate)?;
    let address = buffer.device_ptr();
    drop(buffer);
    // The work is made to fail: its stream goes on.
    gate.close()?;
    blocker.open();
    stream.synchronize()?;
    // One that is dropped now is held, too.
    let (second, blocker) = (zeroed(&stream)?, Blocker::close(&stream)?);
    let other = cuda_safe::Gate::new();
    other.protect(second.allocation())?;
    blocker.open();
    for _ in 0..4 {
        let next = zeroed(&stream)?;
        ensure!(
            next.device_ptr() != address,
            "the memory was given away while work may write to it"
        );
    }
    is_invalid(gate.protect(second.allocation()), "was closed")?;
    device.context().free_deferred()?;
    ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
    gate.open();
    ensure!(format!("{gate:?}").contains("held: 0"), "{gate:?}");
    drop(second);
    other.open();
    Ok(())
}

fn behind_two_gates(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for first_is_shut in [false, true] {
        let (first, second) = (cuda_safe::Gate::new(), cuda_safe::Gate::new());
        let buffer = zeroed(&stream)?;
        for _ in 0..2 {
            first.protect(buffer.allocation())?;
            second.protect(buffer.allocation())?;
        }
        let (closed, open) = if first_is_shut { (&first, &second) } else { (&second, &first) };
        let address = buffer.device_ptr();
        drop(buffer);
        closed.close()?;
        open.open();
        stream.synchronize()?;
        let next = zeroed(&stream)?;
        ensure!(next.device_ptr() != address);
        ensure!(format!("{closed:?}").contains("held: 1"), "{closed:?}");
        closed.open();
        ensure!(format!("{closed:?} {open:?}").matches("held: 0").count() == 2);
    }
    Ok(())
}

fn later_uses_wait_until_it_opens(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let basic = Basic::of(device)?;
    type Use = fn(&Basic, &Stream, &mut DeviceBuffer<u32>) -> cuda_safe::Result<()>;
    let uses: [Use; 4] = [
        |_, stream, buffer| buffer.to_vec(stream).map(drop),
        |_, stream, buffer| buffer.fill(stream, 5),
        |basic, stream, buffer| basic.fill(stream, (1, 64), buffer, 33, 5),
        |_, stream, buffer| buffer.upload(stream, &[5; 33]),
    ];
    for used in uses {
        for stream in [&stream, &other] {
            let gate = cuda_safe::Gate::new();
            let mut buffer = words(stream)?;
            gate.protect(buffer.allocation())?;
            while_shut(&gate, || used(&basic, stream, &mut buffer))??;
            // Memory that is behind no gate never waits.
            gate.close()?;
            words(stream)?.to_vec(stream)?;
        }
    }
    Ok(())
}

fn later_uses_are_refused_after_a_second(device: &TestDevice) -> TestResult {
    let (stream, gate) = (device.stream()?, cuda_safe::Gate::new());
    let mut buffer = words(&stream)?;
    gate.protect(buffer.allocation())?;
    gate.close()?;
    let start = Instant::now();
    is_invalid(buffer.fill(&stream, 1), "is behind gate")?;
    ensure!(start.elapsed() >= Duration::from_secs(1) && start.elapsed() < Duration::from_secs(20));
    gate.open();
    first_difference(&buffer.to_vec(&stream)?, &[0; 33])
}

fn the_host_waits_for_what_it_sees(device: &TestDevice) -> TestResult {
    let (stream, gate) = (device.stream()?, cuda_safe::Gate::new());
    let mut seen = UnifiedBuffer::<u32>::pinned(&stream, 33)?;
    gate.protect(seen.allocation())?;
    seen.as_slice_mut().fill(&stream, 3)?;
    let seen_words = while_shut(&gate, || seen.host().map(|words| words.to_vec()))??;
    first_difference(&seen_words, &[3; 33])?;
    // A wait that has begun before: the work ends because it is made to fail.
    let gate = cuda_safe::Gate::new();
    gate.protect(seen.allocation())?;
    let blocker = Blocker::close(&stream)?;
    seen.as_slice_mut().fill(&stream, 4)?;
    let words = std::thread::scope(|scope| {
        let thread = scope.spawn(|| seen.host().map(|words| words.to_vec()));
        std::thread::sleep(WAIT);
        gate.close()?;
        blocker.open();
        std::thread::sleep(WAIT);
        let early = thread.is_finished();
        gate.open();
        let words = thread.join().map_err(|_| Failure::new("the thread panicked"))??;
        ensure!(!early, "the host saw memory that work may still write");
        Ok::<_, Failure>(words)
    })?;
    first_difference(&words, &[4; 33])
}

fn graphs_wait(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    let gate = cuda_safe::Gate::new();
    let buffer = words(&stream)?;
    let allocation = buffer.allocation().clone();
    let mut graph = context.capture(buffer, |stream, buffer| {
        gate.protect(buffer.allocation())?;
        buffer.fill(stream, 8)
    })?;
    graph.launch(&stream)?;
    while_shut(&gate, || graph.launch(&stream))??;
    first_difference(&graph.state().to_vec(&stream)?, &[8; 33])?;
    drop(graph);
    ensure_eq!(std::sync::Arc::strong_count(&allocation), 1);
    // What a capture allocates is the graph's.
    let refused = context.capture((), |stream, ()| {
        let scratch = words(stream)?;
        cuda_safe::Gate::new().protect(scratch.allocation())
    });
    is_invalid(refused.map(drop), "allocated in a capture")
}

/// Methods that consume a buffer that is behind a gate.
fn consumed(device: &TestDevice) -> TestResult {
    let (sys, stream) = (device.context().driver().as_sys(), device.stream()?);
    for closed in [false, true] {
        let gate = cuda_safe::Gate::new();
        let buffer = words(&stream)?;
        gate.protect(buffer.allocation())?;
        if closed {
            gate.close()?;
        }
        buffer.close()?;
        ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
        gate.open();
        let gate = cuda_safe::Gate::new();
        let registered = UnifiedBuffer::register(&stream, vec![1_u32; 33])?;
        gate.protect(registered.allocation())?;
        let vector = match closed {
            true => while_shut(&gate, || registered.into_vec())?,
            false => registered.into_vec(),
        };
        first_difference(&vector.map_err(cuda_safe::Error::from)?, &[1; 33])?;
        let gate = cuda_safe::Gate::new();
        let buffer = words(&stream)?;
        gate.protect(buffer.allocation())?;
        let address = buffer.device_ptr();
        let raw = match closed {
            true => while_shut(&gate, || buffer.into_raw())?,
            false => buffer.into_raw(),
        };
        ensure_eq!(raw.map_err(cuda_safe::Error::from)?, address);
        // SAFETY: the memory was given away, and comes from `cuMemAllocFromPoolAsync`.
        let code = unsafe { sys.cuMemFreeAsync(address, stream.as_raw()) };
        ensure_eq!(code.ok(), Some(cuda_safe::sys::CUresult::CUDA_SUCCESS), "cuMemFreeAsync");
        // One that is refused is there again, and still behind its gate.
        let gate = cuda_safe::Gate::new();
        let buffer = words(&stream)?;
        gate.protect(buffer.allocation())?;
        let handle = buffer.allocation().clone();
        let error = buffer.close().err();
        let buffer = error.map(|error| error.into_inner());
        let Some(mut buffer) = buffer else { return Err(Failure::new("closed despite a handle")) };
        drop(handle);
        if closed {
            while_shut(&gate, || buffer.fill(&stream, 1))??;
        }
        gate.open();
    }
    Ok(())
}

/// The new owner does not ask the gate, so no work that may be made to fail is left.
fn given_away_when_its_work_is_done(device: &TestDevice) -> TestResult {
    let (sys, stream) = (device.context().driver().as_sys(), device.stream()?);
    let gate = cuda_safe::Gate::new();
    let (buffer, blocker) = used(&stream, &gate)?;
    let given = std::thread::scope(|scope| {
        let thread = scope.spawn(move || buffer.into_raw());
        std::thread::sleep(WAIT);
        let early = thread.is_finished();
        blocker.open();
        let given = thread.join().map_err(|_| Failure::new("the thread panicked"))?;
        ensure!(given.is_err() || !early, "the memory was given away while its work ran");
        Ok(given)
    })?;
    let address = given.map_err(cuda_safe::Error::from)?;
    // SAFETY: the memory was given away, and comes from `cuMemAllocFromPoolAsync`.
    let code = unsafe { sys.cuMemFreeAsync(address, stream.as_raw()) };
    ensure_eq!(code.ok(), Some(cuda_safe::sys::CUresult::CUDA_SUCCESS), "cuMemFreeAsync");
    Ok(())
}

/// Memory that a framework gives back is held until the work of the context at that time has ended.
fn used_by_other_code(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let gate = cuda_safe::Gate::new();
    let (first, last) = (zeroed(&stream)?, zeroed(&stream)?);
    gate.protect(first.allocation())?;
    gate.protect(last.allocation())?;
    let shape = [first.len()];
    let given = while_shut(&gate, || first.into_dlpack(&shape, Consumer::NoWait).map(Given))?;
    let given = given.map_err(cuda_safe::Error::from)?;
    drop(given);
    // That gate is open for good.
    let gate = cuda_safe::Gate::new();
    let first = zeroed(&stream)?;
    gate.protect(first.allocation())?;
    gate.protect(last.allocation())?;
    let given = first.into_dlpack(&shape, Consumer::NoWait).map_err(cuda_safe::Error::from)?;
    let (given, address) = (Given(given), last.device_ptr());
    let blocker = Blocker::close(&other)?;
    drop(given);
    gate.protect(last.allocation())?;
    ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
    drop(last);
    blocker.open();
    let next = zeroed(&stream)?;
    ensure!(next.device_ptr() != address);
    // The event of the context's work is of no stream.
    device.context().synchronize()?;
    let start = Instant::now();
    loop {
        gate.protect(next.allocation())?;
        if format!("{gate:?}").contains("held: 0") {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(5), "{gate:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn more_memory_than_gates_list(device: &TestDevice) -> TestResult {
    let (stream, gate) = (device.stream()?, cuda_safe::Gate::new());
    let kept = words(&stream)?;
    for _ in 0..1000 {
        let buffer = words(&stream)?;
        gate.protect(buffer.allocation())?;
        gate.protect(kept.allocation())?;
    }
    stream.synchronize()?;
    gate.protect(kept.allocation())?;
    ensure!(format!("{gate:?}").contains("held: 0"), "{gate:?}");
    Ok(())
}
