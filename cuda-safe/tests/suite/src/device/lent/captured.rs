//! Calls while the framework captures its stream.

use std::time::{Duration, Instant};

use cuda_safe::sys::{CUresult, CUstreamCaptureMode};
use cuda_safe::{DeviceBuffer, Event, Result, UnifiedBuffer};

use super::super::MS;
use super::super::checks::{is_invalid, no_drop_errors};
use super::super::framework::Framework;
use super::{counted, operate};
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "lent::captured",
        device(launches).serial(),
        device(scratch).serial(),
        device(memory_of_ours_is_kept).serial(),
        device(unfinished_work).serial(),
        device(what_is_refused).serial(),
        device(what_outlives_the_call).serial(),
        device(graphs_in_graphs).serial(),
        device(invalidated_before).serial(),
        device(given_up).serial(),
    ]
}

fn launches(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    for mode in [
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
    ] {
        let (x, y) = (framework.tensor(&counted(1000))?, framework.tensor(&[0; 1000])?);
        // Kernels are loaded before, as by a warm-up.
        operate(device, &framework, (x.start(), y.start(), 1000))?;
        framework.begin_capture(mode)?;
        let recorded = operate(device, &framework, (x.start(), y.start(), 1000))
            .and_then(|()| operate(device, &framework, (y.start(), x.start(), 1000)));
        let graph = framework.end_capture();
        recorded?;
        let graph = graph?;
        // Recorded, not run.
        first_difference(&x.read()?, &counted(1000))?;
        for launch in 1..4 {
            graph.launch()?;
            let expected: Vec<u32> = (0..1000).map(|value| value + 2 * launch).collect();
            first_difference(&x.read()?, &expected)?;
        }
    }
    no_drop_errors(device.context())
}

/// Memory that is made and dropped in the call, uploads and fills.
fn scratch(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let (x, y) = (framework.tensor(&[1; 1000])?, framework.tensor(&[0; 1000])?);
    let basic = Basic::of(device)?;
    operate(device, &framework, (x.start(), y.start(), 1000))?;
    let graph = framework.capture(|| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        let recorded: Result<()> = unsafe {
            device.context().lend(framework.stream(), |lent| {
                assert!(lent.is_recording());
                let x = lent.slice_from_raw::<u32>(x.start(), 1000)?;
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 1000)?;
                let mut scratch = DeviceBuffer::<u32>::zeroed(lent, 1000)?;
                let table = DeviceBuffer::from_slice(lent, &counted(1000))?;
                device.count(basic.copy(lent, (1, 128), x, &mut scratch, 1000))?;
                device.count(basic.add(lent, (1, 128), &mut scratch, 1000, 41))?;
                y.copy_from(lent, &scratch)?;
                y.slice_mut(500..)?.copy_from(lent, table.slice(500..)?)
            })
        };
        Ok(recorded?)
    })?;
    for _ in 0..3 {
        y.fill(0)?;
        graph.launch()?;
        let expected: Vec<u32> = (0..1000).map(|i| if i < 500 { 42 } else { i }).collect();
        first_difference(&y.read()?, &expected)?;
    }
    drop(graph);
    no_drop_errors(device.context())
}

/// Waits until `attempt` succeeds: the driver lets things of a graph go some time after it is destroyed.
fn some_day(mut attempt: impl FnMut() -> Result<()>) -> TestResult {
    let begin = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) if error.code().is_some() || begin.elapsed() > Duration::from_secs(20) => {
                return Err(error.into());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// The graph keeps what it reads, and nobody writes it meanwhile.
fn memory_of_ours_is_kept(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    let framework = Framework::new(context)?;
    let (y, z) = (framework.tensor(&[0; 1000])?, framework.tensor(&[0; 1000])?);
    let stream = device.stream()?;
    let gone = DeviceBuffer::from_slice(&stream, &counted(1000))?;
    let mut kept = DeviceBuffer::from_slice(&stream, &[5_u32; 1000])?;
    let mut writer = context.capture((), {
        let kept = std::sync::Mutex::new(DeviceBuffer::from_slice(&stream, &[6_u32; 10])?);
        move |stream, ()| {
            kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fill(stream, 1)
        }
    })?;
    device.count(basic.copy(
        &stream,
        (1, 64),
        &kept,
        &mut DeviceBuffer::zeroed(&stream, 1000)?,
        1000,
    ))?;
    stream.synchronize()?;
    let graph = framework.capture(|| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        let recorded: Result<()> = unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 1000)?;
                let mut z = lent.slice_from_raw_mut::<u32>(z.start(), 1000)?;
                device.count(basic.copy(lent, (1, 64), &gone, &mut y, 1000))?;
                device.count(basic.copy(lent, (1, 64), kept.slice(..900)?, &mut z, 900))?;
                z.slice_mut(900..)?.copy_from(lent, kept.slice(900..)?)
            })
        };
        Ok(recorded?)
    })?;
    drop(gone);
    // Its memory is not used again.
    let mut others = Vec::new();
    for _ in 0..4 {
        let mut other = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
        other.fill(&stream, 99)?;
        others.push(other);
    }
    is_invalid(kept.fill(&stream, 7), "a graph that other code has captured")?;
    is_invalid(kept.slice_mut(10..11)?.upload(&stream, &[7]), "a graph that other code")?;
    is_invalid(basic.add(&stream, (1, 64), &mut kept, 1000, 1), "a graph that other code")?;
    writer.launch(&stream)?;
    // Reading goes on.
    first_difference(&kept.to_vec(&stream)?, &[5; 1000])?;
    for _ in 0..2 {
        y.fill(0)?;
        z.fill(0)?;
        graph.launch()?;
        first_difference(&y.read()?, &counted(1000))?;
        first_difference(&z.read()?, &[5; 1000])?;
    }
    graph.launch()?;
    drop(graph);
    some_day(|| kept.fill(&stream, 7))?;
    first_difference(&kept.to_vec(&stream)?, &[7; 1000])?;
    framework.synchronize()?;
    context.free_deferred()?;
    ensure!(context.stats().deferred_frees == 0, "{:?}", context.stats());
    no_drop_errors(context)
}

/// Memory whose writer has not finished is refused, since a launch of the graph would not wait for it.
fn unfinished_work(device: &TestDevice) -> TestResult {
    if device.is_seeded() {
        // Nothing is done before the program waits, or all may be.
        return Ok(());
    }
    let (context, basic, delay) = (device.context(), Basic::of(device)?, Delay::of(device)?);
    let framework = Framework::new(context)?;
    let y = framework.tensor(&[0; 100])?;
    let stream = device.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    device.count(basic.copy(
        &stream,
        (1, 64),
        &buffer,
        &mut DeviceBuffer::zeroed(&stream, 100)?,
        100,
    ))?;
    let call = |buffer: &DeviceBuffer<u32>| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 100)?;
                device.count(basic.copy(lent, (1, 64), buffer, &mut y, 100))
            })
        }
    };
    let mut refused = Ok(());
    let first = framework.capture(|| {
        // Enqueued in the capture, so that nothing of the test waits for it.
        device.count(delay.delayed_fill(&stream, (1, 64), &mut buffer, 100, 3, 200 * MS))?;
        refused = call(&buffer);
        ensure!(framework.captures()?, "the capture goes on");
        Ok(())
    })?;
    is_invalid(refused, "has not finished")?;
    first.launch()?;
    first_difference(&y.read()?, &[0; 100])?;
    stream.synchronize()?;
    let second = framework.capture(|| Ok(call(&buffer)?))?;
    second.launch()?;
    first_difference(&y.read()?, &[3; 100])
}

/// Everything that would leave the capture is an error before the driver is asked, and the capture goes on.
fn what_is_refused(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    let framework = Framework::new(context)?;
    let (y, z) = (framework.tensor(&[0; 100])?, framework.tensor(&[0; 100])?);
    let (stream, event) = (device.stream()?, Event::new(context)?);
    event.record(&stream)?;
    let mut ours = DeviceBuffer::from_slice(&stream, &[1_u32; 100])?;
    let unified = UnifiedBuffer::<u32>::pinned(&stream, 100)?;
    let mark = stream.mark()?;
    operate(device, &framework, (y.start(), z.start(), 100))?;
    stream.synchronize()?;
    let mut outcomes = Vec::new();
    let graph = framework.capture(|| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 100)?;
                let mut refuse = |name: &'static str, outcome: Result<()>| {
                    outcomes.push((name, outcome, framework.captures()));
                };
                refuse("a launch that writes ours", basic.fill(lent, (1, 64), &mut ours, 100, 9));
                refuse("a fill of ours", ours.fill(lent, 9));
                refuse("an upload to ours", ours.upload(lent, &[0; 100]));
                refuse("a download", y.to_vec(lent).map(drop));
                refuse("memory that the host sees", y.copy_from(lent, &unified));
                refuse("a wait of the host", lent.synchronize());
                refuse("a query", lent.is_done().map(drop));
                refuse("a wait for the context", context.synchronize());
                refuse("a wait for an event", lent.wait_event(&event));
                refuse("a wait for a stream", lent.wait_stream(&stream));
                refuse("a stream that waits", stream.wait_stream(lent));
                refuse("a mark", lent.mark().map(drop));
                refuse("a wait for a mark", lent.wait_mark(&mark));
                refuse("a fork", lent.fork().map(drop));
                refuse("a name", lent.last_node().map(drop));
                refuse("a host function", lent.host_function(|| ()));
                refuse("lent memory elsewhere", basic.add(&stream, (1, 64), &mut y, 100, 1));
                refuse("a buffer with a token", {
                    DeviceBuffer::<u32>::from_raw(lent, ours.device_ptr(), 100, Some(Box::new(())))
                        .map(drop)
                });
                // What is recorded nevertheless.
                device.count(basic.fill(lent, (1, 64), &mut y, 100, 8))
            })
        }?;
        Ok(())
    })?;
    for (name, outcome, captures) in outcomes {
        let error = outcome.err().ok_or_else(|| Failure::new(format!("{name} was not refused")))?;
        ensure!(error.code().is_none(), "{name}: the driver was asked: {error}");
        ensure!(captures?, "{name}: the capture goes on");
    }
    graph.launch()?;
    first_difference(&y.read()?, &[8; 100])?;
    first_difference(&ours.to_vec(&stream)?, &[1; 100])?;
    no_drop_errors(context)
}

/// A buffer that is made under a capture and not dropped in the call is an error; the graph stays in order.
fn what_outlives_the_call(device: &TestDevice) -> TestResult {
    let context = device.context();
    let framework = Framework::new(context)?;
    let y = framework.tensor(&[0; 100])?;
    let (mut escaped, mut refused) = (None, Ok(()));
    let graph = framework.capture(|| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        refused = unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 100)?;
                let buffer = DeviceBuffer::<u32>::from_slice(lent, &[4; 100])?;
                y.copy_from(lent, &buffer)?;
                escaped = Some(buffer);
                Ok(())
            })
        };
        ensure!(framework.captures()?);
        Ok(())
    })?;
    is_invalid(refused, "outlive the call")?;
    for _ in 0..3 {
        y.fill(0)?;
        graph.launch()?;
        first_difference(&y.read()?, &[4; 100])?;
    }
    let stream = device.stream()?;
    if let Some(mut escaped) = escaped {
        is_invalid(escaped.to_vec(&stream), "only while its graph runs")?;
        is_invalid(escaped.fill(&stream, 1), "only while its graph runs")?;
        ensure!(escaped.home_stream().synchronize().is_err());
    }
    no_drop_errors(context)
}

/// A graph of ours as a part of the framework's.
fn graphs_in_graphs(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    let framework = Framework::new(context)?;
    let y = framework.tensor(&[0; 100])?;
    let stream = device.stream()?;
    let source = DeviceBuffer::from_slice(&stream, &counted(100))?;
    let ours = DeviceBuffer::from_slice(&stream, &[0_u32; 100])?;
    stream.synchronize()?;
    let mut writes =
        context.capture(ours, |stream, ours| basic.fill(stream, (1, 64), ours, 100, 1))?;
    let mut refused = Ok(());
    let graph = framework.capture(|| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 100)?;
                refused = writes.launch(lent);
                let reads = context.capture((), |stream, ()| y.copy_from(stream, &source));
                reads?.launch(lent)
            })
        }?;
        Ok(())
    })?;
    is_invalid(refused, "can't be written")?;
    drop((source, writes));
    graph.launch()?;
    first_difference(&y.read()?, &counted(100))?;
    no_drop_errors(context)
}

/// A capture that others have spoilt: an error that says so, before anything is recorded.
fn invalidated_before(device: &TestDevice) -> TestResult {
    let context = device.context();
    let framework = Framework::new(context)?;
    framework.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    // SAFETY: the stream is live; it captures, so that the query fails and spoils the capture.
    let queried = unsafe { framework.sys().cuStreamQuery(framework.stream()) };
    // SAFETY: the framework keeps the stream until the call returns.
    let refused = unsafe { context.lend(framework.stream(), |_| Ok(())) };
    let ended = match queried {
        Ok(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) => framework.end_invalidated(),
        _ => framework.end_capture().map(drop),
    };
    ensure_eq!(queried?, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamQuery");
    ended?;
    is_invalid(refused, &format!("{:p} was invalidated", framework.stream()))?;
    operate(
        device,
        &framework,
        (framework.tensor(&[1; 10])?.start(), framework.tensor(&[1; 10])?.start(), 10),
    )
}

/// A graph that is never instantiated lets everything go.
fn given_up(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    let framework = Framework::new(context)?;
    let y = framework.tensor(&[0; 100])?;
    let stream = device.stream()?;
    let mut ours = DeviceBuffer::from_slice(&stream, &counted(100))?;
    stream.synchronize()?;
    context.free_deferred()?;
    drop(framework.capture(|| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        let recorded: Result<()> = unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 100)?;
                device.count(basic.copy(lent, (1, 64), &ours, &mut y, 100))
            })
        };
        Ok(recorded?)
    })?);
    some_day(|| ours.fill(&stream, 2))?;
    // The next call drops what the graph has kept.
    let other = Framework::new(context)?;
    some_day(|| {
        // SAFETY: the framework keeps the stream until the call returns.
        unsafe { context.lend(other.stream(), |_| Ok(())) }?;
        match context.stats().deferred_frees {
            0 => Ok(()),
            _ => Err(cuda_safe::Error::invalid("something is deferred")),
        }
    })
}
