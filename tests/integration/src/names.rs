//! The list of tests: no case of `tests/integration/golden/tests.txt` disappears without notice. `cargo xtask names` checks the
//! tests of the other packages.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::{Case, Failure, TestResult, ensure, ensure_eq};

const TESTS: &str = include_str!("../golden/tests.txt");
const RENAMED: &str = include_str!("../golden/renamed.txt");

/// The kind of the lines that are about this program.
const KIND: &str = "integration ";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::host("names::every_recorded_test_exists", every_recorded_test_exists),
        Case::host("names::missing_tests_are_found", missing_tests_are_found),
    ]
}

/// New names by old ones.
fn renames(text: &str) -> Result<BTreeMap<&str, &str>, Failure> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            line.split_once(" -> ")
                .ok_or_else(|| Failure::new(format!("renamed.txt: {line:?} is not `old -> new`")))
        })
        .collect()
}

/// The recorded cases that are found neither under their names nor under their new ones.
fn missing<'a>(
    recorded: &'a str,
    renamed: &BTreeMap<&str, &str>,
    found: &BTreeSet<&str>,
) -> Vec<&'a str> {
    let is_missing = |line: &&str| {
        let now = renamed.get(line).copied().unwrap_or(line);
        // `cargo xtask names` checks the other kinds, also of a case that has become a test of a crate.
        now.strip_prefix(KIND).is_some_and(|name| !found.contains(name))
    };
    recorded.lines().filter(is_missing).collect()
}

fn every_recorded_test_exists() -> TestResult {
    let all = crate::suite().all_cases();
    let found: BTreeSet<&str> = all.iter().map(|case| case.name).collect();
    if std::env::var("TEST_GOLDEN").is_ok_and(|value| value == "write") {
        return add(&found);
    }
    let missing = missing(TESTS, &renames(RENAMED)?, &found);
    ensure!(
        missing.is_empty(),
        "tests of tests/integration/golden/tests.txt that are gone (restore them, or say in renamed.txt what they are called \
         now):\n{}",
        missing.join("\n")
    );
    Ok(())
}

/// Adds new cases to the file.
fn add(found: &BTreeSet<&str>) -> TestResult {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/tests.txt");
    let text = std::fs::read_to_string(file)?;
    let (head, old): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('#'));
    let mut all: BTreeSet<String> = old.into_iter().map(str::to_owned).collect();
    all.extend(found.iter().map(|name| format!("{KIND}{name}")));
    let lines: Vec<&str> = head.into_iter().chain(all.iter().map(String::as_str)).collect();
    Ok(std::fs::write(file, lines.join("\n") + "\n")?)
}

fn missing_tests_are_found() -> TestResult {
    let recorded = "# head\nintegration a::b\nintegration c\nunit p one\n";
    let none = BTreeMap::new();
    ensure_eq!(missing(recorded, &none, &BTreeSet::from(["a::b", "c"])), [""; 0]);
    ensure_eq!(missing(recorded, &none, &BTreeSet::from(["a::b", "d"])), ["integration c"]);
    let renamed = renames("# old -> new\n\nintegration c -> integration d\n")?;
    ensure_eq!(missing(recorded, &renamed, &BTreeSet::from(["a::b", "d"])), [""; 0]);
    ensure_eq!(missing(recorded, &renamed, &BTreeSet::from(["a::b", "c"])), ["integration c"]);
    // A case that is now a test of another kind, and the reverse.
    let moved = renames("integration c -> unit p c\nunit p one -> integration one\n")?;
    ensure_eq!(missing(recorded, &moved, &BTreeSet::from(["a::b", "one"])), [""; 0]);
    ensure_eq!(missing(recorded, &moved, &BTreeSet::from(["a::b", "c"])), ["unit p one"]);
    ensure!(renames("integration c").is_err());
    Ok(())
}
