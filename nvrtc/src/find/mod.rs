//! Where an NVRTC may be, in order. Nothing is loaded here, so that a program whose images are cached never pays for
//! the library.
//!
//! Paths from variables are trusted; all others must pass [`trust`](crate::trust).

pub(crate) mod headers;
#[cfg(feature = "libraries")]
pub mod libraries;
pub(crate) mod library;
pub(crate) mod nccl;
mod python;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::NvrtcVersion;
use crate::error::{Attempt, NotFound};
use crate::trust::{self, Rule};

/// A library file, not yet loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// The version in its name and its builtins'; the library's own version overrides it.
    version: Option<NvrtcVersion>,
}

/// The driver that the library must suit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    /// The driver's CUDA version: NVRTC's major version must not exceed its.
    pub(crate) driver: Option<NvrtcVersion>,
}

impl Bound {
    /// Returns the bound of a driver, by what `cuDriverGetVersion` returns.
    pub(crate) fn of_driver(cuda_version: i32) -> Self {
        let number = u32::try_from(cuda_version).unwrap_or(0);
        Self { driver: Some(NvrtcVersion { major: number / 1000, minor: number % 1000 / 10 }) }
    }

    /// Returns the suitable libraries of one place, best last. PTX loads only if the whole version does not exceed the
    /// driver's, so this takes precedence over a newer version.
    fn rank(self, found: &Found) -> Option<(bool, NvrtcVersion)> {
        let version = found.version.unwrap_or(NvrtcVersion { major: 0, minor: 0 });
        match self.driver {
            Some(driver) if version.major > driver.major => None,
            Some(driver) => Some((version <= driver, version)),
            None => Some((true, version)),
        }
    }
}

/// A folder to look into.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether the user has named it, so that it is not checked whose it is.
    named: bool,
}

impl Folder {
    pub(crate) fn named(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), named: true }
    }

    pub(crate) fn searched(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), named: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns another folder that was named or searched as this one.
    pub(crate) fn with_path(&self, path: PathBuf) -> Self {
        Self { path, named: self.named }
    }

    /// Returns the path of a regular file in the folder; of a searched folder only a file that others cannot replace.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.checked()?.join(name);
        let real = match self.named {
            true => path,
            false => Rule::SEARCHED.resolve(&path).map_err(|refusal| refusal.to_string())?,
        };
        if real.is_file() { Ok(real) } else { Err("not a regular file".to_owned()) }
    }

    /// Returns the folder by its real path, or why it is not used.
    fn checked(&self) -> Result<PathBuf, String> {
        // A named path is resolved too if it is relative: an exported list of folders must not mean another place in
        // each current folder.
        if !self.named || !self.path.is_absolute() {
            return Rule::SEARCHED.resolve(&self.path).map_err(|refusal| refusal.to_string());
        }
        Ok(self.path.clone())
    }
}

/// Folders to look into, and why.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) origin: &'static str,
    pub(crate) folders: Vec<Folder>,
    /// The attempts refused while the folders were collected.
    pub(crate) refused: Vec<(PathBuf, String)>,
    /// Why there may be no folders.
    pub(crate) empty: String,
}

impl Place {
    fn new(origin: &'static str, folders: Vec<Folder>) -> Self {
        Self { origin, folders, refused: Vec::new(), empty: "not set".to_owned() }
    }
}

pub(crate) fn search(bound: Bound) -> Result<Found, NotFound> {
    let mut tried = Vec::new();
    if let Some(path) = variable("CUDA_NVRTC") {
        // An explicit choice: no other library replaces it.
        let found = at(&path, bound);
        return found.map_err(|reason| {
            tried.push(Attempt { origin: "CUDA_NVRTC".into(), path, reason });
            NotFound { max_major: bound.driver.map(|v| v.major), tried }
        });
    }
    for place in places() {
        let Place { origin, folders, mut refused, empty } = place();
        if folders.is_empty() && refused.is_empty() {
            refused.push((PathBuf::new(), empty));
        }
        let refused = refused.into_iter();
        tried.extend(refused.map(|(path, reason)| Attempt { origin: origin.into(), path, reason }));
        if let Some(found) = best(&folders, bound, origin, &mut tried) {
            return Ok(found);
        }
    }
    Err(NotFound { max_major: bound.driver.map(|v| v.major), tried })
}

/// Returns the places to search. The functions are called in order, and only as far as needed: the last starts a Python.
pub(crate) fn places() -> [fn() -> Place; 6] {
    [loader, cuda_path, usr_local, python_environment, setup, python::packages]
}

/// Returns the library at `path`, which the user has named: a file, or the best one in a folder.
pub(crate) fn at(path: &Path, bound: Bound) -> Result<Found, String> {
    if path.is_file() {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        return Ok(Found { path: path.to_owned(), version: version(path, name) });
    }
    // A relative path is resolved now, whatever the current folder is when the library is loaded.
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folders: Vec<_> =
        ["", "lib64", "lib", "bin"].iter().map(|sub| Folder::named(path.join(sub))).collect();
    let mut tried = Vec::new();
    best(&folders, bound, "", &mut tried)
        .ok_or_else(|| tried.first().map_or_else(|| "nothing there".into(), |a| a.reason.clone()))
}

fn best(folders: &[Folder], bound: Bound, origin: &str, tried: &mut Vec<Attempt>) -> Option<Found> {
    let mut attempt = |path: &Path, reason: String| {
        tried.push(Attempt { origin: origin.into(), path: path.into(), reason });
    };
    let mut best: Option<Found> = None;
    for folder in folders {
        let mut refused = Vec::new();
        let libraries = folder.checked().and_then(|path| {
            libraries(&path, folder.named, &mut refused).map_err(|error| error.to_string())
        });
        let libraries = match libraries {
            Ok(libraries) => libraries,
            Err(reason) => {
                attempt(&folder.path, reason);
                continue;
            }
        };
        if libraries.is_empty() && refused.is_empty() {
            attempt(&folder.path, "holds no NVRTC".into());
        }
        for (path, reason) in refused {
            attempt(&path, reason);
        }
        for found in libraries {
            let rank = bound.rank(&found);
            if rank.is_none() {
                attempt(&found.path, "newer than the driver".into());
            } else if best.as_ref().is_none_or(|b| bound.rank(b) < rank) {
                best = Some(found);
            }
        }
    }
    best
}

/// Major versions to look for: the newest first.
const MAJORS: std::ops::RangeInclusive<u32> = 11..=20;

/// Returns the NVRTC libraries in a folder, by their known names: listing a system's library folder takes
/// longer than reading an image from the cache. The alternative build for old systems (`.alt.so`) is
/// not among them.
///
/// Where they were not named, those that others may have put there go to `refused`.
fn libraries(
    folder: &Path,
    named: bool,
    refused: &mut Vec<(PathBuf, String)>,
) -> std::io::Result<Vec<Found>> {
    std::fs::metadata(folder)?;
    let file_name = |major: u32| {
        if cfg!(windows) {
            format!("nvrtc64_{major}0_0.dll")
        } else {
            format!("libnvrtc.so.{major}")
        }
    };
    let unversioned = (!cfg!(windows)).then(|| "libnvrtc.so".to_owned());
    let mut found = Vec::new();
    for name in MAJORS.rev().map(file_name).chain(unversioned) {
        let mut path = folder.join(&name);
        if !named {
            match Rule::SEARCHED.resolve(&path) {
                Ok(real) => path = real,
                Err(refusal) if refusal.is_absence() => continue,
                Err(refusal) => {
                    refused.push((path, refusal.to_string()));
                    continue;
                }
            }
        }
        if path.is_file() {
            found.push(Found { version: version(&path, &name), path });
        }
    }
    Ok(found)
}

/// Returns the version by the names: `libnvrtc.so.13` and, beside it, `libnvrtc-builtins.so.13.0`.
fn version(path: &Path, name: &str) -> Option<NvrtcVersion> {
    // A link's target says more: libnvrtc.so -> libnvrtc.so.12 -> libnvrtc.so.12.0.140.
    let target = path.canonicalize().ok();
    let target_name =
        target.as_deref().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or(name);
    let (major, minor) = [target_name, name].into_iter().find_map(numbers)?;
    if let Some(minor) = minor {
        return Some(NvrtcVersion { major, minor });
    }
    let minor = builtins(path).into_iter().filter(|b| b.major == major).map(|b| b.minor).max();
    Some(NvrtcVersion { major, minor: minor.unwrap_or(0) })
}

/// Major and, if the name has it, minor version: `.so.13`, `.so.12.0.140`, `nvrtc64_120_0.dll`.
fn numbers(name: &str) -> Option<(u32, Option<u32>)> {
    if let Some(windows) = name.strip_prefix("nvrtc64_") {
        let number: u32 = windows.split(['_', '.']).next()?.parse().ok()?;
        // NVRTC keeps the name of a major version's first release.
        return Some((number / 10, None));
    }
    let mut parts = name.strip_prefix("libnvrtc.so.")?.split('.').map(str::parse);
    let major = parts.next()?.ok()?;
    Some((major, parts.next().and_then(Result::ok)))
}

/// Returns the versions of the builtins in the library's folder.
fn builtins(library: &Path) -> Vec<NvrtcVersion> {
    let names = library
        .parent()
        .and_then(|folder| std::fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .flatten();
    names.filter_map(|file| builtins_version(file.file_name().to_str()?)).collect()
}

fn builtins_version(name: &str) -> Option<NvrtcVersion> {
    if let Some(windows) = name.strip_prefix("nvrtc-builtins64_") {
        let number: u32 = windows.strip_suffix(".dll")?.parse().ok()?;
        return Some(NvrtcVersion { major: number / 10, minor: number % 10 });
    }
    let (major, minor) = name.strip_prefix("libnvrtc-builtins.so.")?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some(NvrtcVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Returns the file name of a version's builtins.
pub(crate) fn builtins_name(version: NvrtcVersion) -> String {
    let NvrtcVersion { major, minor } = version;
    if cfg!(windows) {
        format!("nvrtc-builtins64_{major}{minor}.dll")
    } else {
        format!("libnvrtc-builtins.so.{major}.{minor}")
    }
}

pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    cuda_sys::environment(name).map(PathBuf::from)
}

/// Returns the folders of an installation with this root.
fn lib_folders(root: &Path) -> [PathBuf; 4] {
    // Servers with ARM processors have a separate name.
    let machine = if cfg!(target_arch = "aarch64") { "sbsa" } else { std::env::consts::ARCH };
    let target = format!("targets/{machine}-linux/lib");
    ["lib64", "lib", &target, "bin"].map(|sub| root.join(sub))
}

/// Returns the folders that the system's loader searches: its variable, its configuration, its defaults.
fn loader() -> Place {
    let variable = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };
    let list = cuda_sys::environment(variable);
    let mut folders: Vec<Folder> = list
        .iter()
        .flat_map(std::env::split_paths)
        // The loader takes an empty entry for the current folder, which is never intended.
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(Folder::named)
        .collect();
    if cfg!(unix) {
        let etc = Path::new("/etc");
        folders.extend(configured(etc).into_iter().map(Folder::searched));
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        let defaults =
            [&*format!("/usr/lib/{machine}"), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
        folders.extend(defaults.map(Folder::searched));
    }
    let mut seen = std::collections::HashSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    Place::new("loader path", folders)
}

/// Returns the folders that `ld.so.conf` and the files in `ld.so.conf.d` list, in a system's `etc`.
fn configured(etc: &Path) -> Vec<PathBuf> {
    let mut files = children(&etc.join("ld.so.conf.d"));
    files.insert(0, etc.join("ld.so.conf"));
    let mut folders = Vec::new();
    for text in files.iter().filter_map(|file| trust::read_text(file).ok()) {
        let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
        folders.extend(lines.filter(|l| l.starts_with('/')).map(PathBuf::from));
    }
    folders
}

fn cuda_path() -> Place {
    let roots = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(variable);
    let folders = roots.flat_map(|root| lib_folders(&root)).map(Folder::named).collect();
    Place::new("CUDA_PATH, CUDA_HOME", folders)
}

fn usr_local() -> Place {
    let names = children(Path::new("/usr/local")).into_iter();
    let is_cuda =
        |p: &PathBuf| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("cuda"));
    let mut folders: Vec<_> = names.filter(is_cuda).flat_map(|root| lib_folders(&root)).collect();
    if folders.is_empty() {
        folders.push("/usr/local/cuda".into());
    }
    Place::new("/usr/local/cuda*", folders.into_iter().map(Folder::searched).collect())
}

/// Returns the active virtual environment: its own libraries (conda) and NVIDIA's packages.
///
/// Its variables name a Python, not a library to load, so what is in it is searched.
fn python_environment() -> Place {
    let mut folders = Vec::new();
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable) {
        folders.extend(lib_folders(&root));
        let packages =
            children(&root.join("lib")).into_iter().map(|python| python.join("site-packages"));
        let packages = packages.chain([root.join("Lib/site-packages")]);
        folders.extend(packages.flat_map(|p| nvidia_folders(&p)));
    }
    let folders = folders.into_iter().map(Folder::searched).collect();
    Place::new("VIRTUAL_ENV, CONDA_PREFIX", folders)
}

/// Returns where pip's packages put NVRTC, `nvidia/cu13/lib` and `nvidia/cuda_nvrtc/lib`, and NCCL, which has a folder
/// apart for every version of CUDA: `nvidia/nccl/lib`.
pub(crate) fn nvidia_folders(root: &Path) -> Vec<PathBuf> {
    let packages = children(&root.join("nvidia")).into_iter();
    let own = |p: &PathBuf| {
        let name = p.file_name().and_then(OsStr::to_str).unwrap_or_default();
        matches!(name, "cuda_nvrtc" | "nccl")
            || name.strip_prefix("cu").is_some_and(|n| n.parse::<u32>().is_ok())
    };
    packages
        .filter(own)
        .flat_map(|p| [p.join("lib"), p.join("bin"), p.join("bin/x86_64")])
        .filter(|p| p.is_dir())
        .collect()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|f| f.path()).collect();
    all.sort();
    all
}

/// Returns the folder that `cargo xtask setup` fills: the named folder, or `target/cuda` above the program.
///
/// Never above the current folder, which the user may have entered for any reason.
fn setup() -> Place {
    let packages = |root: &Path| -> Vec<PathBuf> {
        let folders = children(root).into_iter().chain([root.to_owned()]);
        folders.flat_map(|package| nvidia_folders(&package)).collect()
    };
    let origin = "CUDA_SETUP_DIR, target/cuda";
    if let Some(root) = variable("CUDA_SETUP_DIR") {
        let root = std::path::absolute(&root).unwrap_or(root);
        let folders = packages(&root).into_iter().map(Folder::named).collect();
        let mut place = Place::new(origin, folders);
        if place.folders.is_empty() {
            let below = ["cuda", "target/cuda"].map(|folder| root.join(folder));
            let above = root.ancestors().skip(1).take(4).map(Path::to_owned);
            let other = below.into_iter().chain(above).find(|other| !packages(other).is_empty());
            let reason = match other {
                Some(other) => format!("holds no NVRTC, but {} does: name that", other.display()),
                None if root.is_dir() => "holds no NVRTC".to_owned(),
                None => "no such folder".to_owned(),
            };
            place.refused.push((root, reason));
        }
        return place;
    }
    let program = std::env::current_exe().unwrap_or_default();
    let roots = program.ancestors().skip(1).map(|folder| folder.join("target/cuda"));
    let folders = roots.flat_map(|root| packages(&root)).map(Folder::searched).collect();
    Place { empty: "not set, and not above the program".to_owned(), ..Place::new(origin, folders) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn installed(files: &[&str]) -> std::io::Result<tempfile::TempDir> {
        let dir = tempfile::tempdir()?;
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(dir.path()))?;
            std::fs::write(path, "")?;
        }
        Ok(dir)
    }

    fn v(major: u32, minor: u32) -> NvrtcVersion {
        NvrtcVersion { major, minor }
    }

    #[test]
    fn the_newest_that_suits_the_driver_is_taken() -> TestResult {
        let dir = installed(&[
            "a/libnvrtc.so.13",
            "a/libnvrtc.alt.so.13",
            "a/libnvrtc-builtins.so.13.0",
            "b/libnvrtc.so.13",
            "b/libnvrtc-builtins.so.13.5",
            "b/libnvrtc-builtins.alt.so.13.9",
            "c/libnvrtc.so.12",
            "c/libnvrtc-builtins.so.12.9",
        ])?;
        let folders = ["a", "b", "c"].map(|f| Folder::named(dir.path().join(f)));
        let pick = |driver| {
            let mut tried = Vec::new();
            best(&folders, Bound { driver }, "test", &mut tried).and_then(|f| f.version)
        };
        assert_eq!(pick(None), Some(v(13, 5)));
        assert_eq!(pick(Some(v(13, 5))), Some(v(13, 5)));
        assert_eq!(pick(Some(v(13, 1))), Some(v(13, 0)));
        assert_eq!(pick(Some(v(12, 9))), Some(v(12, 9)));
        assert_eq!(pick(Some(v(12, 4))), Some(v(12, 9)));
        assert_eq!(pick(Some(v(11, 8))), None);
        Ok(())
    }

    #[test]
    fn versions_come_from_links_and_names() -> TestResult {
        let dir = installed(&["libnvrtc.so.12.0.140"])?;
        std::os::unix::fs::symlink("libnvrtc.so.12.0.140", dir.path().join("libnvrtc.so"))?;
        let found = at(dir.path(), Bound::default())?;
        assert_eq!((found.version, found.path), (Some(v(12, 0)), dir.path().join("libnvrtc.so")));
        assert_eq!(numbers("nvrtc64_120_0.dll"), Some((12, None)));
        assert_eq!(builtins_version("nvrtc-builtins64_130.dll"), Some(v(13, 0)));
        assert_eq!(builtins_version("libnvrtc-builtins.alt.so.13.0"), None);
        assert_eq!(builtins_name(v(13, 0)), "libnvrtc-builtins.so.13.0");
        Ok(())
    }

    #[test]
    fn a_fifo_among_the_loaders_files_is_passed_over() -> TestResult {
        let dir = installed(&["ld.so.conf.d/b.conf"])?;
        std::fs::write(
            dir.path().join("ld.so.conf"),
            "include ld.so.conf.d/*.conf\n/one # here\n",
        )?;
        std::fs::write(dir.path().join("ld.so.conf.d/b.conf"), "relative\n /two\n")?;
        let fifo = dir.path().join("ld.so.conf.d/a.conf");
        assert!(std::process::Command::new("mkfifo").arg(fifo).status()?.success());
        assert_eq!(configured(dir.path()), [Path::new("/one"), Path::new("/two")]);
        Ok(())
    }

    #[test]
    fn a_folder_without_nvrtc_says_so() -> TestResult {
        let dir = installed(&["libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13"])?;
        assert_eq!(at(dir.path(), Bound::default()), Err("holds no NVRTC".into()));
        Ok(())
    }
}
