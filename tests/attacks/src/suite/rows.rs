//! The rows of docs/soundness.md. An attack names a row by its first words.

use std::fs;

use super::missing;
use crate::harness::{Attack, Failure, TestResult, ensure, workspace};

/// Rows that no safe program can attack, by their first words, and why.
const NOT_ATTACKABLE: &[(&str, &str)] = &[
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

/// A row of a table.
pub(super) struct Row {
    /// The first cell: the guarantee, or what is unsafe.
    pub(super) guarantee: String,
    pub(super) cells: Vec<String>,
    /// Where the section says that its files are, below the workspace's folder.
    pub(super) folder: String,
}

/// Where files are if a section says nothing.
const FOLDER: &str = "cuda-safe/src";

/// How a section says where its files are; a name in backticks follows.
const FILES: &str = "Files are those of `";

/// The rows of all tables, without heads.
pub(super) fn rows() -> Result<Vec<Row>, Failure> {
    let text = fs::read_to_string(workspace().join("docs/soundness.md"))?;
    let mut rows = Vec::new();
    let (mut before, mut folder) = ("", FOLDER);
    for line in text.lines() {
        if line.starts_with('#') {
            folder = FOLDER;
        }
        let named = line.split_once(FILES).and_then(|(_, rest)| rest.split_once('`'));
        folder = named.map_or(folder, |(named, _)| named);
        let is_row = |line: &str| line.starts_with('|');
        let is_rule = |line: &str| is_row(line) && line.chars().all(|c| "|-: ".contains(c));
        // A head is the line before a rule.
        if is_row(before) && !is_rule(before) && !is_rule(line) {
            rows.push(row(before, folder));
        }
        before = line;
    }
    if before.starts_with('|') {
        rows.push(row(before, folder));
    }
    ensure!(rows.len() > 40, "only {} rows were found", rows.len());
    Ok(rows)
}

fn row(line: &str, folder: &str) -> Row {
    let cells: Vec<String> =
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    Row { guarantee: cells[0].clone(), cells, folder: folder.to_owned() }
}

/// Each row that an attack names begins so, and no other one does.
pub(super) fn rows_exist(attacks: &[Attack]) -> TestResult {
    let rows = rows()?;
    let named =
        attacks.iter().flat_map(|attack| attack.rows.iter().map(|row| (&*attack.name, &**row)));
    let named = named.chain(NOT_ATTACKABLE.iter().map(|(row, _)| ("the list of exceptions", *row)));
    for (by, row) in named {
        let count = rows.iter().filter(|known| names(row, known, &rows)).count();
        ensure!(count == 1, "{by}: {count} rows of docs/soundness.md begin with `{row}`");
    }
    Ok(())
}

/// Whether an attack that names a row so means this one: its first words, or all of it if these are a whole row.
fn names(named: &str, row: &Row, rows: &[Row]) -> bool {
    let is_whole = rows.iter().any(|row| row.guarantee == named);
    if is_whole { row.guarantee == named } else { row.guarantee.starts_with(named) }
}

pub(super) fn every_row_is_attacked(attacks: &[Attack]) -> TestResult {
    let rows = rows()?;
    let attacked = |row: &Row| {
        let named = attacks.iter().flat_map(|attack| &attack.rows).map(String::as_str);
        let named = named.chain(NOT_ATTACKABLE.iter().map(|(row, _)| *row));
        named.into_iter().any(|named| names(named, row, &rows))
    };
    let left: Vec<_> = rows.iter().filter(|row| !attacked(row)).collect();
    let left: Vec<_> = left.into_iter().map(|row| row.guarantee.clone()).collect();
    missing("rows of docs/soundness.md are not attacked", &left)
}
