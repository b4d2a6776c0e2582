//! `cargo xtask test`: the tests of all packages, then the integration tests, tier by tier.

use std::fs;
use std::process::Command;

use xtask::{Error, root};

use crate::machine;
use crate::process;
use crate::setup;
use crate::tally::{self, Tally, Tier};

/// The package of the integration tests.
pub(crate) const INTEGRATION: &str = "integration-tests";

/// The packages of the project's own tools.
pub(crate) const TOOLS: [&str; 3] = ["xtask", "xtask-bindgen", "xtask-ptx"];

/// The environment variable that names the file into which the integration tests write their
/// report.
const REPORT_VARIABLE: &str = "TEST_REPORT";

/// The environment variable that asks every test for more and larger cases.
const DEEP_VARIABLE: &str = "TEST_DEEP";

/// Which tests to run.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// More random cases, larger sizes.
    pub(crate) deep: bool,
    /// If not empty: only tests whose name contains one of these.
    pub(crate) filters: Vec<String>,
}

/// Runs the tests and prints a summary. Whatever failed is counted, also a tier that could have run
/// and did not.
///
/// # Errors
/// Something that the tests need could not be had.
pub(crate) fn test(request: &Request) -> Result<Tally, Error> {
    // The profile of the demo and the bundle, so that one build serves them all.
    let mut libraries = cargo_test(request)?;
    libraries.args(["--release", "--workspace"]);
    libraries.args(["--exclude", INTEGRATION]);
    // The tools are built for development already: they are running.
    libraries.args(TOOLS.map(|tool| ["--exclude", tool]).as_flattened());
    let libraries = counted(&mut libraries, request)?;

    let mut tools = cargo_test(request)?;
    tools.args(TOOLS.map(|tool| ["--package", tool]).as_flattened());
    let tools = counted(&mut tools, request)?;

    let (tiers, mut problems, python) = integration(request)?;

    println!("\n{:14} {libraries}", "libraries");
    println!("{:14} {tools}", "tools");
    let mut sum = libraries;
    sum += tools;
    for tier in &tiers {
        println!("{tier}");
        sum += tier.tally;
    }
    problems.extend(tally::problems(
        &tiers,
        &required_tiers(machine::has_gpu(), python),
        !request.filters.is_empty(),
    ));
    for problem in problems {
        println!("FAILED: {problem}");
        sum += Tally::FAILURE;
    }
    Ok(sum)
}

/// The tiers that can run on a machine; `python` says whether there are packages for its Python.
fn required_tiers(gpu: bool, python: bool) -> Vec<&'static str> {
    let mut tiers = vec!["host", "compile", "sweep", "foreign-c", "foreign-rust", "emu"];
    if python {
        tiers.push("foreign-python");
    }
    if gpu {
        tiers.push("gpu");
    }
    tiers
}

/// `cargo test` with what all tests are given.
fn cargo_test(request: &Request) -> Result<Command, Error> {
    let mut cargo = process::cargo();
    cargo.args(["test", "--no-fail-fast"]);
    if request.deep {
        cargo.env(DEEP_VARIABLE, "1");
    }
    setup::name_tested_nvrtc(&mut cargo)?;
    Ok(cargo)
}

/// Runs tests under Rust's own harness. A run that fails without a failed test (it did not build,
/// say) counts as one failure.
fn counted(cargo: &mut Command, request: &Request) -> Result<Tally, Error> {
    cargo.arg("--").args(&request.filters);
    let (status, mut tally) = process::counting(cargo)?;
    if !status.success() && tally.failed == 0 {
        tally += Tally::FAILURE;
    }
    Ok(tally)
}

/// Runs the integration tests: each tier's result, what is wrong beside failed tests, and whether programs in
/// Python could be tested.
fn integration(request: &Request) -> Result<(Vec<Tier>, Vec<String>, bool), Error> {
    let folder = root().join("target");
    fs::create_dir_all(&folder)?;
    let report = folder.join(format!("test-report-{}.json", std::process::id()));
    let mut cargo = cargo_test(request)?;
    cargo
        .args(["--release", "--package", INTEGRATION, "--"])
        .args(&request.filters)
        .env(REPORT_VARIABLE, &report);
    let python = setup::name_python(&mut cargo)?;
    let status = process::status(&mut cargo)?;

    let read = fs::read_to_string(&report)
        .map_err(|error| Error::from(format!("the integration tests left no report: {error}")))
        .and_then(|text| tally::parse_report(&text));
    // Without a report there is no file to remove; `read` says that already.
    let _ = fs::remove_file(&report);
    let tiers = match read {
        Ok(tiers) => tiers,
        Err(error) => return Ok((Vec::new(), vec![format!("{error} ({status})")], python)),
    };
    let mut problems = Vec::new();
    if !status.success() && tiers.iter().all(|tier| tier.tally.failed == 0) {
        problems.push(format!("the integration tests report no failure: {status}"));
    }
    Ok((tiers, problems, python))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_makes_its_tier_required() {
        let always = ["host", "compile", "sweep", "foreign-c", "foreign-rust", "emu"];
        assert_eq!(required_tiers(false, false), always);
        assert_eq!(required_tiers(true, true), [&always[..], &["foreign-python", "gpu"]].concat());
    }
}
