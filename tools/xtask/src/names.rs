//! The list of tests: no test of `tests/integration/golden/tests.txt` disappears without notice.
//!
//! A line of that file is a kind and a name:
//! - `integration <name>`: a case of the integration tests, without the tier. Their program checks these itself
//!   (`host::names`).
//! - `attack <theme>::<name>`: a program or a refused program of `tests/attacks`.
//! - `unit <package> <function>`: a function with `#[test]`; further ones of the same name are `function#2` and so on.
//!   A package in a folder of the root has the folder's name here.
//! - `doc <package> <item>`: a doc test, by what it documents; further ones of the same item are `item#2` and so on.
//!
//! `tests/integration/golden/renamed.txt` gives the new names; a test that has moved has another kind. All but the doc
//! tests are read from the sources, so nothing has to be built.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xtask::{Error, root};

use crate::process;
use crate::test::{EXCEPT_TOOLS, INTEGRATION, LIBRARIES};

const TESTS: &str = "tests/integration/golden/tests.txt";
const RENAMED: &str = "tests/integration/golden/renamed.txt";

/// Whether each recorded test exists; prints those that don't. With `write` it adds what is new to the file.
///
/// # Errors
/// A file could not be read or is not in its form, or cargo can't list the packages or the doc tests.
pub(crate) fn names(write: bool) -> Result<bool, Error> {
    let found = found()?;
    let file = root().join(TESTS);
    let text = read(&file)?;
    if write {
        let (head, old): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('#'));
        let all: BTreeSet<&str> = old.into_iter().chain(found.iter().map(String::as_str)).collect();
        let lines: Vec<&str> = head.into_iter().chain(all).collect();
        fs::write(&file, lines.join("\n") + "\n")?;
        return Ok(true);
    }
    let renamed = read(&root().join(RENAMED))?;
    let renamed = renames(&renamed)?;
    let missing = missing(&text, &renamed, &found);
    for name in &missing {
        println!(
            "{TESTS}: there is no test `{name}`: restore it, or say in {RENAMED} what it is called now"
        );
    }
    Ok(missing.is_empty())
}

/// New names by old ones.
fn renames(text: &str) -> Result<BTreeMap<&str, &str>, Error> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            line.split_once(" -> ")
                .ok_or_else(|| format!("{RENAMED}: {line:?} is not `old -> new`").into())
        })
        .collect()
}

/// The recorded tests that are found neither under their names nor under their new ones.
fn missing<'a>(
    recorded: &'a str,
    renamed: &BTreeMap<&str, &str>,
    found: &BTreeSet<String>,
) -> Vec<&'a str> {
    let is_missing = |line: &&str| {
        let now = renamed.get(line).copied().unwrap_or(line);
        !now.starts_with("integration ") && !found.contains(now)
    };
    recorded.lines().filter(|line| !line.starts_with('#')).filter(is_missing).collect()
}

/// All tests but the integration tests.
fn found() -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    for (package, folder) in packages()? {
        if package == INTEGRATION {
            continue;
        }
        let mut files = Vec::new();
        collect(&folder, &mut files)?;
        files.sort();
        let mut functions = Vec::new();
        for file in &files {
            let text = read(file)?;
            functions.extend(test_functions(&text).map(str::to_owned));
            if package == "attacks" {
                names.extend(attacks(&folder, file, &text));
            }
        }
        numbered(&format!("unit {package}"), functions.iter().map(String::as_str), &mut names);
    }
    names.extend(doc_tests()?);
    Ok(names)
}

/// The packages of the workspace, as the list names them, and their folders.
fn packages() -> Result<Vec<(String, PathBuf)>, Error> {
    let metadata =
        process::output(process::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let root = metadata["workspace_root"].as_str().ok_or("cargo metadata names no root")?;
    let root = Path::new(root);
    let one = |package: &Value| {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
        Some((listed(package["name"].as_str()?, folder, root), folder.to_path_buf()))
    };
    let all: Option<Vec<_>> = packages.iter().map(one).collect();
    all.ok_or_else(|| "cargo metadata lists a package without a name or a manifest".into())
}

/// Returns the name of a package in the list: for a package in the root, its folder's name, as for `doc` tests.
fn listed(package: &str, folder: &Path, root: &Path) -> String {
    match folder.file_name() {
        Some(name) if folder.parent() == Some(root) => name.to_string_lossy().into_owned(),
        _ => package.to_owned(),
    }
}

/// The Rust files of a package, without those of packages below it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            if !path.join("Cargo.toml").exists() && !path.join("CACHEDIR.TAG").exists() {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, Error> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()).into())
}

/// The names of functions with `#[test]`.
fn test_functions(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if line == "#[test]" {
            is_test = true;
            return None;
        }
        let name = line.split_once("fn ")?.1.split(['(', '<']).next()?;
        std::mem::take(&mut is_test).then_some(name)
    })
}

/// Returns the attacks of a file: those that its `list![…]` names, or itself, if the compiler must refuse it.
fn attacks(package: &Path, file: &Path, text: &str) -> Vec<String> {
    let below = |folder: &str| {
        let path = file.strip_prefix(package.join(folder)).ok()?.with_extension("");
        Some(path.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>())
    };
    if let Some(refused) = below("refused") {
        return vec![format!("attack {}", refused.join("::"))];
    }
    let Some(path) = below("src/attacks") else { return Vec::new() };
    let theme = path.first().map_or("", String::as_str);
    let list = text.rsplit_once("list![").and_then(|(_, rest)| rest.split_once(']'));
    let listed = list.map_or("", |(listed, _)| listed).split(',').map(str::trim);
    listed
        .filter(|name| !name.is_empty())
        .map(|name| format!("attack {theme}::{}", name.rsplit("::").next().unwrap_or(name)))
        .collect()
}

/// Adds names after a prefix; further ones of the same name with their number.
fn numbered<'a>(prefix: &str, all: impl Iterator<Item = &'a str>, names: &mut BTreeSet<String>) {
    let mut counts = BTreeMap::new();
    for name in all {
        let count = counts.entry(name).and_modify(|count| *count += 1).or_insert(1);
        names.insert(match count {
            1 => format!("{prefix} {name}"),
            count => format!("{prefix} {name}#{count}"),
        });
    }
}

/// The doc tests, as rustdoc lists them: `crate/src/file.rs - item (line 5): test`.
fn doc_tests() -> Result<BTreeSet<String>, Error> {
    let mut list = process::cargo();
    list.args(["test", "--quiet"]).args(LIBRARIES).args(EXCEPT_TOOLS.as_flattened());
    let text = process::output(list.args(["--doc", "--", "--list"]))?;
    let mut names = BTreeSet::new();
    let mut items: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (package, item) in text.lines().filter_map(doc_test) {
        items.entry(package).or_default().push(item);
    }
    for (package, items) in items {
        numbered(&format!("doc {package}"), items.into_iter(), &mut names);
    }
    Ok(names)
}

/// The package's folder and the item of a line of the list; of the crate or module itself, its file.
fn doc_test(line: &str) -> Option<(&str, &str)> {
    let (file, rest) = line.strip_suffix(": test")?.split_once(" - ")?;
    let item = rest.split("(line ").next()?.trim();
    let package = file.split_once("/src/").map_or(file, |(package, _)| package);
    Some((package, if item.is_empty() { "(crate)" } else { item }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_test_that_is_gone_is_missed() -> Result<(), Error> {
        let recorded = "# head\nattack a::b\nintegration x::y\nunit p one\nunit p two\n";
        let found = set(&["attack a::b", "unit p one", "unit p three"]);
        assert_eq!(missing(recorded, &BTreeMap::new(), &found), ["unit p two"]);
        let renamed = renames("# old -> new\nunit p two -> unit p three\n")?;
        assert_eq!(missing(recorded, &renamed, &found), [""; 0]);
        // A renamed test does not count under its old name.
        let renamed = renames("unit p one -> unit p four\n")?;
        assert_eq!(missing(recorded, &renamed, &found), ["unit p one", "unit p two"]);
        // An integration test that is now a test of a crate, and the reverse.
        let renamed = renames("integration x::y -> unit p three\nunit p two -> integration two\n")?;
        assert_eq!(missing(recorded, &renamed, &found), [""; 0]);
        let renamed = renames("integration x::y -> unit p four\nunit p two -> integration two\n")?;
        assert_eq!(missing(recorded, &renamed, &found), ["integration x::y"]);
        assert!(renames("unit p two").is_err());
        Ok(())
    }

    #[test]
    fn a_crate_is_listed_by_its_folder_and_a_test_package_by_its_name() {
        let root = Path::new("/r");
        assert_eq!(listed("cuda-tape", Path::new("/r/tape"), root), "tape");
        assert_eq!(listed("test-support", Path::new("/r/tests/support"), root), "test-support");
        assert_eq!(listed("root", root, root), "root");
    }

    #[test]
    fn functions_with_the_attribute_are_tests() {
        let attribute = concat!("#[te", "st]");
        let text = format!(
            "fn helper() {{}}\n    {attribute}\n    #[ignore]\n    fn one() {{\n{attribute}\n\
             pub(crate) fn two() -> R {{}}\nfn other()"
        );
        assert_eq!(test_functions(&text).collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn attacks_are_what_lists_name() {
        let package = Path::new("/a");
        let of = |file: &str, text: &str| attacks(package, Path::new(file), text);
        let text = "fn x() {}\nlist![\n    first,\n    deep::second,\n]\n";
        assert_eq!(
            of("/a/src/attacks/order/more.rs", text),
            ["attack order::first", "attack order::second"]
        );
        assert_eq!(of("/a/refused/tape/moved.rs", text), ["attack tape::moved"]);
        assert_eq!(of("/a/src/main.rs", text), [""; 0]);
    }

    #[test]
    fn doc_tests_are_named_without_lines() {
        let line = "geom-kernels/src/bvh/mod.rs - bvh::Bvh::build (line 12): test";
        assert_eq!(doc_test(line), Some(("geom-kernels", "bvh::Bvh::build")));
        assert_eq!(doc_test("tape/src/lib.rs - (line 3): test"), Some(("tape", "(crate)")));
        assert_eq!(doc_test("3 tests, 0 benchmarks"), None);
        let mut names = BTreeSet::new();
        numbered("doc p", ["a", "b", "a"].into_iter(), &mut names);
        assert_eq!(names, set(&["doc p a", "doc p a#2", "doc p b"]));
    }
}
