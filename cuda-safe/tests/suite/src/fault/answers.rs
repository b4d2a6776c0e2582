//! Calls that the driver refuses: the error is that call's, and nothing else is harmed.

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, Event, Stream};

use super::error_of;
use crate::device::RawContext;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "fault::answers",
        fault(time_of_an_event_never_recorded),
        fault(an_event_of_another_context),
    ]
}

fn works(stream: &Stream) -> TestResult {
    let buffer = DeviceBuffer::from_slice(stream, &[1_u32])?;
    ensure_eq!(buffer.to_vec(stream)?, [1]);
    Ok(())
}

fn time_of_an_event_never_recorded(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (start, end) = (Event::timing(device.context())?, Event::timing(device.context())?);
    start.record(&stream)?;
    for (from, to) in [(&start, &end), (&end, &start)] {
        let error = error_of("never recorded", from.elapsed_ms(to))?;
        ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_HANDLE), "{error}");
        ensure_eq!(error.call(), Some("cuEventElapsedTime"));
        ensure!(!error.is_fatal() && !error.is_asynchronous());
    }
    works(&stream)
}

fn an_event_of_another_context(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let owner = RawContext::new(device.context().driver())?;
    let raw = owner.raw();
    // SAFETY: the token keeps the context alive.
    let foreign = unsafe { cuda_safe::Context::from_raw(device.context().driver(), raw, owner) }?;
    let event = Event::new(&foreign)?;
    let error = error_of("a stream of another context", event.record(&stream))?;
    ensure!(!error.is_fatal(), "{error}");
    drop(event);
    foreign.close()?;
    works(&stream)
}
