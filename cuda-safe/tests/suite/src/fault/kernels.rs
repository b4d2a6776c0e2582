//! Kernels that fail: the error names them, every later call answers it, and drops are quiet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, Error, Event, Kernel, LaunchConfig, Module, PinnedBuffer, Stream};

use super::error_of;
use crate::device::MS;
use test_harness::programs::{BASIC, Basic, Delay, FAULTS};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "fault::kernels",
        fault(
            trap = |device| {
                // SAFETY: `trap` takes no arguments, touches no memory, and ends the device's work.
                fails(
                    device,
                    CUresult::CUDA_ERROR_LAUNCH_FAILED,
                    "trap",
                    |kernel, stream, _| unsafe { device.launch(kernel, stream, (1, 32), ()) },
                )
            }
        ),
        fault(
            out_of_bounds = |device| {
                // SAFETY: nothing of the process lies at this address, so the write reaches nothing.
                fails(
                    device,
                    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                    "write_at",
                    |kernel, stream, _| unsafe {
                        device.launch(kernel, stream, (1, 1), (0x10_u64, 1_u32))
                    },
                )
            }
        ),
        fault(
            misaligned = |device| {
                // SAFETY: the device refuses the write; what it would reach is the test's own buffer.
                fails(
                    device,
                    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
                    "write_at",
                    |kernel, stream, at| unsafe {
                        device.launch(kernel, stream, (1, 1), (at + 1, 1_u32))
                    },
                )
            }
        ),
        fault(
            assertion = |device| {
                // SAFETY: `check` takes an unsigned, touches no memory, and ends the device's work.
                fails(device, CUresult::CUDA_ERROR_ASSERT, "check", |kernel, stream, _| unsafe {
                    device.launch(kernel, stream, (1, 1), (2_u32,))
                })
            }
        ),
        fault(an_assertion_that_holds),
        fault(seen_by_another_stream),
        fault(in_flight_when_it_happens),
    ]
}

/// Whether `error` is that of a fault with this code that this kernel has made.
fn is_of(device: &TestDevice, error: &Error, code: CUresult, kernel: &str) -> TestResult {
    // A checker stops the kernel itself, before the device would.
    let stopped = Some(CUresult::CUDA_ERROR_LAUNCH_FAILED);
    if !device.is_instrumented() || error.code() != stopped {
        ensure_eq!(error.code(), Some(code), "{error}");
    }
    ensure!(error.is_fatal(), "{error}");
    ensure!(error.is_asynchronous(), "{error}");
    ensure!(error.launches().iter().any(|launch| launch.kernel == kernel), "{error}");
    let text = error.to_string();
    ensure!(text.starts_with("earlier work"), "it is not blamed on the call: {text}");
    ensure!(text.contains(kernel), "{text}");
    Ok(())
}

fn fails(
    device: &TestDevice,
    code: CUresult,
    name: &str,
    launch: impl Fn(&Kernel, &Stream, u64) -> cuda_safe::Result<()>,
) -> TestResult {
    let context = device.context();
    let (stream, other) = (context.stream()?, context.stream()?);
    let (kernel, harmless) = (device.kernel(&FAULTS, name)?, device.kernel(&FAULTS, "harmless")?);
    let delay = Delay::of(device)?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    let mut second = DeviceBuffer::<u32>::zeroed(&other, 64)?;
    let event = Event::new(context)?;
    let pinned = PinnedBuffer::<u32>::zeroed(context, 64)?;
    let image = device.image(&BASIC)?;
    let module = device.module(&BASIC)?;

    // A host function behind the fault is never run; what it holds is dropped with its stream.
    let ran = Arc::new(AtomicBool::new(false));
    let inside = ran.clone();
    device.count(delay.delay(&stream, (1, 1), 20 * MS))?;
    // SAFETY: `harmless` writes a word for each of 32 threads.
    unsafe { device.launch(&harmless, &stream, (1, 32), (&mut buffer,)) }?;
    launch(&kernel, &stream, buffer.device_ptr())?;
    stream.host_function(move || inside.store(true, Ordering::SeqCst))?;
    event.record(&stream)?;

    let first = error_of("synchronize", stream.synchronize())?;
    is_of(device, &first, code, name)?;
    ensure_eq!(first.launches().first().map(|launch| launch.kernel), Some(name), "newest first");
    ensure!(first.launches().iter().any(|launch| launch.kernel == "harmless"), "{first}");

    // Everything answers the same from now on, and nothing is asked of the driver.
    // SAFETY: nothing is launched any more.
    let launched = unsafe { harmless.launch(&other, (1, 32), (&mut second,)) };
    let answers: Vec<(&str, Result<(), Error>)> = vec![
        ("synchronize", stream.synchronize()),
        ("synchronize another stream", other.synchronize()),
        ("synchronize the context", context.synchronize()),
        ("launch", launched),
        ("allocate", DeviceBuffer::<u32>::zeroed(&other, 1).map(drop)),
        ("allocate nothing", DeviceBuffer::<u32>::zeroed(&other, 0).map(drop)),
        ("upload", second.upload(&other, &[0; 64])),
        ("download", second.to_vec(&other).map(drop)),
        ("fill", second.fill(&other, 1)),
        ("copy", second.copy_from(&other, &buffer)),
        ("pin", PinnedBuffer::<u8>::zeroed(context, 10).map(drop)),
        ("transfer", second.as_slice_mut().upload_pinned(&other, pinned).map(drop)),
        ("make a stream", context.stream().map(drop)),
        ("make an event", Event::new(context).map(drop)),
        ("query an event", event.is_done().map(drop)),
        ("wait for an event", event.synchronize()),
        ("record an event", event.record(&other)),
        ("make a stream wait", other.wait_event(&event)),
        ("make a stream wait for another", other.wait_stream(&stream)),
        ("query a stream", other.is_done().map(drop)),
        ("host function", other.host_function(|| {})),
        ("load a module", Module::load(context, &image).map(drop)),
        ("find a kernel", module.kernel("fill").map(drop)),
        ("ask a kernel", harmless.attributes().map(drop)),
        ("occupancy", harmless.max_active_blocks(32, 0).map(drop)),
        ("memory info", context.memory_info().map(drop)),
        ("trim", context.trim_pool(0)),
        ("the context", context.device().context().map(drop)),
    ];
    for (what, answer) in answers {
        let error = error_of(what, answer)?;
        ensure_eq!(error.to_string(), first.to_string(), "{what}");
    }

    drop((buffer, second, event, module, kernel, harmless, delay, other));
    ensure_eq!(Arc::strong_count(&ran), 2);
    drop(stream);
    ensure_eq!(Arc::strong_count(&ran), 1, "the host function was dropped");
    ensure!(!ran.load(Ordering::SeqCst), "unrun");
    let errors = context.take_drop_errors();
    ensure!(errors.is_empty(), "{errors:?}");
    Ok(())
}

fn an_assertion_that_holds(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let check = device.kernel(&FAULTS, "check")?;
    // SAFETY: `check` takes an unsigned and touches no memory.
    unsafe { device.launch(&check, &stream, (4, 64), (1_u32,)) }?;
    stream.synchronize()?;
    Ok(())
}

/// Met first by a call on a stream that did nothing wrong.
fn seen_by_another_stream(device: &TestDevice) -> TestResult {
    let (guilty, innocent) = (device.stream()?, device.stream()?);
    let trap = device.kernel(&FAULTS, "trap")?;
    // SAFETY: as in `cases`.
    unsafe { device.launch(&trap, &guilty, (1, 1), ()) }?;
    let error = error_of("synchronize", device.context().synchronize())?;
    is_of(device, &error, CUresult::CUDA_ERROR_LAUNCH_FAILED, "trap")?;
    let again = error_of("innocent", innocent.synchronize())?;
    ensure_eq!(again.to_string(), error.to_string());
    let last = error_of("guilty", guilty.synchronize())?;
    ensure_eq!(last.to_string(), error.to_string());
    Ok(())
}

/// Threads that are at work when the device is lost all see it, and none panics.
fn in_flight_when_it_happens(device: &TestDevice) -> TestResult {
    let trap = device.kernel(&FAULTS, "trap")?;
    let basic = Basic::of(device)?;
    let stop = device.stream()?;
    let lost = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|seed| {
                let basic = &basic;
                scope.spawn(move || -> Result<Error, Failure> {
                    let stream = device.stream()?;
                    let mut rng = device.rng(seed);
                    for _ in 0..1_000_000 {
                        let mut work = || -> cuda_safe::Result<()> {
                            let n = 1 + rng.below(10_000);
                            let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
                            let launch = LaunchConfig::cover(n, 128);
                            device.count(basic.fill(&stream, launch, &mut buffer, n as u64, 1))?;
                            buffer.to_vec(&stream).map(drop)
                        };
                        if let Err(error) = work() {
                            return Ok(error);
                        }
                    }
                    Err(Failure::new("the device was never lost"))
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: as in `cases`.
        unsafe { device.launch(&trap, &stop, (1, 1), ()) }?;
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("panicked"))))
            .collect::<Result<Vec<_>, _>>()
    })?;
    for error in lost {
        ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_LAUNCH_FAILED), "{error}");
        ensure!(error.is_fatal());
    }
    ensure!(stop.synchronize().is_err());
    Ok(())
}
