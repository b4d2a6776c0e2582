//! Transfers that are awaited while the device is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, PinnedBuffer};

use super::error_of;
use crate::device::MS;
use crate::device::futures::{Bell, block_on, slow};
use test_harness::programs::{Delay, FAULTS};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases!["fault::futures", fault(a_fault_before_the_copy), fault(a_fault_elsewhere),]
}

/// The copy will never be made, and the driver calls nobody: the task is woken all the same.
fn a_fault_before_the_copy(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let trap = device.kernel(&FAULTS, "trap")?;
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let target = PinnedBuffer::zeroed(device.context(), 1000)?;
    stream.synchronize()?;
    device.count(delay.delay(&stream, (1, 1), 20 * MS))?;
    // SAFETY: `trap` takes no arguments, touches no memory, and ends the device's work.
    unsafe { device.launch(&trap, &stream, (1, 1), ()) }?;
    let mut transfer = buffer.download_pinned(&stream, target)?;
    let error = error_of("await", block_on(&mut transfer)?)?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_LAUNCH_FAILED), "{error}");
    ensure!(error.launches().iter().any(|launch| launch.kernel == "trap"), "{error}");
    // Over, with an error.
    ensure!(block_on(&mut transfer)?.is_err());
    Ok(())
}

/// A task that waits for something harmless is woken when another stream loses the device.
fn a_fault_elsewhere(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let trap = device.kernel(&FAULTS, "trap")?;
    let mut transfer = slow(device, &stream, 1, 200)?;
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut poll = || Pin::new(&mut transfer).poll(&mut Context::from_waker(&waker));
    if poll().is_ready() {
        return Err(Failure::new("it takes 200 ms"));
    }
    // SAFETY: as above.
    unsafe { device.launch(&trap, &other, (1, 1), ()) }?;
    let error = error_of("synchronize", other.synchronize())?;
    bell.wait(0)?;
    match poll() {
        Poll::Ready(answer) => ensure_eq!(
            error_of("await", answer)?.to_string(),
            error.to_string(),
            "the first error is everybody's"
        ),
        Poll::Pending => return Err(Failure::new("woken, and pending")),
    }
    Ok(())
}
