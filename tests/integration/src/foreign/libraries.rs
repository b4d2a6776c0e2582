//! This project's shared libraries, called from C and Python: examples/torch-op and examples/hello.

use std::path::PathBuf;
use std::process::Command;

use super::stage::{Stage, library};
use test_harness::{Failure, TestResult, built, cc, deep, ensure, python, sources};

/// Returns the folder of an example.
fn example(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).join(name)
}

/// The program finds nothing wrong, in the order of its calls and in others that streams allow. It notices a call of the
/// driver that fails.
fn passes(stage: &Stage, call: impl Fn() -> Result<Command, Failure>) -> TestResult {
    let nvrtc = stage.nvrtc()?;
    let run = |variable: Option<(&str, &str)>| {
        let variables: Vec<_> = [("CUDA_NVRTC", &*nvrtc)].into_iter().chain(variable).collect();
        stage.run_command(call()?, &variables)
    };
    run(None)?.passed()?;
    for seed in 0..if deep() { 50 } else { 2 } {
        run(Some(("CUDA_EMU_SEED", &format!("{seed}"))))?.passed()?;
    }
    run(Some(("CUDA_EMU_FAIL", "cuLaunchKernel:2:1")))?.failed()?;
    Ok(())
}

/// Runs a program in Python with the operators.
fn torch_op(program: &str) -> TestResult {
    let stage = Stage::new()?;
    passes(&stage, || {
        let mut command = python();
        command.arg(sources()?.join("python").join(program));
        command.arg(library("libtorch_op.so")?).arg(example("torch-op"));
        Ok(command)
    })
}

/// The operators by ctypes and NumPy, compared with doubles.
pub(super) fn torch_op_from_python() -> TestResult {
    torch_op("torch_op.py")
}

/// A capsule is used once: later uses are errors that name the argument, and the tensor is deleted once.
pub(super) fn torch_op_capsules() -> TestResult {
    torch_op("capsules.py")
}

/// The operators by the header, which compiles without warnings.
pub(super) fn torch_op_from_c() -> TestResult {
    let stage = Stage::new()?;
    let program = stage.folder().join("torch_op");
    let mut compiler = cc();
    compiler.args(["-O1", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"]);
    compiler.arg(&program).arg("-I").arg(example("torch-op"));
    compiler.arg(sources()?.join("c/torch_op.c")).arg("-L").arg(stage.folder());
    compiler.arg("-l:libcuda.so.1").arg(library("libtorch_op.so")?);
    built(compiler)?;
    passes(&stage, || Ok(Command::new(&program)))
}

/// The Cython module of examples/hello: the kernel's lines come, and an error is an exception.
pub(super) fn hello_from_cython() -> TestResult {
    let stage = Stage::new()?;
    let (c, module) = (stage.folder().join("hello.c"), stage.folder().join("hello_cython.so"));
    let mut cython = python();
    cython.args(["-m", "cython", "-3", "-o"]).arg(&c);
    built({
        cython.arg(example("hello").join("hello_cython.pyx"));
        cython
    })?;
    let mut include = python();
    include.args(["-c", "import sysconfig; print(sysconfig.get_path('include'))"]);
    let include = String::from_utf8_lossy(&built(include)?.stdout).trim().to_owned();
    ensure!(
        std::path::Path::new(&include).join("Python.h").exists(),
        "there is no Python.h in {include}, which Cython's output needs"
    );
    let mut compiler = cc();
    compiler.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&module).arg(&c);
    compiler.arg("-I").arg(include).arg("-I").arg(example("hello"));
    built({
        compiler.arg(library("libhello.so")?);
        compiler
    })?;
    let script = "import sys; sys.path.insert(0, sys.argv[1])
import hello_cython
hello_cython.hello(2, 4)
try:
    hello_cython.hello(1, 4096)
except RuntimeError as error:
    assert '4096' in str(error), error
else:
    raise AssertionError('4096 threads in a block')
sys.stdout.flush()
print('all right')";
    let mut command = python();
    command.arg("-c").arg(script).arg(stage.folder());
    let nvrtc = stage.nvrtc()?;
    let ran = stage.run_command(command, &[("CUDA_NVRTC", &nvrtc)])?.passed()?;
    let lines = ran.outcome.stdout.lines().filter(|line| line.starts_with("hello from block"));
    let mut lines: Vec<&str> = lines.collect();
    lines.sort_unstable();
    let wanted: Vec<String> = (0..2)
        .flat_map(|block| (0..4).map(move |thread| (block, thread)))
        .map(|(block, thread)| format!("hello from block {block}, thread {thread}"))
        .collect();
    ensure!(lines == wanted, "the kernel has printed {lines:?}");
    Ok(())
}
