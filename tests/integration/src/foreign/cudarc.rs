//! cudarc as it is published: a program that uses it, its own tests, its own examples.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Call;
use super::calls::Calls;
use super::stage::{Ran, Stage};
use test_harness::{Failure, TestResult, built, cargo, deep, ensure, ensure_eq, sources};

/// Its tests that compare times, which tell nothing here.
const OF_TIMES: [&str; 2] = ["launch::tests::test_par_launch", "faster"];

/// Its tests that keep a device busy for a while, of which two cores have little to spare.
const LONG: &str = "launch::tests::test_multi_stream";

/// Its tests that pass lists of addresses in host memory to cuBLAS, which documents them as device memory, and one that
/// compiles for an architecture that NVRTC 13 lacks.
const WRONG: [&str; 2] = ["grouped_gemm::tests", "test_launch_with_half"];

/// Its tests that it wants to be run by themselves, or on two devices; the second expects that a kernel fails
/// some time after its launch.
const BY_THEMSELVES: [(&str, (&str, &str)); 4] = [
    ("driver::safe::core::tests::test_post_alloc_memory", ("CUDA_EMU_DEVICES", "1")),
    ("driver::safe::launch::tests::test_device_side_assert", ("CUDA_EMU_SEED", "1")),
    ("driver::result::tests::peer_transfer_contexts", ("CUDA_EMU_DEVICES", "2")),
    ("driver::result::tests::re_associate_context_for_memory_op", ("CUDA_EMU_DEVICES", "2")),
];

/// The fewest of its tests that are run.
const OWN_TESTS: u64 = 40;

/// Its examples, but for those that need other libraries or two devices, and one that asks for a limit that
/// devices of compute capability 9.0 do not have.
const OWN_EXAMPLES: [&str; 10] = [
    "01-allocate",
    "02-copy",
    "03-launch-kernel",
    "04-streams",
    "05-device-repr",
    "06-threading",
    "09-constant-memory",
    "10-function-attributes",
    "matmul-kernel",
    "nvrtc-compile",
];

/// Its examples for two devices.
const FOR_TWO: [&str; 1] = ["13-copy-multi-gpu"];

/// Where cargo builds: a folder of their own beside our output, kept between runs.
pub(super) fn target() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let output = program.ancestors().nth(3);
    Ok(output.ok_or_else(|| Failure::new("this program is in no target folder"))?.join("foreign"))
}

/// A call of cargo for the program's workspace, whose versions are those of its lock file.
fn in_workspace(subcommand: &str) -> Result<Command, Failure> {
    let mut cargo = cargo();
    cargo.args([subcommand, "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(sources()?.join("cudarc/Cargo.toml")).arg("--target-dir").arg(target()?);
    Ok(cargo)
}

/// The folder of its sources, where cargo has unpacked them.
fn package() -> Result<PathBuf, Failure> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked", "--manifest-path"]);
    metadata.arg(sources()?.join("cudarc/Cargo.toml"));
    let output = built(metadata)?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut manifests = packages
        .filter(|package| package["name"] == "cudarc")
        .filter_map(|package| package["manifest_path"].as_str());
    let folder = manifests.next().and_then(|manifest| Path::new(manifest).parent());
    Ok(folder.ok_or_else(|| Failure::new("cargo knows no cudarc"))?.to_owned())
}

pub(super) fn program(_: &Stage) -> Result<Call, Failure> {
    built(in_workspace("build")?)?;
    let program = target()?.join("debug/foreign-cudarc");
    Ok(Box::new(move || Command::new(&program)))
}

/// Products by its cuBLAS, which finds `blas-emu`, in the order of the calls and in others that streams allow.
pub(super) fn blas() -> TestResult {
    let stage = Stage::with_libraries()?;
    built(in_workspace("build")?)?;
    let program = target()?.join("debug/blas");
    let run = |name, value: &str| stage.run_command(Command::new(&program), &[(name, value)]);
    for seed in 0..if deep() { 50 } else { 5 } {
        run("CUDA_EMU_SEED", &format!("{seed}"))?.passed()?;
    }
    run("CUDA_EMU_FAIL", "cuLaunchKernel:2:1")?.failed()?;
    Ok(())
}

/// Runs its tests with these arguments.
fn tests(stage: &Stage, arguments: &[&str], variable: (&str, &str)) -> Result<Ran, Failure> {
    let mut command = in_workspace("test")?;
    command.args(["--package", "cudarc", "--lib", "--"]).args(arguments);
    stage.run_command(command, &[variable])
}

/// How many tests have passed; none if one has failed.
fn passed(ran: &Ran) -> u64 {
    let Ran { outcome, .. } = ran;
    let result = outcome.stdout.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    let number = result.and_then(|rest| rest.split_once(' ')).filter(|_| outcome.status.success());
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

/// The tests in its sources pass, but for those that compare times; and they do not where a call fails.
pub(super) fn own_tests() -> TestResult {
    let stage = Stage::with_libraries()?;
    let mut build = in_workspace("test")?;
    build.args(["--package", "cudarc", "--lib", "--no-run"]);
    built(build)?;
    let skipped = OF_TIMES.into_iter().chain(WRONG).chain((!deep()).then_some(LONG));
    // One after the other: they share a context, and a call of one thread may invalidate what another captures.
    let alone = ["--test-threads", "1"].into_iter();
    let arguments: Vec<_> = alone.chain(skipped.flat_map(|name| ["--skip", name])).collect();
    let ran = tests(&stage, &arguments, ("CUDA_EMU_DEVICES", "1"))?;
    let mut count = passed(&ran);
    ensure!(count >= OWN_TESTS, "{}{}", ran.outcome.stdout, ran.outcome.stderr);
    let mut calls = ran.calls;
    for (name, variable) in BY_THEMSELVES {
        let ran = tests(&stage, &["--ignored", "--exact", name], variable)?;
        ensure_eq!(passed(&ran), 1, "{name}: {}{}", ran.outcome.stdout, ran.outcome.stderr);
        count += 1;
        calls.add(ran.calls);
    }
    println!("{count} tests; {} functions of the driver: {calls}", calls.distinct());
    let failing = tests(&stage, &arguments, ("CUDA_EMU_FAIL", "cuMemcpyDtoHAsync:3:999"))?;
    ensure_eq!(passed(&failing), 0, "a copy fails: {}", failing.outcome.stdout);
    ensure!(failing.outcome.stdout.contains("test result: FAILED"), "{}", failing.outcome.stderr);
    Ok(())
}

/// Its examples come to their ends.
pub(super) fn own_examples() -> TestResult {
    let stage = Stage::new()?;
    let mut build = in_workspace("build")?;
    build.args(["--package", "cudarc"]);
    for example in OWN_EXAMPLES.into_iter().chain(FOR_TWO) {
        build.args(["--example", example]);
    }
    built(build)?;
    let sources = package()?;
    let two = FOR_TWO.map(|example| (example, "2"));
    let mut calls = Calls::default();
    for (example, devices) in OWN_EXAMPLES.map(|example| (example, "1")).into_iter().chain(two) {
        let mut command = Command::new(target()?.join("debug/examples").join(example));
        // Some read files that lie beside them.
        command.current_dir(&sources);
        let ran = stage.run_command(command, &[("CUDA_EMU_DEVICES", devices)])?;
        ensure_eq!(ran.outcome.status.code(), Some(0), "{example}: {}", ran.outcome.stderr);
        calls.add(ran.calls);
    }
    println!("{} functions of the driver: {calls}", calls.distinct());
    Ok(())
}
