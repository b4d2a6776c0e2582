//! Attacks with folders, variables and files in the way of the search and of the cache.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use cuda_safe::Module;
use cuda_safe::nvrtc::{Arch, Cache, CacheStatus, Nvrtc, Program};
use test_harness::{Failure, TestResult, ensure, ensure_eq, limited_to};

use super::{SOURCE, STRANGER, private, without_nvrtc};
use crate::attack::attacks;
use crate::lab::{Lab, constructor_library};

const ARCH: Arch = Arch::compute(7, 5);

/// Opens caches in places where none can be: a file, a link, a folder of others, below what can't be written.
///
/// - row: a cache that others could change is not used
/// - targets: `Cache::at`, `Cache::sized`, `Program::compile`, `Cache::folder`
fn caches_where_none_can_be(lab: &Lab) -> TestResult {
    ensure!(lab.variant().is_empty());
    for folder in ["victim", "shared", "shared/mine", "grouped"] {
        private(Path::new(folder))?;
    }
    fs::write("file", "kept")?;
    symlink("victim", "link")?;
    symlink("nowhere", "dangling")?;
    fs::set_permissions("shared", Permissions::from_mode(0o777))?;
    fs::set_permissions("grouped", Permissions::from_mode(0o777))?;
    for (place, may_be_used) in [
        ("file", false),
        ("file/below", false),
        ("shared/mine", false),
        ("shared/new", false),
        ("grouped", false),
        ("/proc/self/cache", false),
        ("/dev/null", false),
        ("", false),
        ("link", true),
        ("dangling", true),
        ("a\nb/ü/..", true),
    ] {
        let image = Program::new(SOURCE).cache(&Cache::at(place)).compile(ARCH)?;
        ensure!(image.kernel("f").is_some(), "{place}");
        let kept = image.cache == CacheStatus::Stored || image.cache == CacheStatus::Hit;
        ensure!(may_be_used || !kept, "{place:?} was used: {:?}", image.cache);
    }
    for folder in ["shared", "shared/mine", "grouped"] {
        let inside = fs::read_dir(folder)?.count();
        ensure_eq!(inside, usize::from(folder == "shared"), "{folder}");
    }
    ensure_eq!(fs::read("file")?, b"kept");
    // No room at all.
    for most in [0, 1, 100] {
        private(Path::new("small"))?;
        let cache = Cache::sized(std::path::absolute("small")?, most);
        for _ in 0..3 {
            ensure!(Program::new(SOURCE).cache(&cache).compile(ARCH)?.kernel("f").is_some());
        }
        let bytes: u64 = fs::read_dir("small")?
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "image"))
            .filter_map(|entry| entry.metadata().ok())
            .map(|data| data.len())
            .sum();
        ensure!(bytes <= most.max(64 << 10), "{bytes} bytes of {most}");
    }
    Ok(())
}

/// Gives files, folders and links that are not the cache's the exact names of its own, old enough to go.
///
/// - row: eviction deletes only what the cache has made
/// - targets: `Cache::sized`, `Program::cache`, `Program::compile`, `Cache::stats`
fn names_of_the_cache_for_other_things(lab: &Lab) -> TestResult {
    ensure!(lab.step().is_empty());
    for folder in ["cache", "victim"] {
        private(Path::new(folder))?;
    }
    fs::write("victim/image", vec![1u8; 100_000])?;
    let hex = |digit: char| digit.to_string().repeat(64);
    let old = SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
    let inside = Path::new("cache");
    private(&inside.join(format!("{}.image", hex('a'))))?;
    fs::write(inside.join(format!("{}.image/file", hex('a'))), "kept")?;
    symlink("../victim/image", inside.join(format!("{}.image", hex('b'))))?;
    symlink("../victim", inside.join(format!("{}.lock", hex('c'))))?;
    private(&inside.join(format!("{}.1-2.tmp", hex('d'))))?;
    let names = [
        format!("{}.image", hex('A')),
        format!("{}.image", "a".repeat(63)),
        format!("{}.image", "a".repeat(65)),
        format!("{}.image.bak", hex('e')),
        format!(" {}.image", hex('e')),
        format!("{}.tmp", hex('e')),
        format!("{}.1-x.tmp", hex('e')),
        format!("{}.-1-2.tmp", hex('e')),
        format!("{}.1-2.tmp~", hex('e')),
        "image".to_owned(),
        ".lock".to_owned(),
    ];
    for name in &names {
        let file = File::create(inside.join(name))?;
        file.set_len(1 << 30)?;
        file.set_times(FileTimes::new().set_modified(old).set_accessed(old))?;
    }
    let cache = Cache::sized(std::path::absolute("cache")?, 20_000);
    for number in 0..12 {
        let source = format!("extern \"C\" __global__ void f(int* x) {{ *x = {number}; }}");
        let image = Program::new(source).cache(&cache).compile(ARCH)?;
        ensure!(image.kernel("f").is_some());
    }
    for name in &names {
        ensure!(inside.join(name).symlink_metadata().is_ok(), "{name:?} was deleted");
    }
    ensure_eq!(fs::read(inside.join(format!("{}.image/file", hex('a'))))?, b"kept");
    ensure_eq!(fs::metadata("victim/image")?.len(), 100_000);
    for (name, kind) in [("image", 'b'), ("lock", 'c'), ("1-2.tmp", 'd')] {
        let path = inside.join(format!("{}.{name}", hex(kind)));
        ensure!(path.symlink_metadata().is_ok(), "{} was deleted", path.display());
    }
    ensure!(cache.stats().misses >= 12, "{:?}", cache.stats());
    Ok(())
}

/// Sets the variables of the search and of the cache to what is empty, relative, a FIFO, a folder, or not there.
///
/// - row: the current folder takes no part in a search
/// - row: a FIFO, device or link in place of a file
/// - targets: `Module::compile`, `Cache::user`
fn variables_that_name_nonsense(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    if lab.step() == "compile" {
        // What can't be found is an error; what is found works.
        if let Ok(module) = Module::compile(&context, SOURCE) {
            module.kernel("f")?;
        }
        if let Some(folder) = Cache::user().folder() {
            ensure!(folder.is_absolute(), "{}", folder.display());
        }
        return Ok(());
    }
    for folder in ["cache", "work", "lib", "home", "work/cuda/lib64"] {
        private(Path::new(folder))?;
    }
    let ran = std::path::absolute("ran")?;
    // What is found in the current folder would run.
    for name in ["work/libnvrtc.so.13", "work/libnvrtc.so.12", "work/cuda/lib64/libnvrtc.so.13"] {
        if Path::new("lib/built").exists() {
            fs::copy("lib/built", name)?;
        } else {
            constructor_library(Path::new("lib/built"), &ran)?;
            fs::copy("lib/built", name)?;
        }
    }
    let mut again = lab.again("compile")?;
    again.current_dir("work");
    again.env("CUDA_KERNEL_CACHE", std::path::absolute("cache")?);
    match lab.variant() {
        "empty" => {
            without_nvrtc(&mut again);
            for name in ["CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"]
            {
                again.env(name, "");
            }
            again.env("CUDA_SETUP_DIR", std::path::absolute("home")?);
        }
        "relative" => {
            without_nvrtc(&mut again);
            again.env("CUDA_PATH", "cuda").env("CUDA_HOME", "./cuda");
            again.env("LD_LIBRARY_PATH", ":.:cuda/lib64:");
            again.env("CUDA_SETUP_DIR", std::path::absolute("home")?);
        }
        "fifo" => {
            let fifo = std::path::absolute("lib/libnvrtc.so.13")?;
            let made = Command::new("mkfifo").arg(&fifo).status()?;
            ensure!(made.success(), "mkfifo: {made}");
            again.env("CUDA_NVRTC", &fifo).env("LD_LIBRARY_PATH", std::path::absolute("lib")?);
        }
        "folder_as_library" => {
            private(Path::new("lib/libnvrtc.so.13"))?;
            again.env("CUDA_NVRTC", std::path::absolute("lib")?);
        }
        "missing" => {
            again.env("CUDA_NVRTC", "/no/such/library");
        }
        "cache_relative" => {
            again.env("CUDA_KERNEL_CACHE", "kernels");
        }
        _ => {
            again
                .env_remove("CUDA_KERNEL_CACHE")
                .env_remove("HOME")
                .env("XDG_CACHE_HOME", "relative");
        }
    }
    let outcome = limited_to(again, 25)?;
    ensure!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    ensure!(!ran.exists(), "a library of the current folder was loaded");
    Ok(())
}

/// Compiles in a folder that is deleted, and with an include folder and a name that are not UTF-8.
///
/// - row: the current folder takes no part in a search
/// - targets: `Program::include_path`, `Program::compile`, `Nvrtc::version`, `Nvrtc::path`
fn folders_that_are_gone(lab: &Lab) -> TestResult {
    use std::os::unix::ffi::OsStrExt;

    ensure!(lab.step().is_empty());
    let home = std::env::current_dir()?;
    let odd = home.join(std::ffi::OsStr::from_bytes(b"odd\xff\xfe"));
    private(&odd)?;
    fs::write(odd.join("value.h"), "#define VALUE 42\n")?;
    let source = "#include \"value.h\"\nextern \"C\" __global__ void f(int* x) { *x = VALUE; }\n";
    let program = Program::new(source).cache(&Cache::at(&odd)).include_path(&odd);
    match program.compile(ARCH) {
        Ok(image) => ensure!(image.ptx.as_deref().is_some_and(|ptx| ptx.contains(" 42;"))),
        Err(error) => ensure!(!error.to_string().is_empty()),
    }
    private(&home.join("gone"))?;
    std::env::set_current_dir("gone")?;
    fs::remove_dir(home.join("gone"))?;
    let gone = Program::new(SOURCE).cache(&Cache::at("relative"));
    let result = gone.compile(ARCH);
    let version = Nvrtc::find().and_then(|nvrtc| nvrtc.version());
    std::env::set_current_dir(&home)?;
    ensure!(result?.kernel("f").is_some());
    ensure!(version?.major >= 12);
    ensure!(!home.join("relative").exists(), "the cache moved to another folder");
    ensure!(Nvrtc::find()?.path().is_none_or(Path::is_absolute));
    Ok(())
}

/// Lets `PATH` find a `python3` first that another user could have put there, where no NVRTC is found but by it.
///
/// - row: no program is started that another user could have replaced
/// - targets: `Module::compile`, `Nvrtc::find`, `Nvrtc::load`, `Nvrtc::find_for_driver`, `Nvrtc::load_for_driver`
fn a_python_of_others(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    if lab.step() == "compile" {
        // Nothing need be found.
        let found = Module::compile(&context, SOURCE).is_ok();
        ensure_eq!(Nvrtc::find().is_ok(), Nvrtc::load().is_ok());
        for version in [i32::MIN, -1, 0, 1, 13_000, i32::MAX] {
            let there = Nvrtc::find_for_driver(version).is_ok();
            ensure!(!there || found || version != 13_000);
            ensure!(there || Nvrtc::load_for_driver(version).is_err());
        }
        return Ok(());
    }
    for folder in ["bin", "none", "cache", "own"] {
        private(Path::new(folder))?;
    }
    let (ran, python) = (std::path::absolute("ran")?, Path::new("bin/python3"));
    let script = format!("#!/bin/sh\necho ran > {}\n", ran.display());
    fs::write("own/script", &script)?;
    fs::set_permissions("own/script", Permissions::from_mode(0o755))?;
    fs::copy("own/script", python)?;
    match lab.variant() {
        "folder" => fs::set_permissions("bin", Permissions::from_mode(0o777))?,
        "file" => fs::set_permissions(python, Permissions::from_mode(0o777))?,
        "link" => {
            fs::remove_file(python)?;
            fs::set_permissions("own/script", Permissions::from_mode(0o777))?;
            symlink(std::path::absolute("own/script")?, python)?;
        }
        "fifo" => {
            fs::remove_file(python)?;
            let made = Command::new("mkfifo").args(["-m", "755"]).arg(python).status()?;
            ensure!(made.success(), "mkfifo: {made}");
        }
        _ => {
            // Only root can act as two users; the other variants need no root.
            if lchown(python, Some(STRANGER), None).is_err() {
                println!("not run: only root can give files away");
                return Ok(());
            }
        }
    }
    let mut again = lab.again("compile")?;
    without_nvrtc(&mut again);
    again.env("CUDA_SETUP_DIR", std::path::absolute("none")?).env_remove("LD_LIBRARY_PATH");
    again.env("CUDA_KERNEL_CACHE", std::path::absolute("cache")?);
    again.env("PATH", format!("{}:/usr/bin:/bin", std::path::absolute("bin")?.display()));
    let outcome = limited_to(again, 25)?;
    ensure!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    ensure!(!ran.exists(), "a program of others was started");
    Ok(())
}

/// Puts builtins and headers that others could have written around an NVRTC that a variable names.
///
/// - row: builtins and headers come from somebody who could have replaced the library
/// - targets: `Nvrtc::find`, `Nvrtc::include_paths`, `Nvrtc::path`, `Program::compile`
fn headers_of_others_around_nvrtc(lab: &Lab) -> TestResult {
    if lab.step() == "compile" {
        let nvrtc = Nvrtc::find()?;
        let home = std::path::absolute("home")?;
        ensure!(nvrtc.path().is_some_and(|path| path.is_absolute()));
        for path in nvrtc.include_paths() {
            ensure!(!path.starts_with(&home), "{} is searched", path.display());
        }
        let source = format!("#include <cuda_fp16.h>\n{SOURCE}");
        let compiled = Program::new(source).cache(&Cache::off()).compile(ARCH);
        if let Err(error) = compiled {
            ensure!(!error.to_string().contains("stolen"), "{error}");
        }
        return Ok(());
    }
    let Some(library) = Nvrtc::find()?.path().map(fs::canonicalize).transpose()? else {
        return Err(Failure::new("NVRTC has no path"));
    };
    let Some(name) = library.file_name() else { return Err(Failure::new("no name")) };
    for folder in ["home", "home/lib64", "home/include"] {
        private(Path::new(folder))?;
    }
    let header = Path::new("home/include/cuda_fp16.h");
    symlink(&library, Path::new("home/lib64").join(name))?;
    for name in ["cuda.h", "cuda_fp16.h", "cuda_runtime.h", "vector_types.h"] {
        let path = header.with_file_name(name);
        fs::write(&path, "#error stolen\n")?;
        if lab.variant() == "writable" {
            fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        } else if lchown(&path, Some(STRANGER), None).is_err() {
            println!("not run: only root can give files away");
            return Ok(());
        }
    }
    let mut again = lab.again("compile")?;
    again.env("CUDA_NVRTC", std::path::absolute(Path::new("home/lib64").join(name))?);
    let outcome = limited_to(again, 25)?;
    ensure!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    Ok(())
}

attacks![
    "trust",
    right(caches_where_none_can_be),
    right(names_of_the_cache_for_other_things),
    right(variables_that_name_nonsense).variants(&[
        "empty",
        "relative",
        "fifo",
        "folder_as_library",
        "missing",
        "cache_relative",
        "home"
    ]),
    right(folders_that_are_gone),
    right(a_python_of_others).variants(&["folder", "file", "stranger", "link", "fifo"]),
    right(headers_of_others_around_nvrtc).variants(&["writable", "stranger"]),
];
