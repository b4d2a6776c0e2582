//! Languages of foreign programs: what builds and runs them here. Their tiers run them on the software
//! device as the shared library that takes the place of the driver's.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::Failure;

/// The variables that name a Python and, like `PATH`, the folders of the packages that its programs need.
const PYTHON: &str = "TEST_PYTHON";
const PACKAGES: &str = "TEST_PYTHONPATH";
/// The variable that names the folder of a toolkit with nvcc.
const TOOLKIT: &str = "TEST_NVCC";

/// What foreign programs are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Rust,
    Python,
    /// C++ with kernels, by nvcc.
    Cuda,
}

impl Language {
    pub(super) const ALL: [Self; 4] = [Self::C, Self::Rust, Self::Python, Self::Cuda];

    /// The name of its tier.
    pub(super) const fn tier(self) -> &'static str {
        match self {
            Self::C => "foreign-c",
            Self::Rust => "foreign-rust",
            Self::Python => "foreign-python",
            Self::Cuda => "foreign-cuda",
        }
    }

    /// Why its tier can't run here.
    pub(super) fn why_not(self) -> Option<String> {
        let missing = |mut command: Command, argument: &str| {
            let program = command.get_program().to_string_lossy().into_owned();
            let error = command.arg(argument).output().err()?;
            Some(format!("{program} is not installed ({error})"))
        };
        if let Err(failure) = device_library().and_then(|_| sources()) {
            return Some(failure.to_string());
        }
        match self {
            Self::C => missing(cc(), "--version"),
            Self::Rust => missing(cargo(), "--version"),
            Self::Python if std::env::var_os(PACKAGES).is_none() => Some(format!(
                "{PACKAGES} names no packages; `cargo xtask test` does, on a Python for which there are any"
            )),
            Self::Python => missing(python(), "--version"),
            Self::Cuda => match toolkit() {
                Err(failure) => Some(failure.to_string()),
                // nvcc compiles the host's part with it.
                Ok(_) => missing(command("g++".into()), "--version"),
            },
        }
    }
}

/// `libcuda_emu.so`, which cargo builds beside this program.
pub fn device_library() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let library = program.with_file_name("libcuda_emu.so");
    match library.exists() {
        true => Ok(library),
        false => Err(Failure::new(format!("there is no {}", library.display()))),
    }
}

/// The folder of the toolkit with nvcc.
pub fn toolkit() -> Result<PathBuf, Failure> {
    match std::env::var_os(TOOLKIT) {
        Some(folder) => Ok(folder.into()),
        None => Err(Failure::new(format!(
            "{TOOLKIT} names no toolkit with nvcc; `cargo xtask test` fetches one"
        ))),
    }
}

/// The folder of the programs' sources.
pub fn sources() -> Result<PathBuf, Failure> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../integration/foreign"));
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(Failure::new("the sources of foreign programs are not here")),
    }
}

/// The C compiler.
pub fn cc() -> Command {
    command("cc".into())
}

/// The cargo that has built this program, if that runs it, else the system's.
pub fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A Python that sees the packages it is given and no others.
pub fn python() -> Command {
    let mut python = command(std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into()));
    python.args(["-S", "-B"]);
    if let Some(packages) = std::env::var_os(PACKAGES) {
        python.env("PYTHONPATH", packages);
    }
    python
}

fn command(program: std::ffi::OsString) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Runs a compiler to its end, however long that takes; what it says is the failure.
pub fn built(mut command: Command) -> Result<Output, Failure> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("{command:?}: {}\n{said}", output.status)))
}
