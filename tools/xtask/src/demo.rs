//! `cargo xtask demo`: the project's main jobs, on a GPU if there is one, else on the CPU or on the software device.

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
const PROGRAMS: [(&str, &str); 13] = [
    ("hashgrid", "sums over the neighbours of points, by a kernel of its own over a hash grid"),
    ("project", "points moved onto the surface of a mesh, by a kernel of its own"),
    ("domains", "particles in slabs on all devices, compared with one device and with brute force"),
    ("trajectory", "how to throw a ball that bounces, by gradients through its flight"),
    ("mpm88", "how to throw a block of fluid, by gradients through a simulation"),
    ("network", "a network that learns two spirals, by cuBLAS and gradients in one graph"),
    ("mesh", "a picture of a triangle mesh by rays, and a slice of its signed distance"),
    ("volume", "a picture of a sparse volume by rays"),
    ("isosurface", "the surface in a sparse volume as a mesh, checked, saved and drawn"),
    ("push", "how fast grains were pushed, by gradients through the steps of dem"),
    ("dem", "grains that fall, slide and break, in pictures"),
    ("fit", "a ball that becomes a bear, by gradients through a volume of distances"),
    ("poisson", "Poisson's equation by Fourier transforms and a kernel, in one graph"),
];

/// Those that need no device: kernels in Rust without a tape.
const ON_CPU: [&str; 3] = ["hashgrid", "project", "dem"];

/// Where the examples run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Gpu,
    Cpu,
    /// On the software device, which is this library.
    Software(PathBuf),
}

/// Runs saxpy as soon as it is built, then the other examples: without a GPU those that run on the CPU, or with
/// `software` all of them, on the software device.
///
/// # Errors
/// The setup failed, or cargo could not be run.
pub(crate) fn demo(software: bool) -> Result<bool, Error> {
    let start = SystemTime::now();
    let place = if software {
        Place::Software(release(&library("cuda_emu")))
    } else if machine::has_gpu() {
        Place::Gpu
    } else {
        Place::Cpu
    };
    let mut demo = Demo { begin: Instant::now(), step: 0, place };
    println!("{}", demo.place.heading(demo.steps()));
    let finished = demo.run()?;
    if finished {
        let pictures = pictures(start);
        println!(
            "\nThe demo took {} s. Pictures:\n{}",
            demo.begin.elapsed().as_secs(),
            pictures.join(" ")
        );
        if demo.place == Place::Cpu {
            println!(
                "`cargo xtask demo --software` also runs the examples that need a device, on one in software."
            );
        }
    }
    Ok(finished)
}

impl Place {
    /// Returns whether an example runs here.
    fn has(&self, name: &str) -> bool {
        *self != Self::Cpu || ON_CPU.contains(&name)
    }

    /// Returns the programs that run here.
    fn programs(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<'_> {
        PROGRAMS.into_iter().filter(|(name, _)| self.has(name))
    }

    /// Returns the libraries that run here.
    fn libraries(&self) -> impl Iterator<Item = &'static str> + use<'_> {
        LIBRARIES.into_iter().filter(|name| self.has(name))
    }

    /// Returns the first lines of output.
    fn heading(&self, steps: usize) -> String {
        let (at, time) = match self {
            Self::Gpu => ("the GPU", "five minutes in a fresh clone, most of them to build"),
            Self::Cpu => (
                "the CPU: this machine has no GPU",
                "three minutes in a fresh clone, nearly all of them to build",
            ),
            Self::Software(_) => (
                "the software device",
                "five minutes in a fresh clone, most of them to build, and a minute once built",
            ),
        };
        format!("The demo runs {steps} examples on {at}.\nOn two cores it takes about {time}.")
    }
}

/// How far the demo is.
struct Demo {
    begin: Instant,
    step: usize,
    place: Place,
}

impl Demo {
    fn steps(&self) -> usize {
        1 + self.place.libraries().count() + self.place.programs().count()
    }

    /// Prints the heading of the next example.
    fn heading(&mut self, name: &str, what: &str) {
        self.step += 1;
        let seconds = self.begin.elapsed().as_secs();
        println!("\n[{}/{}, {seconds} s] {name}: {what}", self.step, self.steps());
    }

    fn run(&mut self) -> Result<bool, Error> {
        if !self.first()? {
            return Ok(false);
        }
        if self.place != Place::Cpu {
            setup::setup(Major::choose(None))?;
            if !self.build(&[], "the other examples")? {
                return Ok(false);
            }
        }
        if !self.run_libraries()? {
            return Ok(false);
        }
        let programs: Vec<_> = self.place.programs().collect();
        for (name, what) in programs {
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

    /// Builds and runs saxpy; on the CPU if the driver finds no GPU after all.
    fn first(&mut self) -> Result<bool, Error> {
        if self.place == Place::Cpu {
            // One call for all: cargo builds the other crates while one core compiles the largest.
            let mut targets = vec!["--example", "saxpy"];
            targets.extend(self.place.programs().flat_map(|(name, _)| ["--bin", name]));
            let built = self.build(&targets, "the examples")?;
            self.heading("saxpy", "a kernel in Rust, launched, checked");
            let saxpy = release("examples").join(executable("saxpy"));
            return Ok(built && process::succeeds(&mut self.example(saxpy)?)?);
        }
        let built = match self.place {
            // Its library is not a target of saxpy's.
            Place::Software(_) => self.build(&[], "the examples and the software device")?,
            _ => self.build(&["--bin", "saxpy"], "saxpy")?,
        };
        if !built {
            return Ok(false);
        }
        self.heading("saxpy", "CUDA C++ compiled at run time, launched, checked");
        let mut saxpy = self.example(program("saxpy"))?;
        let output = saxpy.output().map_err(|error| format!("cannot run saxpy: {error}"))?;
        if self.place == Place::Gpu && output.status.code() == Some(NO_DEVICE) {
            println!("The driver finds no GPU. The examples run on the CPU.");
            (self.place, self.step) = (Place::Cpu, 0);
            return self.first();
        }
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        Ok(output.status.success())
    }

    /// Calls the examples that are shared libraries, if there are any here.
    fn run_libraries(&mut self) -> Result<bool, Error> {
        if self.place.libraries().next().is_none() {
            return Ok(true);
        }
        let python = xtask::wheels::python()?;
        self.heading("hello", "the same from Python, through a shared library");
        let mut hello = self.example(&python)?;
        hello.arg("examples/hello/hello.py").arg(release(&library("hello")));
        Ok(process::succeeds(&mut hello)? && self.torch_op(&python)?)
    }

    /// Tests the operators for PyTorch, if there is a PyTorch that sees a GPU.
    fn torch_op(&mut self, python: &std::ffi::OsStr) -> Result<bool, Error> {
        self.heading("torch-op", "operators of PyTorch with gradients, in a shared library");
        let mut finds = process::program(python);
        finds.args(["-c", "import sys, torch, numpy; sys.exit(not torch.cuda.is_available())"]);
        let finds = finds.stdout(Stdio::null()).stderr(Stdio::null());
        if self.place != Place::Gpu || !finds.status().is_ok_and(|status| status.success()) {
            println!("built; to run it, PyTorch must see a GPU: examples/torch-op/README.md");
            return Ok(true);
        }
        let mut test = self.example(python)?;
        test.arg("examples/torch-op/test_torch_op.py");
        process::succeeds(test.env("TORCH_OP_LIBRARY", release(&library("torch_op"))))
    }

    /// Returns a program that finds the device, or none on the CPU, and NVRTC.
    fn example(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
        let mut example = process::program(program);
        example.current_dir(root());
        match &self.place {
            Place::Gpu => setup::name_nvrtc(&mut example)?,
            Place::Cpu => {
                // Another driver's device may be what the variable names.
                example.env_remove(DRIVER_VARIABLE);
            }
            Place::Software(driver) => {
                setup::name_nvrtc(example.env(DRIVER_VARIABLE, driver))?;
            }
        }
        Ok(example)
    }

    /// Builds targets of the examples. Every package is named each time, the software device if it is used: other packages
    /// would mean other features of the libraries, which cargo would compile twice.
    fn build(&self, targets: &[&str], what: &str) -> Result<bool, Error> {
        println!("Building {what} …");
        let mut cargo = process::cargo();
        cargo.args(["build", "--release", "--package", "saxpy"]).args(targets);
        for package in self.place.libraries().chain(self.place.programs().map(|(name, _)| name)) {
            cargo.args(["--package", package]);
        }
        if let Place::Software(_) = self.place {
            cargo.args(["--package", "cuda-emu"]);
        }
        process::succeeds(&mut cargo)
    }
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

fn executable(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

fn program(name: &str) -> PathBuf {
    release(&executable(name))
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
    fn examples_on_the_cpu_are_programs_and_need_no_device() {
        let names: Vec<_> = Place::Cpu.programs().map(|(name, _)| name).collect();
        assert_eq!(names, ON_CPU);
        assert_eq!(Place::Cpu.libraries().count(), 0);
        assert_eq!(Place::Gpu.programs().count(), PROGRAMS.len());
        for name in ON_CPU {
            let main = root().join("examples").join(name).join("src/main.rs");
            let main = std::fs::read_to_string(main).unwrap();
            assert!(!main.contains("example_common::context()"), "{name} ends without a device");
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
