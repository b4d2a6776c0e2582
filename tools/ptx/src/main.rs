//! `cargo xtask ptx [--check | --print MODULE]`: compiles the device/kernels/*.cu of each package that has kernels to
//! its folder ptx, as files `NAME.ptx.gz`. A file that tests `defined(MODULE_NAME)` is compiled once for each such name.
//! All of them may include the headers of all packages that have some.
//!
//! `--check` writes nothing and fails if a text that is checked in differs from what would be written. Either
//! way it fails if a kernel's floating-point results would depend on who compiles its PTX: see `exact`.
//! `--print` prints the text of a module as it is checked in, and compiles nothing.

mod compile;
mod exact;
mod pack;

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rayon::prelude::*;
use xtask::wheels::{NVRTC_12_0, fetch};

/// The error of every step; main prints it.
type Failure = Box<dyn Error + Send + Sync>;

/// The first argument of a child, which compiles one module: the library, the names of file and module and the
/// folders of headers follow.
const CHILD: &str = "--one";

/// The packages that have kernels.
const PACKAGES: [&str; 3] = ["geom-kernels", "tape", "blas-emu"];

/// Below the root: where `#include <geom/...>` is looked for.
const HEADERS: [&str; 4] =
    ["geom-kernels/device", "tape/device", "cuda-safe/device", "blas-emu/device"];

/// Folders of packed PTX outside these packages: a text that benchmarks compare over time, compiled once.
const OTHERS: [&str; 1] = ["bench/src/emu"];

const USAGE: &str = "usage: cargo xtask ptx [--check | --print MODULE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [] => all(false),
        ["--check"] => all(true),
        ["--print", module] => pack::print(&folders(), module),
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

/// The folders of packed PTX.
fn folders() -> Vec<PathBuf> {
    let packages = PACKAGES.iter().map(|package| xtask::root().join(package).join("ptx"));
    packages.chain(OTHERS.iter().map(|other| xtask::root().join(other))).collect()
}

/// Compiles every file, and writes or compares the results. All errors are reported at once.
fn all(check: bool) -> Result<(), Failure> {
    fetch(&NVRTC_12_0)?;
    let library = NVRTC_12_0.content_path().canonicalize()?;
    let mut wrong = Vec::new();
    for package in PACKAGES {
        wrong.extend(of_package(&library, &xtask::root().join(package), check)?);
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n       ").into()) }
}

/// As [`all`], for one package; returns what is wrong there. As many modules are compiled at a time as there are cores, each
/// by a separate process.
fn of_package(library: &Path, package: &Path, check: bool) -> Result<Vec<String>, Failure> {
    let (sources, outputs) = (package.join("device/kernels"), package.join("ptx"));
    let mut modules = Vec::new();
    for file in names(&sources)?.iter().filter_map(|name| name.strip_suffix(".cu")) {
        let source = read(&sources.join(format!("{file}.cu")))?;
        let names = compile::modules(file, &source);
        modules.extend(names.into_iter().map(|name| (name, file.to_owned(), source.clone())));
    }
    let one = |(name, file, source): &(String, String, String)| {
        let text = compiled(library, &package.join("device"), file, name)?;
        let exceptions = exact::exceptions(source)?;
        let offences =
            exact::offences(&text, &exceptions).map_err(|error| format!("{name}: {error}"))?;
        let offences = offences.into_iter().map(|offence| format!("{file}.cu: {offence}"));
        let mut wrong: Vec<String> = offences.collect();
        wrong.extend(pack::put(&outputs, name, &text, check)?);
        Ok::<_, Failure>(wrong)
    };
    let each: Result<Vec<Vec<String>>, Failure> = modules.par_iter().map(one).collect();
    let mut wrong = each?.concat();
    for name in pack::modules(&outputs)? {
        if !modules.iter().any(|(module, ..)| *module == name) {
            let path = pack::path(&outputs, &name);
            wrong.push(format!("{} has no source: delete it", path.display()));
        }
    }
    Ok(wrong)
}

/// The names of a folder's files, in order.
fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.into_string();
        names.push(name.map_err(|name| format!("{}: {name:?} is not UTF-8", folder.display()))?);
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
