//! The library, called from C and from Python, on the software device: once in the place of the
//! system's driver, once named by `CUDA_DRIVER`.
//!
//! Without NVRTC the tests are reported as ignored, with the reason in their names.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};

/// Given the libraries' folder, and the NVRTC: a setup folder above this program is not above theirs.
type Test = fn(&Path, &Path) -> Result<(), Box<dyn Error>>;

fn main() {
    // Named, so that cargo builds the software device beside this program.
    let _ = cuda_emu::resolve;
    let compiler = nvrtc::Nvrtc::find().ok().and_then(|found| found.path().map(Path::to_owned));
    let tests: [(&str, Test); 2] = [("from_c", from_c), ("from_python", from_python)];
    let trials = tests.map(|(name, test)| {
        let Some(compiler) = compiler.clone() else {
            let name = format!("{name} (not run: `cargo xtask setup` first)");
            return Trial::test(name, || Err("there is no NVRTC".into())).with_ignored_flag(true);
        };
        Trial::test(name, move || {
            let libraries = libraries().map_err(Failed::from)?;
            test(&libraries, &compiler).map_err(|error| Failed::from(error.to_string()))
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

/// The folder with `libhello.so` and `libcuda_emu.so`.
fn libraries() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().ok_or("the program is in no folder")?;
    for library in ["libhello.so", "libcuda_emu.so"] {
        if !folder.join(library).exists() {
            return Err(format!("there is no {library} in {}", folder.display()));
        }
    }
    Ok(folder.to_owned())
}

/// The package's own folder.
fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn from_c(libraries: &Path, nvrtc: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("hello");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror"])
        .arg(here().join("hello.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(libraries)
        .arg("-lhello")
        .status()?;
    if !compiled.success() {
        return Err("hello.c does not compile".into());
    }
    // As a program finds a driver that is installed.
    std::os::unix::fs::symlink(
        libraries.join("libcuda_emu.so"),
        folder.path().join("libcuda.so.1"),
    )?;
    let paths = std::env::join_paths([folder.path(), libraries])?;
    let mut program = Command::new(program);
    program.env("CUDA_NVRTC", nvrtc).env_remove("CUDA_DRIVER");
    expect(program.env("LD_LIBRARY_PATH", paths))
}

fn from_python(libraries: &Path, nvrtc: &Path) -> Result<(), Box<dyn Error>> {
    let mut python = Command::new("python3");
    python.arg(here().join("hello.py")).arg(libraries.join("libhello.so"));
    python.env("CUDA_NVRTC", nvrtc);
    expect(python.env("CUDA_DRIVER", libraries.join("libcuda_emu.so")))
}

/// Runs the caller: each thread of two blocks of four has printed its line.
fn expect(caller: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = caller.output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let wanted: Vec<String> = (0..2)
        .flat_map(|block| (0..4).map(move |thread| (block, thread)))
        .map(|(block, thread)| format!("hello from block {block}, thread {thread}"))
        .collect();
    if !output.status.success() || lines != wanted {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {text:?} {error}", output.status).into());
    }
    Ok(())
}
