//! The folder in which a program finds the device as the driver's library.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::error::Error;

/// The device, and the names under which programs load it.
const DRIVER: (&str, &[&str]) = ("libcuda_emu.so", &["libcuda.so.1", "libcuda.so"]);
/// The runtime libraries, and the names under which programs of nvcc load them. A build may be without them.
const RUNTIMES: [(&str, &str); 2] =
    [("libcudart_13.so", "libcudart.so.13"), ("libcudart_12.so", "libcudart.so.12")];

/// A private folder with links to the libraries. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Libraries {
    folder: TempDir,
}

impl Libraries {
    /// Makes the folder.
    ///
    /// # Errors
    /// [`Error::NoLibrary`] if the device's library is not where this command is installed; [`Error::File`] if there is
    /// no place for temporary files.
    pub(crate) fn link() -> Result<Self, Error> {
        let own = env::current_exe().map_err(|error| Error::File {
            what: "find the path of",
            path: PathBuf::from("cuda-emu"),
            error,
        })?;
        let beside = own.parent().unwrap_or(Path::new("/")).to_path_buf();
        let places = places(&beside);
        let find = |name: &str| places.iter().map(|place| place.join(name)).find(|at| at.is_file());
        let driver = find(DRIVER.0)
            .ok_or_else(|| Error::NoLibrary { name: DRIVER.0, folder: beside.clone() })?;
        let folder = tempfile::Builder::new().prefix("cuda-emu-").tempdir().map_err(|error| {
            Error::File { what: "create a folder in", path: env::temp_dir(), error }
        })?;
        let libraries = Self { folder };
        for name in DRIVER.1 {
            libraries.add(&driver, name)?;
        }
        for (library, name) in RUNTIMES {
            if let Some(runtime) = find(library) {
                libraries.add(&runtime, name)?;
            }
        }
        Ok(libraries)
    }

    fn add(&self, library: &Path, name: &str) -> Result<(), Error> {
        let path = self.folder.path().join(name);
        symlink(library, &path).map_err(|error| Error::File { what: "create", path, error })
    }

    /// Sets the variables by which the program finds the libraries.
    ///
    /// # Errors
    /// [`Error::File`] if the folder's path has a colon, which ends a path in `LD_LIBRARY_PATH`.
    pub(crate) fn set(&self, command: &mut Command) -> Result<(), Error> {
        let folder = self.folder.path();
        let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        command.env("LD_LIBRARY_PATH", search_path(folder, &before)?);
        command.env("CUDA_DRIVER", folder.join(DRIVER.1[0]));
        Ok(())
    }
}

/// Returns the folders that may have the libraries: those of cargo, and `../lib/cuda-emu`, as the wheel installs them.
/// Cargo links a library from `deps` beside the command only if the library's package is built by name, so that what is
/// in `deps` is never older.
fn places(beside: &Path) -> [PathBuf; 3] {
    [beside.join("deps"), beside.to_path_buf(), beside.join("../lib/cuda-emu")]
}

/// Returns the folder, then the earlier ones. An empty earlier list adds nothing: an empty path would mean the current
/// folder.
fn search_path(folder: &Path, before: &OsString) -> Result<OsString, Error> {
    let earlier = env::split_paths(before).filter(|_| !before.is_empty());
    let all = std::iter::once(folder.to_path_buf()).chain(earlier);
    env::join_paths(all).map_err(|error| Error::File {
        what: "name in LD_LIBRARY_PATH",
        path: folder.to_path_buf(),
        error: std::io::Error::other(error),
    })
}

#[cfg(test)]
mod tests {
    use super::search_path;
    use std::path::Path;

    #[test]
    fn earlier_folders_come_later() {
        let path = |before: &str| search_path(Path::new("/own"), &before.into()).ok();
        assert_eq!(path(""), Some("/own".into()));
        assert_eq!(path("/a:/b"), Some("/own:/a:/b".into()));
        assert!(search_path(Path::new("/o:wn"), &"".into()).is_err());
    }
}
