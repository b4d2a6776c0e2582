//! How processes end, and what becomes of their children.

use cuda_safe::{DeviceBuffer, ErrorKind, Event, Module, PinnedBuffer};

use super::error_of;
use crate::device::MS;
use test_harness::programs::{BASIC, DELAY, Delay};
use test_harness::{Case, Open, TestDevice, TestResult, ensure, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::process("fault::process::exit_with_work_in_flight", exit_with_work_in_flight),
        Case::process("fault::process::closed_and_opened_again", closed_and_opened_again),
        #[cfg(unix)]
        Case::fault("fault::process::fork", fork),
    ]
}

/// The process ends normally while a kernel of half a second runs.
fn exit_with_work_in_flight(open: Open) -> TestResult {
    let context = open()?.device(0)?.context()?;
    let stream = context.stream()?;
    let module = DELAY.to_nvrtc();
    let arch = context.device().arch()?;
    let image = module.compile_for_driver(arch, context.driver().version()?)?;
    let delay = Module::load(&context, &image)?.kernel("delay")?;
    // SAFETY: `delay` takes a number of nanoseconds and touches no memory.
    unsafe { delay.launch(&stream, (1, 1), (500 * MS,)) }?;
    test_harness::count_launches(1);
    stream.host_function(|| {})?;
    Ok(())
}

fn closed_and_opened_again(open: Open) -> TestResult {
    for round in 0..3_u32 {
        let context = open()?.device(0)?.context()?;
        let image = {
            let arch = context.device().arch()?;
            BASIC.to_nvrtc().compile_for_driver(arch, context.driver().version()?)?
        };
        let stream = context.stream()?;
        let module = Module::load(&context, &image)?;
        let fill = module.kernel("fill")?;
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
        // SAFETY: `fill` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
        unsafe { fill.launch(&stream, (4, 256), (&mut buffer, 1000_u64, round)) }?;
        test_harness::count_launches(1);
        first_difference(&buffer.to_vec(&stream)?, &[round; 1000])?;
        drop((buffer, fill, module, stream));
        context.close()?;
    }
    Ok(())
}

/// What a child made by `fork` may do: get that error from every call, and drop what it was given.
#[cfg(unix)]
fn fork(device: &TestDevice) -> TestResult {
    let context = device.context();
    let stream = device.stream()?;
    let delay = Delay::of(device)?;
    let mut buffer = DeviceBuffer::from_slice(&stream, &[1_u32; 100])?;
    device.count(delay.delayed_fill(&stream, (1, 32), &mut buffer, 100, 2, 50 * MS))?;
    let event = Event::new(context)?;
    event.record(&stream)?;
    let pinned = PinnedBuffer::<u32>::zeroed(context, 100)?;
    let module = Module::load(context, &device.image(&BASIC)?)?;
    let kernel = module.kernel("nothing")?;

    // SAFETY: the child only uses what this thread owns, and leaves by `_exit`. No other thread of
    // this process holds the allocator: those of the driver are waiting for work.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let told = || -> TestResult {
            // SAFETY: nothing is launched.
            let launched = unsafe { kernel.launch(&stream, (1, 1), ()) };
            let answers = [
                ("driver", device.reopen().map(drop)),
                ("another context", context.device().context().map(drop)),
                ("synchronize", stream.synchronize()),
                ("synchronize the context", context.synchronize()),
                ("query", event.is_done().map(drop)),
                ("allocate", DeviceBuffer::<u8>::zeroed(&stream, 1).map(drop)),
                ("download", buffer.to_vec(&stream).map(drop)),
                ("pin", PinnedBuffer::<u8>::zeroed(context, 1).map(drop)),
                ("launch", launched),
                ("find a kernel", module.kernel("fill").map(drop)),
                ("make an event", Event::new(context).map(drop)),
                ("make a stream", context.stream().map(drop)),
                ("host function", stream.host_function(|| {})),
                ("memory info", context.memory_info().map(drop)),
            ];
            for (what, answer) in answers {
                let error = error_of(what, answer)?;
                ensure!(matches!(error.kind(), ErrorKind::Forked), "{what}: {error}");
                ensure!(error.is_fatal() && error.hint().is_some(), "{what}");
            }
            Ok(())
        };
        let told = told();
        drop((buffer, event, pinned, kernel, module, delay, stream));
        if let Err(failure) = &told {
            println!("in the child: {failure}");
        }
        // SAFETY: ends this process without running what belongs to the parent.
        unsafe { libc::_exit(if told.is_ok() { 0 } else { 1 }) };
    }
    ensure!(child > 0, "fork failed");
    let mut status = 0;
    // SAFETY: `status` is a valid place for an int, and the child is this process's.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    ensure_eq!(waited, child);
    ensure!(libc::WIFEXITED(status), "the child died: status {status:#x}");
    ensure_eq!(libc::WEXITSTATUS(status), 0, "the child's status");

    // The parent goes on as if nothing had happened.
    first_difference(&buffer.to_vec(&stream)?, &[2; 100])?;
    // SAFETY: `nothing` takes no arguments and does nothing.
    unsafe { device.launch(&kernel, &stream, (1, 1), ()) }?;
    stream.synchronize()?;
    drop(pinned);
    ensure!(event.is_done()?);
    Ok(())
}
