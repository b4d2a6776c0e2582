//! Folders and the files below them.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use xtask::Error;

/// Names the file that an error is about.
pub(super) fn at(path: &Path, error: impl Into<Error>) -> Error {
    format!("{}: {}", path.display(), error.into()).into()
}

/// Removes a folder, even if it is read-only or does not exist.
pub(super) fn remove(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        set_writable(folder, true)?;
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(at(folder, error)),
        _ => Ok(()),
    }
}

/// Returns the files that only one of the folders has, or that differ, relative to the folders.
pub(super) fn differences(one: &Path, other: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = BTreeSet::new();
    for folder in [one, other] {
        let (found, _) = below(folder)?;
        files.extend(
            found.iter().filter_map(|file| Some(file.strip_prefix(folder).ok()?.to_owned())),
        );
    }
    let differs = |file: &PathBuf| match (fs::read(one.join(file)), fs::read(other.join(file))) {
        (Ok(one), Ok(other)) => one != other,
        _ => true,
    };
    Ok(files.into_iter().filter(differs).collect())
}

/// Makes a folder and all below it readable for everybody, and writable for nobody or only for the owner. Does nothing
/// on systems without Unix permissions.
pub(super) fn set_writable(folder: &Path, writable: bool) -> Result<(), Error> {
    // A folder comes before its contents: a folder that can't be written to can be listed.
    let (files, folders) = below(folder)?;
    for folder in folders {
        set_mode(&folder, if writable { 0o755 } else { 0o555 })?;
    }
    for file in files {
        set_mode(&file, if writable { 0o644 } else { 0o444 })?;
    }
    Ok(())
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| at(path, error))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
fn set_mode(_: &Path, _: u32) -> Result<(), Error> {
    Ok(())
}

/// Returns the files below a folder, and the folders with itself.
fn below(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Error> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(&folder).map_err(|error| at(&folder, error))? {
            let entry = entry.map_err(|error| at(&folder, error))?;
            let kind = entry.file_type().map_err(|error| at(&folder, error))?;
            if kind.is_dir() { &mut folders } else { &mut files }.push(entry.path());
        }
    }
    Ok((files, folders))
}
