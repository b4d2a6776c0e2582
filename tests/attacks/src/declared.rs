//! What attacks declare in their comments: the rows of docs/soundness.md that they attack, and the functions that they use.

use std::fs;
use std::path::{Path, PathBuf};

use test_harness::{Failure, TestResult, ensure};

use crate::attack::package;
use crate::sources::files;

/// The comment of an attack.
#[derive(Default)]
pub(crate) struct Declared {
    /// The file, whose other functions the attack may call.
    pub(crate) file: PathBuf,
    /// The name of the function or the module.
    pub(crate) name: String,
    /// Whether it is a module, which must not compile.
    pub(crate) is_module: bool,
    /// The beginnings of rows.
    pub(crate) rows: Vec<String>,
    /// Functions as `Type::name`.
    pub(crate) targets: Vec<String>,
}

/// Reads the comments of all programs, and of all programs that must not compile.
pub(crate) fn attacks() -> Result<Vec<Declared>, Failure> {
    let mut all = Vec::new();
    for folder in ["src/attacks", "refused/programs"] {
        for file in files(&package().join(folder))? {
            of_text(&fs::read_to_string(&file)?, &file, &mut all)?;
        }
    }
    ensure!(all.len() > 400, "only {} attacks have comments", all.len());
    Ok(all)
}

/// Adds the attacks of a file: the comments with a row. That of a function stands before it, that of a module in it.
fn of_text(text: &str, file: &Path, all: &mut Vec<Declared>) -> TestResult {
    let name_after = |line: &str, word| {
        let rest = line.split_once(word).map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split(['(', ' ']).next()).map(str::to_owned)
    };
    let (mut module, mut now, mut is_in_targets) = (None, Declared::default(), false);
    for line in text.lines() {
        let line = line.trim_start();
        if line.starts_with("///") || line.starts_with("//!") {
            let comment = &line[3..];
            now.is_module = line.starts_with("//!");
            is_in_targets =
                comment.starts_with(" - targets:") || (is_in_targets && comment.starts_with("   "));
            if is_in_targets {
                now.targets.extend(quoted(comment).map(str::to_owned));
            } else if let Some(row) = comment.strip_prefix(" - row: ") {
                now.rows.push(row.to_owned());
            }
            continue;
        }
        if line.starts_with("mod ") && line.ends_with('{') {
            module = name_after(line, "mod ");
        }
        if now.rows.is_empty() || line.starts_with("#[") {
            continue;
        }
        let name = if now.is_module { module.take() } else { name_after(line, "fn ") };
        let name = name.unwrap_or_default();
        ensure!(!now.targets.is_empty(), "{name} of {} declares no `targets`", file.display());
        all.push(Declared { file: file.to_owned(), name, ..std::mem::take(&mut now) });
    }
    Ok(())
}

/// Returns the parts of a text in backticks.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
