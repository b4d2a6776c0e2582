//! `cargo xtask test`: the tests of all packages, then the integration tests, tier by tier.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use test_support::sample::{self, Effort};
use test_support::time::Began;
use xtask::{Error, root};

use crate::machine;
use crate::phase::Phase;
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

/// The environment variable under which the integration tests end at once. They are built with the other packages,
/// so that all share one build of the libraries, but run by themselves.
const APART_VARIABLE: &str = "TEST_APART";

/// The budget of each phase in CI, in seconds of the processors: some twice its time on two cores of an AMD EPYC on
/// 2026-11-28. A phase over its budget is printed and fails nothing, since other processors take twice as long.
const BUDGETS: [(&str, u64); 10] = [
    ("build", 1800),
    ("libraries", 1100),
    ("xtask", 100),
    ("host", 280),
    ("compile", 360),
    ("sweep", 1000),
    ("foreign-c", 60),
    ("foreign-rust", 240),
    ("foreign-python", 120),
    ("emu", 1600),
];

/// The seed of CI's samples, unless the environment names another: any text.
const CI_SEED: &str = "8a4c972702ca";

/// The tests to run.
#[derive(Debug)]
pub(crate) struct Request {
    /// How many repetitions and how large sizes.
    pub(crate) effort: Effort,
    /// The seed of all samples; if there is none, the commit's hash.
    pub(crate) seed: Option<String>,
    /// If not empty: only tests whose name contains one of these.
    pub(crate) filters: Vec<String>,
}

impl Request {
    /// Returns what CI runs. The sample is always the same, so that no change fails by a fault that it does not
    /// touch; `cargo xtask test` draws others.
    pub(crate) fn ci() -> Self {
        let seed = std::env::var(sample::SEED_VARIABLE).unwrap_or_else(|_| CI_SEED.to_owned());
        Self { effort: Effort::Ci, seed: Some(seed), filters: Vec::new() }
    }

    /// The text of the seed.
    fn seed(&self) -> String {
        let asked = self.seed.clone().or_else(|| std::env::var(sample::SEED_VARIABLE).ok());
        asked.or_else(commit).unwrap_or_else(|| "0".to_owned())
    }
}

/// The commit that is checked out, if this is a checkout.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["rev-parse", "--short=12", "HEAD"]).stderr(Stdio::null());
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs the tests and prints a summary. Whatever failed is counted, also a tier that could have run
/// and did not.
///
/// # Errors
/// Something that the tests need could not be had.
pub(crate) fn test(request: &Request) -> Result<Tally, Error> {
    let seed = request.seed();
    println!("xtask: samples are drawn from the seed {seed}");
    let mut phases = Vec::new();
    let program = build(request, &seed)?;
    phases.push(program.phase);

    let began = Began::now();
    let libraries = counted(request, || {
        let mut cargo = cargo_test(request, &seed)?;
        cargo.args(LIBRARIES).args(EXCEPT_TOOLS.as_flattened()).env(APART_VARIABLE, "1");
        Ok(cargo)
    })?;
    phases.push(Phase::tested("libraries", began, libraries));

    let began = Began::now();
    let tools = counted(request, || {
        let mut cargo = cargo_test(request, &seed)?;
        cargo.args(TOOLS.map(|tool| ["--package", tool]).as_flattened());
        Ok(cargo)
    })?;
    phases.push(Phase::tested("xtask", began, tools));

    let (tiers, mut problems, python) = match program.path {
        Some(path) => integration(request, &seed, &path)?,
        None => (Vec::new(), vec!["the integration tests were not built".to_owned()], false),
    };
    let mut sum = libraries;
    sum += tools;
    for tier in &tiers {
        phases.push(tier.phase());
        sum += tier.tally;
    }
    println!();
    for phase in &phases {
        println!("{phase}");
    }
    problems.extend(tally::problems(
        &tiers,
        &required_tiers(machine::has_gpu(), python),
        !request.filters.is_empty(),
    ));
    if request.effort == Effort::Ci {
        for over in phases.iter().filter_map(|phase| phase.over(&BUDGETS)) {
            println!("slow: {over}");
        }
    }
    for problem in problems {
        println!("FAILED: {problem}");
        sum += Tally::FAILURE;
    }
    Ok(sum)
}

/// The tests of all packages but the tools, in the profile of the demo and the bundle, so that one build serves
/// them all. The tools are built for development already: they are running.
pub(crate) const LIBRARIES: [&str; 2] = ["--release", "--workspace"];
pub(crate) const EXCEPT_TOOLS: [[&str; 2]; 3] =
    [["--exclude", TOOLS[0]], ["--exclude", TOOLS[1]], ["--exclude", TOOLS[2]]];

/// The integration tests' program, if it could be built.
struct Program {
    path: Option<PathBuf>,
    phase: Phase,
}

/// Builds all tests. A test that does not compile fails again, and is counted, when it is to run.
fn build(request: &Request, seed: &str) -> Result<Program, Error> {
    let began = Began::now();
    let mut cargo = cargo_test(request, seed)?;
    cargo.args(LIBRARIES).args(EXCEPT_TOOLS.as_flattened());
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let messages = process::printed(&mut cargo)?;
    let path = messages.lines().filter_map(executable).next_back();
    Ok(Program { path, phase: Phase::ended("build", began, "") })
}

/// The program that a message of cargo says it built, if it is the integration tests'.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let target = &message["target"];
    let ours = message["reason"] == "compiler-artifact"
        && target["name"] == "integration"
        && target["kind"][0] == "test";
    ours.then(|| message["executable"].as_str().map(PathBuf::from))?
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
fn cargo_test(request: &Request, seed: &str) -> Result<Command, Error> {
    let mut cargo = process::cargo();
    cargo.args(["test", "--no-fail-fast"]);
    given(&mut cargo, request, seed)?;
    Ok(cargo)
}

/// Gives a program what all tests are given.
fn given(program: &mut Command, request: &Request, seed: &str) -> Result<(), Error> {
    match request.effort {
        Effort::Quick => {}
        Effort::Ci => drop(program.env(sample::CI_VARIABLE, "1")),
        Effort::Deep => drop(program.env(sample::DEEP_VARIABLE, "1")),
    }
    program.env(sample::SEED_VARIABLE, seed);
    setup::name_tested_nvrtc(program)
}

/// Runs tests under Rust's own harness, once for each filter: some test programs take only one. A run that fails without
/// a failed test (it did not build, say) counts as one failure.
fn counted(request: &Request, cargo: impl Fn() -> Result<Command, Error>) -> Result<Tally, Error> {
    let mut sum = Tally::default();
    let all: &[&[String]] = &[&[]];
    let each: Vec<&[String]> = request.filters.chunks(1).collect();
    for filters in if each.is_empty() { all } else { &each } {
        let mut cargo = cargo()?;
        cargo.arg("--").args(*filters);
        let (status, tally) = process::counting(&mut cargo)?;
        sum += tally;
        if !status.success() && tally.failed == 0 {
            sum += Tally::FAILURE;
        }
    }
    Ok(sum)
}

/// Runs the integration tests: each tier's result, what is wrong beside failed tests, and whether programs in
/// Python could be tested.
fn integration(
    request: &Request,
    seed: &str,
    path: &Path,
) -> Result<(Vec<Tier>, Vec<String>, bool), Error> {
    let folder = root().join("target");
    fs::create_dir_all(&folder)?;
    let report = folder.join(format!("test-report-{}.json", std::process::id()));
    let mut program = process::program(path);
    given(&mut program, request, seed)?;
    let package = root().join("tests/integration");
    program
        .args(&request.filters)
        .env(REPORT_VARIABLE, &report)
        .env("CARGO_MANIFEST_DIR", &package)
        .current_dir(package)
        .stdin(Stdio::null());
    let python = setup::name_python(&mut program)?;
    let status = process::status(&mut program)?;

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
    fn the_integration_tests_are_found_among_what_is_built() {
        let built = |kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"executable":"/t/{name}"}}"#
            )
        };
        assert_eq!(executable(&built("test", "integration")), Some("/t/integration".into()));
        assert_eq!(executable(&built("lib", "integration")), None);
        assert_eq!(executable(&built("test", "other")), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(executable("no JSON"), None);
    }

    #[test]
    fn a_seed_that_is_asked_for_is_taken() {
        let asked = Request { seed: Some("7".to_owned()), ..Request::ci() };
        assert_eq!(asked.seed(), "7");
    }

    #[test]
    fn what_is_there_makes_its_tier_required() {
        let always = ["host", "compile", "sweep", "foreign-c", "foreign-rust", "emu"];
        assert_eq!(required_tiers(false, false), always);
        assert_eq!(required_tiers(true, true), [&always[..], &["foreign-python", "gpu"]].concat());
    }
}
