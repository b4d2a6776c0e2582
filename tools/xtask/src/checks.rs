//! Checks of the sources that no compiler makes: how long files are, that nothing in them
//! names a path of somebody's machine, and that PTX outside tests is packed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use xtask::{Error, root};

/// The most lines that a file written by hand may have.
const MOST_LINES: usize = 600;

/// The extensions of the files whose length is checked.
const CODE: [&str; 7] = ["rs", "cu", "cuh", "c", "h", "sh", "py"];

/// Prints and returns all offences.
///
/// # Errors
/// A file or folder could not be read.
pub(crate) fn sources() -> Result<Vec<String>, Error> {
    let root = root();
    let homes = machine_paths(&root);
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Files that are not text contain no path that a person would follow.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        for offence in offences(shown, &text, &homes) {
            println!("{}{offence}", shown.display());
            found.push(format!("{}{offence}", shown.display()));
        }
    }
    Ok(found)
}

/// Returns the faults of a file: each entry continues the file's name.
fn offences(path: &Path, text: &str, homes: &[String]) -> Vec<String> {
    let mut offences = Vec::new();
    let lines = text.lines().count();
    if lines > MOST_LINES && is_code(path) && !is_generated(path, text) {
        offences.push(format!(": {lines} lines, more than {MOST_LINES}"));
    }
    if path.extension().is_some_and(|extension| extension == "ptx")
        && path.components().all(|part| part.as_os_str() != "tests")
    {
        offences.push(": PTX outside `tests` is packed (gzip -9n)".to_owned());
    }
    if is_product(path) {
        offences.extend(errors(text));
    }
    for (index, line) in text.lines().enumerate() {
        if let Some(home) = homes.iter().find(|home| names_path(line, home)) {
            offences.push(format!(":{}: names a machine's path: {home}", index + 1));
        }
    }
    offences
}

/// Returns whether a file is a source of a published crate.
fn is_product(path: &Path) -> bool {
    let mut parts = path.components().map(|part| part.as_os_str());
    let package = parts.next().is_some_and(|part| {
        !["bench", "docs", "examples", "fuzz", "target", "tests", "tools"]
            .iter()
            .any(|other| part == *other)
    });
    package && parts.next().is_some_and(|part| part == "src") && is_code(path)
}

/// Returns the faults of the error types in a file: `Debug` is `Display`, which `main` and `unwrap` show a person, and the
/// source of an error says nothing that its text contains.
fn errors(text: &str) -> Vec<String> {
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let mut offences = Vec::new();
    let mut derived = |name: &str, attributes: &str, at: usize| {
        if derives(attributes, "Debug") {
            offences.push(format!(
                ":{}: the error `{name}` derives Debug: write its Display",
                line(at)
            ));
        }
    };
    for (at, _) in text.match_indices("#[derive(") {
        if !derives(text[at..].split(")]").next().unwrap_or_default(), "Error") {
            continue;
        }
        let kinds = ["struct ", "enum "].iter();
        let found = kinds.filter_map(|kind| Some((text[at..].find(kind)? + at, kind.len()))).min();
        let (item, name) = found.unwrap_or((text.len(), 0));
        let name = text[item + name..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let before = text[..at].rfind("\n\n").unwrap_or(0);
        derived(name.unwrap_or("?"), &text[before..item], at);
    }
    for (at, found) in text.match_indices("Error for ") {
        let name = text[at + found.len()..].split([' ', '<', '{']).next().unwrap_or_default();
        let line_begins = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let head = text[line_begins..at].trim_end_matches("std::error::");
        if !head.starts_with("impl") || !(head.ends_with(' ')) {
            continue;
        }
        for kind in ["struct", "enum"] {
            let named = format!("{kind} {name}");
            let whole = |at: usize| {
                !text[at + named.len()..]
                    .starts_with(|next: char| next.is_alphanumeric() || next == '_')
            };
            for (item, _) in text.match_indices(&named).filter(|(at, _)| whole(*at)) {
                let before = text[..item].rfind("\n\n").unwrap_or(0);
                derived(name, &text[before..item], item);
            }
        }
    }
    for mark in ["#[from]", "#[source]"] {
        for (at, _) in text.match_indices(mark) {
            let shown = text[..at].rfind("#[error(").map_or("", |shown| &text[shown..at]);
            if !shown.starts_with("#[error(transparent)]") {
                offences.push(format!(":{}: {mark} of an error whose text is repeated", line(at)));
            }
        }
    }
    for (at, _) in text.match_indices("fn source(&self) -> Option<&(dyn") {
        let body = text[at..].split("\n    }\n").next().unwrap_or_default();
        if body.contains("Some(") {
            offences.push(format!(":{}: the source of an error whose text is repeated", line(at)));
        }
    }
    offences
}

/// Returns whether one of the attributes derives the trait `name`, of any path.
fn derives(attributes: &str, name: &str) -> bool {
    let lists = attributes.split("#[derive(").skip(1).filter_map(|rest| rest.split(")]").next());
    lists.flat_map(|list| list.split(',')).any(|item| item.trim().rsplit("::").next() == Some(name))
}

fn is_code(path: &Path) -> bool {
    path.extension().is_some_and(|extension| CODE.iter().any(|code| extension == *code))
}

/// Generated files say so in their first lines, or lie in a folder of bindings.
fn is_generated(path: &Path, text: &str) -> bool {
    // Written in two parts, so that this file does not claim to be generated.
    let mark = concat!("@gene", "rated");
    text.lines().take(5).any(|line| line.contains(mark))
        || path.components().any(|part| part.as_os_str() == "bindings")
}

/// Whether `line` names a path that begins with `start`, and not merely one that contains it.
fn names_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + start.len()..].chars().next();
        let part_of_name =
            |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '$');
        !before.is_some_and(part_of_name)
            && (start.ends_with('/') || !after.is_some_and(part_of_name))
    })
}

/// The beginnings of paths that exist on one machine only: homes, and this checkout.
fn machine_paths(root: &Path) -> Vec<String> {
    // Written in two parts, so that they are not found here.
    let mut paths = vec![
        concat!("/ho", "me/").to_owned(),
        concat!("/ro", "ot/").to_owned(),
        concat!("/Us", "ers/").to_owned(),
        concat!(r"C:\Us", r"ers\").to_owned(),
    ];
    let here = [Some(root.to_path_buf()), env::home_dir()];
    for path in here.into_iter().flatten() {
        // A short path such as `/src` occurs everywhere and would say nothing.
        if path.components().count() > 2 {
            paths.push(path.to_string_lossy().into_owned());
        }
    }
    paths
}

/// Adds the files below `folder`, without cargo's output folders and git's own.
///
/// # Errors
/// A folder could not be read.
pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir()
            && entry.file_name() != ".git"
            && !path.join("CACHEDIR.TAG").exists()
            && path != root().join("target")
        {
            collect(&path, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let homes = machine_paths(Path::new("/srv/checkouts/cuda"));
        offences(Path::new(path), text, &homes)
    }

    #[test]
    fn only_long_code_written_by_hand_is_too_long() {
        let long = "line\n".repeat(MOST_LINES + 1);
        assert_eq!(found("src/a.rs", &long), [": 601 lines, more than 600"]);
        assert_eq!(found("src/a.rs", &"line\n".repeat(MOST_LINES)), [""; 0]);
        assert_eq!(found("README.md", &long), [""; 0]);
        assert_eq!(found("src/bindings/driver.rs", &long), [""; 0]);
        let generated = format!("// {}: by a tool\n{long}", concat!("@gene", "rated"));
        assert_eq!(found("src/a.rs", &generated), [""; 0]);
    }

    #[test]
    fn ptx_outside_tests_is_packed() {
        assert_eq!(found("tape/ptx/tape.ptx", "").len(), 1);
        for path in ["cuda-emu/tests/ptx/faults.ptx", "tests/a/b.ptx", "tape/ptx/tape.ptx.gz"] {
            assert_eq!(found(path, ""), [""; 0], "{path}");
        }
    }

    #[test]
    fn errors_show_their_text_once() {
        let clean = "#[derive(Clone, thiserror::Error)]\n#[error(transparent)]\npub struct A(#[from] B);\n\n\
            #[derive(Debug)]\nstruct Other;\n\n#[derive(Clone)]\npub struct C;\n\nimpl std::error::Error for C {}\n\
            impl fmt::Debug for C {}\n";
        assert_eq!(found("nvrtc/src/a.rs", clean), [""; 0]);
        for (text, part) in [
            (
                "#[derive(Debug, Clone, thiserror::Error)]\npub enum A {}",
                ":1: the error `A` derives Debug",
            ),
            (
                "use thiserror::Error;\n\n#[derive(Debug, Error)]\npub enum A {}\npub struct B;",
                ":3: the error `A` derives Debug",
            ),
            (
                "#[derive(Debug)]\n#[derive(Error, Clone)]\npub struct A;",
                ":2: the error `A` derives Debug",
            ),
            (
                "\n#[derive(Debug)]\npub struct A;\n\nimpl std::error::Error for A {}",
                "the error `A` derives Debug",
            ),
            (
                "\n\n#[derive(Debug)]\n/// Text.\npub struct A;\nimpl Error for A {}",
                "the error `A` derives Debug",
            ),
            ("#[error(\"x: {0}\")]\nX(#[from] B),", ":2: #[from]"),
            (
                "fn source(&self) -> Option<&(dyn E)> {\n        Some(&self.0)\n    }\n",
                ":1: the source",
            ),
        ] {
            let offences = found("nvrtc/src/a.rs", text);
            assert!(offences.len() == 1 && offences[0].contains(part), "{text}: {offences:?}");
            assert_eq!(found("nvrtc/tests/a.rs", text), [""; 0]);
        }
    }

    #[test]
    fn paths_of_machines_are_found_with_their_line() {
        let home = concat!("/ho", "me/");
        let text = format!("fine\nsee {home}ada/notes\n");
        assert_eq!(found("a.md", &text), [format!(":2: names a machine's path: {home}")]);
        let text = "let path = \"/srv/checkouts/cuda/target\";";
        assert_eq!(found("a.rs", text).len(), 1);
    }

    #[test]
    fn other_paths_are_left_alone() {
        for text in [
            concat!("https://example.org/ho", "me/page").replace("org", "org/x"),
            concat!("$PREFIX/ho", "me/x").to_owned(),
            "/srv/checkouts/cuda-samples/x".to_owned(),
            "/usr/local/cuda/include".to_owned(),
        ] {
            assert_eq!(found("a.rs", &text), [""; 0], "{text}");
        }
    }
}
