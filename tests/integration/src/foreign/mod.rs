//! Programs that know nothing of this project, in `foreign/`: on the software device as the shared library
//! that they take for the driver's. They check what they compute; that they would notice mistakes is tested
//! too, by kernels with planted ones. What they call is in the device's log. And this project's shared libraries, called
//! from other languages.

mod calls;
mod cudarc;
mod frameworks;
mod libraries;
mod nvcc;
mod stage;

use std::process::Command;

use stage::{Ran, Stage};
use test_harness::{Case, Failure, Language, TestResult, built, cc, deep, ensure, python, sources};

pub(crate) fn cases() -> Vec<Case> {
    use Language::{C, Python, Rust};
    let mut cases = vec![
        Case::host("foreign::calls_are_counted", calls::are_counted),
        Case::host("foreign::pages_are_the_programs", frameworks::pages_are_the_programs),
        Case::foreign(C, "program", || right(c_program)),
        Case::foreign(C, "mistakes", || noticed(c_program, ["5 * i", "0.5f", "N / 2"])),
        Case::foreign(Rust, "cudarc::program", || right(cudarc::program)),
        Case::foreign(Rust, "cudarc::mistakes", || noticed(cudarc::program, KERNELS)),
        Case::foreign(Rust, "cudarc::blas", cudarc::blas),
        Case::foreign(Rust, "cudarc::own_tests", cudarc::own_tests),
        Case::foreign(Rust, "cudarc::own_examples", cudarc::own_examples),
        Case::foreign(Python, "cuda_bindings::program", || right(python_program)),
        Case::foreign(Python, "cuda_bindings::mistakes", || noticed(python_program, KERNELS)),
        Case::foreign(C, "torch_op::from_c", libraries::torch_op_from_c),
        Case::foreign(Python, "torch_op::from_python", libraries::torch_op_from_python),
        Case::foreign(Python, "torch_op::a_capsule_is_taken_once", libraries::torch_op_capsules),
        Case::foreign(Python, "hello::from_cython", libraries::hello_from_cython),
        Case::foreign(Rust, "frameworks::cudarc", frameworks::cudarc),
    ];
    cases.extend(nvcc::cases());
    // Their builds take minutes.
    if deep() {
        cases.push(Case::foreign(Rust, "frameworks::candle", frameworks::candle));
        cases.push(Case::foreign(Rust, "frameworks::burn", frameworks::burn));
    }
    cases
}

/// The kernels of `kernels.cu`, of which `PLANTED` makes the first, second or third wrong.
const KERNELS: [&str; 3] = ["saxpy", "scale", "block_sums"];

/// What every program has to call, so that a test says something of the device: each at least once with
/// success.
const TOPICS: [&[&str]; 6] = [
    &["cuInit", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"],
    &["cuModuleGetFunction", "cuModuleGetGlobal_v2", "cuLaunchKernel"],
    &["cuMemAllocAsync", "cuMemFreeAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"],
    &["cuStreamCreate", "cuStreamWaitEvent", "cuStreamSynchronize", "cuStreamDestroy_v2"],
    &["cuEventCreate", "cuEventRecord", "cuEventDestroy_v2"],
    &["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphLaunch", "cuGraphExecDestroy"],
];

/// The fewest functions of the driver that a program calls with success.
const DISTINCT: usize = 30;

/// Makes the call of a program.
type Call = Box<dyn Fn() -> Command>;

/// Builds a program in the stage's folder.
type Build = fn(&Stage) -> Result<Call, Failure>;

fn c_program(stage: &Stage) -> Result<Call, Failure> {
    let program = stage.folder().join("program");
    let mut compiler = cc();
    // Linked as on a machine with a driver: the name that it is found by stays in the program.
    compiler.args(["-O1", "-std=c11", "-Wall", "-Wextra", "-o"]).arg(&program);
    compiler.arg(sources()?.join("c/program.c")).arg("-L").arg(stage.folder());
    compiler.arg("-l:libcuda.so.1");
    built(compiler)?;
    Ok(Box::new(move || Command::new(&program)))
}

fn python_program(_: &Stage) -> Result<Call, Failure> {
    let source = sources()?.join("python/program.py");
    Ok(Box::new(move || {
        let mut command = python();
        command.arg(&source);
        command
    }))
}

/// The program finds nothing wrong, in the order of its calls and in others that streams allow.
fn right(build: Build) -> TestResult {
    let stage = Stage::new()?;
    let (call, kernels) = (build(&stage)?, stage.kernels(0)?);
    let Ran { calls, .. } = stage.run(&call, &kernels, &[])?.passed()?;
    println!("{} functions of the driver: {calls}", calls.distinct());
    ensure!(calls.distinct() >= DISTINCT, "{calls}");
    for name in TOPICS.into_iter().flatten() {
        ensure!(calls.has(name), "{name} is not among the calls: {calls}");
    }
    let lacking: Vec<_> = calls.refused().collect();
    ensure!(lacking.is_empty(), "the device lacks {lacking:?}");
    for seed in 0..if deep() { 200 } else { 5 } {
        let seed = format!("{seed}");
        stage.run(&call, &kernels, &[("CUDA_EMU_SEED", &seed)])?.passed()?;
    }
    Ok(())
}

/// The program notices wrong kernels, each with words of its own, and calls that fail.
fn noticed(build: Build, words: [&str; 3]) -> TestResult {
    let stage = Stage::new()?;
    let call = build(&stage)?;
    for (at, words) in words.into_iter().enumerate() {
        let said = stage.run(&call, &stage.kernels(at + 1)?, &[])?.failed()?;
        ensure!(said.contains(words), "{} is wrong, and it says: {said}", KERNELS[at]);
    }
    let kernels = stage.kernels(0)?;
    for failure in ["cuStreamWaitEvent:1:999", "cuGraphLaunch:2:2"] {
        stage.run(&call, &kernels, &[("CUDA_EMU_FAIL", failure)])?.failed()?;
    }
    Ok(())
}
