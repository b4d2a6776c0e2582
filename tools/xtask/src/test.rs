//! `cargo xtask test`: the tests of all packages, then the device tests of each crate, tier by tier.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use serde_json::Value;
use test_support::sample::{self, Effort};
use test_support::time::{Began, Took};
use xtask::{Error, root};

use crate::failures::Failures;
use crate::machine;
use crate::phase::Phase;
use crate::process;
use crate::setup;
use crate::tally::{self, Report, Sums, Tally};

/// The package whose program links the device tests of all crates.
pub(crate) const INTEGRATION: &str = "integration-tests";

/// The programs of device tests, which run one after the other: the folder of the package, and the target.
const PROGRAMS: [(&str, &str); 8] = [
    ("tests/harness", "suite"),
    ("cuda-safe", "suite"),
    ("geom-kernels", "suite"),
    ("tape", "suite"),
    ("cuda-libs", "suite"),
    ("cuda-emu", "suite"),
    ("tests/attacks", "attacks"),
    ("tests/integration", "integration"),
];

/// The packages of the project's own tools.
pub(crate) const TOOLS: [&str; 3] = ["xtask", "xtask-bindgen", "xtask-ptx"];

/// How cargo builds the tools. The workspace's profile for development optimises `ptx`, which takes 23 s of a processor;
/// the tools read all kernels in 2 s without it.
pub(crate) const OF_TOOLS: [&str; 2] = ["--config", "profile.dev.package.ptx.opt-level=0"];

/// The environment variable that names the file into which a program of device tests writes its
/// report.
const REPORT_VARIABLE: &str = "TEST_REPORT";

/// The environment variable under which a program of device tests ends at once. They are built with the other packages,
/// so that all share one build of the libraries, but run by themselves.
const APART_VARIABLE: &str = "TEST_APART";

/// The budget of each phase in CI, in seconds of the processors: some twice its time on two cores of an AMD EPYC on
/// 2026-11-28. A phase over its budget is printed and fails nothing, since other processors take twice as long.
const BUDGETS: [(&str, u64); 10] = [
    ("build", 1800),
    ("libraries", 1200),
    ("host", 280),
    ("compile", 360),
    ("sweep", 1000),
    ("foreign-c", 60),
    ("foreign-rust", 240),
    ("foreign-python", 120),
    ("foreign-cuda", 130),
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
    run(request, &build(request)?)
}

/// Runs what was built. The tests of packages run beside the device tests: neither keeps all processors busy.
///
/// # Errors
/// As [`test`].
pub(crate) fn run(request: &Request, built: &Built) -> Result<Tally, Error> {
    let Built { seed, programs, phase } = built;
    let began = Began::now();
    let (packages, devices) = thread::scope(|scope| {
        // An error as text, since an `Error` stays in its thread.
        let packages = scope.spawn(|| packages(request, seed).map_err(|error| error.to_string()));
        let devices = device_tests(request, seed, programs);
        (packages.join(), devices)
    });
    let used = began.took().processor;
    let mut packages = packages.map_err(|_| "the thread of the packages' tests has panicked")??;
    println!("\ntests of packages\n{}", packages.output);
    let Devices { report, mut problems, found, failures } = devices?;
    let tiers = &report.tiers;
    // The device tests report their time; the rest is that of the packages.
    let of_devices = tiers.iter().map(|tier| tier.took.processor).sum();
    packages.took.processor = used.saturating_sub(of_devices);
    let result = packages.tally.to_string();
    let mut phases =
        vec![phase.clone(), Phase { name: "libraries".to_owned(), took: packages.took, result }];
    let mut sum = packages.tally;
    for tier in tiers {
        phases.push(tier.phase());
        sum += tier.tally;
    }
    println!();
    for phase in &phases {
        println!("{phase}");
    }
    let filtered = !request.filters.is_empty();
    problems.extend(tally::problems(tiers, &required_tiers(machine::has_gpu(), found), filtered));
    if !filtered {
        problems.extend(report.sums.below(&Sums::wanted(request.effort)));
    }
    if request.effort == Effort::Ci {
        for over in phases.iter().filter_map(|phase| phase.over(&BUDGETS)) {
            println!("slow: {over}");
        }
    }
    for line in packages.failures.lines().iter().chain(failures.lines()) {
        println!("{line}");
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

/// What [`build`] has built.
#[derive(Debug)]
pub(crate) struct Built {
    /// The text from which all samples are drawn.
    seed: String,
    /// Those of `PROGRAMS`; empty where one was not built.
    programs: Vec<PathBuf>,
    phase: Phase,
}

/// Builds all tests. A test that does not compile fails again, and is counted, when it is to run.
///
/// # Errors
/// Something that the tests need could not be had.
pub(crate) fn build(request: &Request) -> Result<Built, Error> {
    let seed = request.seed();
    println!("xtask: samples are drawn from the seed {seed}");
    let began = Began::now();
    let mut cargo = cargo_test(request, &seed)?;
    cargo.args(LIBRARIES).args(EXCEPT_TOOLS.as_flattened());
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let messages = process::printed(&mut cargo)?;
    let found = |(folder, target): &(&str, &str)| {
        messages.lines().filter_map(|message| executable(message, folder, target)).next_back()
    };
    let programs = PROGRAMS.iter().map(|program| found(program).unwrap_or_default()).collect();
    Ok(Built { seed, programs, phase: Phase::ended("build", began, "") })
}

/// The tests of packages under Rust's own harness.
#[derive(Debug)]
struct Packages {
    tally: Tally,
    failures: Failures,
    output: String,
    took: Took,
}

/// Runs the tests of all packages, then those of the tools, and keeps their output.
fn packages(request: &Request, seed: &str) -> Result<Packages, Error> {
    let (began, mut failures, mut output) = (Began::now(), Failures::default(), String::new());
    let mut tally = counted(request, &mut failures, &mut output, || {
        let mut cargo = cargo_test(request, seed)?;
        cargo.args(LIBRARIES).args(EXCEPT_TOOLS.as_flattened()).env(APART_VARIABLE, "1");
        Ok(cargo)
    })?;
    tally += counted(request, &mut failures, &mut output, || {
        let mut cargo = cargo_test(request, seed)?;
        cargo.args(OF_TOOLS).args(TOOLS.map(|tool| ["--package", tool]).as_flattened());
        Ok(cargo)
    })?;
    Ok(Packages { tally, failures, output, took: began.took() })
}

/// The program that a message of cargo says it built, if it is this target of the package in `folder`.
fn executable(message: &str, folder: &str, target: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let manifest = Path::new(folder).join("Cargo.toml");
    let ours = message["reason"] == "compiler-artifact"
        && message["target"]["name"] == target
        && message["target"]["kind"][0] == "test"
        && Path::new(message["manifest_path"].as_str()?).ends_with(manifest);
    ours.then(|| message["executable"].as_str().map(PathBuf::from))?
}

/// What could be fetched for foreign programs.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Packages for the machine's Python.
    python: bool,
    /// nvcc, and a compiler of the host that it can call.
    nvcc: bool,
}

/// The tiers that can run on a machine.
fn required_tiers(gpu: bool, found: Found) -> Vec<&'static str> {
    let mut tiers = vec!["host", "compile", "sweep", "foreign-c", "foreign-rust", "emu"];
    if found.python {
        tiers.push("foreign-python");
    }
    if found.nvcc {
        tiers.push("foreign-cuda");
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
fn counted(
    request: &Request,
    failures: &mut Failures,
    output: &mut String,
    cargo: impl Fn() -> Result<Command, Error>,
) -> Result<Tally, Error> {
    let mut sum = Tally::default();
    let all: &[&[String]] = &[&[]];
    let each: Vec<&[String]> = request.filters.chunks(1).collect();
    for filters in if each.is_empty() { all } else { &each } {
        let mut cargo = cargo()?;
        cargo.arg("--").args(*filters);
        let keep = |line: &str| {
            output.push_str(line);
            output.push('\n');
        };
        let (status, tally) = process::counting(&mut cargo, failures, keep)?;
        sum += tally;
        if !status.success() && tally.failed == 0 {
            sum += Tally::FAILURE;
        }
    }
    Ok(sum)
}

/// The results of the device tests.
#[derive(Debug)]
struct Devices {
    /// Of all programs.
    report: Report,
    /// What is wrong beside failed tests.
    problems: Vec<String>,
    found: Found,
    failures: Failures,
}

/// Runs the programs of device tests, their output shown.
fn device_tests(request: &Request, seed: &str, programs: &[PathBuf]) -> Result<Devices, Error> {
    let (mut all, mut problems) = (Report::default(), Vec::new());
    let mut failures = Failures::default();
    // Named once: each look at what was downloaded takes a while.
    let mut named = Command::new("");
    given(&mut named, request, seed)?;
    let python = setup::name_python(&mut named)?;
    let found = Found { python, nvcc: setup::name_nvcc(&mut named) };
    for ((folder, _), path) in PROGRAMS.iter().zip(programs) {
        if path.as_os_str().is_empty() {
            problems.push(format!("the device tests of {folder} were not built"));
            continue;
        }
        println!("\ndevice tests of {folder}");
        let mut program = process::program(path);
        let variables = named.get_envs();
        program.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        match device_tests_of(request, folder, &mut program, &mut failures) {
            Ok((report, status)) => {
                if !status.success() && report.tiers.iter().all(|tier| tier.tally.failed == 0) {
                    problems.push(format!("the tests of {folder} report no failure: {status}"));
                }
                let empty = |tier: &&tally::Tier| tier.ran == 0 && tier.not_run.is_none();
                for tier in report.tiers.iter().filter(empty).filter(|_| request.filters.is_empty())
                {
                    problems.push(format!("tier {} of {folder} has run no test", tier.name));
                }
                all += report;
            }
            Err(error) => problems.push(format!("the tests of {folder}: {error}")),
        }
    }
    Ok(Devices { report: all, problems, found, failures })
}

/// Runs a program of device tests, and returns its report.
fn device_tests_of(
    request: &Request,
    folder: &str,
    program: &mut Command,
    failures: &mut Failures,
) -> Result<(Report, ExitStatus), Error> {
    let target = root().join("target");
    fs::create_dir_all(&target)?;
    let report = target.join(format!("test-report-{}.json", std::process::id()));
    let package = root().join(folder);
    program
        .args(&request.filters)
        .env(REPORT_VARIABLE, &report)
        .env("CARGO_MANIFEST_DIR", &package)
        .current_dir(package)
        .stdin(Stdio::null());
    let (status, _) = process::counting(program, failures, |line| println!("{line}"))?;
    let read = fs::read_to_string(&report);
    // Without a report there is no file to remove; `read` says that already.
    let _ = fs::remove_file(&report);
    let read = read.map_err(|error| format!("there is no report: {error} ({status})"))?;
    Ok((tally::parse_report(&read)?, status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_tests_are_found_among_what_is_built() {
        let built = |kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/tape/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"executable":"/t/{name}"}}"#
            )
        };
        let find = |message: &str, folder| executable(message, folder, "suite");
        assert_eq!(find(&built("test", "suite"), "tape"), Some("/t/suite".into()));
        assert_eq!(find(&built("test", "suite"), "ptx"), None);
        assert_eq!(find(&built("lib", "suite"), "tape"), None);
        assert_eq!(find(&built("test", "other"), "tape"), None);
        assert_eq!(find(r#"{"reason":"build-finished","success":true}"#, "tape"), None);
        assert_eq!(find("no JSON", "tape"), None);
    }

    #[test]
    fn every_program_is_a_target_of_its_package() {
        for (folder, target) in PROGRAMS {
            let manifest = root().join(folder).join("Cargo.toml");
            let text = fs::read_to_string(&manifest).unwrap_or_default();
            assert!(text.contains(&format!("name = \"{target}\"")), "{}", manifest.display());
        }
    }

    #[test]
    fn a_seed_that_is_asked_for_is_taken() {
        let asked = Request { seed: Some("7".to_owned()), ..Request::ci() };
        assert_eq!(asked.seed(), "7");
    }

    #[test]
    fn what_is_there_makes_its_tier_required() {
        let always = ["host", "compile", "sweep", "foreign-c", "foreign-rust", "emu"];
        let of = |python, nvcc| Found { python, nvcc };
        assert_eq!(required_tiers(false, of(false, false)), always);
        let all = [&always[..], &["foreign-python", "foreign-cuda", "gpu"]].concat();
        assert_eq!(required_tiers(true, of(true, true)), all);
    }
}
