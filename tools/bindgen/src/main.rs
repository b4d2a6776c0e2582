//! `cargo xtask bindgen [--libraries] [--check]`: writes cuda-sys/src/bindings and cudart/src/bindings from the pinned CUDA
//! headers.
//!
//! `--check` writes nothing and fails if what is checked in differs from what would be written. The headers of cuBLAS,
//! cuFFT and cuRAND are in wheels of 667 MB: without `--libraries` their files are not written, and only the release that they
//! name is checked.

mod clang;
mod emit;
mod headers;
mod libraries;
mod merge;
mod runtime;
mod versions;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use headers::Headers;

/// The error of every step; main prints it.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let (mut check, mut all) = (false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--check" => check = true,
            "--libraries" => all = true,
            other => {
                eprintln!(
                    "unknown argument `{other}`; usage: cargo xtask bindgen [--libraries] [--check]"
                );
                return ExitCode::from(2);
            }
        }
    }
    match run(check, all) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: bool, all: bool) -> Result<(), Failure> {
    let headers = Headers::fetch()?;
    let folder = xtask::root().join("cuda-sys/src/bindings");
    let mut files = vec![("driver.rs", driver(&headers)?), ("nvrtc.rs", nvrtc(&headers)?)];
    files.extend(runtime::files(&headers)?);
    if all {
        files.extend(libraries::files(&headers)?);
    } else {
        libraries::are_of_the_pinned_release(&folder)?;
    }
    let mut stale = Vec::new();
    for (name, text) in &files {
        let path = folder.join(name);
        if !check {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            println!("wrote {}", path.display());
        } else if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            stale.push(path.display().to_string());
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!("not what the headers give: {}; run `cargo xtask bindgen`", stale.join(", "))
            .into())
    }
}

/// The text of driver.rs.
fn driver(headers: &Headers) -> Result<String, Failure> {
    let current = clang::parse(&headers.cuda, headers, clang::Mode::Current)?;
    let internal = clang::parse(&headers.cuda, headers, clang::Mode::Internal)?;
    let typedefs = clang::parse(&headers.typedefs, headers, clang::Mode::Internal)?;
    let merged = merge::merge(&current, &internal)?;
    merge::complete(&fs::read_to_string(&headers.cuda)?, &merged)?;
    let mut table = versions::assign(merged, &typedefs)?;
    let kept = table.slots.values().map(|slot| slot.function.clone()).collect();
    table.items = merge::prune(table.items, &current, kept);
    emit::driver(&table, headers)
}

/// The text of nvrtc.rs.
fn nvrtc(headers: &Headers) -> Result<String, Failure> {
    let parsed = clang::parse(&headers.nvrtc, headers, clang::Mode::Current)?;
    emit::nvrtc(&parsed, headers)
}
