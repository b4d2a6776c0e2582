//! Where a foreign program runs: with the software device under the driver's names, and kernels to launch.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use nvrtc::{Arch, Options};
use tempfile::TempDir;

use super::Call;
use super::calls::Calls;
use test_harness::programs::Program;
use test_harness::{Compiler, Failure, Outcome, compilers, device_library, limited};

const KERNELS: Program = Program {
    name: "kernels.cu",
    source: include_str!("../../foreign/kernels.cu"),
    expressions: &[],
};

/// The last line of a program that has found nothing wrong.
const RIGHT: &str = "all right";

/// The names that programs look for.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// What is built beside this program, and the names that stand for it: of linkers and of programs that run.
pub(super) const LIBRARIES: [[&str; 3]; 4] = [
    ["libcublas_13.so", "libcublas.so", "libcublas.so.13"],
    ["libcublaslt_13.so", "libcublasLt.so", "libcublasLt.so.13"],
    ["libcurand_10.so", "libcurand.so", "libcurand.so.10"],
    ["libcudart_13.so", "libcudart.so", "libcudart.so.13"],
];

/// Where the dynamic linker looks first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

pub(super) struct Stage {
    folder: TempDir,
    compiler: Compiler,
    library_path: OsString,
}

/// A program that has run.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    pub(super) calls: Calls,
}

impl Stage {
    pub(super) fn new() -> Result<Self, Failure> {
        let library = device_library()?;
        let folder = tempfile::tempdir()?;
        for name in NAMES {
            std::os::unix::fs::symlink(&library, folder.path().join(name))?;
        }
        // The programs are for CUDA 13, and look for the NVRTC of that version.
        let mut compilers = compilers().map_err(Failure::new)?.into_iter();
        let compiler = compilers
            .find(|compiler| compiler.version.major == 13)
            .ok_or_else(|| Failure::new("there is no NVRTC 13"))?;
        let nvrtc = compiler.path()?;
        let nvrtc = if nvrtc.is_dir() { Some(nvrtc) } else { nvrtc.parent() };
        let inherited = std::env::var_os(LIBRARY_PATH).unwrap_or_default();
        let folders = [Some(folder.path()), nvrtc].into_iter().flatten().map(Path::to_path_buf);
        let library_path = std::env::join_paths(folders.chain(std::env::split_paths(&inherited)))?;
        Ok(Self { folder, compiler, library_path })
    }

    /// A stage with `blas-emu` under the names of NVIDIA's libraries, and this project's runtime.
    pub(super) fn with_libraries() -> Result<Self, Failure> {
        let stage = Self::new()?;
        for [file, names @ ..] in LIBRARIES {
            for name in names {
                std::os::unix::fs::symlink(library(file)?, stage.folder().join(name))?;
            }
        }
        Ok(stage)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of NVRTC, for the variable by which this project's libraries find it.
    pub(super) fn nvrtc(&self) -> Result<String, Failure> {
        let path = self.compiler.path()?;
        let name = path.to_str().ok_or_else(|| Failure::new("the path of NVRTC is no UTF-8"))?;
        Ok(name.to_owned())
    }

    /// The folder whose `include` has the headers of CUDA, as a toolkit's folder has.
    pub(super) fn toolkit(&self) -> Result<PathBuf, Failure> {
        let mut includes = self.compiler.library.include_paths().into_iter();
        let include = includes.find(|folder| folder.join("cuda_fp16.h").exists());
        let toolkit = include.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        toolkit.ok_or_else(|| Failure::new("there is no cuda_fp16.h beside NVRTC"))
    }

    /// The PTX of the kernels that all programs launch; one of them is wrong if `planted` is not 0.
    pub(super) fn kernels(&self, planted: usize) -> Result<PathBuf, Failure> {
        let options = Options::new().define("PLANTED", planted);
        let image = self.compiler.compile(&KERNELS, Arch::compute(7, 5), options)?;
        let path = self.folder().join(format!("kernels{planted}.ptx"));
        std::fs::write(&path, image.ptx.ok_or_else(|| Failure::new("no PTX"))?)?;
        Ok(path)
    }

    /// Runs a program with its kernels and some variables of the software device's.
    pub(super) fn run(
        &self,
        call: &Call,
        kernels: &Path,
        variables: &[(&str, &str)],
    ) -> Result<Ran, Failure> {
        let mut command = call();
        command.arg(kernels);
        self.run_command(command, variables)
    }

    /// Runs a command that is given the software device for a driver.
    pub(super) fn run_command(
        &self,
        mut command: Command,
        variables: &[(&str, &str)],
    ) -> Result<Ran, Failure> {
        // What the device is like is for the test to say.
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("CUDA_EMU_")) {
            command.env_remove(name);
        }
        let log = self.folder().join("calls.log");
        command.env(LIBRARY_PATH, &self.library_path).env("CUDA_EMU_LOG", &log);
        command.envs(variables.iter().copied());
        let outcome = limited(command)?;
        // A program that never got to the device has written none.
        let mut calls = Calls::default();
        if log.exists() {
            calls = Calls::read(&log)?;
            std::fs::remove_file(&log)?;
        }
        Ok(Ran { outcome, calls })
    }
}

/// Returns a library that cargo builds beside this program, because the tests depend on its package.
pub(super) fn library(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name(name);
    match path.exists() {
        true => Ok(path),
        false => Err(Failure::new(format!("there is no {}", path.display()))),
    }
}

impl Ran {
    fn all_right(&self) -> bool {
        self.outcome.status.success() && self.outcome.stdout.lines().last() == Some(RIGHT)
    }

    fn told(&self) -> String {
        let Outcome { status, stdout, stderr } = &self.outcome;
        format!("{status}\n{stdout}{stderr}")
    }

    /// Fails unless the program has come to its end and found nothing wrong.
    pub(super) fn passed(self) -> Result<Self, Failure> {
        if self.all_right() { Ok(self) } else { Err(Failure::new(self.told())) }
    }

    /// What the program says that is wrong. Fails if it says nothing, or is not alive to say it.
    pub(super) fn failed(self) -> Result<String, Failure> {
        let claims = self.outcome.stdout.lines().any(|line| line == RIGHT);
        match self.outcome.status.code() {
            Some(code) if code != 0 && !claims => Ok(self.told()),
            _ => Err(Failure::new(format!("the mistake was not noticed: {}", self.told()))),
        }
    }
}
