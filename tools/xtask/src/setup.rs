//! `cargo xtask setup`: NVRTC for this machine's driver and the CUDA headers, in `target/cuda`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use xtask::wheels::{
    CCCL_13, CRT_13, CUDA_PATHFINDER, CYTHON, NVJITLINK_13_0, NVRTC_12_0, NVRTC_12_9, NVRTC_13_0,
    RUNTIME_13_5, Wheel, cuda_bindings, fetch, numpy_beside, python, toolkit,
};
use xtask::{Error, root};

use crate::machine;

/// The environment variable that names the NVRTC library to use; the `nvrtc` crate reads it first.
const NVRTC_VARIABLE: &str = "CUDA_NVRTC";

/// The environment variable that lists, like `PATH`, every NVRTC library that the compile tests
/// must exercise.
const TESTED_VARIABLE: &str = "TEST_NVRTC";

/// The variable that names the toolkit whose nvcc compiles foreign programs.
const NVCC_VARIABLE: &str = "TEST_NVCC";
/// The variables that name the Python of foreign programs and, like `PATH`, the folders of its packages.
const PYTHON_VARIABLE: &str = "TEST_PYTHON";
const PACKAGES_VARIABLE: &str = "TEST_PYTHONPATH";

/// The first driver branch of CUDA 13.
const FIRST_BRANCH_OF_13: u32 = 580;

/// The major CUDA version of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Major {
    /// Drivers of CUDA 12.x.
    Twelve,
    /// Drivers of CUDA 13.x.
    Thirteen,
}

impl Major {
    /// The version asked for (`12` or `13`), else this machine's, else 13.
    pub(crate) fn choose(asked: Option<&str>) -> Self {
        Self::of(asked, machine::driver_branch())
    }

    fn of(asked: Option<&str>, branch: Option<u32>) -> Self {
        match (asked, branch) {
            (Some("12"), _) => Self::Twelve,
            (None, Some(branch)) if branch < FIRST_BRANCH_OF_13 => Self::Twelve,
            _ => Self::Thirteen,
        }
    }

    /// The NVRTC to compile with: its major version must not exceed the driver's.
    fn nvrtc(self) -> Wheel {
        match self {
            Self::Twelve => NVRTC_12_9,
            Self::Thirteen => NVRTC_13_0,
        }
    }
}

/// Fetches everything and prints what is where.
///
/// # Errors
/// Something could not be downloaded.
pub(crate) fn setup(major: Major) -> Result<(), Error> {
    let root = root();
    for wheel in fetch_all(major)? {
        let path = wheel.content_path();
        let path = path.strip_prefix(&root).unwrap_or(&path);
        println!("{:28} {}", wheel.title, path.display());
    }
    Ok(())
}

/// Fetches NVRTC and CUDA's headers.
///
/// # Errors
/// Something could not be downloaded.
pub(crate) fn fetch_all(major: Major) -> Result<[Wheel; 4], Error> {
    let wheels = [major.nvrtc(), RUNTIME_13_5, CRT_13, CCCL_13];
    for wheel in &wheels {
        fetch(wheel)?;
    }
    Ok(wheels)
}

/// Fetches the NVRTC for this machine and names it to `command`, unless the user has named one.
///
/// # Errors
/// It could not be downloaded.
pub(crate) fn name_nvrtc(command: &mut Command) -> Result<(), Error> {
    if env::var_os(NVRTC_VARIABLE).is_none() {
        let wheel = Major::choose(None).nvrtc();
        fetch(&wheel)?;
        command.env(NVRTC_VARIABLE, wheel.content_path());
    }
    Ok(())
}

/// Fetches CUDA's headers, nvJitLink and every NVRTC that the tests exercise, and names the compilers to `command`.
///
/// # Errors
/// One could not be downloaded.
pub(crate) fn name_tested_nvrtc(command: &mut Command) -> Result<(), Error> {
    name_nvrtc(command)?;
    for headers in [RUNTIME_13_5, CRT_13, CCCL_13] {
        fetch(&headers)?;
    }
    let mut libraries: Vec<PathBuf> = Vec::new();
    for wheel in [NVRTC_13_0, NVRTC_12_0] {
        // NVIDIA has not published every version for every system.
        match wheel.file_for(env::consts::OS, env::consts::ARCH) {
            Ok(_) => {
                fetch(&wheel)?;
                libraries.push(wheel.content_path());
            }
            Err(reason) => eprintln!("xtask: {} is not tested: {reason}", wheel.title),
        }
    }
    // Its tests alone need it, and say that they were not run.
    if let Err(reason) = fetch(&NVJITLINK_13_0) {
        eprintln!("xtask: {} is not tested: {reason}", NVJITLINK_13_0.title);
    }
    command.env(TESTED_VARIABLE, env::join_paths(libraries)?);
    Ok(())
}

/// Fetches cuda-bindings, NumPy and Cython for this machine's Python and names all to `command`. Returns whether there is a
/// cuda-bindings for it; if not, prints the reason to standard error.
///
/// # Errors
/// There is no Python with pip, or something could not be downloaded.
pub(crate) fn name_python(command: &mut Command) -> Result<bool, Error> {
    let python = python()?;
    let bindings = match cuda_bindings(&python)? {
        Ok(wheel) => wheel,
        Err(reason) => {
            eprintln!("xtask: no program in Python is tested: {reason}");
            return Ok(false);
        }
    };
    let wheels = [Some(bindings), Some(CUDA_PATHFINDER), numpy_beside(&bindings), Some(CYTHON)];
    let folders = wheels.iter().flatten().map(fetch).collect::<Result<Vec<PathBuf>, Error>>()?;
    command.env(PYTHON_VARIABLE, python).env(PACKAGES_VARIABLE, env::join_paths(folders)?);
    Ok(true)
}

/// Names a toolkit with nvcc, for tests that compile programs of the runtime API, and returns whether there is one.
pub(crate) fn name_nvcc(command: &mut Command) -> bool {
    // nvcc compiles the host's part with it.
    let host = Command::new("g++").arg("--version").output();
    let host = host.map_err(|error| Error::from(format!("g++ is not installed ({error})")));
    match host.and_then(|_| toolkit()) {
        Ok(folder) => {
            command.env(NVCC_VARIABLE, folder);
            true
        }
        Err(error) => {
            eprintln!("xtask: no program of nvcc is tested: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvrtc_never_exceeds_the_driver() {
        assert_eq!(Major::of(None, Some(570)).nvrtc(), NVRTC_12_9);
        assert_eq!(Major::of(None, Some(580)).nvrtc(), NVRTC_13_0);
        assert_eq!(Major::of(None, None).nvrtc(), NVRTC_13_0);
    }

    #[test]
    fn what_is_asked_for_wins() {
        assert_eq!(Major::of(Some("12"), Some(580)), Major::Twelve);
        assert_eq!(Major::of(Some("13"), Some(570)), Major::Thirteen);
    }
}
