//! The manifests of the published crates, as cargo reads them, and the manifest of the program that depends on them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use xtask::Error;

/// The most keywords that the registry takes.
const MOST_KEYWORDS: usize = 5;

/// A package that its manifest does not forbid to publish.
#[derive(Debug, Clone)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// The fields that its manifest lacks.
    pub(super) lacks: Vec<&'static str>,
}

impl Package {
    /// Returns the name of the package's archive.
    pub(super) fn archive(&self) -> String {
        format!("{}.crate", self.folder())
    }

    /// Returns the name of the folder that is in the archive.
    pub(super) fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Returns the packages of the workspace that can be published.
///
/// # Errors
/// The text of `cargo metadata` has not the form that it has today.
pub(super) fn published(metadata: &Value) -> Result<Vec<Package>, Error> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let can = packages.iter().filter(|package| package["publish"].is_null());
    can.map(|package| {
        let text = |field: &str| {
            let text = package[field].as_str().map(str::to_owned);
            text.ok_or_else(|| Error::from(format!("cargo metadata: a package has no {field}")))
        };
        Ok(Package { name: text("name")?, version: text("version")?, lacks: lacks(package) })
    })
    .collect()
}

/// Returns what the registry or docs.rs needs and a manifest lacks.
fn lacks(package: &Value) -> Vec<&'static str> {
    let text = |field: &str| package[field].as_str().is_some_and(|text| !text.is_empty());
    let count = |field: &str| package[field].as_array().map_or(0, Vec::len);
    let keywords = (1..=MOST_KEYWORDS).contains(&count("keywords"));
    let documented = package["metadata"]["docs"]["rs"]["all-features"] == true;
    let wanted = [
        (text("description"), "a description"),
        (text("license"), "a license"),
        (text("rust_version"), "a rust-version"),
        (keywords, "one to five keywords"),
        (count("categories") > 0, "categories"),
        (documented, "all-features for docs.rs"),
    ];
    wanted.into_iter().filter(|(there, _)| !there).map(|(_, what)| what).collect()
}

/// Returns what is wrong with the manifests: the published packages must be `expected`.
pub(super) fn problems(packages: &[Package], expected: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        if !expected.contains(&package.name.as_str()) {
            problems.push(format!("{}: its manifest has no `publish = false`", package.name));
        }
        problems.extend(package.lacks.iter().map(|what| format!("{}: no {what}", package.name)));
    }
    for name in expected {
        if !packages.iter().any(|package| package.name == *name) {
            problems.push(format!("{name}: cargo does not publish it"));
        }
    }
    problems
}

/// Writes the manifest of a program that depends on `used`, by version and with these features. All packages are patched
/// to their folders below `unpacked`.
///
/// # Errors
/// One of `used` is none of the packages.
pub(super) fn stranger(
    packages: &[Package],
    used: &[(&str, &[&str])],
    unpacked: &Path,
) -> Result<String, Error> {
    // A workspace of its own, although its folder is below this one's.
    let mut text = "[workspace]\n\n[package]\nname = \"stranger\"\nversion = \"0.0.0\"\n\
                    edition = \"2024\"\npublish = false\n\n[dependencies]\n"
        .to_owned();
    for (name, features) in used {
        let package = packages.iter().find(|package| package.name == *name);
        let package = package.ok_or_else(|| format!("{name} is not published"))?;
        // A list of strings reads the same in TOML and as Rust prints it.
        let version = &package.version;
        writeln!(text, "{name} = {{ version = {version:?}, features = {features:?} }}")?;
    }
    text.push_str("\n[patch.crates-io]\n");
    for package in packages {
        let folder = unpacked.join(package.folder());
        // Writes a string as cargo reads it: characters of paths are escaped as in JSON.
        let folder = Value::from(folder.to_str().ok_or("the target folder's path is not UTF-8")?);
        writeln!(text, "{} = {{ path = {folder} }}", package.name)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str) -> Package {
        Package { name: name.to_owned(), version: "0.1.0".to_owned(), lacks: Vec::new() }
    }

    #[test]
    fn packages_are_published_unless_forbidden_and_lack_what_is_not_there() -> Result<(), Error> {
        let complete = json!({
            "name": "a", "version": "0.1.0", "publish": null, "description": "A.",
            "license": "MIT", "rust_version": "1.89", "keywords": ["k"], "categories": ["c"],
            "metadata": { "docs": { "rs": { "all-features": true } } },
        });
        let mut many = complete.clone();
        many["keywords"] = json!(["1", "2", "3", "4", "5", "6"]);
        many["description"] = Value::Null;
        let bare = json!({ "name": "b", "version": "0.2.0", "publish": null });
        let private = json!({ "name": "c", "version": "0.1.0", "publish": [] });
        let found = published(&json!({ "packages": [complete, many, bare, private] }))?;
        let lacking: Vec<_> = found.iter().map(|package| package.lacks.len()).collect();
        assert_eq!(lacking, [0, 2, 6]);
        assert_eq!(found[1].lacks, ["a description", "one to five keywords"]);
        assert_eq!(found[2].archive(), "b-0.2.0.crate");
        assert!(published(&json!({})).is_err());
        assert!(published(&json!({ "packages": [{ "name": "d" }] })).is_err());
        Ok(())
    }

    #[test]
    fn exactly_the_expected_packages_are_published() {
        let (a, b) = (package("a"), Package { lacks: vec!["categories"], ..package("b") });
        assert_eq!(problems(std::slice::from_ref(&a), &["a"]), [""; 0]);
        assert_eq!(
            problems(&[a, b], &["a", "c"]),
            [
                "b: its manifest has no `publish = false`",
                "b: no categories",
                "c: cargo does not publish it"
            ]
        );
    }

    #[test]
    fn a_stranger_depends_on_versions_and_patches_all() -> Result<(), Error> {
        let packages = [package("a"), package("b")];
        let text = stranger(&packages, &[("a", &["f", "g"])], Path::new("/t"))?;
        let end = "[dependencies]\na = { version = \"0.1.0\", features = [\"f\", \"g\"] }\n\n[patch.crates-io]\n\
                   a = { path = \"/t/a-0.1.0\" }\nb = { path = \"/t/b-0.1.0\" }\n";
        assert!(text.ends_with(end), "{text}");
        assert!(stranger(&packages, &[("c", &[])], Path::new("/t")).is_err());
        Ok(())
    }
}
