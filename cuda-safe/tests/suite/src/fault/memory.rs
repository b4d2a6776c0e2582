//! Running out of memory: what was asked, what there is, and the next one that is small enough.

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, ErrorKind, PinnedBuffer};

use super::error_of;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "fault::memory",
        fault(out_of_memory),
        fault(the_pool_gives_way),
        fault(out_of_pinned_memory),
    ]
}

fn out_of_memory(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let all = device.context().memory_info()?.total;
    let wanted = all + (1 << 30);
    for _ in 0..2 {
        let error = error_of("too much", DeviceBuffer::<u8>::zeroed(&stream, wanted))?;
        match error.kind() {
            ErrorKind::OutOfMemory { requested, free, total } => {
                ensure_eq!((*requested, *total), (wanted, all));
                ensure!(0 < *free && free <= total, "{free}");
            }
            _ => return Err(error.into()),
        }
        ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        ensure!(!error.is_fatal() && !error.is_asynchronous());
        ensure!(error.to_string().contains(&wanted.to_string()), "{error}");
    }
    let buffer = DeviceBuffer::from_slice(&stream, &[1_u32, 2, 3])?;
    ensure_eq!(buffer.to_vec(&stream)?, [1, 2, 3]);
    Ok(())
}

/// Memory that the pool keeps for later is given back when something else needs it: pieces of a
/// size of which no larger one can be made.
fn the_pool_gives_way(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let free = device.context().memory_info()?.free;
    let piece = free / 40;
    let mut pieces = Vec::new();
    for _ in 0..32 {
        pieces.push(DeviceBuffer::<std::mem::MaybeUninit<u8>>::uninit(&stream, piece)?);
    }
    drop(pieces);
    stream.synchronize()?;
    let large = DeviceBuffer::<std::mem::MaybeUninit<u8>>::uninit(&stream, free / 10 * 7)?;
    ensure_eq!(large.len(), free / 10 * 7);
    stream.synchronize()?;
    eprintln!("retries: {}", device.context().stats().allocation_retries);
    Ok(())
}

fn out_of_pinned_memory(device: &TestDevice) -> TestResult {
    let context = device.context();
    // More than there are addresses, so that no system begins to look for it.
    let error = error_of("too much", PinnedBuffer::<u8>::zeroed(context, 1 << 50))?;
    ensure!(error.to_string().contains("1125899906842624"), "{error}");
    ensure!(!error.is_fatal());
    let error = error_of("absurd", PinnedBuffer::<u64>::zeroed(context, usize::MAX))?;
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    let pinned = PinnedBuffer::from_slice(context, &[1_u8, 2])?;
    if *pinned == [1, 2] { Ok(()) } else { Err(Failure::new("a small one is as it was")) }
}
