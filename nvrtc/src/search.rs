//! Where an NVRTC may be, in order. Nothing is loaded here: files are looked at, so that a program
//! whose images are cached never pays for the library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::Version;
use crate::error::{Attempt, NotFound};

/// A library file, not yet loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// What its name and its builtins' say; the library itself has the last word.
    version: Option<Version>,
}

/// What the library must suit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    /// The driver's CUDA version: NVRTC's major version must not exceed its.
    pub(crate) driver: Option<Version>,
}

impl Bound {
    /// Of what lies in one place: what suits, best last. PTX loads only if the whole version does not
    /// exceed the driver's, so that comes before being newer.
    fn rank(self, found: &Found) -> Option<(bool, Version)> {
        let version = found.version.unwrap_or(Version { major: 0, minor: 0 });
        match self.driver {
            Some(driver) if version.major > driver.major => None,
            Some(driver) => Some((version <= driver, version)),
            None => Some((true, version)),
        }
    }
}

/// Folders to look into, and why.
#[derive(Debug)]
struct Place {
    origin: &'static str,
    folders: Vec<PathBuf>,
}

pub(crate) fn search(bound: Bound) -> Result<Found, NotFound> {
    let mut tried = Vec::new();
    if let Some(path) = variable("CUDA_NVRTC") {
        // An explicit wish: nothing else is taken in its place.
        let found = at(&path, bound);
        return found.map_err(|reason| {
            tried.push(Attempt { origin: "CUDA_NVRTC".into(), path, reason });
            NotFound { max_major: bound.driver.map(|v| v.major), tried }
        });
    }
    // The closures run in order, and only as far as needed: the last starts a Python.
    let places: [fn() -> Place; 6] =
        [loader, cuda_path, usr_local, python_environment, setup, python_command];
    for place in places {
        let Place { origin, folders } = place();
        if let Some(found) = best(&folders, bound, origin, &mut tried) {
            return Ok(found);
        }
    }
    Err(NotFound { max_major: bound.driver.map(|v| v.major), tried })
}

/// The library at `path`: a file, or the best one in a folder.
pub(crate) fn at(path: &Path, bound: Bound) -> Result<Found, String> {
    if path.is_file() {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        return Ok(Found { path: path.to_owned(), version: version(path, name) });
    }
    let folders: Vec<_> = ["", "lib64", "lib", "bin"].iter().map(|sub| path.join(sub)).collect();
    let mut tried = Vec::new();
    best(&folders, bound, "", &mut tried)
        .ok_or_else(|| tried.first().map_or_else(|| "nothing there".into(), |a| a.reason.clone()))
}

fn best(
    folders: &[PathBuf],
    bound: Bound,
    origin: &str,
    tried: &mut Vec<Attempt>,
) -> Option<Found> {
    let mut attempt = |path: &Path, reason: String| {
        tried.push(Attempt { origin: origin.into(), path: path.into(), reason });
    };
    if folders.is_empty() {
        attempt(Path::new(""), "names no folder".into());
    }
    let mut best: Option<Found> = None;
    for folder in folders {
        let libraries = match libraries(folder) {
            Ok(libraries) => libraries,
            Err(e) => {
                attempt(folder, e.to_string());
                continue;
            }
        };
        if libraries.is_empty() {
            attempt(folder, "holds no NVRTC".into());
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

/// The NVRTC libraries in a folder, by their known names: listing a system's library folder takes
/// longer than reading an image from the cache. The alternative build for old systems (`.alt.so`) is
/// not among them.
fn libraries(folder: &Path) -> std::io::Result<Vec<Found>> {
    std::fs::metadata(folder)?;
    let file_name = |major: u32| {
        if cfg!(windows) {
            format!("nvrtc64_{major}0_0.dll")
        } else {
            format!("libnvrtc.so.{major}")
        }
    };
    let unversioned = (!cfg!(windows)).then(|| "libnvrtc.so".to_owned());
    let names = MAJORS.rev().map(file_name).chain(unversioned);
    let paths = names.map(|name| (folder.join(&name), name)).filter(|(path, _)| path.is_file());
    Ok(paths.map(|(path, name)| Found { version: version(&path, &name), path }).collect())
}

/// The version by the names: `libnvrtc.so.13` and, beside it, `libnvrtc-builtins.so.13.0`.
fn version(path: &Path, name: &str) -> Option<Version> {
    // A link's target says more: libnvrtc.so -> libnvrtc.so.12 -> libnvrtc.so.12.0.140.
    let target = path.canonicalize().ok();
    let target_name =
        target.as_deref().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or(name);
    let (major, minor) = [target_name, name].into_iter().find_map(numbers)?;
    if let Some(minor) = minor {
        return Some(Version { major, minor });
    }
    let minor = builtins(path).into_iter().filter(|b| b.major == major).map(|b| b.minor).max();
    Some(Version { major, minor: minor.unwrap_or(0) })
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

/// The versions of the builtins in the library's folder.
fn builtins(library: &Path) -> Vec<Version> {
    let names = library
        .parent()
        .and_then(|folder| std::fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .flatten();
    names.filter_map(|file| builtins_version(file.file_name().to_str()?)).collect()
}

fn builtins_version(name: &str) -> Option<Version> {
    if let Some(windows) = name.strip_prefix("nvrtc-builtins64_") {
        let number: u32 = windows.strip_suffix(".dll")?.parse().ok()?;
        return Some(Version { major: number / 10, minor: number % 10 });
    }
    let (major, minor) = name.strip_prefix("libnvrtc-builtins.so.")?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The file name of a version's builtins.
pub(crate) fn builtins_name(version: Version) -> String {
    let Version { major, minor } = version;
    if cfg!(windows) {
        format!("nvrtc-builtins64_{major}{minor}.dll")
    } else {
        format!("libnvrtc-builtins.so.{major}.{minor}")
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The folders of an installation with this root.
fn lib_folders(root: &Path) -> [PathBuf; 4] {
    // Servers with ARM processors have a name of their own.
    let machine = if cfg!(target_arch = "aarch64") { "sbsa" } else { std::env::consts::ARCH };
    let target = format!("targets/{machine}-linux/lib");
    ["lib64", "lib", &target, "bin"].map(|sub| root.join(sub))
}

/// What the system's loader searches: its variable, its configuration, its defaults.
fn loader() -> Place {
    let variable = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };
    let mut folders: Vec<PathBuf> =
        std::env::var_os(variable).iter().flat_map(std::env::split_paths).collect();
    if cfg!(unix) {
        let configured = std::fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = configured.map(|f| f.path()).collect();
        files.sort();
        files.insert(0, "/etc/ld.so.conf".into());
        for text in files.iter().filter_map(|f| std::fs::read_to_string(f).ok()) {
            let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
            folders.extend(lines.filter(|l| l.starts_with('/')).map(PathBuf::from));
        }
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        folders.extend(
            [format!("/usr/lib/{machine}"), "/usr/lib64".into(), "/usr/lib".into()]
                .map(PathBuf::from),
        );
        folders.push("/usr/local/lib".into());
    }
    let mut seen = std::collections::HashSet::new();
    folders.retain(|f| !f.as_os_str().is_empty() && seen.insert(f.clone()));
    Place { origin: "loader path", folders }
}

fn cuda_path() -> Place {
    let roots = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(variable);
    Place { origin: "CUDA_PATH, CUDA_HOME", folders: roots.flat_map(|r| lib_folders(&r)).collect() }
}

fn usr_local() -> Place {
    let names = std::fs::read_dir("/usr/local").into_iter().flatten().flatten().map(|f| f.path());
    let is_cuda =
        |p: &PathBuf| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("cuda"));
    let mut folders: Vec<_> = names.filter(is_cuda).flat_map(|root| lib_folders(&root)).collect();
    if folders.is_empty() {
        folders.push("/usr/local/cuda".into());
    }
    Place { origin: "/usr/local/cuda*", folders }
}

/// The active virtual environment: its own libraries (conda) and NVIDIA's packages.
fn python_environment() -> Place {
    let mut folders = Vec::new();
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable) {
        folders.extend(lib_folders(&root));
        let packages =
            children(&root.join("lib")).into_iter().map(|python| python.join("site-packages"));
        let packages = packages.chain([root.join("Lib/site-packages")]);
        folders.extend(packages.flat_map(|p| nvidia_folders(&p)));
    }
    Place { origin: "VIRTUAL_ENV, CONDA_PREFIX", folders }
}

/// Where pip's packages put NVRTC: `nvidia/cu13/lib`, `nvidia/cuda_nvrtc/lib`.
fn nvidia_folders(root: &Path) -> Vec<PathBuf> {
    let packages = children(&root.join("nvidia")).into_iter();
    let own = |p: &PathBuf| {
        let name = p.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name == "cuda_nvrtc" || name.strip_prefix("cu").is_some_and(|n| n.parse::<u32>().is_ok())
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

/// The folder that `cargo xtask setup` fills: `target/cuda` above the current folder or the program.
fn setup() -> Place {
    let roots = match variable("CUDA_SETUP_DIR") {
        Some(root) => vec![root],
        None => {
            let begins = [std::env::current_dir().ok(), std::env::current_exe().ok()];
            let above = begins.iter().flatten().flat_map(|begin| begin.ancestors());
            let mut roots: Vec<_> = above
                .map(|f| f.join("target/cuda"))
                .filter(|f| f.is_dir() && is_trusted(f))
                .collect();
            roots.dedup();
            roots
        }
    };
    let packages = roots.iter().flat_map(|root| children(root).into_iter().chain([root.clone()]));
    Place {
        origin: "cargo xtask setup",
        folders: packages.flat_map(|p| nvidia_folders(&p)).collect(),
    }
}

/// A folder found by walking upwards may be anybody's; code is taken from the user's own only.
#[cfg(unix)]
fn is_trusted(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = crate::cache::user();
    std::fs::metadata(folder)
        .is_ok_and(|m| (Some(m.uid()) == user || m.uid() == 0) && m.mode() & 0o002 == 0)
}

#[cfg(not(unix))]
fn is_trusted(_: &Path) -> bool {
    true
}

/// The packages of the Python in PATH, asked last because starting it takes longer than all the rest.
fn python_command() -> Place {
    let script = "import site, sysconfig; print(sysconfig.get_paths()['purelib']); print(site.getusersitepackages())";
    let output = std::process::Command::new("python3")
        .args(["-c", script])
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    Place {
        origin: "packages of python3",
        folders: text.lines().flat_map(|l| nvidia_folders(Path::new(l))).collect(),
    }
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

    fn v(major: u32, minor: u32) -> Version {
        Version { major, minor }
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
        let folders: Vec<_> = ["a", "b", "c"].iter().map(|f| dir.path().join(f)).collect();
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
    fn a_folder_without_nvrtc_says_so() -> TestResult {
        let dir = installed(&["libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13"])?;
        assert_eq!(at(dir.path(), Bound::default()), Err("holds no NVRTC".into()));
        Ok(())
    }
}
