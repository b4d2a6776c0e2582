//! Attacks on what is loaded or deleted by name: the search for NVRTC, and the cache of kernels.

pub(crate) mod compile;
pub(crate) mod places;

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use cuda_safe::Module;
use cuda_safe::nvrtc::{Cache, Program};
use test_harness::{Failure, TestResult, ensure, limited_to};

use crate::attack::attacks;
use crate::lab::{Lab, constructor_library};

const SOURCE: &str = r#"extern "C" __global__ void f(int* x) { *x = 1; }"#;

/// A user that is not root and owns nothing here.
const STRANGER: u32 = 65_534;

/// A folder for its owner alone.
fn private(folder: &Path) -> TestResult {
    Ok(fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?)
}

/// Takes away all that names an NVRTC.
fn without_nvrtc(command: &mut Command) {
    for name in
        ["CUDA_NVRTC", "CUDA_SETUP_DIR", "CUDA_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"]
    {
        command.env_remove(name);
    }
}

/// Compiles a kernel in a folder with a `sysconfig.py`, where no NVRTC is found but by the search that asks Python.
///
/// - row: the current folder takes no part in a search
/// - targets: `Module::compile`
fn python_of_the_current_folder(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    if lab.step() == "compile" {
        // No NVRTC may be found: then it is an error, and no harm.
        let _ = Module::compile(&context, SOURCE);
        return Ok(());
    }
    for folder in ["cache", "none"] {
        private(Path::new(folder))?;
    }
    for module in ["sysconfig.py", "site.py", "os.py"] {
        fs::write(module, "open('ran', 'w').write(__name__)\n")?;
    }
    let mut again = lab.again("compile")?;
    without_nvrtc(&mut again);
    again.env("CUDA_SETUP_DIR", std::path::absolute("none")?);
    again.env("CUDA_KERNEL_CACHE", std::path::absolute("cache")?);
    let outcome = limited_to(again, 20)?;
    ensure!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    ensure!(!Path::new("ran").exists(), "Python ran a file of the current folder");
    Ok(())
}

/// Compiles a kernel below a folder whose `target/cuda` links to a library that others can replace.
///
/// - row: a library that a search finds is loaded only if
/// - row: the current folder takes no part in a search
/// - targets: `Module::compile`
fn setup_above_the_current_folder(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    if lab.step() == "compile" {
        let _ = Module::compile(&context, SOURCE);
        return Ok(());
    }
    let home = Path::new("home");
    let library = home.join("user/nvidia/cu13/lib");
    for folder in
        [&library, Path::new("shared/target"), Path::new("shared/victim"), Path::new("cache")]
    {
        private(folder)?;
    }
    let ran = std::path::absolute("ran")?;
    constructor_library(&library.join("libnvrtc.so.13"), &ran)?;
    fs::write(library.join("libnvrtc-builtins.so.13.0"), "")?;
    symlink(std::path::absolute(home)?, "shared/target/cuda")?;
    match lab.variant() {
        "writable" => {
            fs::set_permissions(home.join("user"), fs::Permissions::from_mode(0o777))?;
            fs::set_permissions("shared/target", fs::Permissions::from_mode(0o777))?;
        }
        variant => {
            let given = match variant {
                "link_of_a_stranger" => Path::new("shared/target/cuda"),
                _ => &library,
            };
            // Only root can act as two users; the first variant needs no root.
            if lchown(given, Some(STRANGER), None).is_err() {
                println!("not run: only root can give files away");
                return Ok(());
            }
        }
    }
    let mut again = lab.again("compile")?;
    without_nvrtc(&mut again);
    again.current_dir("shared/victim").env("CUDA_KERNEL_CACHE", std::path::absolute("cache")?);
    let outcome = limited_to(again, 20)?;
    ensure!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    ensure!(!ran.exists(), "a library that others can replace was loaded");
    Ok(())
}

/// Keeps compiled kernels in a folder that has old files of others.
///
/// - row: eviction deletes only what the cache has made
/// - targets: `Module::compile`, `Cache::at`, `Program::cache`
fn cache_in_a_folder_of_others(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    private(Path::new("project"))?;
    let names = ["Cargo.lock", "notes.tmp", "vm.image", "1-2.tmp.txt", "a.image", "00ff.image"];
    for name in names {
        let file = File::create(Path::new("project").join(name))?;
        if name == "vm.image" {
            // Sparse: it takes no room.
            file.set_len(2 << 30)?;
        }
        let old = SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
        file.set_times(FileTimes::new().set_modified(old))?;
    }
    let cache = Cache::at(std::path::absolute("project")?);
    Module::compile(&context, Program::new(SOURCE).cache(&cache))?;
    for name in names {
        ensure!(Path::new("project").join(name).exists(), "{name} was deleted");
    }
    Ok(())
}

/// Puts a FIFO in the place of each file of the cache, and compiles again.
///
/// - row: a FIFO, device or link in place of a file
/// - targets: `Cache::at`, `Module::compile`, `Program::cache`
fn fifo_in_the_cache(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    private(Path::new("cache"))?;
    let compile = || {
        let cache = Cache::at(std::path::absolute("cache")?);
        Ok::<_, Failure>(Module::compile(&context, Program::new(SOURCE).cache(&cache))?)
    };
    compile()?;
    let mut replaced = 0;
    for entry in fs::read_dir("cache")? {
        let path = entry?.path();
        fs::remove_file(&path)?;
        let made = Command::new("mkfifo").args(["-m", "600"]).arg(&path).status()?;
        ensure!(made.success(), "mkfifo: {made}");
        replaced += 1;
    }
    ensure!(replaced > 0, "the cache is empty");
    compile()?.kernel("f")?;
    Ok(())
}

attacks![
    "trust",
    right(python_of_the_current_folder),
    right(setup_above_the_current_folder).variants(&[
        "writable",
        "link_of_a_stranger",
        "owned_by_a_stranger"
    ]),
    right(cache_in_a_folder_of_others),
    right(fifo_in_the_cache).limit(15),
];
