//! Pools that the program chooses.

use cuda_safe::sys::CU_STREAM_LEGACY;
use cuda_safe::{Context, DeviceBuffer, Pool};

use super::MS;
use super::checks::{is_invalid, no_drop_errors};
use super::framework::Framework;
use test_harness::programs::{Basic, Delay};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "pools",
        device(buffers),
        device(the_default_one),
        device(adopted),
        device(attributes),
        device(of_another_context),
        device(raw_allocations),
        device(closing),
    ]
}

fn buffers(device: &TestDevice) -> TestResult {
    let (basic, delay) = (Basic::of(device)?, Delay::of(device)?);
    let pool = Pool::new(device.context())?;
    let (home, other) = (device.stream()?, device.stream()?);
    for len in [0, 1, 33, 10_000] {
        let mut buffer = DeviceBuffer::<u32>::zeroed_in(&pool, &home, len)?;
        ensure_eq!(buffer.to_vec(&home)?, vec![0; len]);
        let values: Vec<u32> = (0..len as u32).collect();
        let source = DeviceBuffer::from_slice_in(&pool, &home, &values)?;
        device.count(basic.copy(&other, (2, 64), &source, &mut buffer, len as u64))?;
        first_difference(&buffer.to_vec(&home)?, &values)?;
        let uninit = DeviceBuffer::<std::mem::MaybeUninit<u32>>::uninit_in(&pool, &other, len)?;
        let written = uninit.init_from(&other, &values)?;
        first_difference(&written.to_vec(&home)?, &values)?;
    }
    // Freed behind a reader on another stream; the pool may go before its memory.
    let source = DeviceBuffer::from_slice_in(&pool, &home, &[7_u32; 1000])?;
    let mut seen = DeviceBuffer::<u32>::zeroed(&other, 1000)?;
    device.count(delay.delayed_copy(&other, (1, 64), &source, &mut seen, 1000, 20 * MS))?;
    drop(pool);
    drop(source);
    first_difference(&seen.to_vec(&other)?, &[7; 1000])?;
    no_drop_errors(device.context())
}

fn the_default_one(device: &TestDevice) -> TestResult {
    let context = device.context();
    let pool = Pool::default_of(context)?;
    ensure_eq!(pool.as_raw(), Pool::default_of(context)?.as_raw());
    let framework = Framework::new(context)?;
    let stream = device.stream()?;
    let before = pool.used_bytes()?;
    let tensor = framework.tensor(&[0; 1000])?;
    let buffer = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 1000)?;
    ensure!(pool.used_bytes()? >= before + 8000, "the framework's memory is of the same pool");
    drop((tensor, buffer));
    Ok(())
}

fn adopted(device: &TestDevice) -> TestResult {
    let context = device.context();
    let owner = Pool::new(context)?;
    let raw = owner.as_raw();
    // SAFETY: the token is the pool's owner.
    let pool = unsafe { Pool::from_raw(context, raw, owner) }?;
    let stream = device.stream()?;
    let buffer = DeviceBuffer::from_slice_in(&pool, &stream, &[3_u8; 100])?;
    ensure_eq!(buffer.to_vec(&stream)?, vec![3; 100]);
    drop(buffer);
    pool.close()?;
    // SAFETY: null is refused.
    is_invalid(unsafe { Pool::from_raw(context, std::ptr::null_mut(), ()) }, "null")
}

fn attributes(device: &TestDevice) -> TestResult {
    let pool = Pool::new(device.context())?;
    let stream = device.stream()?;
    ensure_eq!((pool.used_bytes()?, pool.reserved_bytes()?), (0, 0));
    pool.set_release_threshold(u64::MAX)?;
    ensure_eq!(pool.release_threshold()?, u64::MAX);
    let buffer = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 1 << 20)?;
    ensure!(pool.used_bytes()? >= 1 << 20);
    drop(buffer);
    stream.synchronize()?;
    ensure!(pool.reserved_bytes()? >= 1 << 20, "kept, below the threshold");
    pool.trim(0)?;
    ensure_eq!((pool.used_bytes()?, pool.reserved_bytes()?), (0, 0));
    pool.enable_access_from(device.context())?;
    Ok(())
}

fn of_another_context(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let owner = super::RawContext::new(driver)?;
    let raw = owner.raw();
    // SAFETY: the token keeps the context alive.
    let foreign = unsafe { Context::from_raw(driver, raw, owner) }?;
    let pool = Pool::new(&foreign)?;
    let stream = device.stream()?;
    let refused = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 10).map(drop);
    pool.close()?;
    foreign.close()?;
    is_invalid(refused, "another context")?;
    let ours = Pool::new(device.context())?;
    let captured = device
        .context()
        .capture((), |stream, ()| DeviceBuffer::<u32>::zeroed_in(&ours, stream, 10).map(drop));
    is_invalid(captured.map(drop), "can't be recorded")?;
    is_invalid(DeviceBuffer::<u64>::zeroed_in(&ours, &stream, usize::MAX), "more than memory")
}

/// As an allocator that a framework calls.
fn raw_allocations(device: &TestDevice) -> TestResult {
    let context = device.context();
    let pool = Pool::new(context)?;
    let framework = Framework::new(context)?;
    for stream in [framework.stream(), CU_STREAM_LEGACY, std::ptr::null_mut()] {
        // SAFETY: the stream is live, and the memory is freed once, in its order.
        unsafe {
            let start = pool.allocate_raw(1000, stream)?;
            let used = pool.used_bytes();
            freed(|| pool.free_raw(start, stream))?;
            ensure!(start != 0 && used? >= 1000);
            let start = context.allocate_raw(1000, stream)?;
            freed(|| context.free_raw(start, stream))?;
            ensure!(start != 0);
            ensure_eq!(pool.allocate_raw(0, stream)?, 0);
            pool.free_raw(0, stream)?;
        }
    }
    Ok(())
}

/// After an error of another call than the free, the memory may be freed again.
fn freed(free: impl Fn() -> cuda_safe::Result<()>) -> cuda_safe::Result<()> {
    free().inspect_err(|error| {
        if error.call() != Some("cuMemFreeAsync") {
            let _ = free();
        }
    })
}

fn closing(device: &TestDevice) -> TestResult {
    let pool = Pool::new(device.context())?;
    let stream = device.stream()?;
    let buffer = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 10)?;
    let pool = match pool.close() {
        Err(refused) => {
            ensure!(refused.to_string().contains("still in use"), "{refused}");
            refused.into_inner()
        }
        Ok(()) => return Err(test_harness::Failure::new("closed though a buffer is alive")),
    };
    drop(buffer);
    pool.close()?;
    no_drop_errors(device.context())
}
