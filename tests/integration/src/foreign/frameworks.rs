//! The pages of docs/frameworks: their code is that of programs in `foreign/frameworks`, which run here.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cudarc::target;
use super::stage::{LIBRARIES, Ran, Stage, library};
use test_harness::{Failure, TestResult, built, cargo, deep, device_library, ensure, sources};

/// The frameworks with a page.
const FRAMEWORKS: [&str; 3] = ["cudarc", "candle", "burn"];

/// Returns the folder of a program.
fn program(framework: &str) -> Result<PathBuf, Failure> {
    Ok(sources()?.join("frameworks").join(framework))
}

/// Each block of Rust in a page is found in its program's sources, word for word.
pub(super) fn pages_are_the_programs() -> TestResult {
    let docs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/frameworks"));
    for framework in FRAMEWORKS {
        let page = std::fs::read_to_string(docs.join(format!("{framework}.md")))?;
        let folder = program(framework)?;
        let mut code = std::fs::read_to_string(folder.join("Cargo.toml"))?;
        for file in std::fs::read_dir(folder.join("src"))? {
            code += &std::fs::read_to_string(file?.path())?;
        }
        let blocks: Vec<_> = blocks(&page).collect();
        ensure!(!blocks.is_empty(), "{framework}.md has no code");
        for block in blocks {
            ensure!(code.contains(block), "this code of {framework}.md is not tested:\n{block}");
        }
    }
    Ok(())
}

/// The blocks of Rust and TOML in a page.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    let parts = page.split("\n```").skip(1).step_by(2);
    parts.filter_map(|part| part.split_once('\n')).filter_map(|(language, block)| {
        let code = language.starts_with("rust") || language.starts_with("toml");
        code.then_some(block.trim_matches('\n'))
    })
}

/// Builds a program, with variables for its build scripts, and returns its path.
fn built_program(framework: &str, variables: &[(&str, OsString)]) -> Result<PathBuf, Failure> {
    let mut cargo = cargo();
    cargo.args(["build", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(program(framework)?.join("Cargo.toml")).arg("--target-dir").arg(target()?);
    cargo.envs(variables.iter().map(|(name, value)| (name, value)));
    built(cargo)?;
    Ok(target()?.join("debug").join(format!("framework-{framework}")))
}

/// The program finds nothing wrong, in the order of its calls and in others that streams allow, and copies nothing on the
/// device. It notices calls of the driver that fail.
fn passes(stage: &Stage, program: &Path, variables: &[(&str, &str)]) -> TestResult {
    let nvrtc = stage.nvrtc()?;
    let run = |variable: Option<(&str, &str)>| {
        let known = [("CUDA_NVRTC", &*nvrtc)].into_iter().chain(variables.iter().copied());
        let variables: Vec<_> = known.chain(variable).collect();
        stage.run_command(Command::new(program), &variables)
    };
    let Ran { calls, .. } = run(None)?.passed()?;
    println!("{} functions of the driver: {calls}", calls.distinct());
    ensure!(calls.has("cuStreamGetId"), "no stream was lent: {calls}");
    for name in ["cuMemcpyDtoDAsync_v2", "cuMemcpyDtoD_v2", "cuMemcpyAsync", "cuMemcpy"] {
        ensure!(!calls.has(name), "memory of the device was copied by {name}");
    }
    for seed in 0..if deep() { 50 } else { 5 } {
        run(Some(("CUDA_EMU_SEED", &format!("{seed}"))))?.passed()?;
    }
    for failure in ["cuLaunchKernel:2:1", "cuStreamGetId:2:999"] {
        run(Some(("CUDA_EMU_FAIL", failure)))?.failed()?;
    }
    Ok(())
}

pub(super) fn cudarc() -> TestResult {
    passes(&Stage::new()?, &built_program("cudarc", &[])?, &[])
}

/// candle, whose own kernels are built by a stand-in for nvcc, so that there are none. `blas-emu` is its cuBLAS and cuRAND.
pub(super) fn candle() -> TestResult {
    let stage = Stage::with_libraries()?;
    let toolkit = target()?.join("candle-toolkit");
    let (programs, libraries) = (toolkit.join("bin"), toolkit.join("lib64"));
    for folder in [&programs, &libraries] {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(program("candle")?.join("toolkit/nvcc"), programs.join("nvcc"))?;
    let link = |to: &Path, name: &str| {
        let _ = std::fs::remove_file(libraries.join(name));
        symlink(to, libraries.join(name))
    };
    link(&device_library()?, "libcuda.so")?;
    link(Path::new(&stage.nvrtc()?), "libnvrtc.so")?;
    for [file, name, _] in LIBRARIES {
        link(&library(file)?, name)?;
    }
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = [programs].into_iter().chain(std::env::split_paths(&inherited));
    let variables = [
        ("PATH", std::env::join_paths(path)?),
        ("CUDA_HOME", toolkit.into_os_string()),
        ("CUDA_COMPUTE_CAP", "80".into()),
    ];
    passes(&stage, &built_program("candle", &variables)?, &[])
}

/// burn, whose kernels NVRTC compiles while it runs.
pub(super) fn burn() -> TestResult {
    let program = built_program("burn", &[("CUDARC_CUDA_VERSION", "13000".into())])?;
    let stage = Stage::new()?;
    let toolkit = stage.toolkit()?;
    let toolkit =
        toolkit.to_str().ok_or_else(|| Failure::new("the path of the headers is no UTF-8"))?;
    passes(&stage, &program, &[("CUDA_PATH", toolkit)])
}
