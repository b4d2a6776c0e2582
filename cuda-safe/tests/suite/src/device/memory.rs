//! The pool, the bin, and what the context says it holds.

use cuda_safe::{DeviceBuffer, Module, PinnedBuffer};

use super::MS;
use test_harness::programs::{BASIC, Basic, Delay};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "memory",
        device(the_device_tells),
        device(the_pool_can_be_trimmed).serial(),
        device(freed_memory_is_used_again),
        device(collect_empties_the_bin).serial(),
    ]
}

fn the_device_tells(device: &TestDevice) -> TestResult {
    let memory = device.context().memory_info()?;
    let (free, total) = (memory.free, memory.total);
    ensure!(0 < free && free <= total, "{free} of {total}");
    ensure_eq!(device.context().device().total_memory()?, total);
    Ok(())
}

fn the_pool_can_be_trimmed(device: &TestDevice) -> TestResult {
    const BYTES: usize = 256 << 20;
    let (context, stream) = (device.context(), device.stream()?);
    context.trim_pool(0)?;
    let before = context.memory_info()?.free;
    drop(DeviceBuffer::<u8>::zeroed(&stream, BYTES)?);
    stream.synchronize()?;
    // The default keeps freed memory for the next allocation.
    let kept = context.memory_info()?.free;
    context.trim_pool(0)?;
    let trimmed = context.memory_info()?.free;
    // Others may use the device too, so only large differences count.
    ensure!(before.saturating_sub(kept) >= BYTES / 2, "kept: {before} before, {kept} after");
    ensure!(trimmed.saturating_sub(kept) >= BYTES / 2, "trimmed: {kept} before, {trimmed} after");

    // With a threshold of 0 it goes back at the next wait.
    context.set_pool_release_threshold(0)?;
    drop(DeviceBuffer::<u8>::zeroed(&stream, BYTES)?);
    stream.synchronize()?;
    let given_back = context.memory_info()?.free;
    context.set_pool_release_threshold(u64::MAX)?;
    ensure!(given_back.saturating_sub(kept) >= BYTES / 2, "{given_back}");
    Ok(())
}

/// Freed and allocated in the stream's order: no wait, and nobody sees the other's contents.
fn freed_memory_is_used_again(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let n = 100_000;
    let mut results = Vec::new();
    for round in 0..20 {
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let launched = delay.delayed_fill(&stream, (1, 256), &mut buffer, n as u64, round, MS / 5);
        device.count(launched)?;
        results.push(buffer.try_clone(&stream)?);
    }
    for (round, result) in (0..).zip(results) {
        first_difference(&result.to_vec(&stream)?, &vec![round; n])?;
    }
    Ok(())
}

fn collect_empties_the_bin(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);
    let module = Module::load(context, &device.image(&BASIC)?)?;
    let kernel = module.kernel("nothing")?;
    // SAFETY: `nothing` takes no arguments and does nothing.
    unsafe { device.launch(&kernel, &stream, (1, 32), ()) }?;
    drop(module);
    ensure_eq!(context.stats().deferred_frees, 0, "the kernel keeps its module");
    drop(kernel);
    ensure_eq!(context.stats().deferred_frees, 1);
    drop(PinnedBuffer::<u8>::zeroed(context, 1 << 20)?);
    ensure_eq!(context.stats().deferred_frees, 2);
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);

    // Nothing that is in use was freed.
    let basic = Basic::of(device)?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    device.count(basic.iota(&stream, (1, 32), &mut buffer, 10, 0))?;
    first_difference(&buffer.to_vec(&stream)?, &(0..10).collect::<Vec<_>>())
}
