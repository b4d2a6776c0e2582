//! The stage of an attack: a folder, a copy of this program in it, and the fake NVRTC.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cuda_safe_nvrtc::{Arch, Cache, Nvrtc, Program};

pub(crate) type Error = Box<dyn std::error::Error>;

const JOB: &str = "TRUST_TEST_JOB";
const CACHE: &str = "TRUST_TEST_CACHE";
const SOURCE: &str = "TRUST_TEST_SOURCE";

/// The other user, whom the user of the tests does not trust.
pub(crate) const MALLORY: u32 = 65534;

/// Held while a program is written or started: a child that another thread starts meanwhile would have the program
/// open for writing, and it could not be run.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longer than any child takes that does not hang.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn is_child() -> bool {
    std::env::var_os(JOB).is_some()
}

/// The child's job. `load` prints `<path or error>`, and `loaded` or `clean` by what the system has mapped.
/// `compile` prints what became of the image.
pub(crate) fn child() {
    let variable = |name| std::env::var_os(name).unwrap_or_default();
    if variable(JOB) == "compile" {
        let source = variable(SOURCE).to_string_lossy().into_owned();
        let cache = Cache::at(variable(CACHE));
        let program = Program::new(source).cache(&cache);
        match program.compile(Arch::compute(7, 5)) {
            Ok(image) => println!("{:?}", image.cache),
            Err(error) => println!("error: {error}"),
        }
        return;
    }
    if variable(JOB) == "cache" {
        let folder = Cache::user().folder().map(Path::to_owned);
        let _ = std::env::set_current_dir("/");
        println!("{:?} {}", folder, Cache::user().folder() == folder.as_deref());
        return;
    }
    let found = Nvrtc::load().map(|library| library.path().map(Path::to_owned));
    match found {
        Ok(path) => println!("{}", path.unwrap_or_default().display()),
        Err(error) => println!("error: {error}"),
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if maps.contains("libnvrtc-builtins") {
        println!("builtins loaded");
    }
    println!("{}", if maps.contains("libnvrtc.so") { "loaded" } else { "clean" });
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// The fake NVRTC, built once.
pub(crate) fn library() -> Result<&'static Path, Error> {
    static BUILT: OnceLock<Result<(tempfile::TempDir, PathBuf), String>> = OnceLock::new();
    let build = || -> Result<(tempfile::TempDir, PathBuf), Error> {
        let folder = tempfile::tempdir()?;
        let source = folder.path().join("fake.c");
        let library = folder.path().join("fake.so");
        fs::write(&source, include_str!("fake.c"))?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut cc = Command::new(compiler);
        let output = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok((folder, library))
    };
    match BUILT.get_or_init(|| build().map_err(|error| error.to_string())) {
        Ok((_, path)) => Ok(path),
        Err(error) => Err(error.clone().into()),
    }
}

/// The `python3` of this machine.
pub(crate) fn python() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|file| file.is_file())
}

/// Whether a program with no settings finds no NVRTC here.
pub(crate) fn is_bare() -> Result<bool, Error> {
    let stage = Stage::new()?;
    Ok(stage.run("load", &[])?.contains("no NVRTC"))
}

/// A folder for one attack, removed at its end, and this program in `bin` below it.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    user: Option<u32>,
}

impl Stage {
    pub(crate) fn new() -> Result<Self, Error> {
        let stage = Self { folder: tempfile::tempdir()?, user: None };
        fs::set_permissions(stage.path(""), fs::Permissions::from_mode(0o755))?;
        for folder in ["bin", "here", "home"] {
            stage.folder(folder)?;
        }
        let (program, copy) = (std::env::current_exe()?, stage.program());
        let lock = alone();
        fs::copy(program, &copy)?;
        drop(lock);
        fs::set_permissions(copy, fs::Permissions::from_mode(0o755))?;
        Ok(stage)
    }

    /// The same, its children run as this user.
    pub(crate) fn run_by(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    pub(crate) fn top(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.path("bin/attacked")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a folder and those above it, open for all to read.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let mut path = self.folder.path().to_owned();
        for part in Path::new(name) {
            path.push(part);
            if !path.exists() {
                fs::create_dir(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(path)
    }

    pub(crate) fn file(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf, Error> {
        let path = self.path(name);
        let lock = alone();
        fs::write(&path, text)?;
        drop(lock);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Puts the fake NVRTC and its builtins into a folder, and returns the library's path.
    pub(crate) fn nvrtc(&self, folder: &str) -> Result<PathBuf, Error> {
        let path = self.folder(folder)?.join("libnvrtc.so.13");
        // A library that is mapped must not be written to.
        if path.exists() {
            return Ok(path);
        }
        fs::copy(library()?, &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        self.file(&format!("{folder}/libnvrtc-builtins.so.13.0"), "", 0o644)?;
        Ok(path)
    }

    pub(crate) fn mode(&self, name: &str, mode: u32) -> Result<(), Error> {
        Ok(fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode))?)
    }

    /// Gives a tree away, links and all.
    pub(crate) fn give(&self, name: &str, user: u32) -> Result<(), Error> {
        give(&self.path(name), user)
    }

    /// Makes a FIFO that has no writer.
    pub(crate) fn fifo(path: &Path) -> Result<(), Error> {
        let mut mkfifo = Command::new("mkfifo");
        let lock = alone();
        let mut child = mkfifo.args(["-m", "600"]).arg(path).spawn()?;
        drop(lock);
        let made = child.wait()?;
        if made.success() { Ok(()) } else { Err(format!("mkfifo: {made}").into()) }
    }

    /// Runs this program's copy in `here` with these variables and no others of ours.
    pub(crate) fn run(&self, job: &str, variables: &[(&str, &OsStr)]) -> Result<String, Error> {
        self.run_program(&self.program(), job, variables)
    }

    pub(crate) fn run_program(
        &self,
        program: &Path,
        job: &str,
        variables: &[(&str, &OsStr)],
    ) -> Result<String, Error> {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/nonexistent")
            .env("HOME", self.path("home"))
            .env(JOB, job)
            .envs(variables.iter().copied())
            .current_dir(self.path("here"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let lock = alone();
        let mut child = command.spawn()?;
        drop(lock);
        let begin = Instant::now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                return Err(format!("{job} hangs").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("{job}: {}", output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Compiles `source` by the fake NVRTC with the cache in `cache` and returns the outcome for the image.
    pub(crate) fn compile(&self, source: &str) -> Result<String, Error> {
        let library = self.path("lib/libnvrtc.so.13");
        if !library.exists() {
            self.nvrtc("lib")?;
        }
        let cache = self.path("cache");
        let variables: [(&str, &OsStr); 3] = [
            ("CUDA_NVRTC", library.as_os_str()),
            (CACHE, cache.as_os_str()),
            (SOURCE, source.as_ref()),
        ];
        Ok(self.run("compile", &variables)?.trim_end().to_owned())
    }
}

fn give(path: &Path, user: u32) -> Result<(), Error> {
    std::os::unix::fs::lchown(path, Some(user), Some(user))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

/// Gives a folder's group away and lets the group write.
pub(crate) fn share(path: &Path, group: u32) -> Result<(), Error> {
    chown(path, None, Some(group))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o775))?)
}
