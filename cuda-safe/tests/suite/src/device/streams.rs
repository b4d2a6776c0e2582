//! Streams: priorities, waiting, functions of the host.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use cuda_safe::{DeviceBuffer, Event, Stream};

use super::MS;
use super::gate::Gate;
use test_harness::programs::{Basic, Delay};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "streams",
        device(priorities),
        device(done_or_not),
        device(identity),
        device(wait_for_an_event),
        device(wait_for_a_stream),
        device(host_functions_run_in_order),
        device(a_panic_in_a_host_function),
        device(a_host_function_to_call_again),
        device(a_host_function_dropped_unrun),
    ]
}

fn priorities(device: &TestDevice) -> TestResult {
    let (least, greatest) = device.context().device().stream_priorities()?;
    ensure!(greatest <= least, "{greatest} is more urgent than {least}");
    for priority in greatest..=least {
        ensure_eq!(Stream::with_priority(device.context(), priority)?.priority()?, priority);
    }
    ensure_eq!(Stream::with_priority(device.context(), least + 10)?.priority()?, least);
    ensure_eq!(Stream::with_priority(device.context(), greatest - 10)?.priority()?, greatest);
    ensure_eq!(device.stream()?.priority()?, 0);
    Ok(())
}

fn done_or_not(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    ensure!(stream.is_done()?, "nothing was enqueued");
    let gate = Gate::close(&stream)?;
    device.count(delay.delay(&stream, (1, 1), MS))?;
    ensure!(!stream.is_done()?, "not ready is no error");
    gate.open();
    stream.synchronize()?;
    ensure!(stream.is_done()?);
    Ok(())
}

fn identity(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    ensure_eq!(one, one.clone());
    ensure!(one != two && one.id() != two.id() && one.as_raw() != two.as_raw());
    ensure_eq!(one.context(), *device.context());
    Ok(())
}

/// Waits that the program asks for, beside those that the crate makes itself: the raw address hides the
/// buffer's use from it.
fn wait_for_an_event(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    // Freed behind the work of `two`, which it is at home on, however the test ends.
    let mut source = DeviceBuffer::<u32>::zeroed(&two, 1000)?;
    let mut target = DeviceBuffer::<u32>::zeroed(&two, 1000)?;
    let event = Event::new(device.context())?;
    device.count(delay.delayed_fill(&one, (1, 128), &mut source, 1000, 6, 20 * MS))?;
    event.record(&one)?;
    two.wait_event(&event)?;
    // SAFETY: `copy` reads 1000 words at the address, which `source` has, and writes `target`'s;
    // `source` was written before the event, and is freed on `two`, behind the kernel.
    unsafe {
        let arguments = (source.device_ptr(), &mut target, 1000_u64);
        device.launch(basic.copy_kernel(), &two, (4, 256), arguments)
    }?;
    first_difference(&target.to_vec(&two)?, &[6; 1000])
}

fn wait_for_a_stream(device: &TestDevice) -> TestResult {
    let (one, two) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let mut source = DeviceBuffer::<u32>::zeroed(&two, 1000)?;
    let mut target = DeviceBuffer::<u32>::zeroed(&two, 1000)?;
    device.count(delay.delayed_fill(&one, (1, 128), &mut source, 1000, 7, 20 * MS))?;
    two.wait_stream(&one)?;
    // SAFETY: as in `wait_for_an_event`.
    unsafe {
        let arguments = (source.device_ptr(), &mut target, 1000_u64);
        device.launch(basic.copy_kernel(), &two, (4, 256), arguments)
    }?;
    first_difference(&target.to_vec(&two)?, &[7; 1000])?;
    // A stream need not wait for itself, nor for one without work.
    two.wait_stream(&two)?;
    two.wait_stream(&device.stream()?)?;
    Ok(())
}

fn host_functions_run_in_order(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..50 {
        if number % 10 == 0 {
            device.count(delay.delay(&stream, (1, 1), MS))?;
        }
        let order = order.clone();
        stream.host_function(move || {
            order.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        })?;
    }
    stream.synchronize()?;
    let order = order.lock().unwrap_or_else(PoisonError::into_inner);
    first_difference(&order, &(0..50).collect::<Vec<_>>())?;

    // Later work waits for the function.
    let (sender, receiver) = mpsc::channel::<()>();
    let finished = Arc::new(AtomicBool::new(false));
    let inside = finished.clone();
    stream.host_function(move || {
        // At the latest when the sender is gone.
        let _ = receiver.recv_timeout(Duration::from_secs(10));
        inside.store(true, Ordering::SeqCst);
    })?;
    let event = Event::new(device.context())?;
    event.record(&stream)?;
    ensure!(!event.is_done()?);
    drop(sender);
    event.synchronize()?;
    ensure!(finished.load(Ordering::SeqCst));
    Ok(())
}

/// Panics, and no hook prints it.
fn panics() {
    resume_unwind(Box::new("this panic belongs to a test"));
}

fn a_panic_in_a_host_function(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let after = Arc::new(AtomicBool::new(false));
    stream.host_function(panics)?;
    let ran = after.clone();
    stream.host_function(move || ran.store(true, Ordering::SeqCst))?;
    stream.synchronize()?;
    ensure!(after.load(Ordering::SeqCst), "work goes on behind it");
    Ok(())
}

fn a_host_function_to_call_again(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let calls = Arc::new(Mutex::new(0));
    let inside = calls.clone();
    stream.host_function_mut(move || {
        *inside.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    })?;
    stream.host_function_mut(panics)?;
    stream.synchronize()?;
    ensure_eq!(*calls.lock().unwrap_or_else(PoisonError::into_inner), 1);
    ensure_eq!(Arc::strong_count(&calls), 2, "kept until the stream goes");
    drop(stream);
    ensure_eq!(Arc::strong_count(&calls), 1);
    Ok(())
}

fn a_host_function_dropped_unrun(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let ran = Arc::new(AtomicBool::new(false));
    device.count(delay.delay(&stream, (1, 1), 50 * MS))?;
    let inside = ran.clone();
    stream.host_function(move || inside.store(true, Ordering::SeqCst))?;
    ensure_eq!(Arc::strong_count(&ran), 2);
    drop(stream);
    if !device.is_instrumented() {
        ensure_eq!(Arc::strong_count(&ran), 1, "what it has captured goes with the stream");
    }
    device.context().synchronize()?;
    if !device.is_instrumented() {
        ensure!(!ran.load(Ordering::SeqCst));
    }
    ensure_eq!(Arc::strong_count(&ran), 1);
    Ok(())
}
