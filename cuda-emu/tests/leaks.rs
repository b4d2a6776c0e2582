//! Reports for people: leaks at the end of the process, values of `CUDA_EMU_CHECK`, hints after a fault.

use std::process::Command;

use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, Module, PinnedBuffer, Result};

mod common;
use common::PTX;

/// Runs the test `name` in a process whose checker is `check`, and returns what it writes to standard error.
fn report(name: &str, check: &str) -> String {
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", name, "--nocapture"])
        .envs([("EMU_TEST_CHILD", name), ("CUDA_EMU_CHECK", check)])
        .output()
        .expect("it runs");
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}{report}", String::from_utf8_lossy(&output.stdout));
    report
}

fn is_child() -> bool {
    std::env::var_os("EMU_TEST_CHILD").is_some()
}

/// A correct program; `leaks` forgets a buffer.
fn program(leaks: bool) -> Result<()> {
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let module = Module::from_ptx(&context, PTX)?;
    module.kernel("nothing")?.load()?;
    let values = vec![7u32; 1 << 20];
    let buffer = DeviceBuffer::from_slice(&stream, &values)?;
    let mut graph =
        context.capture(DeviceBuffer::<u32>::zeroed(&stream, 9)?, |s, b| b.fill(s, 1))?;
    graph.launch(&stream)?;
    drop(PinnedBuffer::<u32>::zeroed(&context, 1000)?);
    assert_eq!(buffer.to_vec(&stream)?, values);
    context.synchronize()?;
    if leaks {
        std::mem::forget(buffer);
    }
    Ok(())
}

#[test]
fn a_correct_program_has_no_leak() {
    if is_child() {
        return program(false).expect("a correct program");
    }
    let report = report("a_correct_program_has_no_leak", "leak");
    assert!(!report.contains("leak"), "{report}");
}

#[test]
fn a_forgotten_buffer_is_the_one_leak() {
    if is_child() {
        return program(true).expect("a program that leaks");
    }
    let report = report("a_forgotten_buffer_is_the_one_leak", "leak");
    let leaks: Vec<_> = report.lines().filter(|line| line.contains("leak: ")).collect();
    assert!(leaks.len() == 1 && leaks[0].contains("4194304 bytes of"), "{report}");
}

#[test]
fn an_unknown_checker_lists_the_known_ones() {
    if is_child() {
        return program(false).expect("a correct program");
    }
    let report = report("an_unknown_checker_lists_the_known_ones", "races");
    let wanted =
        "CUDA_EMU_CHECK=races is not understood and is ignored; known are race, init and leak";
    assert!(report.contains(wanted), "{report}");
}

/// Writes to an address that nothing owns, and returns the error.
fn fault() -> Result<()> {
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let fill = Module::from_ptx(&context, PTX)?.kernel("fill")?;
    // SAFETY: the write is a fault of the device, which ends the kernel.
    unsafe { fill.launch(&stream, LaunchConfig::new(1, 1), (16u64, 1u32, 1u32)) }?;
    stream.synchronize()
}

#[test]
fn a_hint_does_not_send_to_the_device_that_the_program_is_on() {
    if is_child() {
        let error = fault().expect_err("an illegal address");
        return eprintln!("error: {error}");
    }
    let report = report("a_hint_does_not_send_to_the_device_that_the_program_is_on", "");
    let error = report.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(error.contains("hint: the report of the software device"), "{report}");
    assert!(!error.contains("compute-sanitizer"), "{report}");
}
