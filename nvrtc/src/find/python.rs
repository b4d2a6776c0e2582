//! The packages of the Python in `PATH`, asked last because starting it takes longer than all the rest.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::find::{Folder, Place, nvidia_folders};
use crate::trust::Rule;

const NAME: &str = if cfg!(windows) { "python3.exe" } else { "python3" };

/// Prints the folders of packages: the installation's, then the user's.
const SCRIPT: &str = "import site, sysconfig; print(sysconfig.get_paths()['purelib']); print(site.getusersitepackages())";

/// Returns the folders of NVIDIA's packages.
pub(crate) fn packages() -> Place {
    let mut refused = Vec::new();
    let trusted = path(&mut refused);
    let folders = command(&trusted, &mut refused).map(|python| said(&python, &trusted));
    let folders = folders.unwrap_or_default();
    let folders = folders.iter().flat_map(|folder| nvidia_folders(folder)).map(Folder::searched);
    let empty = "no package of NVIDIA's".to_owned();
    Place { origin: "packages of python3", folders: folders.collect(), refused, empty }
}

/// Returns the folders of `PATH` that pass. An entry that is empty or relative means the current folder or one below it, and
/// is skipped; of the others only those are worth a word that have a Python.
fn path(refused: &mut Vec<(PathBuf, String)>) -> Vec<PathBuf> {
    let list = cuda_sys::environment("PATH").unwrap_or_default();
    let mut trusted = Vec::new();
    for folder in std::env::split_paths(&list).filter(|folder| folder.is_absolute()) {
        match Rule::SEARCHED.resolve(&folder) {
            Ok(_) => trusted.push(folder),
            Err(refusal) if folder.join(NAME).exists() => {
                refused.push((folder.join(NAME), refusal.to_string()));
            }
            Err(_) => {}
        }
    }
    trusted
}

/// Returns the first `python3` that the user or root has put into one of these folders.
fn command(folders: &[PathBuf], refused: &mut Vec<(PathBuf, String)>) -> Option<PathBuf> {
    for folder in folders {
        let path = folder.join(NAME);
        match Rule::SEARCHED.resolve(&path) {
            // `path`, not `real`: it may be a link, by which Python finds its environment.
            Ok(real) if real.is_file() => return Some(path),
            Ok(_) => {}
            Err(refusal) if refusal.is_absence() => {}
            Err(refusal) => refused.push((path, refusal.to_string())),
        }
    }
    None
}

/// Returns Python's output, isolated (`-I`): no module comes from the current folder, from the user's packages or from
/// where variables say. The file `python3` may be a script, which reads a version from the current folder and starts
/// programs by name: so it runs in the root folder, and `PATH` has only folders that pass.
fn said(python: &Path, path: &[PathBuf]) -> Vec<PathBuf> {
    let mut command = Command::new(python);
    if let Ok(path) = std::env::join_paths(path) {
        command.env("PATH", path);
    }
    command.args(["-I", "-c", SCRIPT]).stdin(Stdio::null()).stderr(Stdio::null());
    if cfg!(unix) {
        command.current_dir("/");
    }
    let text = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(PathBuf::from).collect()
}
