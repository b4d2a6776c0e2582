//! Tests that handle faults wrongly, each in its own way: the sweep must say so.

use cuda_safe::DeviceBuffer;

use super::parent::try_all;
use crate::programs::FAULTS;
use crate::{Case, Failure, TestDevice, TestResult, ensure};

const LEAK: &str = "planted::leak";
const UNWRAP: &str = "planted::unwrap";
const FREED: &str = "planted::freed";
const SILENCE: &str = "planted::silence";
const SOUND: &str = "planted::nothing";

/// The tests that are swept. They are no tests of anything else.
pub(super) fn cases() -> [Case; 5] {
    [
        Case::device(LEAK, leak),
        Case::device(UNWRAP, unwrap),
        Case::device(FREED, freed),
        Case::device(SILENCE, silence),
        Case::device(SOUND, sound),
    ]
}

/// The tests of the sweep.
pub(super) fn sweeps() -> [Case; 5] {
    [
        Case::sweep(LEAK, |name| finds(name, "cuStreamSynchronize", "left: ")),
        Case::sweep(UNWRAP, |name| finds(name, "cuStreamSynchronize", "panicked: ")),
        Case::sweep(FREED, |name| finds(name, "cuStreamSynchronize", "the device is lost: ")),
        Case::sweep(SILENCE, |name| finds(name, "cuStreamSynchronize", "no error names the call")),
        Case::sweep(SOUND, finds_nothing),
    ]
}

fn finds(name: &'static str, call: &str, what: &str) -> TestResult {
    let found = try_all(name, true)?;
    let hit = found.wrong.iter().any(|text| text.contains(call) && text.contains(what));
    ensure!(hit, "not found: {:?}", found.wrong);
    let others: Vec<_> = found.wrong.iter().filter(|text| !text.contains(call)).collect();
    ensure!(others.is_empty(), "wrong without a plant: {others:?}");
    Ok(())
}

fn finds_nothing(name: &'static str) -> TestResult {
    let found = try_all(name, true)?;
    ensure!(found.named > 10 && found.missed == 0, "{found:?}");
    if found.wrong.is_empty() { Ok(()) } else { Err(Failure::new(found.wrong.join("\n"))) }
}

/// Keeps its buffer for ever if waiting fails.
fn leak(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    if let Err(error) = stream.synchronize() {
        std::mem::forget(buffer);
        return Err(error.into());
    }
    Ok(())
}

/// Does not expect that waiting fails.
fn unwrap(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    stream.synchronize().unwrap();
    Ok(())
}

/// Gives its buffer back if waiting fails, and has it written to.
fn freed(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let write = device.kernel(&FAULTS, "write_at")?;
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    if let Err(error) = stream.synchronize() {
        let address = buffer.device_ptr();
        drop(buffer);
        // SAFETY: this is the bug, but it runs on the software device alone, whose addresses are
        // none of the process's and which refuses the write.
        unsafe { device.launch(&write, &stream, (1, 1), (address, 1_u32)) }?;
        stream.synchronize()?;
        return Err(error.into());
    }
    Ok(())
}

/// Tells nobody that waiting failed.
fn silence(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let _ = stream.synchronize();
    Ok(())
}

/// Hands every error on.
fn sound(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    ensure!(buffer.to_vec(&stream)? == [0; 100]);
    Ok(())
}
