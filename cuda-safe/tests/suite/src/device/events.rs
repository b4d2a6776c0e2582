//! Events: done or not, and the time between two.

use std::time::{Duration, Instant};

use cuda_safe::{ErrorKind, Event};
use test_support::cost::least;

use super::MS;
use super::gate::Gate;
use test_harness::programs::{Basic, Delay};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "events",
        device(not_ready_is_no_error),
        device(never_recorded),
        device(time_is_plausible),
        device(without_timing),
        device(recorded_again),
    ]
}

fn not_ready_is_no_error(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let event = Event::new(device.context())?;
    let gate = Gate::close(&stream)?;
    device.count(delay.delay(&stream, (1, 1), MS))?;
    event.record(&stream)?;
    ensure!(!event.is_done()?);
    gate.open();
    event.synchronize()?;
    ensure!(event.is_done()?);
    Ok(())
}

fn never_recorded(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let event = Event::new(device.context())?;
    ensure!(event.is_done()?);
    event.synchronize()?;
    stream.wait_event(&event)?;
    stream.synchronize()?;
    Ok(())
}

/// The most milliseconds that a kernel of 20 ms may take in the best of all measurements.
const MOST_MS: f64 = 40.0;

/// How long a busy machine is given for a measurement within its limit.
const PATIENCE: Duration = Duration::from_secs(20);

fn time_is_plausible(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let (start, end) = (Event::timing(device.context())?, Event::timing(device.context())?);
    // The first launch may take longer: the code is brought to the device.
    device.count(delay.delay(&stream, (1, 1), 0))?;
    stream.synchronize()?;
    let measure = || -> Result<f64, Failure> {
        let begin = Instant::now();
        start.record(&stream)?;
        device.count(delay.delay(&stream, (1, 1), 20 * MS))?;
        end.record(&stream)?;
        let measured = f64::from(start.elapsed_ms(&end)?);
        let host = begin.elapsed().as_secs_f64() * 1e3;
        // The kernel's clock ticks about once in a microsecond.
        ensure!(measured > 19.9, "{measured} ms of 20");
        ensure!(measured <= host + 0.1, "{measured} ms on the device, {host} on the host");
        Ok(measured)
    };
    let patience = if device.is_instrumented() { Duration::ZERO } else { PATIENCE };
    let measured = least(MOST_MS, patience, measure)?;
    ensure!(device.is_instrumented() || measured <= MOST_MS, "at best {measured} ms of 20");
    Ok(())
}

fn without_timing(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (plain, timing) = (Event::new(device.context())?, Event::timing(device.context())?);
    plain.record(&stream)?;
    timing.record(&stream)?;
    for result in [plain.elapsed_ms(&timing), timing.elapsed_ms(&plain)] {
        let kind = result.as_ref().map_err(cuda_safe::Error::kind);
        ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{result:?}");
    }
    ensure!(timing.elapsed_ms(&timing)? == 0.0);
    Ok(())
}

/// An event is its newest record.
fn recorded_again(device: &TestDevice) -> TestResult {
    let (stream, delay, basic) = (device.stream()?, Delay::of(device)?, Basic::of(device)?);
    let event = Event::new(device.context())?;
    device.count(basic.nothing(&stream, (1, 1)))?;
    event.record(&stream)?;
    event.synchronize()?;
    let gate = Gate::close(&stream)?;
    device.count(delay.delay(&stream, (1, 1), MS))?;
    ensure!(event.is_done()?, "recorded before");
    event.record(&stream)?;
    ensure!(!event.is_done()?);
    gate.open();
    event.synchronize()?;
    ensure!(stream.is_done()?);
    Ok(())
}
