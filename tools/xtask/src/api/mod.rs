//! `cargo xtask api`: the listing of the public items, in `docs/api`, one file a crate.
//!
//! The listing is read from rustdoc's pages, since rustdoc's JSON needs a nightly toolchain. Lines
//! are ordered by path. Brackets name the implementation, if it has parameters, or the source of a
//! re-export; `{ .. }` says that a trait's method has a body or that a structure has private fields.

mod html;
mod index;
mod page;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xtask::{Error, root};

use crate::process::{cargo, output, succeeds};
use page::Entry;

/// A crate that users depend on.
pub(crate) struct Product {
    /// The name of the package.
    pub(crate) package: &'static str,
    /// The folder below the root, which also names the crate's listing.
    pub(crate) folder: &'static str,
    /// Part of the addresses of generated sources, whose items are not listed.
    generated: Option<&'static str>,
}

const fn product(name: &'static str) -> Product {
    named(name, name)
}

const fn named(package: &'static str, folder: &'static str) -> Product {
    Product { package, folder, generated: None }
}

/// The published crates: those whose manifests do not forbid it.
pub(crate) const PRODUCTS: [Product; 14] = [
    // The bindings are what NVIDIA's headers say: `cargo xtask bindgen --check` holds them.
    Product { generated: Some("/cuda_safe_sys/bindings/"), ..named("cuda-safe-sys", "cuda-sys") },
    named("cuda-safe-nvrtc", "nvrtc"),
    product("ptx"),
    product("ptx-ad"),
    product("cuda-macros"),
    product("gpu-phases-macros"),
    product("gpu-phases"),
    product("cuda-safe"),
    product("cuda-nccl"),
    product("nanovdb"),
    product("geom-kernels"),
    named("cuda-tape", "tape"),
    product("cuda-emu"),
    product("nccl-emu"),
];

/// Features of tests: their items are not part of the interface.
const INTERNAL: [&str; 2] = ["internals", "fuzzing"];

/// Where the listing is, below the workspace's root.
const FOLDER: &str = "docs/api";

/// Documents the product crates, warnings denied, and writes the listing or compares it.
///
/// # Errors
/// A program could not be run, or a file not be read or written.
pub(crate) fn api(check: bool) -> Result<bool, Error> {
    let workspace = Workspace::read()?;
    if !workspace.document_products()? {
        return Ok(false);
    }
    // `long` of C, for one, has another type on Windows.
    if env::consts::OS != "linux" {
        if check {
            eprintln!("xtask: {FOLDER} lists the items on Linux: not compared on this system");
            return Ok(true);
        }
        return Err(format!("{FOLDER} lists the items on Linux: generate it there").into());
    }
    let folder = root().join(FOLDER);
    let mut same = true;
    for product in &PRODUCTS {
        let listing = listing(product, &workspace.pages(product.package))?;
        let path = folder.join(format!("{}.txt", product.folder));
        if check {
            let differences = differences(&read_or_empty(&path)?, &listing);
            for difference in &differences {
                println!("{FOLDER}/{}.txt: {difference}", product.folder);
            }
            same &= differences.is_empty();
        } else {
            fs::create_dir_all(&folder).map_err(|error| at(&folder, error))?;
            fs::write(&path, listing).map_err(|error| at(&path, error))?;
        }
    }
    if !same {
        eprintln!(
            "xtask: the public items differ from {FOLDER} (`+`: added, `-`: removed); if this is \
             intended, run `cargo xtask api`, commit {FOLDER}, and name the change in CHANGELOG.md"
        );
    }
    Ok(same)
}

/// Documents the rest of the workspace, warnings denied: the other crates, and what the features of
/// tests add to the products.
///
/// # Errors
/// Cargo could not be run.
pub(crate) fn document_others() -> Result<bool, Error> {
    let mut doc = cargo();
    doc.args(["doc", "--workspace", "--no-deps", "--quiet"]);
    for krate in &Workspace::read()?.complete {
        doc.args(["--exclude", krate]);
    }
    succeeds(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
}

/// Cargo's metadata of the workspace.
struct Workspace {
    target: PathBuf,
    /// The products' features to document, as cargo takes them.
    features: Vec<String>,
    /// The products that have no other features.
    complete: Vec<&'static str>,
}

impl Workspace {
    fn read() -> Result<Self, Error> {
        let mut metadata = cargo();
        metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
        Self::of(&serde_json::from_str(&output(&mut metadata)?)?)
    }

    fn of(metadata: &Value) -> Result<Self, Error> {
        let target = metadata["target_directory"].as_str();
        let target = target.ok_or("cargo metadata names no target directory")?;
        let packages = metadata["packages"].as_array();
        let packages = packages.ok_or("cargo metadata names no packages")?;
        let mut features = Vec::new();
        let mut complete = Vec::new();
        for product in &PRODUCTS {
            let package = packages.iter().find(|package| package["name"] == product.package);
            let package =
                package.ok_or_else(|| format!("there is no crate {}", product.package))?;
            let named = package["features"].as_object().into_iter().flat_map(|map| map.keys());
            let (internal, public): (Vec<_>, Vec<_>) =
                named.partition(|feature| INTERNAL.contains(&feature.as_str()));
            features.extend(public.iter().map(|feature| format!("{}/{feature}", product.package)));
            if internal.is_empty() {
                complete.push(product.package);
            }
        }
        Ok(Self { target: PathBuf::from(target), features, complete })
    }

    /// Returns the folder of a crate's pages.
    fn pages(&self, krate: &str) -> PathBuf {
        self.target.join("doc").join(krate.replace('-', "_"))
    }

    /// Documents the products together and the rest of the workspace apart: cargo would otherwise
    /// add the features that tests need.
    fn document_products(&self) -> Result<bool, Error> {
        let mut doc = cargo();
        doc.args(["doc", "--no-deps", "--quiet", "--features", &self.features.join(",")]);
        for product in &PRODUCTS {
            // Cargo takes pages for up to date that it wrote for other features, and leaves pages
            // of items that are gone.
            let pages = self.pages(product.package);
            match fs::remove_dir_all(&pages) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&pages, error)),
                _ => {}
            }
            doc.args(["--package", product.package]);
        }
        succeeds(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
    }
}

/// Returns the text of a crate's file.
fn listing(product: &Product, pages: &Path) -> Result<String, Error> {
    let krate = product.package.replace('-', "_");
    let mut entries = Vec::new();
    let all = pages.join("all.html");
    let text = read(&all)?;
    for item in index::items(&text).map_err(|error| at(&all, error))? {
        let path = pages.join(item.address);
        let text = read(&path)?;
        let found = page::entries(&krate, &item, &text, product.generated);
        entries.extend(found.map_err(|error| at(&path, error))?);
    }
    modules(&krate, pages, &mut entries)?;
    entries.sort();
    let mut listing = format!(
        "# {}: the public items of {}. `cargo xtask api` writes this file.\n",
        concat!("@gene", "rated"),
        product.package
    );
    for entry in &entries {
        listing.push_str(&entry.line);
        listing.push('\n');
    }
    Ok(listing)
}

/// Adds the modules in a module, and their re-exports.
fn modules(path: &str, folder: &Path, entries: &mut Vec<Entry>) -> Result<(), Error> {
    let index = folder.join("index.html");
    let module = index::module(path, &read(&index)?).map_err(|error| at(&index, error))?;
    entries.extend(module.reexports);
    for name in module.modules {
        let path = format!("{path}::{name}");
        entries.push(Entry::new("mod", &path, ""));
        modules(&path, &folder.join(name), entries)?;
    }
    Ok(())
}

/// Returns the lines that only one text has, in their order, with a sign.
fn differences(old: &str, new: &str) -> Vec<String> {
    // A line may occur more than once.
    let mut counts = BTreeMap::<&str, i64>::new();
    for line in new.lines() {
        *counts.entry(line).or_default() += 1;
    }
    for line in old.lines() {
        *counts.entry(line).or_default() -= 1;
    }
    let mut differences = Vec::new();
    for (line, count) in counts {
        let sign = if count < 0 { '-' } else { '+' };
        for _ in 0..count.unsigned_abs() {
            differences.push(format!("{sign} {line}"));
        }
    }
    // The same lines in another order, or another end of line.
    if differences.is_empty() && old != new {
        differences.push("! not in order, or not as written here".to_owned());
    }
    differences
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| at(path, error))
}

/// Reads a file; a file that does not exist is empty.
fn read_or_empty(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| at(path, error)),
    }
}

fn at(path: &Path, error: impl Into<Error>) -> Error {
    format!("{}: {}", path.display(), error.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_tests_are_left_out() -> Result<(), Error> {
        let packages: Vec<Value> = PRODUCTS
            .iter()
            .map(|product| {
                let mut features = serde_json::Map::new();
                if matches!(product.folder, "nvrtc" | "tape") {
                    for feature in ["half", "internals", "fuzzing"] {
                        features.insert(feature.to_owned(), Value::Array(Vec::new()));
                    }
                }
                serde_json::json!({ "name": product.package, "features": features })
            })
            .collect();
        let mut metadata = serde_json::json!({ "target_directory": "/t", "packages": packages });
        let workspace = Workspace::of(&metadata)?;
        assert_eq!(workspace.features, ["cuda-safe-nvrtc/half", "cuda-tape/half"]);
        assert!(!workspace.complete.contains(&"cuda-tape") && workspace.complete.contains(&"ptx"));
        assert_eq!(workspace.pages("cuda-safe"), Path::new("/t/doc/cuda_safe"));
        metadata["packages"] = Value::Array(Vec::new());
        assert!(Workspace::of(&metadata).is_err(), "a product does not exist");
        Ok(())
    }

    #[test]
    fn differences_have_signs_and_count() {
        assert_eq!(differences("a\nb\nb\n", "b\nc\n"), ["- a", "- b", "+ c"]);
        assert_eq!(differences("a\nb\n", "a\nb\n"), [""; 0]);
        assert_eq!(differences("b\na\n", "a\nb\n").len(), 1);
        assert_eq!(differences("", "a\n"), ["+ a"]);
    }

    #[test]
    fn a_missing_page_is_named() {
        let missing = root().join("no-such-folder");
        let error = listing(&PRODUCTS[1], &missing).map_err(|error| error.to_string());
        assert!(
            error
                .is_err_and(|error| error.contains("no-such-folder") && error.contains("all.html"))
        );
    }
}
