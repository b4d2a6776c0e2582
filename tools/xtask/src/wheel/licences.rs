//! The licences of the crates that are compiled into the files of the wheel: each asks that its text goes with copies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

use crate::{Error, root};

/// The packages whose files are packed.
const PACKED: [&str; 4] = ["cuda-emu", "cuda-emu-cli", "cudart-13", "cudart-12"];

/// The files of a crate, as they begin in capitals, whose text is a licence or is to go with it.
const NAMES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// The licences of a crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Licences {
    /// Name and version.
    pub(super) of: String,
    /// The expression of the manifest.
    pub(super) expression: String,
    pub(super) files: Vec<PathBuf>,
}

/// Returns the licences of all crates from registries that the packed files contain, in the order of their names.
pub(super) fn all() -> Result<Vec<Licences>, Error> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["metadata", "--format-version", "1", "--locked"]);
    cargo.args(["--filter-platform", &host()?]);
    let output = cargo.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("cargo metadata failed: {said}").into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    linked(&metadata)?.into_iter().map(licences).collect()
}

/// Returns the platform for which rustc compiles if it is not told otherwise.
fn host() -> Result<String, Error> {
    let rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .current_dir(root())
        .arg("-vV")
        .output()?;
    let said = String::from_utf8_lossy(&rustc.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say for which platform it compiles")?.to_owned())
}

/// The packages from registries that are linked: not those of macros, of build scripts and of tests.
fn linked(metadata: &Value) -> Result<Vec<&Value>, Error> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let mut packages = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        packages.insert(package["id"].as_str().unwrap_or_default(), package);
    }
    let is_macro = |package: &Value| {
        list(&package["targets"])
            .iter()
            .any(|target| list(&target["kind"]).contains(&"proc-macro".into()))
    };
    let mut open: Vec<String> = Vec::new();
    for name in PACKED {
        let own = packages
            .iter()
            .find(|(_, package)| package["name"] == name && package["source"].is_null());
        let (id, _) = own.ok_or_else(|| format!("the workspace has no package {name}"))?;
        open.push((*id).to_owned());
    }
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        let package = packages.get(id.as_str()).ok_or_else(|| format!("no package {id}"))?;
        if is_macro(package) || !seen.insert(id.clone()) {
            continue;
        }
        let node =
            list(&metadata["resolve"]["nodes"]).into_iter().find(|node| node["id"] == id.as_str());
        for dependency in node.iter().flat_map(|node| list(&node["deps"])) {
            // Dependencies of builds and tests have a kind.
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                open.extend(dependency["pkg"].as_str().map(str::to_owned));
            }
        }
    }
    let registered = seen.iter().filter_map(|id| packages.get(id.as_str()).copied());
    let mut registered: Vec<_> =
        registered.filter(|package| !package["source"].is_null()).collect();
    registered.sort_by_key(|package| package["name"].as_str().unwrap_or_default());
    Ok(registered)
}

/// Reads which files a package has.
fn licences(package: &Value) -> Result<Licences, Error> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let of = format!("{}-{}", text("name"), text("version"));
    let manifest = PathBuf::from(text("manifest_path"));
    let folder = manifest.parent().ok_or_else(|| format!("{of} lies nowhere"))?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            files.push(path);
        }
    }
    files.sort();
    // Where one may choose, the shorter text goes along.
    let has = |files: &[PathBuf], part: &str| {
        files.iter().any(|file| file.to_string_lossy().to_uppercase().ends_with(part))
    };
    if text("license").contains(" OR ") && has(&files, "LICENSE-MIT") {
        files.retain(|file| !file.to_string_lossy().to_uppercase().contains("APACHE"));
    }
    if files.is_empty() {
        return Err(format!("{of} has no file with its licence").into());
    }
    Ok(Licences { of, expression: text("license").to_owned(), files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_in_the_wheel_has_its_licence() -> Result<(), Error> {
        let all = all()?;
        let named = |name: &str| all.iter().find(|it| it.of.starts_with(name));
        // One of each: of the device, of its command, and of what they have in common.
        for name in ["libloading-", "clap-", "serde_json-"] {
            let found = named(name).ok_or_else(|| format!("{name} is missing"))?;
            assert!(!found.expression.is_empty() && !found.files.is_empty(), "{found:?}");
        }
        // Macros, tools of builds and crates of tests are not in it.
        for name in ["syn-", "thiserror-impl-", "bindgen-", "proptest-"] {
            assert_eq!(named(name), None, "{name}");
        }
        assert!(all.is_sorted_by(|a, b| a.of < b.of), "{all:?}");
        Ok(())
    }
}
