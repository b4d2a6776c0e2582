//! `cargo xtask gpu-bundle`: tests, examples and benchmarks as one archive, for a machine that has
//! a GPU and no Rust.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use xtask::wheels::{CCCL_13, CRT_13, NVRTC_13_0, RUNTIME_13_5, Wheel, fetch};
use xtask::{Error, root};

use crate::process;
use crate::test::INTEGRATION;

/// The most bytes that the archive may have.
const MOST_BYTES: u64 = 45 << 20;

/// The scripts that run what is in the archive.
const SCRIPTS: [(&str, &str); 2] = [
    ("run.sh", include_str!("../gpu-bundle/run.sh")),
    ("runtime.sh", include_str!("../gpu-bundle/runtime.sh")),
];

/// The runtime libraries: the package, what cargo builds, and the name that programs load.
const RUNTIMES: [[&str; 3]; 2] = [
    ["cudart-13", "libcudart_13.so", "libcudart.so.13"],
    ["cudart-12", "libcudart_12.so", "libcudart.so.12"],
];

/// A program of the bundle.
struct Program {
    package: &'static str,
    /// The package's folder, relative to the root.
    folder: &'static str,
    /// The folder within the bundle; `run.sh` takes every program of `examples` for an example.
    place: &'static str,
    /// Whether it is a test program rather than an ordinary one.
    test: bool,
}

/// Everything that is packed. A new example needs a line here and nothing else.
const PROGRAMS: [Program; 17] = [
    Program { package: INTEGRATION, folder: "tests/integration", place: "bin", test: true },
    Program { package: "bench", folder: "bench", place: "bin", test: false },
    Program { package: "saxpy", folder: "examples/saxpy", place: "examples", test: false },
    Program { package: "hashgrid", folder: "examples/hashgrid", place: "examples", test: false },
    Program { package: "dem", folder: "examples/dem", place: "examples", test: false },
    Program { package: "domains", folder: "examples/domains", place: "examples", test: false },
    Program { package: "mesh", folder: "examples/mesh", place: "examples", test: false },
    Program { package: "mpm88", folder: "examples/mpm88", place: "examples", test: false },
    Program { package: "network", folder: "examples/network", place: "examples", test: false },
    Program { package: "project", folder: "examples/project", place: "examples", test: false },
    Program { package: "volume", folder: "examples/volume", place: "examples", test: false },
    Program {
        package: "isosurface",
        folder: "examples/isosurface",
        place: "examples",
        test: false,
    },
    Program {
        package: "trajectory",
        folder: "examples/trajectory",
        place: "examples",
        test: false,
    },
    Program { package: "fit", folder: "examples/fit", place: "examples", test: false },
    Program { package: "poisson", folder: "examples/poisson", place: "examples", test: false },
    Program { package: "push", folder: "examples/push", place: "examples", test: false },
    Program {
        package: "rust-kernels",
        folder: "examples/rust-kernels",
        place: "examples",
        test: false,
    },
];

/// CUDA's headers, where the crate `nvrtc` searches around the packed library: a wheel, a folder of it, and its place in
/// the bundle. CUB and Thrust are left out, as no program of the bundle includes them.
const HEADERS: [(Wheel, &str, &str); 4] = [
    (RUNTIME_13_5, "nvidia/cu13/include", "include"),
    (CRT_13, "nvidia/cu13/include/crt", "include/crt"),
    (CCCL_13, "nvidia/cu13/include/cccl/cuda", "include/cccl/cuda"),
    (CCCL_13, "nvidia/cu13/include/cccl/nv", "include/cccl/nv"),
];

/// Builds and packs `target/gpu-bundle.tar.xz`, and leaves it unpacked beside it.
///
/// # Errors
/// A program does not build, NVRTC cannot be had, or the archive is too large.
pub(crate) fn bundle() -> Result<(), Error> {
    let target = root().join("target");
    let bundle = target.join("gpu-bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)?;
    }
    let strip = can_strip();
    for program in PROGRAMS {
        let built = build(&program, strip)?;
        let copy = bundle.join(program.place).join(program.package);
        copy_file(&built, &copy)?;
        if strip && !process::succeeds(Command::new("strip").arg(&copy))? {
            return Err(format!("strip failed on {}", copy.display()).into());
        }
        note_paths(&copy)?;
    }
    // With its builtins, and nothing else of the wheel: `*.alt.so.*` is a second build of the same.
    let library = fetch(&NVRTC_13_0)?.join("nvidia/cu13/lib");
    for name in ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0"] {
        copy_file(&library.join(name), &bundle.join("lib").join(name))?;
    }
    for (wheel, from, to) in HEADERS {
        copy_folder(&fetch(&wheel)?.join(from), &bundle.join(to))?;
    }
    for [package, built, name] in RUNTIMES {
        if !process::succeeds(process::cargo().args(["build", "--release", "--package", package]))?
        {
            return Err(format!("{package} does not build").into());
        }
        copy_file(&process::target().join("release").join(built), &bundle.join("lib").join(name))?;
    }
    copy_folder(&root().join("tests/integration/foreign/nvcc"), &bundle.join("nvcc"))?;
    copy_file(&root().join("cudart/tests/overhead.cu"), &bundle.join("overhead.cu"))?;
    for (name, text) in SCRIPTS {
        let script = bundle.join(name);
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    }

    let archive = target.join("gpu-bundle.tar.xz");
    let mut tar = Command::new("tar");
    // The window reaches from one program to the next, which have the same code and kernels in them.
    tar.env("XZ_OPT", "--x86 --lzma2=preset=6,dict=128MiB").args([
        "--create",
        "--xz",
        "--owner=0",
        "--group=0",
        "--file",
    ]);
    tar.arg(&archive).arg("--directory").arg(&target);
    if !process::succeeds(tar.arg("gpu-bundle"))? {
        return Err("tar failed".into());
    }
    report(&bundle, &archive)
}

/// Builds one program and returns its path.
fn build(program: &Program, strip: bool) -> Result<PathBuf, Error> {
    let mut cargo = process::cargo();
    if program.test {
        cargo.args(["test", "--no-run"]);
    } else {
        cargo.arg("build");
    }
    // The release profile does not optimise the benchmarks; see the workspace's `Cargo.toml`.
    let profile = if program.package == "bench" { "bench" } else { "release" };
    cargo.args(["--profile", profile, "--package", program.package]);
    cargo.arg("--message-format=json-render-diagnostics");
    if !strip {
        // A machine without binutils: the linker strips, at the price of a build of its own.
        cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    }
    let kind = if program.test { "test" } else { "bin" };
    let messages = process::output(&mut cargo)?;
    executable(&messages, program.folder, kind).ok_or_else(|| {
        let what = format!("package {} has no {kind} target to pack", program.package);
        what.into()
    })
}

/// Finds the executable of the package in `folder` among cargo's messages.
fn executable(messages: &str, folder: &str, kind: &str) -> Option<PathBuf> {
    let manifest = Path::new(folder).join("Cargo.toml");
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| {
            let kinds = message["target"]["kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|found| found == kind))
                && message["manifest_path"]
                    .as_str()
                    .is_some_and(|path| Path::new(path).ends_with(&manifest))
        })
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn can_strip() -> bool {
    Command::new("strip")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    let entries =
        fs::read_dir(from).map_err(|error| format!("cannot read {}: {error}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() { copy_folder(&path, &copy)? } else { copy_file(&path, &copy)? }
    }
    Ok(())
}

/// Warns if a program contains the path of this checkout: it may search there, where the other machine has nothing.
fn note_paths(program: &Path) -> Result<(), Error> {
    let root = root();
    let path = root.as_os_str().as_encoded_bytes();
    let bytes = fs::read(program)?;
    let found = bytes.windows(path.len()).position(|part| part == path);
    if let Some(at) = found {
        let end = bytes.len().min(at + 120);
        println!(
            "note: {} holds a path of this checkout: {}",
            program.display(),
            String::from_utf8_lossy(&bytes[at..end]).escape_debug()
        );
    }
    Ok(())
}

/// Prints what is in the bundle and how large it is.
fn report(bundle: &Path, archive: &Path) -> Result<(), Error> {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for folder in ["bin", "examples", "lib"] {
        for entry in fs::read_dir(bundle.join(folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let size = mebibytes(entry.metadata()?.len());
            println!("{size:8.2} MiB  {folder}/{}", name.to_string_lossy());
        }
    }
    let size = fs::metadata(archive)?.len();
    println!("{:8.2} MiB  {}", mebibytes(size), archive.display());
    if size > MOST_BYTES {
        return Err(format!(
            "the archive has {:.2} MiB, more than {:.0}",
            mebibytes(size),
            mebibytes(MOST_BYTES)
        )
        .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_by_package_and_kind() {
        let messages = r#"
not json
{"reason":"compiler-artifact","manifest_path":"/w/bench/Cargo.toml","target":{"kind":["lib"]},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/bench/Cargo.toml","target":{"kind":["bin"]},"executable":"/w/target/release/bench"}
{"reason":"compiler-artifact","manifest_path":"/w/tests/integration/Cargo.toml","target":{"kind":["test"]},"executable":"/w/target/release/deps/tests-1"}
{"reason":"build-finished","success":true}
"#;
        let find = |folder, kind| executable(messages, folder, kind);
        assert_eq!(find("bench", "bin"), Some("/w/target/release/bench".into()));
        assert_eq!(
            find("tests/integration", "test"),
            Some("/w/target/release/deps/tests-1".into())
        );
        assert_eq!(find("bench", "test"), None);
        assert_eq!(find("examples/bench", "bin"), None);
    }

    #[test]
    fn headers_are_where_the_compiler_looks_for_them() {
        let bundle = std::env::temp_dir().join(format!("bundle-headers-{}", std::process::id()));
        let wheel = bundle.join("wheel");
        let files = ["a.h", "cooperative_groups/details/info.h"];
        for file in files {
            fs::create_dir_all(wheel.join(file).parent().unwrap()).unwrap();
            fs::write(wheel.join(file), file).unwrap();
        }
        copy_folder(&wheel, &bundle.join("include")).unwrap();
        let copies = files.map(|file| fs::read_to_string(bundle.join("include").join(file)).ok());
        let missing = copy_folder(&bundle.join("none"), &bundle.join("include"));
        fs::remove_dir_all(&bundle).unwrap();
        assert_eq!(copies, files.map(|file| Some(file.to_owned())));
        assert!(missing.is_err());
        // `nvrtc/src/find/headers.rs`: `include` beside the library's folder, and `cccl` in it.
        assert!(HEADERS.iter().all(|(_, _, to)| to.starts_with("include")));
    }

    #[test]
    fn every_program_is_a_package_of_this_workspace() {
        for program in PROGRAMS {
            let manifest = root().join(program.folder).join("Cargo.toml");
            let text = fs::read_to_string(&manifest).unwrap_or_default();
            let name = format!("name = \"{}\"", program.package);
            assert!(text.contains(&name), "{}", manifest.display());
        }
    }
}
