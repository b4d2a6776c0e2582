//! Jobs in a separate process: this binary again, with a job in its environment.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use cuda_safe_nvrtc::{Arch, Cache, Error, Nvrtc, Program};

use crate::Compiler;

const JOB: &str = "NVRTC_TEST_JOB";
const LIBRARY: &str = "NVRTC_TEST_LIBRARY";
const CACHE: &str = "NVRTC_TEST_CACHE";
const TEXT: &str = "NVRTC_TEST_SOURCE";

/// The source that the jobs compile.
pub(crate) const SOURCE: &str =
    "extern \"C\" __global__ void saxpy(float a, const float* x, float* y, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}";

pub(crate) fn is_child() -> bool {
    std::env::var_os(JOB).is_some()
}

fn start(job: &str, variables: &[(&str, &OsStr)]) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(JOB, job).envs(variables.iter().copied()).stdout(Stdio::piped()).spawn()
}

/// Starts a child that compiles [`SOURCE`] and prints `<cache status>|<loaded>|<microseconds>` or
/// `error|<message>`.
pub(crate) fn spawn(
    library: &Path,
    cache: &Path,
    variables: &[(&str, &str)],
) -> std::io::Result<Child> {
    let mut all: Vec<(&str, &OsStr)> =
        variables.iter().map(|(name, value)| (*name, OsStr::new(value))).collect();
    all.extend([(LIBRARY, library.as_os_str()), (CACHE, cache.as_os_str())]);
    start("compile", &all)
}

/// Returns what a child prints that compiles `source` by the NVRTC of the toolkit `root`, or by none that any variable
/// names: as [`spawn`].
pub(crate) fn search(
    root: Option<&Path>,
    cache: &Path,
    source: &str,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut command = without_variables("search")?;
    command.env(CACHE, cache).env(TEXT, source);
    if let Some(root) = root {
        command.env("CUDA_PATH", root);
    }
    answer(command.spawn()?)
}

/// Returns whether an NVRTC is found that no variable names.
pub(crate) fn finds_one_without_variables() -> bool {
    let found = without_variables("find").and_then(|mut command| command.spawn());
    let found = found.map_err(Into::into).and_then(answer);
    !found.is_ok_and(|fields| fields.iter().any(|field| field.starts_with("no NVRTC")))
}

fn without_variables(job: &str) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    for name in [
        "CUDA_NVRTC",
        "LD_LIBRARY_PATH",
        "CUDA_PATH",
        "CUDA_HOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PATH",
    ] {
        command.env_remove(name);
    }
    command.env("CUDA_SETUP_DIR", "/nonexistent").env(JOB, job).stdout(Stdio::piped());
    Ok(command)
}

/// Returns the results of `Nvrtc::find` and `Cache::user` under these variables: `<path or error>|<folder>`.
pub(crate) fn find(
    variables: &[(&str, &OsStr)],
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    answer(start("find", variables)?)
}

/// Returns the error of [`Nvrtc::find_for_driver`] for a driver that no NVRTC suits, where no variable names the
/// library: its message, then the reasons, one to a line.
pub(crate) fn find_for_old_driver() -> Result<String, Box<dyn std::error::Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.env(JOB, "find for an old driver").env_remove("CUDA_NVRTC").output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The fields that a child prints.
pub(crate) fn answer(child: Child) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(format!("{}: {text}", output.status).into());
    }
    Ok(text.trim_end().split('|').map(str::to_owned).collect())
}

pub(crate) fn run(c: &Compiler, cache: &Path) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    answer(spawn(c.library.path().ok_or("no path")?, cache, &[])?)
}

pub(crate) fn main() {
    if std::env::var_os(JOB).is_some_and(|job| job == "find") {
        let found = Nvrtc::find().map(|n| n.path().map(Path::to_owned));
        let found =
            found.map_or_else(|e| e.to_string(), |p| p.unwrap_or_default().display().to_string());
        println!("{found}|{:?}", Cache::user().folder());
        return;
    }
    if std::env::var_os(JOB).is_some_and(|job| job == "find for an old driver") {
        // No NVRTC is as old as CUDA 1.0.
        match Nvrtc::find_for_driver(1000) {
            Err(Error::NotFound(error)) => {
                println!("{error}");
                error.tried.iter().for_each(|attempt| println!("{}", attempt.reason));
            }
            other => println!("{other:?}"),
        }
        return;
    }
    let variable = |name| std::env::var_os(name).unwrap_or_default();
    let begin = Instant::now();
    let image = match std::env::var(TEXT) {
        Ok(text) => {
            let program = Program::new(text).cache(&Cache::at(variable(CACHE)));
            let driver = program.compile_for_driver(Arch::sm(9, 0), 13000);
            let again = program.compile_for_driver(Arch::sm(9, 0), 13000);
            assert_eq!(driver.is_ok(), again.is_ok());
            driver.and_then(|_| program.compile(Arch::sm(9, 0)))
        }
        // SAFETY: the parent names NVIDIA's library.
        Err(_) => unsafe { Nvrtc::at(variable(LIBRARY)) }.and_then(|library| {
            let program = Program::new(SOURCE).library(&library);
            program.cache(&Cache::at(variable(CACHE))).compile(Arch::sm(9, 0))
        }),
    };
    let micros = begin.elapsed().as_micros();
    // Not what this crate believes, but what the system has mapped.
    let maps =
        std::fs::read_to_string("/proc/self/maps").unwrap_or_else(|_| "libnvrtc unknown".into());
    let loaded = maps.contains("libnvrtc");
    match image {
        Ok(image) => println!("{:?}|{loaded}|{micros}", image.cache),
        Err(error) => println!("error|{error}"),
    }
}
