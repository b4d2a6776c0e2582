//! `cargo xtask fuzz`: the fuzzers of `fuzz/fuzzers`, built with coverage and run, here or on another machine.
//!
//! Works like cargo-fuzz, but with any toolchain, not only nightly: the coverage that libFuzzer follows is stable in
//! LLVM, and only sanitizers are not. To add one: `RUSTFLAGS=-Zsanitizer=address cargo +nightly xtask fuzz`.

mod keep;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_support::corpus;
use xtask::{Error, root};

use crate::process;

/// Runs what is in a bundle.
const SCRIPT: &str = include_str!("../../fuzz-bundle/run.sh");

/// Counters at edges, and comparisons told to libFuzzer.
const COVERAGE: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // Its pass needs each function's counters in one place.
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// The action on the fuzzers.
#[derive(Debug)]
pub(crate) struct Request {
    /// How long all of them run together.
    pub(crate) minutes: u32,
    /// Processes at a time.
    pub(crate) jobs: u32,
    /// Which; all if there are none.
    pub(crate) targets: Vec<String>,
    /// Whether what is worth it of all that was found takes the place of what is checked in.
    pub(crate) keep: bool,
    /// A folder to put everything into instead of running it.
    pub(crate) bundle: Option<PathBuf>,
}

/// Builds the fuzzers, and packs or runs them: whether nothing was found.
///
/// # Errors
/// There is no C++ compiler, no such target, or a file could not be written.
pub(crate) fn fuzz(request: &Request) -> Result<bool, Error> {
    let names = names()?;
    if let Some(unknown) = request.targets.iter().find(|target| !names.contains(target)) {
        return Err(format!("there is no fuzzer {unknown}, only {}", names.join(", ")).into());
    }
    let programs = build()?;
    if let Some(folder) = &request.bundle {
        pack(&programs, &names, folder, true)?;
        println!("{}: ./run.sh SECONDS FOLDER", folder.display());
        return Ok(true);
    }
    let bundle = process::target().join("fuzz/bundle");
    pack(&programs, &names, &bundle, false)?;
    // Inputs that earlier runs have found are there, too.
    let out = process::target().join("fuzz/run");
    let mut run = process::program("bash");
    run.arg(bundle.join("run.sh")).arg((request.minutes * 60).to_string()).arg(&out);
    run.args(&request.targets).env("JOBS", request.jobs.to_string());
    let clean = process::succeeds(&mut run)?;
    println!("findings, corpora and logs: {}", out.display());
    if request.keep {
        let all = if request.targets.is_empty() { &names } else { &request.targets };
        for name in all {
            replace(name, &out)?;
        }
    }
    Ok(clean)
}

/// Puts the inputs that are worth it into the pack that is checked in. Files beside it stay.
fn replace(name: &str, out: &Path) -> Result<(), Error> {
    let control = fs::read_to_string(out.join("logs").join(format!("{name}.control")))?;
    let chosen = keep::selected(&control)?;
    let corpus = root().join("fuzz/corpus").join(name);
    let inputs = chosen.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
    Ok(corpus::write_pack(&corpus, &inputs)?)
}

fn fuzzers() -> PathBuf {
    root().join("fuzz/fuzzers")
}

/// The names of the fuzzers, in order.
fn names() -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(fuzzers().join("fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Builds the fuzzers, and returns the folder that they are in.
fn build() -> Result<PathBuf, Error> {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut ask = Command::new(compiler);
    let library = process::output(ask.arg("-print-file-name=libstdc++.a"))?;
    let folder = Path::new(library.trim()).parent().unwrap_or(Path::new(""));
    let target = process::target().join("fuzz");
    let host = host()?;

    let mut flags = env::var("RUSTFLAGS").unwrap_or_default();
    for flag in COVERAGE {
        flags.push(' ');
        flags.push_str(flag);
    }
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--locked", "--manifest-path", "fuzz/fuzzers/Cargo.toml"]);
    // With a target, what runs while building is built without coverage.
    cargo.args(["--target", &host, "--target-dir"]).arg(&target);
    // A machine that the programs are carried to may have no C++ library.
    if folder.is_dir() {
        flags.push_str(&format!(" -Lnative={}", folder.display()));
        cargo.env("CXXSTDLIB", "static=stdc++");
    }
    if !process::succeeds(cargo.env("RUSTFLAGS", flags))? {
        return Err("the fuzzers do not build".into());
    }
    Ok(target.join(host).join("release"))
}

/// The system that programs are built for unless something else is asked.
fn host() -> Result<String, Error> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = process::output(Command::new(rustc).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what it runs on".into())
}

/// Puts programs, inputs and the script into a folder.
fn pack(programs: &Path, names: &[String], bundle: &Path, strip: bool) -> Result<(), Error> {
    for part in ["bin", "corpus", "dictionaries"] {
        let part = bundle.join(part);
        if part.exists() {
            fs::remove_dir_all(part)?;
        }
    }
    fs::create_dir_all(bundle.join("bin"))?;
    for name in names {
        let copy = bundle.join("bin").join(name);
        fs::copy(programs.join(name), &copy)?;
        // Findings are inspected where the sources are.
        if strip && !process::succeeds(Command::new("strip").arg(&copy))? {
            return Err(format!("strip failed on {}", copy.display()).into());
        }
        let folder = bundle.join("corpus").join(name);
        fs::create_dir_all(&folder)?;
        for input in corpus::read(&root().join("fuzz/corpus").join(name))? {
            fs::write(folder.join(input.name), input.data)?;
        }
    }
    copy_folder(&fuzzers().join("dictionaries"), &bundle.join("dictionaries"))?;
    let script = bundle.join("run.sh");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Copies the files of a folder.
fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to)?;
    let failed = |error| format!("{}: {error}", from.display());
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry?.path();
        if let Some(name) = path.file_name() {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
