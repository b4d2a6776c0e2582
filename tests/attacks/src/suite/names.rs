//! The proofs that docs/soundness.md names exist. The device tests know their names themselves: the case
//! `soundness_names` of the integration tests checks those.

use std::fs;
use std::path::{Path, PathBuf};

use super::rows::rows;
use crate::harness::{Attack, Failure, TestResult, ensure, files, quoted, workspace};

/// The folders of prefixes; any other prefix is the name of a crate's folder.
const FOLDERS: [(&str, &str); 5] = [
    ("emu", "cuda-emu"),
    ("models", "tests/models"),
    ("phases", "tests/phases"),
    ("trust", "nvrtc"),
    ("unit", "cuda-safe"),
];

pub(super) fn documented_names_exist(attacks: &[Attack]) -> TestResult {
    let mut checked = 0;
    for row in rows()? {
        // Tables of what is the caller's to promise have two columns.
        let [_, .., upheld, proofs] = &row.cells[..] else { continue };
        for name in quoted(proofs, '`') {
            exists(&name, attacks)
                .map_err(|failure| Failure::new(format!("`{}`: {failure}", row.guarantee)))?;
            checked += 1;
        }
        for name in quoted(upheld, '`').iter().filter(|name| name.ends_with(".rs")) {
            let root = workspace();
            let places = [root.join(&row.folder).join(name), root.join(name)];
            ensure!(
                places.iter().any(|place| place.is_file()),
                "`{}`: no file {name}",
                row.guarantee
            );
        }
    }
    ensure!(checked > 100, "only {checked} names were found");
    Ok(())
}

fn exists(name: &str, attacks: &[Attack]) -> TestResult {
    if let Some(file) = name.strip_prefix("ui/") {
        let folder = workspace().join("cuda-safe/tests/ui");
        let module = format!("mod {file} {{");
        let mut found = folder.join(format!("{file}.rs")).is_file();
        for each in files(&folder)? {
            found |= fs::read_to_string(each)?.contains(&module);
        }
        ensure!(found, "cuda-safe/tests/ui has no file and no module {file}");
        return Ok(());
    }
    let Some((prefix, test)) = name.split_once(": ") else { return Ok(()) };
    if prefix == "attacks" {
        ensure!(attacks.iter().any(|attack| attack.name == test), "there is no attack {test}");
        return Ok(());
    }
    let folder = FOLDERS.iter().find(|(known, _)| *known == prefix);
    let folder = workspace().join(folder.map_or(prefix, |(_, folder)| folder));
    ensure!(folder.join("Cargo.toml").is_file(), "`{prefix}` is no crate: {name}");
    ensure!(is_test_of(&folder, test)?, "{} has no test {test}", folder.display());
    Ok(())
}

/// Whether a file of tests has this name, a function, or a list of tests.
fn is_test_of(folder: &Path, test: &str) -> Result<bool, Failure> {
    let function = format!("fn {}(", test.rsplit("::").next().unwrap_or(test));
    let module = format!("mod {test} ");
    let listed = format!("\"{test}\"");
    for part in ["src", "tests"].map(|part| folder.join(part)) {
        if !part.is_dir() {
            continue;
        }
        for file in files(&part)? {
            if file.file_stem().is_some_and(|stem| stem == test)
                && file.starts_with(tests_of(folder))
            {
                return Ok(true);
            }
            let text = fs::read_to_string(&file)?;
            let lists = file.starts_with(tests_of(folder)) && text.contains(&listed);
            if text.contains(&function) || text.contains(&module) || lists {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn tests_of(folder: &Path) -> PathBuf {
    folder.join("tests")
}
