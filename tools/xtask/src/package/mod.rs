//! `cargo xtask package`: packs the published crates and checks what is in the archives, then builds and runs a
//! program that depends on the unpacked archives and on nothing else of this workspace.

mod manifest;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_support::time::Began;
use xtask::{Error, root};

use crate::api::PRODUCTS;
use crate::phase::Phase;
use crate::process;
use crate::setup;
use manifest::Package;

/// Archives must be smaller. The registry refuses 10 MiB.
const MOST_BYTES: u64 = 8_000_000;

/// The texts that every archive has, as they are in the root.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The program that depends on the archives.
const PROGRAM: &str = include_str!("../../stranger/main.rs");

/// The crates that the program names, and their features. The feature has another name than the package that it needs.
const USED: [(&str, &[&str]); 4] = [
    ("cuda-emu", &[]),
    ("cuda-safe", &["rust-kernels"]),
    ("cuda-tape", &[]),
    ("geom-kernels", &["tape"]),
];

/// Packs, checks, builds and runs; prints what is wrong, and returns whether nothing is.
///
/// # Errors
/// A program can't be run, or a file can't be read or written.
pub(crate) fn package() -> Result<bool, Error> {
    let mut metadata = process::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&process::output(&mut metadata)?)?;
    let packages = manifest::published(&metadata)?;
    let mut problems = manifest::problems(&packages, &PRODUCTS.map(|product| product.package));

    let began = Began::now();
    let mut pack = process::cargo();
    pack.args(["package", "--quiet", "--offline", "--no-verify", "--allow-dirty"]);
    for package in &packages {
        pack.args(["--package", &package.name]);
    }
    if !process::succeeds(&mut pack)? {
        return Ok(false);
    }
    // Removed first, so that files of an earlier run are not taken for files of an archive.
    let folder = process::target().join("packages");
    let fresh = folder.join("fresh");
    tree::remove(&fresh)?;
    fs::create_dir_all(&fresh).map_err(|error| tree::at(&fresh, error))?;
    let mut total = 0;
    for package in &packages {
        let archive = process::target().join("package").join(package.archive());
        let bytes = fs::metadata(&archive).map_err(|error| tree::at(&archive, error))?.len();
        total += bytes;
        unpack(&archive, &fresh)?;
        problems.extend(wrong_files(package, &fresh.join(package.folder()), bytes)?);
    }
    let packed = Phase::ended("pack", began, format!("{} packages, {total} bytes", packages.len()));

    let began = Began::now();
    let unpacked = folder.join("unpacked");
    update(&fresh, &unpacked)?;
    if !run(&packages, &folder, &unpacked)? {
        problems.push("the program that depends on the packages fails".to_owned());
    }
    for path in tree::differences(&fresh, &unpacked)? {
        problems.push(format!("the build changed {}", unpacked.join(path).display()));
    }
    println!("{packed}\n{}", Phase::ended("build and run", began, ""));
    for problem in &problems {
        println!("FAILED: {problem}");
    }
    Ok(problems.is_empty())
}

/// Unpacks an archive of cargo into a folder.
fn unpack(archive: &Path, into: &Path) -> Result<(), Error> {
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(into);
    if process::succeeds(&mut tar)? {
        Ok(())
    } else {
        Err(format!("{} can't be unpacked", archive.display()).into())
    }
}

/// Returns what is wrong with the files of a package, which are unpacked in `folder`.
fn wrong_files(package: &Package, folder: &Path, bytes: u64) -> Result<Vec<String>, Error> {
    let mut wrong = Vec::new();
    if bytes >= MOST_BYTES {
        wrong.push(format!("{}: {bytes} bytes, not less than {MOST_BYTES}", package.name));
    }
    for name in LICENSES {
        let text = fs::read(root().join(name)).map_err(|error| tree::at(Path::new(name), error))?;
        // A checkout without symbolic links has the link's target as the text of the file.
        if fs::read(folder.join(name)).ok() != Some(text) {
            wrong.push(format!("{}: {name} is not the root's", package.name));
        }
    }
    if fs::read(folder.join("README.md")).map_or(true, |text| text.trim_ascii().is_empty()) {
        wrong.push(format!("{}: there is no README.md", package.name));
    }
    Ok(wrong)
}

/// Makes the folder `unpacked` the same as `fresh`, and read-only. Files that are the same already stay as they are:
/// cargo gives all files in archives one time, so that it would not see that a file has changed.
fn update(fresh: &Path, unpacked: &Path) -> Result<(), Error> {
    fs::create_dir_all(unpacked).map_err(|error| tree::at(unpacked, error))?;
    tree::set_writable(unpacked, true)?;
    for path in tree::differences(fresh, unpacked)? {
        let (from, to) = (fresh.join(&path), unpacked.join(&path));
        if !from.is_file() {
            fs::remove_file(&to).map_err(|error| tree::at(&to, error))?;
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|error| tree::at(folder, error))?;
        }
        // Not a copy, which would keep the permissions.
        let bytes = fs::read(&from).map_err(|error| tree::at(&from, error))?;
        fs::write(&to, bytes).map_err(|error| tree::at(&to, error))?;
    }
    tree::set_writable(unpacked, false)
}

/// Builds and runs the program, offline; whether it ends well.
fn run(packages: &[Package], folder: &Path, unpacked: &Path) -> Result<bool, Error> {
    let stranger = folder.join("stranger");
    let text = manifest::stranger(packages, &USED, unpacked)?;
    write(&stranger.join("Cargo.toml"), text.as_bytes())?;
    write(&stranger.join("src/main.rs"), PROGRAM.as_bytes())?;
    // The versions of other crates that this workspace was built with: there may be no others on this machine.
    let lock = root().join("Cargo.lock");
    let lock = fs::read(&lock).map_err(|error| tree::at(&lock, error))?;
    write(&stranger.join("Cargo.lock"), &lock)?;

    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--offline"]).current_dir(&stranger);
    // The same folder and profile as the tools' own, so that they share what they depend on.
    cargo.env("CARGO_TARGET_DIR", process::target()).env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo.env("CARGO_NET_OFFLINE", "true").env_remove("CUDA_DRIVER");
    // Only this run's compiles, and none of another program.
    cargo.env("CUDA_KERNEL_CACHE", "off");
    setup::name_nvrtc(&mut cargo)?;
    process::succeeds(&mut cargo)
}

fn write(path: &PathBuf, bytes: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| tree::at(folder, error))?;
    }
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|error| tree::at(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("xtask-package-{name}-{}", std::process::id()))
    }

    #[test]
    fn an_archive_has_the_licences_a_readme_and_a_size() -> Result<(), Error> {
        let folder = folder("files");
        let package = Package { name: "p".to_owned(), version: "1.0.0".to_owned(), lacks: vec![] };
        let wrong = |bytes| wrong_files(&package, &folder, bytes);
        for name in LICENSES {
            write(&folder.join(name), &fs::read(root().join(name))?)?;
        }
        write(&folder.join("README.md"), b"# p\n")?;
        assert_eq!(wrong(MOST_BYTES - 1)?, [""; 0]);
        assert_eq!(wrong(MOST_BYTES)?, ["p: 8000000 bytes, not less than 8000000"]);
        write(&folder.join("README.md"), b"\n")?;
        write(&folder.join("LICENSE-MIT"), b"../LICENSE-MIT")?;
        assert_eq!(wrong(1)?, ["p: LICENSE-MIT is not the root's", "p: there is no README.md"]);
        tree::remove(&folder)
    }

    #[test]
    fn an_update_changes_only_files_that_differ() -> Result<(), Error> {
        let (folder, text) = (folder("update"), |path: &Path| fs::read_to_string(path));
        let (fresh, unpacked) = (folder.join("fresh"), folder.join("unpacked"));
        for (name, text) in [("p/a", "same"), ("p/b", "new"), ("p/src/c", "added")] {
            write(&fresh.join(name), text.as_bytes())?;
        }
        for (name, text) in [("p/a", "same"), ("p/b", "old"), ("p/gone", "")] {
            write(&unpacked.join(name), text.as_bytes())?;
        }
        let time = fs::metadata(unpacked.join("p/a"))?.modified()?;
        for _ in 0..2 {
            // The second time over files that are read-only.
            update(&fresh, &unpacked)?;
            assert!(tree::differences(&fresh, &unpacked)?.is_empty());
        }
        assert_eq!(fs::metadata(unpacked.join("p/a"))?.modified()?, time);
        assert_eq!(text(&unpacked.join("p/b"))?, "new");
        assert!(fs::metadata(unpacked.join("p/b"))?.permissions().readonly() || cfg!(not(unix)));
        assert!(!unpacked.join("p/gone").exists());
        tree::remove(&folder)
    }
}
