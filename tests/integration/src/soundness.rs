//! The tests that docs/soundness.md names exist.

use test_harness::{Case, TestResult, ensure};

/// In the program, so that the test runs where there are no sources.
const DOCUMENT: &str = include_str!("../../../docs/soundness.md");

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::host("soundness_names", names_are_of_cases)]
}

/// Each name of the form `module::case` in the last column is that of a case. The attack suite checks the names
/// of other kinds, such as `ui/…` and `unit: …`.
fn names_are_of_cases() -> TestResult {
    let cases = crate::suite().all_cases();
    let mut checked = 0;
    for line in DOCUMENT.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [_, _, proofs] = cells[..] else { continue };
        for name in proofs.split('`').skip(1).step_by(2) {
            if name.contains("::") && !name.contains(' ') {
                ensure!(cases.iter().any(|case| case.name == name), "there is no case {name}");
                checked += 1;
            }
        }
    }
    ensure!(checked > 100, "only {checked} names were found");
    Ok(())
}
