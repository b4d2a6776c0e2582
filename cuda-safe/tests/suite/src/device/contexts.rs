//! Contexts: one for all threads, and no call changes which one is current.

use cuda_safe::sys::{CUcontext, CUresult};
use cuda_safe::{Context, DeviceBuffer, Driver, Event, LaunchConfig, Module, PinnedBuffer, Stream};

use super::foreign::RawContext;
use test_harness::programs::{BASIC, Basic, TEMPLATES};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "contexts",
        device(one_for_all),
        device(a_thread_without_a_context),
        device(a_thread_with_another_context),
        device(in_use_is_not_closed),
    ]
}

fn one_for_all(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let again = driver.device(device.context().device().ordinal())?.context()?;
    ensure_eq!(again, *device.context());
    ensure_eq!(again.as_raw(), device.context().as_raw());
    ensure_eq!(device.context().clone(), again);
    Ok(())
}

/// What is current on the calling thread.
pub(super) fn current(driver: Driver) -> Result<CUcontext, Failure> {
    let mut raw = std::ptr::null_mut();
    // SAFETY: `raw` is a valid place for a handle.
    let result = unsafe { driver.as_sys().cuCtxGetCurrent(&raw mut raw) }?;
    ensure_eq!(result, CUresult::CUDA_SUCCESS, "cuCtxGetCurrent");
    Ok(raw)
}

/// One call, or a few, of everything that the crate does; after each one `unchanged` is asked.
fn everything(device: &TestDevice, unchanged: &dyn Fn(&str) -> TestResult) -> TestResult {
    let driver = device.context().driver();
    let gpu = driver.device(0)?;
    unchanged("enumerate")?;
    let _ = (gpu.name()?, gpu.uuid()?, gpu.pci_bus_id()?, gpu.total_memory()?, gpu.arch()?);
    unchanged("ask a device")?;
    let _ = gpu.stream_priorities()?;
    unchanged("priorities")?;
    let context = gpu.context()?;
    unchanged("retain the context")?;
    let _ = context.memory_info()?;
    unchanged("memory info")?;
    let stream = context.stream()?;
    let other = Stream::with_priority(&context, -1)?;
    unchanged("make streams")?;
    let mut buffer = DeviceBuffer::from_slice(&stream, &[1_u32, 2, 3])?;
    unchanged("upload")?;
    buffer.fill(&other, 5)?;
    unchanged("order two streams")?;
    let copy = buffer.try_clone(&stream)?;
    unchanged("copy")?;
    ensure_eq!(copy.to_vec(&stream)?, [5, 5, 5]);
    unchanged("download")?;
    let event = Event::timing(&context)?;
    event.record(&stream)?;
    stream.wait_event(&event)?;
    event.synchronize()?;
    let _ = (event.is_done()?, event.elapsed_ms(&event)?);
    unchanged("events")?;
    let pinned = PinnedBuffer::from_slice(&context, &[7_u32, 8, 9])?;
    unchanged("pinned memory")?;
    let pinned = buffer.as_slice_mut().upload_pinned(&stream, pinned)?.wait()?;
    drop(pinned);
    unchanged("transfer")?;
    let module = Module::load(&context, &device.image(&BASIC)?)?;
    unchanged("load a module")?;
    let kernel = module.kernel("add")?;
    unchanged("find a kernel")?;
    let _ = (
        kernel.attributes()?,
        kernel.max_potential_block_size(0)?,
        kernel.max_active_blocks(128, 0)?,
    );
    kernel.load()?;
    unchanged("ask a kernel")?;
    // SAFETY: `add` takes (unsigned*, unsigned long long, unsigned) and adds to that many words.
    unsafe { device.launch(&kernel, &stream, (1, 32), (&mut buffer, 3_u64, 1_u32)) }?;
    unchanged("launch")?;
    ensure_eq!(buffer.to_vec(&stream)?, [8, 9, 10]);
    // SAFETY: as above.
    unsafe {
        let launch = LaunchConfig::new(1, 32).cooperative();
        device.launch(&kernel, &stream, launch, (&mut buffer, 3_u64, 1_u32))
    }?;
    unchanged("launch cooperatively")?;
    let globals = Module::load(&context, &device.image(&TEMPLATES)?)?;
    globals.global::<u32>(&stream, "counters")?.read(&stream)?;
    unchanged("globals")?;
    stream.host_function(|| {})?;
    unchanged("host function")?;
    stream.synchronize()?;
    ensure!(stream.is_done()?);
    context.synchronize()?;
    unchanged("wait")?;
    context.trim_pool(0)?;
    unchanged("trim the pool")?;
    drop((buffer, copy, event, kernel, module, globals, stream, other));
    unchanged("drop")?;
    context.free_deferred()?;
    unchanged("collect")?;
    drop(context);
    unchanged("drop the context")
}

fn a_thread_without_a_context(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    on_a_thread(|| {
        ensure!(current(driver)?.is_null(), "a new thread has none");
        everything(device, &|call| {
            ensure!(current(driver)?.is_null(), "{call}");
            Ok(())
        })
    })
}

fn a_thread_with_another_context(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    on_a_thread(|| {
        let foreign = RawContext::new(driver)?;
        foreign.make_current()?;
        ensure!(foreign.raw() != device.context().as_raw());
        everything(device, &|call| {
            ensure_eq!(current(driver)?, foreign.raw(), "{call}");
            Ok(())
        })?;

        // What was made meanwhile is in our context, not in the current one.
        let (stream, basic) = (device.stream()?, Basic::of(device)?);
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
        device.count(basic.iota(&stream, (1, 128), &mut buffer, 100, 3))?;
        first_difference(&buffer.to_vec(&stream)?, &(3..103).collect::<Vec<_>>())
    })
}

fn on_a_thread(job: impl FnOnce() -> TestResult + Send) -> TestResult {
    std::thread::scope(|scope| {
        scope.spawn(job).join().unwrap_or_else(|_| Err(Failure::new("panicked")))
    })
}

fn in_use_is_not_closed(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let context: Context = stream.context();
    match context.close() {
        Ok(()) => Err(Failure::new("closed with a stream alive")),
        Err(refused) => {
            // The tests beside this one hold it, too.
            let (context, error) = refused.into_parts();
            ensure!(error.to_string().contains("the context is still in use by "), "{error}");
            ensure!(error.to_string().contains(" stream"), "{error}");
            // Nothing was harmed.
            let buffer = DeviceBuffer::from_slice(&stream, &[1_u8])?;
            ensure_eq!(buffer.to_vec(&stream)?, [1]);
            ensure_eq!(context, *device.context());
            Ok(())
        }
    }
}
