//! Streams that a framework lends for one call.

mod captured;
mod refused;
mod reused;

use std::thread;

use cuda_safe::sys::{CU_STREAM_LEGACY, CUcontext};
use cuda_safe::{Context, DeviceBuffer, Stream};

use super::MS;
use super::checks::is_invalid;
use super::framework::{Framework, success};
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        "lent",
        device(a_stream_for_a_call),
        device(the_legacy_stream),
        device(a_thread_without_a_context),
        device(a_thread_with_another_context),
        device(one_stream_over_all_calls),
        device(memory_outlives_its_call),
        device(memory_of_the_legacy_stream),
        device(used_on_other_streams),
        device(freed_behind_a_long_kernel),
        device(copies_of_every_size),
        device(two_threads_at_once),
        device(a_call_that_panics),
    ];
    cases.extend(refused::cases());
    cases.extend(captured::cases());
    cases.extend(reused::cases());
    cases
}

/// 0, 1, 2, …
pub(super) fn counted(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

/// The operator of these tests: `y[i] = x[i]`, then `y[i] += 1`, by two launches.
fn operate(
    device: &TestDevice,
    framework: &Framework,
    (x, y, len): (u64, u64, usize),
) -> TestResult {
    let basic = Basic::of(device)?;
    // SAFETY: the framework keeps the stream and the tensors until the call returns.
    let done = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let x = lent.slice_from_raw::<u32>(x, len)?;
            let mut y = lent.slice_from_raw_mut::<u32>(y, len)?;
            device.count(basic.copy(lent, (3, 64), x, &mut y, len as u64))?;
            device.count(basic.add(lent, (3, 64), &mut y, len as u64, 1))
        })
    };
    Ok(done?)
}

/// Tensors in, a tensor out, with the framework's work before and behind.
fn round_trip(device: &TestDevice, framework: &Framework) -> TestResult {
    for len in [0, 1, 31, 32, 33, 10_000] {
        let values = counted(len);
        let (x, y) = (framework.tensor(&values)?, framework.tensor(&vec![7; len])?);
        for _ in 0..3 {
            operate(device, framework, (x.start(), y.start(), len))?;
            operate(device, framework, (y.start(), x.start(), len))?;
        }
        let expected: Vec<u32> = values.iter().map(|value| value + 6).collect();
        first_difference(&x.read()?, &expected)?;
        if len > 0 {
            x.fill(9)?;
            operate(device, framework, (x.start(), y.start(), len))?;
            first_difference(&y.read()?, &vec![10; len])?;
        }
    }
    Ok(())
}

fn a_stream_for_a_call(device: &TestDevice) -> TestResult {
    round_trip(device, &Framework::new(device.context())?)
}

fn the_legacy_stream(device: &TestDevice) -> TestResult {
    let framework = Framework::legacy(device.context());
    round_trip(device, &framework)?;
    // The handle 0 means the same stream.
    let context = device.context();
    // SAFETY: the legacy stream lives as long as the context, and nothing is lent with it.
    let ids = unsafe {
        context.lend(CU_STREAM_LEGACY, |first| {
            let keep: Stream = (*first).clone();
            Ok(keep)
        })
    }?;
    // SAFETY: as above.
    let second = unsafe { context.lend(std::ptr::null_mut(), |second| Ok(second.id())) }?;
    ensure_eq!(ids.id(), second);
    Ok(())
}

/// What is current on this thread.
fn current(context: &Context) -> Result<CUcontext, Failure> {
    let mut current = std::ptr::null_mut();
    let sys = context.driver().as_sys();
    // SAFETY: `current` is a valid place for a handle.
    success("cuCtxGetCurrent", unsafe { sys.cuCtxGetCurrent(&raw mut current) })?;
    Ok(current)
}

fn a_thread_without_a_context(device: &TestDevice) -> TestResult {
    let framework = Framework::legacy(device.context());
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            ensure!(current(device.context())?.is_null());
            round_trip(device, &framework)?;
            ensure!(current(device.context())?.is_null());
            Ok(())
        });
        thread.join().map_err(|_| Failure::new("the thread has panicked"))?
    })?;
    device.context().check_alive()?;
    Ok(device.stream()?.synchronize()?)
}

fn a_thread_with_another_context(device: &TestDevice) -> TestResult {
    let other = super::RawContext::new(device.context().driver())?;
    let framework = Framework::legacy(device.context());
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            other.make_current()?;
            round_trip(device, &framework)?;
            ensure_eq!(current(device.context())?, other.raw());
            Ok(())
        });
        thread.join().map_err(|_| Failure::new("the thread has panicked"))?
    })
}

/// What one call makes is at home in the next: no event, no wait.
fn one_stream_over_all_calls(device: &TestDevice) -> TestResult {
    let owner = super::RawContext::new(device.context().driver())?;
    let raw = owner.raw();
    // SAFETY: the token keeps the context alive. It counts for this test alone.
    let context = unsafe { Context::from_raw(device.context().driver(), raw, owner) }?;
    let outcome = no_event_between_calls(&context);
    let dropped = super::checks::no_drop_errors(&context);
    context.close()?;
    outcome.and(dropped)
}

fn no_event_between_calls(context: &Context) -> TestResult {
    let framework = Framework::legacy(context);
    let call = |buffer: Option<DeviceBuffer<u32>>| {
        // SAFETY: the legacy stream lives as long as the context.
        unsafe {
            context.lend(framework.stream(), |lent| {
                let mut buffer = match buffer {
                    Some(buffer) => buffer,
                    None => DeviceBuffer::zeroed(lent, 100)?,
                };
                buffer.fill(lent, lent.id() as u32)?;
                Ok((buffer, lent.id()))
            })
        }
    };
    let (buffer, first) = call(None)?;
    let before = context.stats();
    let (buffer, second) = call(Some(buffer))?;
    let (buffer, third) = call(Some(buffer))?;
    ensure_eq!((first, second), (second, third));
    let after = context.stats();
    ensure_eq!(after.events_recorded, before.events_recorded);
    ensure_eq!(after.stream_waits, before.stream_waits);
    // A stream of ours waits by one event.
    let stream = context.stream()?;
    ensure_eq!(buffer.to_vec(&stream)?, vec![first as u32; 100]);
    ensure_eq!(context.stats().stream_waits, before.stream_waits + 1);
    Ok(())
}

/// Memory that is made in a call, used after the framework has destroyed its stream.
fn memory_outlives_its_call(device: &TestDevice) -> TestResult {
    let (basic, delay) = (Basic::of(device)?, Delay::of(device)?);
    let framework = Framework::new(device.context())?;
    // SAFETY: the framework keeps the stream until the call returns.
    let (mut buffer, mut kept) = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let mut buffer = DeviceBuffer::<u32>::zeroed(lent, 1000)?;
            let kept = DeviceBuffer::<u32>::from_slice(lent, &counted(1000))?;
            device.count(delay.delayed_fill(lent, (1, 128), &mut buffer, 1000, 5, 20 * MS))?;
            Ok((buffer, kept))
        })
    }?;
    drop(framework);
    let (stream, other) = (device.stream()?, device.stream()?);
    device.count(basic.add(&stream, (2, 64), &mut buffer, 1000, 1))?;
    first_difference(&buffer.to_vec(&other)?, &vec![6; 1000])?;
    // Freed behind the reader, though the home stream is gone.
    let mut seen = DeviceBuffer::<u32>::zeroed(&other, 1000)?;
    device.count(delay.delayed_copy(&other, (1, 128), &kept, &mut seen, 1000, 20 * MS))?;
    kept.slice_mut(..0)?;
    drop(kept);
    let mut next = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    device.count(basic.fill(&stream, (2, 64), &mut next, 1000, 9))?;
    first_difference(&seen.to_vec(&other)?, &counted(1000))?;
    buffer.close()?;
    Ok(())
}

fn memory_of_the_legacy_stream(device: &TestDevice) -> TestResult {
    let (basic, delay) = (Basic::of(device)?, Delay::of(device)?);
    let framework = Framework::legacy(device.context());
    // SAFETY: the legacy stream lives as long as the context.
    let mut buffer = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let mut buffer = DeviceBuffer::<u32>::zeroed(lent, 1000)?;
            device.count(delay.delayed_fill(lent, (1, 128), &mut buffer, 1000, 5, 20 * MS))?;
            Ok(buffer)
        })
    }?;
    let stream = device.stream()?;
    device.count(basic.add(&stream, (2, 64), &mut buffer, 1000, 1))?;
    // SAFETY: as above.
    let values = unsafe {
        device.context().lend(framework.stream(), |lent| {
            device.count(basic.add(lent, (2, 64), &mut buffer, 1000, 1))?;
            buffer.to_vec(lent)
        })
    }?;
    first_difference(&values, &vec![7; 1000])?;
    thread::scope(|scope| scope.spawn(|| drop(buffer)).join())
        .map_err(|_| Failure::new("the drop has panicked"))?;
    super::checks::no_drop_errors(device.context())
}

/// Work of the call on other streams is done before the framework's next.
fn used_on_other_streams(device: &TestDevice) -> TestResult {
    let delay = Delay::of(device)?;
    let framework = Framework::new(device.context())?;
    let (x, y) = (framework.tensor(&counted(1000))?, framework.tensor(&[0; 1000])?);
    let stream = device.stream()?;
    // So often that a plant which leaves out one wait in three finds one here.
    for _ in 0..3 {
        x.write(&counted(1000))?;
        y.fill(0)?;
        used_by_a_thread(device, &framework, (&x, &y), (&delay, &stream))?;
        first_difference(&y.read()?, &counted(1000))?;
        x.fill(3)?;
        first_difference(&x.read()?, &vec![3; 1000])?;
    }
    Ok(())
}

fn used_by_a_thread(
    device: &TestDevice,
    framework: &Framework,
    (x, y): (&super::framework::RawTensor, &super::framework::RawTensor),
    (delay, stream): (&Delay, &Stream),
) -> TestResult {
    // SAFETY: the framework keeps stream and tensors until the call returns.
    let done = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let x = lent.slice_from_raw::<u32>(x.start(), 1000)?;
            let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 1000)?;
            // On a stream of ours, and from another thread.
            thread::scope(|scope| {
                let view = y.reborrow();
                let copied = scope.spawn(move || {
                    let mut view = view;
                    device.count(delay.delayed_copy(stream, (1, 128), x, &mut view, 1000, 20 * MS))
                });
                copied.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    };
    Ok(done?)
}

/// The framework frees a tensor while a long kernel of the call reads it, and uses the memory again.
fn freed_behind_a_long_kernel(device: &TestDevice) -> TestResult {
    let delay = Delay::of(device)?;
    let framework = Framework::new(device.context())?;
    let (stream, len) = (device.stream()?, 1000);
    for on_another_stream in [false, true] {
        let (x, y) = (framework.tensor(&counted(len))?, framework.tensor(&vec![0; len])?);
        // SAFETY: the framework keeps stream and tensors until the call returns.
        unsafe {
            device.context().lend(framework.stream(), |lent| {
                let on = if on_another_stream { &stream } else { &**lent };
                let from = lent.slice_from_raw::<u32>(x.start(), len)?;
                let mut to = lent.slice_from_raw_mut::<u32>(y.start(), len)?;
                device.count(delay.delayed_copy(on, (1, 128), from, &mut to, len as u64, 200 * MS))
            })
        }?;
        // Freed in the order of the framework's stream, and allocated and written again at once.
        drop(x);
        let again = framework.allocate(len)?;
        again.fill(9)?;
        first_difference(&y.read()?, &counted(len))?;
        first_difference(&again.read()?, &vec![9; len])?;
    }
    super::checks::no_drop_errors(device.context())
}

fn copies_of_every_size(device: &TestDevice) -> TestResult {
    let context = device.context();
    for framework in [Framework::new(context)?, Framework::legacy(context)] {
        for len in [1, 1000, 100_000, 3 << 20] {
            let values = counted(len);
            // SAFETY: the framework keeps the stream until the call returns.
            let back = unsafe {
                context.lend(framework.stream(), |lent| {
                    let buffer = DeviceBuffer::from_slice(lent, &values)?;
                    let copy = buffer.try_clone(lent)?;
                    copy.to_vec(lent)
                })
            }?;
            first_difference(&back, &values)?;
        }
    }
    Ok(())
}

/// Two threads in calls with one stream.
fn two_threads_at_once(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let len = 1000;
    let tensors = [0, 1].map(|_| framework.tensor(&vec![0; len]));
    let [first, second] = tensors;
    let (first, second) = (first?, second?);
    let basic = Basic::of(device)?;
    let run = |tensor: &super::framework::RawTensor| {
        for _ in 0..20 {
            // SAFETY: the framework keeps stream and tensors until the call returns.
            let made = unsafe {
                device.context().lend(framework.stream(), |lent| {
                    let mut view = lent.slice_from_raw_mut::<u32>(tensor.start(), len)?;
                    let scratch = DeviceBuffer::from_slice(lent, &vec![1_u32; len])?;
                    device.count(basic.add(lent, (2, 64), &mut view, len as u64, 1))?;
                    Ok(scratch)
                })
            }?;
            drop(made);
        }
        Ok::<_, Failure>(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run(&first));
        run(&second)?;
        other.join().map_err(|_| Failure::new("a thread has panicked"))?
    })?;
    first_difference(&first.read()?, &vec![20; len])?;
    first_difference(&second.read()?, &vec![20; len])
}

fn a_call_that_panics(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let y = framework.tensor(&[0; 100])?;
    let delay = Delay::of(device)?;
    let (stream, context) = (device.stream()?, device.context());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the framework keeps stream and tensors until the call returns.
        unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.slice_from_raw_mut::<u32>(y.start(), 100)?;
                device.count(delay.delayed_fill(&stream, (1, 64), &mut y, 100, 4, 20 * MS))?;
                if device.context() == context {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                Ok(())
            })
        }
    }));
    super::checks::has_panicked(caught)?;
    first_difference(&y.read()?, &[4; 100])?;
    // The thread is in no call any more.
    operate(device, &framework, (framework.tensor(&[1; 100])?.start(), y.start(), 100))?;
    let escaped = {
        // SAFETY: as above.
        unsafe { context.lend(framework.stream(), |lent| Ok((**lent).clone())) }?
    };
    is_invalid(escaped.synchronize(), "lent for a call")
}
