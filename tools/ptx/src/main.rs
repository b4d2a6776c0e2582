//! `cargo xtask ptx [--check]`: compiles the device/kernels/*.cu of each package that has kernels to its
//! folder ptx. A file that tests `defined(MODULE_NAME)` is compiled once for each such name. All of them may include the headers of all packages that have some.
//!
//! `--check` writes nothing and fails if what is checked in differs from what would be written. Either
//! way it fails if a kernel's floating-point results would depend on who compiles its PTX: see `exact`.

mod compile;
mod exact;

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use xtask::wheels::{NVRTC_12_0, fetch};

/// The error of every step; main prints it.
type Failure = Box<dyn Error + Send + Sync>;

/// The first argument of a child, which compiles one module: the library, the names of file and module and the
/// folders of headers follow.
const CHILD: &str = "--one";

/// The packages that have kernels.
const PACKAGES: [&str; 2] = ["geom-kernels", "tape"];

/// Below the root: where `#include <geom/...>` is looked for.
const HEADERS: [&str; 3] = ["geom-kernels/device", "tape/device", "cuda-safe/device"];

const USAGE: &str = "usage: cargo xtask ptx [--check]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [] => all(false),
        ["--check"] => all(true),
        [CHILD, library, file, name, headers @ ..] => {
            compile::one(library, file, name, headers).map(|text| print!("{text}"))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles every file, and writes or compares what came of it. Everything wrong is told at once.
fn all(check: bool) -> Result<(), Failure> {
    fetch(&NVRTC_12_0)?;
    let library = NVRTC_12_0.content_path().canonicalize()?;
    let mut wrong = Vec::new();
    for package in PACKAGES {
        wrong.extend(of_package(&library, &xtask::root().join(package), check)?);
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n       ").into()) }
}

/// As [`all`], for one package; what is wrong there.
fn of_package(library: &Path, package: &Path, check: bool) -> Result<Vec<String>, Failure> {
    let (sources, outputs) = (package.join("device/kernels"), package.join("ptx"));
    let mut names = Vec::new();
    let mut wrong = Vec::new();
    for file in stems(&sources, "cu")? {
        let source = read(&sources.join(format!("{file}.cu")))?;
        let exceptions = exact::exceptions(&source)?;
        for name in compile::modules(&file, &source) {
            let text = compiled(library, &package.join("device"), &file, &name)?;
            let offences = exact::offences(&text, &exceptions)
                .map_err(|error| format!("{name}.ptx: {error}"))?;
            wrong.extend(offences.into_iter().map(|offence| format!("{file}.cu: {offence}")));
            wrong.extend(put(&outputs.join(format!("{name}.ptx")), &text, check)?);
            names.push(name);
        }
    }
    for name in stems(&outputs, "ptx")?.iter().filter(|name| !names.contains(name)) {
        wrong.push(format!("{name}.ptx has no source: delete it"));
    }
    Ok(wrong)
}

/// Writes a text, or compares it; what is wrong.
fn put(path: &Path, text: &str, check: bool) -> Result<Option<String>, Failure> {
    let shown = path.display();
    if fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(None);
    }
    if check {
        return Ok(Some(format!("{shown} is not what its source gives: run `cargo xtask ptx`")));
    }
    fs::write(path, text).map_err(|error| format!("{shown}: {error}"))?;
    println!("wrote {shown}");
    Ok(None)
}

/// The names of a folder's files with this extension, without it, in order.
fn stems(folder: &Path, extension: &str) -> Result<Vec<String>, Failure> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path: PathBuf = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            let name = path.file_stem().and_then(|name| name.to_str());
            names.push(name.ok_or_else(|| format!("{}: no text", path.display()))?.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The PTX of one module, by a process of its own: NVRTC 12.0 numbers the calls of all programs that a
/// process compiles in one sequence, and its texts have these numbers in them.
fn compiled(library: &Path, device: &Path, file: &str, name: &str) -> Result<String, Failure> {
    let mut child = Command::new(env::current_exe()?);
    let headers = HEADERS.map(|folder| xtask::root().join(folder));
    child.arg(CHILD).arg(library).arg(file).arg(name).args(headers).current_dir(device);
    for variable in compile::VARIABLES {
        child.env_remove(variable);
    }
    let output = child.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(
            format!("{file}.cu, module {name} ({}):\n{}", output.status, said.trim()).into()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}
