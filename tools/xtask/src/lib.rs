//! Shared parts of the workspace's tools: the workspace's path, and NVIDIA's files, pinned by hash.
//!
//! The commands themselves are in the binary (`main.rs`). This library depends on nothing but `std` and a reader of ELF
//! files, so that `xtask-bindgen` can use it without cost.

pub mod mutant;
pub mod wheel;
pub mod wheels;

use std::env;
use std::path::{Path, PathBuf};

/// An error of a tool: a sentence for the person who ran it.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The workspace's root folder.
///
/// Cargo says at run time where the package is that it runs; the path of the build is only the
/// fallback, so that a checkout that was moved with its `target` folder keeps working.
#[must_use]
pub fn root() -> PathBuf {
    env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .and_then(|package| root_above(&package))
        .or_else(|| root_above(Path::new(env!("CARGO_MANIFEST_DIR"))))
        .unwrap_or_else(|| PathBuf::from("."))
}

/// The nearest folder at or above `start` that holds this package.
fn root_above(start: &Path) -> Option<PathBuf> {
    start
        .ancestors()
        .find(|folder| folder.join("tools/xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_from_any_package() {
        let root = root();
        assert!(root.join("Cargo.lock").is_file(), "{}", root.display());
        assert_eq!(
            root_above(&root.join("tools/xtask/src")).as_deref(),
            Some(&*root),
            "a folder inside a package belongs to the same root"
        );
        assert_eq!(root_above(Path::new("/")), None);
    }
}
