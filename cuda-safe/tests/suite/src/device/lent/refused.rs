//! What lending refuses, before the driver is asked.

use cuda_safe::sys::{CU_STREAM_PER_THREAD, CUresult, CUstream_flags, CUstreamCaptureMode};
use cuda_safe::{DeviceBuffer, Event, PinnedBuffer, Stream, UnifiedBuffer};

use super::super::checks::{is_invalid, no_drop_errors};
use super::super::framework::Framework;
use super::counted;
use test_harness::programs::Basic;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "lent",
        device(streams_that_are_refused),
        device(a_call_in_a_call),
        device(a_handle_after_its_call),
        device(a_handle_in_another_thread),
        device(views_that_overlap),
        device(addresses_that_are_refused),
        device(memory_after_its_call),
        device(a_graph_with_lent_memory),
        device(a_blocking_stream_is_captured).serial(),
    ]
}

fn streams_that_are_refused(device: &TestDevice) -> TestResult {
    let context = device.context();
    // SAFETY: refused before it is used.
    is_invalid(unsafe { context.lend(CU_STREAM_PER_THREAD, |_| Ok(())) }, "per-thread")?;
    let other = super::super::RawContext::new(context.driver())?;
    let raw = other.raw();
    // SAFETY: the token keeps the context alive.
    let foreign = unsafe { cuda_safe::Context::from_raw(context.driver(), raw, other) }?;
    let refused = streams_of(&foreign, device);
    foreign.close()?;
    refused
}

/// A stream of another context, and one that is destroyed.
fn streams_of(foreign: &cuda_safe::Context, device: &TestDevice) -> TestResult {
    let framework = Framework::new(foreign)?;
    // SAFETY: refused before it is used.
    let refused = unsafe { device.context().lend(framework.stream(), |_| Ok(())) };
    is_invalid(refused, "another context")?;
    // SAFETY: a stream of that context.
    unsafe { foreign.lend(framework.stream(), |lent| lent.synchronize()) }?;
    if device.tier() == "emu" {
        let handle = framework.stream();
        drop(framework);
        // SAFETY: the software device knows that there is no such stream any more.
        let refused = unsafe { foreign.lend(handle, |_| Ok(())) };
        match refused {
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_INVALID_HANDLE) => {}
            other => other?,
        }
    }
    foreign.synchronize()?;
    no_drop_errors(foreign)
}

fn a_call_in_a_call(device: &TestDevice) -> TestResult {
    let context = device.context();
    let framework = Framework::new(context)?;
    // SAFETY: the framework keeps the stream until the call returns.
    unsafe {
        context.lend(framework.stream(), |lent| {
            let inner = context.lend(framework.stream(), |_| Ok(()));
            assert!(inner.is_err_and(|error| error.to_string().contains("inside a call")));
            // The outer call goes on.
            DeviceBuffer::<u32>::zeroed(lent, 10)?.to_vec(lent)
        })
    }?;
    Ok(())
}

/// Every method that takes a stream is refused.
fn refuses(stream: &Stream, buffer: &mut DeviceBuffer<u32>, device: &TestDevice) -> TestResult {
    let basic = Basic::of(device)?;
    let (event, other) = (Event::new(device.context())?, device.stream()?);
    let part = "lent for a call";
    let pinned = PinnedBuffer::<u32>::zeroed(device.context(), 10)?;
    is_invalid(basic.fill(stream, (1, 32), &mut *buffer, 10, 1), part)?;
    is_invalid(basic.nothing(stream, (1, 32)), part)?;
    is_invalid(buffer.to_vec(stream), part)?;
    is_invalid(buffer.upload(stream, &[0; 10]), part)?;
    is_invalid(buffer.fill(stream, 1), part)?;
    is_invalid(buffer.try_clone(stream), part)?;
    is_invalid(buffer.upload_pinned(stream, pinned), part)?;
    is_invalid(DeviceBuffer::<u32>::zeroed(stream, 10), part)?;
    is_invalid(DeviceBuffer::<u32>::zeroed(stream, 0), part)?;
    is_invalid(UnifiedBuffer::<u32>::managed(stream, 10), "")?;
    is_invalid(stream.synchronize(), part)?;
    is_invalid(stream.is_done(), part)?;
    is_invalid(stream.priority(), part)?;
    is_invalid(stream.wait_event(&event), part)?;
    is_invalid(stream.wait_stream(&other), part)?;
    is_invalid(stream.mark(), part)?;
    is_invalid(stream.wait_mark(&other.mark()?), part)?;
    is_invalid(stream.host_function(|| ()), part)?;
    is_invalid(stream.host_function_mut(|| ()), part)?;
    is_invalid(event.record(stream), part)?;
    is_invalid(stream.fork(), "")?;
    // SAFETY: refused before anything is called.
    is_invalid(unsafe { stream.enqueue((), |_| ()) }, part)?;
    let mut graph = device.context().capture((), |_, ()| Ok(()))?;
    is_invalid(graph.launch(stream), part)?;
    is_invalid(graph.upload(stream), part)?;
    // It can be waited for.
    other.wait_stream(stream)?;
    Ok(())
}

fn a_handle_after_its_call(device: &TestDevice) -> TestResult {
    for framework in [Framework::new(device.context())?, Framework::legacy(device.context())] {
        // SAFETY: the framework keeps the stream until the call returns.
        let (stream, mut buffer) = unsafe {
            device.context().lend(framework.stream(), |lent| {
                Ok(((**lent).clone(), DeviceBuffer::from_slice(lent, &counted(10))?))
            })
        }?;
        drop(framework);
        refuses(&stream, &mut buffer, device)?;
        first_difference(&buffer.to_vec(&device.stream()?)?, &counted(10))?;
        ensure!(stream.into_raw().is_err());
    }
    no_drop_errors(device.context())
}

fn a_handle_in_another_thread(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    // SAFETY: the framework keeps the stream until the call returns.
    let outcome = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let stream: &Stream = lent;
            let mut buffer = DeviceBuffer::from_slice(lent, &counted(10))?;
            let outcome = std::thread::scope(|scope| {
                scope.spawn(|| refuses(stream, &mut buffer, device)).join()
            });
            // Memory may be dropped there.
            std::thread::scope(|scope| scope.spawn(move || drop(buffer)).join().is_ok());
            Ok(outcome)
        })
    }?;
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    no_drop_errors(device.context())
}

fn views_that_overlap(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let tensor = framework.tensor(&counted(100))?;
    let start = tensor.start();
    // SAFETY: the framework keeps stream and tensor until the call returns.
    let outcome = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let read = lent.slice_from_raw::<u32>(start, 50)?;
            let again = lent.slice_from_raw::<u32>(start + 4, 50)?;
            let beside = lent.slice_from_raw_mut::<u32>(start + 51 * 4, 49)?;
            let empty = lent.slice_from_raw_mut::<u32>(start, 0)?;
            Ok([
                lent.slice_from_raw_mut::<u32>(start + 49 * 4, 1).map(drop),
                lent.slice_from_raw::<u32>(start + 52 * 4, 1).map(drop),
                lent.slice_from_raw_mut::<u32>(start, 100).map(drop),
                Err(cuda_safe::Error::invalid(format!(
                    "overlaps {}",
                    read.len() + again.len() + beside.len() + empty.len()
                ))),
            ])
        })
    }?;
    outcome.into_iter().try_for_each(|refused| is_invalid(refused, "overlaps"))
}

fn addresses_that_are_refused(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    // SAFETY: the views are refused, or have no elements.
    let outcome = unsafe {
        device.context().lend(framework.stream(), |lent| {
            assert!(lent.slice_from_raw::<u32>(0, 0)?.is_empty());
            Ok([
                lent.slice_from_raw::<u32>(0, 1).map(drop),
                lent.slice_from_raw::<u32>(2, 1).map(drop),
                lent.slice_from_raw::<u32>(u64::MAX - 3, 4).map(drop),
                lent.slice_from_raw_mut::<u32>(8, usize::MAX).map(drop),
            ])
        })
    }?;
    let parts = ["null", "not aligned", "past the end", "past the end"];
    outcome.into_iter().zip(parts).try_for_each(|(refused, part)| is_invalid(refused, part))
}

/// Handles to lent memory that outlive the call are of no use.
fn memory_after_its_call(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let (tensor, stream) = (framework.tensor(&counted(100))?, device.stream()?);
    // SAFETY: the framework keeps stream and tensor until the call returns.
    let (allocation, kept) = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let view = lent.slice_from_raw::<u32>(tensor.start(), 100)?;
            Ok((view.allocation().clone(), view.allocation().keep(lent)?))
        })
    }?;
    // SAFETY: the view is refused by every use.
    let view = unsafe { allocation.view::<u32>(0..400) }?;
    let mut ours = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    is_invalid(ours.copy_from(&stream, view), "has ended")?;
    is_invalid(view.to_vec(&stream), "has ended")?;
    let basic = Basic::of(device)?;
    is_invalid(basic.copy(&stream, (1, 64), view, &mut ours, 100), "has ended")?;
    // SAFETY: as above; in a later call on the same stream, which is the memory's home.
    unsafe {
        device.context().lend(framework.stream(), |lent| {
            assert_eq!(lent.id(), allocation.home_stream().id());
            let refused = basic.copy(lent, (1, 64), view, &mut ours, 100);
            assert!(refused.is_err_and(|error| error.to_string().contains("has ended")));
            Ok(())
        })
    }?;
    let captured = device.context().capture((), |stream, ()| ours.copy_from(stream, view));
    is_invalid(captured.map(drop), "has ended")?;
    drop(kept);
    Ok(())
}

fn a_graph_with_lent_memory(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let (tensor, basic) = (framework.tensor(&counted(100))?, Basic::of(device)?);
    // SAFETY: the framework keeps stream and tensor until the call returns.
    unsafe {
        device.context().lend(framework.stream(), |lent| {
            let mut view = lent.slice_from_raw_mut::<u32>(tensor.start(), 100)?;
            let mut graph = device
                .context()
                .capture((), |stream, ()| basic.add(stream, (1, 64), &mut view, 100, 1))?;
            for _ in 0..3 {
                device.count(graph.launch(lent))?;
            }
            Ok(())
        })
    }?;
    let expected: Vec<u32> = (3..103).collect();
    first_difference(&tensor.read()?, &expected)
}

/// Work on the legacy stream would invalidate the capture of a stream that waits for it.
fn a_blocking_stream_is_captured(device: &TestDevice) -> TestResult {
    let context = device.context();
    let blocking = Framework::with_flags(context, CUstream_flags::CU_STREAM_DEFAULT)?;
    let legacy = Framework::legacy(context);
    // SAFETY: the legacy stream lives as long as the context.
    let mut buffer =
        unsafe { context.lend(legacy.stream(), |lent| DeviceBuffer::<u32>::zeroed(lent, 10)) }?;
    blocking.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    // SAFETY: as above.
    let refused = unsafe { context.lend(legacy.stream(), |_| Ok(())) };
    let waits = device.stream().and_then(|stream| buffer.fill(&stream, 1));
    let captures = blocking.captures();
    let graph = blocking.end_capture()?;
    is_invalid(refused, "is being captured")?;
    is_invalid(waits, "is being captured")?;
    ensure!(captures?, "the capture goes on");
    graph.launch()?;
    buffer.fill(&device.stream()?, 2)?;
    ensure_eq!(buffer.to_vec(&device.stream()?)?, [2; 10]);
    Ok(())
}
