//! `cargo xtask demo`: the project's main jobs, on a GPU if there is one, else on the software device.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use xtask::{Error, root};

use crate::process;
use crate::setup::{self, Major};

/// The exit code by which an example says that it found no device.
pub(crate) const NO_DEVICE: i32 = 3;

/// Names a driver's library in place of the system's.
const DRIVER_VARIABLE: &str = "CUDA_DRIVER";

/// Sets up, then runs each demo.
///
/// # Errors
/// The setup failed, or cargo could not be run.
pub(crate) fn demo() -> Result<bool, Error> {
    setup::setup(Major::choose(None))?;
    let mut run = process::cargo();
    run.args(["build", "--release"]);
    for package in [
        "saxpy",
        "hello",
        "torch-op",
        "hashgrid",
        "dem",
        "domains",
        "mesh",
        "project",
        "volume",
        "isosurface",
        "trajectory",
        "fit",
        "push",
    ] {
        run.args(["--package", package]);
    }
    if !process::succeeds(&mut run)? {
        return Ok(false);
    }
    println!("\nsaxpy: CUDA C++ compiled at run time, launched, checked");
    let program = release(&format!("saxpy{}", std::env::consts::EXE_SUFFIX));
    let status = process::status(&mut example(&program)?)?;
    let mut driver = None;
    if status.code() == Some(NO_DEVICE) {
        println!("cuInit finds no GPU here: on the software device, then");
        let software = software_device()?;
        let mut again = example(&program)?;
        if !process::succeeds(again.env(DRIVER_VARIABLE, &software))? {
            return Ok(false);
        }
        driver = Some(software);
    } else if !status.success() {
        return Ok(false);
    }
    println!("\nhello: the same from Python, through a shared library");
    let python = xtask::wheels::python()?;
    let mut hello = example(&python)?;
    hello.arg("examples/hello/hello.py").arg(release(&library("hello")));
    if let Some(driver) = &driver {
        hello.env(DRIVER_VARIABLE, driver);
    }
    if !process::succeeds(&mut hello)? {
        return Ok(false);
    }
    if !torch_op(&python, driver.is_none())? {
        return Ok(false);
    }
    for (name, what) in [
        (
            "hashgrid",
            "sums over the neighbours of points, by a kernel of one's own over a hash grid",
        ),
        ("dem", "grains that fall, slide and break, in pictures"),
        ("domains", "particles in slabs on all devices, against one device and brute force"),
        (
            "mesh",
            "a picture of a triangle mesh by rays, a slice of its signed distance, and how fast",
        ),
        ("project", "points moved onto the surface of a mesh, by a kernel of one's own"),
        ("volume", "a picture of a sparse volume by rays, and how fast it is sampled"),
        ("isosurface", "the surface in a sparse volume as a mesh, checked, saved and drawn"),
        ("trajectory", "how to throw a ball that bounces, by gradients through its flight"),
        ("fit", "a ball that becomes a bear, by gradients through a volume of distances"),
        ("push", "how fast grains were pushed, by gradients through the steps of dem"),
    ] {
        println!("\n{name}: {what}");
        let program = release(&format!("{name}{}", std::env::consts::EXE_SUFFIX));
        let mut example = example(&program)?;
        if name == "domains" {
            // Several devices in software, too.
            example.arg("--check").env("CUDA_EMU_DEVICES", "4");
        }
        if let Some(driver) = &driver {
            example.env(DRIVER_VARIABLE, driver);
        }
        if !process::succeeds(&mut example)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tests the operators for PyTorch, if there is a PyTorch that sees a GPU.
fn torch_op(python: &std::ffi::OsStr, gpu: bool) -> Result<bool, Error> {
    println!("\ntorch-op: operators of PyTorch with gradients, in a shared library");
    let mut finds = process::program(python);
    finds.args(["-c", "import sys, torch, numpy; sys.exit(not torch.cuda.is_available())"]);
    let finds = finds.stdout(Stdio::null()).stderr(Stdio::null());
    if !gpu || !finds.status().is_ok_and(|status| status.success()) {
        println!("built; there is no PyTorch with a GPU to run it: examples/torch-op/README.md");
        return Ok(true);
    }
    let mut test = example(python)?;
    test.arg("examples/torch-op/test_torch_op.py");
    process::succeeds(test.env("TORCH_OP_LIBRARY", release(&library("torch_op"))))
}

/// A program that gets the path of NVRTC.
fn example(program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
    let mut example = process::program(program);
    setup::name_nvrtc(example.current_dir(root()))?;
    Ok(example)
}

/// Builds the software device and says where it is.
fn software_device() -> Result<PathBuf, Error> {
    let mut build = process::cargo();
    if !process::succeeds(build.args(["build", "--release", "--package", "cuda-emu"]))? {
        return Err("the software device does not build".into());
    }
    Ok(release(&library("cuda_emu")))
}

fn library(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

fn release(name: &str) -> PathBuf {
    process::target().join("release").join(name)
}
