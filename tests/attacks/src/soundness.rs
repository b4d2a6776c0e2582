//! Checks of docs/soundness.md: the files and tests that it names exist, and an attack names each row.

use std::fs;

use test_harness::{Case, Failure, TestResult, ensure};

use crate::attack::{self, workspace};
use crate::declared::{self, Declared, quoted};
use crate::sources::files;

/// Rows that no safe program can attack, by their first words, and why.
const NOT_ATTACKABLE: [(&str, &str); 2] = [
    (
        "variables of another user name nothing",
        "it takes a copy of the program that root has given the set-user-ID bit: \
         `trust: a_program_with_raised_rights_reads_no_variable` makes one",
    ),
    (
        "it writes no memory of an argument or of another gradient",
        "only unsafe code makes operations: `tape::vjp::shared_memory` and `values_that_the_adjoint_writes` call one",
    ),
];

/// The folders of prefixes; any other prefix is the name of a crate's folder.
const FOLDERS: [(&str, &str); 6] = [
    ("emu", "cuda-emu"),
    ("models", "tests/models"),
    ("phases", "tests/phases"),
    ("trust", "nvrtc"),
    ("ui", "cuda-safe/tests/ui"),
    ("unit", "cuda-safe"),
];

pub(crate) fn cases() -> Vec<Case> {
    test_harness::cases![
        "soundness",
        host(names_exist),
        host(rows_are_attacked),
        host(attacks_name_rows)
    ]
}

/// A row of a table of docs/soundness.md. The first cell is the guarantee, or what is unsafe; the last two are what upholds
/// and what proves it, unless the table is of what the caller must promise and has two columns.
struct Row {
    cells: Vec<String>,
    /// Where the section says that its files are, below the workspace's folder.
    folder: String,
}

/// Returns the rows of all tables, without heads.
fn rows() -> Result<Vec<Row>, Failure> {
    let text = fs::read_to_string(workspace().join("docs/soundness.md"))?;
    let (mut rows, mut folder, mut is_head) = (Vec::new(), "cuda-safe/src", true);
    for line in text.lines() {
        if line.starts_with('#') {
            folder = "cuda-safe/src";
        }
        if let Some((_, named)) = line.split_once("Files are those of `") {
            folder = named.split('`').next().unwrap_or(named);
        }
        let is_rule = line.chars().all(|c| "|-: ".contains(c));
        if line.starts_with('|') && !is_rule && !is_head {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            rows.push(Row { cells: cells.collect(), folder: folder.to_owned() });
        }
        // The line after one that is no row is a head.
        is_head = !line.starts_with('|');
    }
    ensure!(rows.len() > 40, "only {} rows were found", rows.len());
    Ok(rows)
}

/// The test `soundness_names` of the integration tests checks the names of device tests.
fn names_exist() -> TestResult {
    let mut checked = 0;
    for Row { cells, folder } in rows()? {
        let [guarantee, .., upheld, proofs] = &cells[..] else { continue };
        for name in quoted(proofs) {
            checked += 1;
            ensure!(exists(name)?, "`{guarantee}`: there is no test {name}");
        }
        for name in quoted(upheld).filter(|name| name.ends_with(".rs")) {
            let is_there = workspace().join(&folder).join(name).is_file();
            ensure!(is_there || workspace().join(name).is_file(), "`{guarantee}`: no file {name}");
        }
    }
    ensure!(checked > 100, "only {checked} names were found");
    Ok(())
}

/// Returns whether a name is that of an attack, or of a function, a module, a file of tests or an element of a list there.
fn exists(name: &str) -> Result<bool, Failure> {
    let of_ui = || name.strip_prefix("ui/").map(|test| ("ui", test));
    let Some((prefix, test)) = name.split_once(": ").or_else(of_ui) else { return Ok(true) };
    if prefix == "attacks" {
        let is_refused = |it: &Declared| {
            let theme = it.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            it.is_module && test == format!("{theme}::{}", it.name)
        };
        let is_program = attack::names().any(|name| name == test);
        return Ok(is_program || declared::attacks()?.iter().any(is_refused));
    }
    let folder = FOLDERS.iter().find(|(known, _)| *known == prefix);
    let folder = workspace().join(folder.map_or(prefix, |(_, folder)| folder));
    ensure!(folder.is_dir(), "there is no folder {}", folder.display());
    let last = test.rsplit("::").next().unwrap_or(test);
    let (function, module) = (format!("fn {last}("), format!("mod {last} "));
    let listed = format!("\"{last}\"");
    for file in files(&folder)? {
        let is_of_tests = file.strip_prefix(workspace())?.iter().any(|part| part == "tests");
        let is_file = file.file_stem().is_some_and(|stem| stem == last);
        let text = fs::read_to_string(&file)?;
        let is_listed = is_file || text.contains(&listed);
        if text.contains(&function) || text.contains(&module) || (is_of_tests && is_listed) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Each row is that of an attack, whose comment says `- row:` and the first words of the row, and no attack names another.
fn rows_are_attacked() -> TestResult {
    let rows = rows()?;
    let attacks = declared::attacks()?;
    let named = attacks.iter().flat_map(|it| it.rows.iter().map(|row| (&*it.name, &**row)));
    let named = named.chain(NOT_ATTACKABLE.map(|(row, _)| ("the list of exceptions", row)));
    let mut attacked = vec![false; rows.len()];
    for (by, row) in named {
        let whole = rows.iter().position(|known| known.cells[0] == row);
        let mut begin = (0..rows.len()).filter(|at| rows[*at].cells[0].starts_with(row));
        let at = whole.or_else(|| begin.next().filter(|_| begin.next().is_none()));
        let Some(at) = at else {
            return Err(Failure::new(format!("{by}: not one row begins with `{row}`")));
        };
        attacked[at] = true;
    }
    let left = rows.iter().zip(attacked).filter(|(_, attacked)| !attacked);
    let left: Vec<_> = left.map(|(row, _)| &row.cells[0]).collect();
    ensure!(left.is_empty(), "no attack names the rows {left:?}");
    Ok(())
}

/// Each program has a comment with its rows. The compiler warns about a function that is not listed.
fn attacks_name_rows() -> TestResult {
    let declared = declared::attacks()?;
    for name in attack::names() {
        let function = name.rsplit("::").next().unwrap_or(name);
        ensure!(declared.iter().any(|it| it.name == function), "{name} names no row");
    }
    Ok(())
}
