//! `cargo xtask demo`: the project's main jobs, on a GPU if there is one, else on the software device.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use xtask::{Error, root};

use crate::machine;
use crate::process;
use crate::setup::{self, Major};

/// The exit code by which an example says that it found no device.
const NO_DEVICE: i32 = 3;

/// Names a driver's library in place of the system's.
const DRIVER_VARIABLE: &str = "CUDA_DRIVER";

/// The libraries and programs that follow the first result. Each name is a package's.
const LIBRARIES: [&str; 2] = ["hello", "torch-op"];
const PROGRAMS: [(&str, &str); 11] = [
    ("hashgrid", "sums over the neighbours of points, by a kernel of its own over a hash grid"),
    ("project", "points moved onto the surface of a mesh, by a kernel of its own"),
    ("domains", "particles in slabs on all devices, compared with one device and with brute force"),
    ("trajectory", "how to throw a ball that bounces, by gradients through its flight"),
    ("mpm88", "how to throw a block of fluid, by gradients through a simulation"),
    ("mesh", "a picture of a triangle mesh by rays, and a slice of its signed distance"),
    ("volume", "a picture of a sparse volume by rays"),
    ("isosurface", "the surface in a sparse volume as a mesh, checked, saved and drawn"),
    ("push", "how fast grains were pushed, by gradients through the steps of dem"),
    ("dem", "grains that fall, slide and break, in pictures"),
    ("fit", "a ball that becomes a bear, by gradients through a volume of distances"),
];

/// Runs saxpy as soon as it is built, then the other examples.
///
/// # Errors
/// The setup failed, or cargo could not be run.
pub(crate) fn demo() -> Result<bool, Error> {
    let start = SystemTime::now();
    let mut demo = Demo { begin: Instant::now(), step: 0, driver: None };
    let gpu = machine::has_gpu();
    if gpu {
        println!("The demo runs {} examples on the GPU.", demo.steps());
    } else {
        println!(
            "The demo runs {} examples on the software device: this machine has no GPU.",
            demo.steps()
        );
    }
    println!(
        "On two cores it takes about five minutes in a fresh clone, most of them to build, and a minute once built."
    );
    let finished = demo.run(gpu)?;
    if finished {
        let pictures = pictures(start);
        println!(
            "\nThe demo took {} s. Pictures:\n{}",
            demo.begin.elapsed().as_secs(),
            pictures.join(" ")
        );
    }
    Ok(finished)
}

/// How far the demo is.
struct Demo {
    begin: Instant,
    step: usize,
    /// The software device, if the examples use it.
    driver: Option<PathBuf>,
}

impl Demo {
    const fn steps(&self) -> usize {
        1 + LIBRARIES.len() + PROGRAMS.len()
    }

    /// Prints the heading of the next example.
    fn heading(&mut self, name: &str, what: &str) {
        self.step += 1;
        let seconds = self.begin.elapsed().as_secs();
        println!("\n[{}/{}, {seconds} s] {name}: {what}", self.step, self.steps());
    }

    fn run(&mut self, gpu: bool) -> Result<bool, Error> {
        if !build(&["--bin", "saxpy"], "saxpy")? {
            return Ok(false);
        }
        if !gpu {
            self.driver = Some(software_device()?);
        }
        self.heading("saxpy", "CUDA C++ compiled at run time, launched, checked");
        if !self.saxpy(gpu)? {
            return Ok(false);
        }
        setup::setup(Major::choose(None))?;
        if !build(&[], "the other examples, which takes minutes in a fresh clone")? {
            return Ok(false);
        }
        let python = xtask::wheels::python()?;
        self.heading("hello", "the same from Python, through a shared library");
        let mut hello = self.example(&python)?;
        hello.arg("examples/hello/hello.py").arg(release(&library("hello")));
        if !process::succeeds(&mut hello)? || !self.torch_op(&python)? {
            return Ok(false);
        }
        for (name, what) in PROGRAMS {
            self.heading(name, what);
            let mut example = self.example(program(name))?;
            if name == "domains" {
                // Several devices in software, too.
                example.arg("--check").env("CUDA_EMU_DEVICES", "4");
            }
            if !process::succeeds(&mut example)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs saxpy; on the software device if the driver finds no GPU after all.
    fn saxpy(&mut self, gpu: bool) -> Result<bool, Error> {
        let mut saxpy = self.example(program("saxpy"))?;
        if !gpu {
            return process::succeeds(&mut saxpy);
        }
        let output = saxpy.output().map_err(|error| format!("cannot run saxpy: {error}"))?;
        if output.status.code() == Some(NO_DEVICE) {
            println!("The driver finds no GPU. The examples run on the software device.");
            self.driver = Some(software_device()?);
            return process::succeeds(&mut self.example(program("saxpy"))?);
        }
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        Ok(output.status.success())
    }

    /// Tests the operators for PyTorch, if there is a PyTorch that sees a GPU.
    fn torch_op(&mut self, python: &std::ffi::OsStr) -> Result<bool, Error> {
        self.heading("torch-op", "operators of PyTorch with gradients, in a shared library");
        let mut finds = process::program(python);
        finds.args(["-c", "import sys, torch, numpy; sys.exit(not torch.cuda.is_available())"]);
        let finds = finds.stdout(Stdio::null()).stderr(Stdio::null());
        if self.driver.is_some() || !finds.status().is_ok_and(|status| status.success()) {
            println!("built; to run it, PyTorch must see a GPU: examples/torch-op/README.md");
            return Ok(true);
        }
        let mut test = self.example(python)?;
        test.arg("examples/torch-op/test_torch_op.py");
        process::succeeds(test.env("TORCH_OP_LIBRARY", release(&library("torch_op"))))
    }

    /// Returns a program that gets the path of NVRTC, and the software device if it is used.
    fn example(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
        let mut example = process::program(program);
        setup::name_nvrtc(example.current_dir(root()))?;
        if let Some(driver) = &self.driver {
            example.env(DRIVER_VARIABLE, driver);
        }
        Ok(example)
    }
}

/// Builds targets of the examples. Every package is named each time: other packages would mean other features of the
/// libraries, which cargo would compile twice.
fn build(targets: &[&str], what: &str) -> Result<bool, Error> {
    println!("Building {what} …");
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--package", "saxpy"]).args(targets);
    for package in LIBRARIES.into_iter().chain(PROGRAMS.map(|(name, _)| name)) {
        cargo.args(["--package", package]);
    }
    process::succeeds(&mut cargo)
}

/// Builds the software device and returns its path.
fn software_device() -> Result<PathBuf, Error> {
    println!("Building the software device, about a minute of one core …");
    let mut build = process::cargo();
    if !process::succeeds(build.args(["build", "--release", "--package", "cuda-emu"]))? {
        return Err("the software device does not build".into());
    }
    Ok(release(&library("cuda_emu")))
}

/// Returns the pictures that were written since `start`, relative to the root: of a series its last.
fn pictures(start: SystemTime) -> Vec<String> {
    PROGRAMS
        .iter()
        .flat_map(|(name, _)| pictures_of(&root().join("target").join(name), start))
        .collect()
}

fn pictures_of(folder: &Path, start: SystemTime) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_new = |path: &PathBuf| {
        let written = std::fs::metadata(path).and_then(|data| data.modified());
        path.extension().is_some_and(|end| end == "png") && written.is_ok_and(|at| at >= start)
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_new).collect();
    found.sort();
    let is_numbered = |path: &PathBuf| {
        path.file_stem().is_some_and(|stem| stem.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    let last = found.iter().rposition(is_numbered);
    let shown =
        found.iter().enumerate().filter(|(at, path)| !is_numbered(path) || Some(*at) == last);
    shown.map(|(_, path)| path.strip_prefix(root()).unwrap_or(path).display().to_string()).collect()
}

fn library(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

fn program(name: &str) -> PathBuf {
    release(&format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn release(name: &str) -> PathBuf {
    process::target().join("release").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_package() {
        for name in LIBRARIES.into_iter().chain(PROGRAMS.map(|(name, _)| name)) {
            assert!(root().join("examples").join(name).join("Cargo.toml").is_file(), "{name}");
        }
    }

    #[test]
    fn pictures_are_new_and_of_a_series_the_last() {
        let folder = std::env::temp_dir().join(format!("demo-pictures-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let begin = SystemTime::now() - std::time::Duration::from_secs(60);
        for name in ["0000.png", "0001.png", "a.png", "b.txt"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let found = pictures_of(&folder, begin);
        let later = pictures_of(&folder, SystemTime::now() + std::time::Duration::from_secs(60));
        std::fs::remove_dir_all(&folder).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| Path::new(path).file_name()).collect();
        assert_eq!(names, ["0001.png", "a.png"]);
        assert!(later.is_empty());
    }
}
