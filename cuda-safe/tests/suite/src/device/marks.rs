//! Marks, and work that is enqueued through raw handles.

use cuda_safe::sys::{CUresult, CUstream};
use cuda_safe::{DeviceBuffer, Result, Stream};

use super::MS;
use super::checks::{all_are, has_panicked};
use test_harness::programs::{Basic, Delay};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "marks",
        device(raw_work_is_ordered),
        device(raw_work_in_a_graph),
        device(a_call_that_panics),
        device(waited_for_by_streams),
        device(waited_for_by_the_host),
        device(of_a_recording),
    ]
}

const N: usize = 10_000;
const SHAPE: (u32, u32) = (8, 256);

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, N)
}

/// A memset behind the crate's back.
fn raw_fill(device: &TestDevice, stream: CUstream, start: u64, value: u32) -> TestResult {
    let sys = device.context().driver().as_sys();
    // SAFETY: `start` is the address of N words that the callers keep, and the stream is live.
    let answer = unsafe { sys.cuMemsetD32Async(start, value, N, stream) }?;
    ensure_eq!(answer, CUresult::CUDA_SUCCESS, "cuMemsetD32Async");
    Ok(())
}

fn raw_work_is_ordered(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = N as u64;
    for (slow, raw) in [(&home, &other), (&other, &home)] {
        let (mut data, mut seen) = (zeroed(&home)?, zeroed(slow)?);
        device.count(delay.delayed_copy(slow, (1, 256), &data, &mut seen, n, 20 * MS))?;
        let start = data.device_ptr();
        // SAFETY: the memset writes the buffer, on the stream that it is given.
        unsafe { raw.enqueue((&mut data,), |raw| raw_fill(device, raw, start, 7)) }??;
        device.count(basic.add(slow, SHAPE, &mut data, n, 1))?;
        all_are(&seen, slow, 0)?;
        all_are(&data, slow, 8)?;
    }
    Ok(())
}

fn raw_work_in_a_graph(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let n = N as u64;
    let state = (zeroed(&stream)?, Ok(()));
    let mut graph = device.context().capture(state, |stream, (data, filled)| {
        let side = stream.fork()?;
        let start = data.device_ptr();
        // SAFETY: as above; the graph keeps the buffer.
        *filled = unsafe { stream.enqueue((&mut *data,), |raw| raw_fill(device, raw, start, 3)) }?;
        device.count(basic.add(&side, SHAPE, &mut *data, n, 1))
    })?;
    std::mem::replace(&mut graph.state_mut().1, Ok(()))?;
    graph.launch(&stream)?;
    graph.launch(&stream)?;
    all_are(&graph.state().0, &stream, 4)
}

fn a_call_that_panics(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let delay = Delay::of(device)?;
    let mut data = zeroed(&home)?;
    let start = data.device_ptr();
    device.count(delay.delay(&other, (1, 1), 20 * MS))?;
    let mut filled = Ok(());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: as above.
        unsafe {
            other.enqueue((&mut data,), |raw| {
                filled = raw_fill(device, raw, start, 5);
                std::panic::resume_unwind(Box::new("on purpose"))
            })
        }
    }));
    has_panicked::<()>(caught)?;
    filled?;
    // What it had enqueued is waited for all the same.
    all_are(&data, &home, 5)
}

fn waited_for_by_streams(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let (data, mut seen) = (zeroed(&one)?, zeroed(&two)?);
    one.synchronize()?;
    two.synchronize()?;
    device.count(delay.delay(&one, (1, 1), 20 * MS))?;
    raw_fill(device, one.as_raw(), data.device_ptr(), 9)?;
    let mark = one.mark()?;
    ensure_eq!(mark.stream(), &one);
    two.wait_mark(&mark)?;
    two.wait_mark(&mark)?;
    one.wait_mark(&mark)?;
    // At home on one stream, read on the other: the mark alone orders this.
    device.count(basic.copy(&two, SHAPE, &data, &mut seen, N as u64))?;
    all_are(&seen, &two, 9)?;
    ensure!(one.mark()?.index() > mark.index());
    Ok(())
}

fn waited_for_by_the_host(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    device.count(delay.delay(&stream, (1, 1), 10 * MS))?;
    let mark = stream.mark()?;
    mark.synchronize()?;
    ensure!(stream.is_done()?);
    mark.synchronize()?;
    // It keeps its stream.
    drop(stream);
    Ok(mark.synchronize()?)
}

fn of_a_recording(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mark = stream.mark()?;
    let graph = device.context().capture(Vec::new(), |stream, refused| {
        refused.push(stream.mark().err());
        refused.push(stream.wait_mark(&mark).err());
        Ok(())
    })?;
    for refused in graph.into_state() {
        let error = refused.ok_or_else(|| Failure::new("a mark was recorded".to_owned()))?;
        ensure!(error.code().is_none(), "the driver was asked: {error}");
    }
    Ok(())
}
