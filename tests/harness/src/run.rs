//! Running the tiers, one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use libtest_mimic::{Failed, Trial};
use nvrtc::Nvrtc;
use test_support::time::Began;

use super::child::{run_as_child, run_in_child};
use super::command::{Command, Faults};
use super::compiler::compilers;
use super::device::why_not;
use super::report::{self, Tally, TierReport};
use super::shards::Shards;
use super::{Case, Failure, Language, Run, Suite, TestDevice, TestResult};
use super::{schedules, suite, sweep, tools};

/// The tiers of devices.
const DEVICE_TIERS: [&str; 2] = ["emu", "gpu"];

/// Set where one program runs the tests of all crates, as on a machine without cargo.
const EVERY_CRATE: &str = "TEST_EVERY_CRATE";

/// The option that prints each test with what is done with it.
const RECORD: &str = "--record";

/// Set where `cargo test` runs the tests of all packages, but this program is run by itself.
const APART: &str = "TEST_APART";

/// Runs the tests of a suite, and those of `others` if `TEST_EVERY_CRATE` asks for them, as the command line says.
#[must_use]
pub fn main(own: Suite, others: Vec<Suite>) -> ExitCode {
    if std::env::var_os(APART).is_some() {
        println!("the device tests run by themselves");
        return ExitCode::SUCCESS;
    }
    let others = if std::env::var_os(EVERY_CRATE).is_some() { others } else { Vec::new() };
    let suite = suite::set(Suite::joined([own].into_iter().chain(others)));
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(schedules::COMMAND) => return schedules::command(arguments),
        Some(sweep::CHILD) => return sweep::child_main(arguments),
        Some(RECORD) => {
            suite.print_record();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let done = suite.commands.iter().find_map(|command| command());
    done.unwrap_or_else(|| run(&suite.all_cases()))
}

/// Runs what the command line asks for.
fn run(cases: &[Case]) -> ExitCode {
    let command = match Command::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    if let Some(name) = twice(cases) {
        eprintln!("two cases are called {name}");
        return ExitCode::from(2);
    }
    if command.list_faults {
        for case in cases.iter().filter(|case| case.is_fault()) {
            println!("{}", case.name);
        }
        return ExitCode::SUCCESS;
    }
    if let Some(name) = &command.child {
        return child(cases, &command, name);
    }

    // A tier of which this program has no test is none of its.
    let wants =
        |tier: &str| command.wants_tier(tier) && cases.iter().any(|case| is_of_tier(case, tier));
    let needs_compiler = DEVICE_TIERS.iter().chain(&["compile", "sweep"]).any(|tier| wants(tier));
    if needs_compiler
        && !command.arguments.list
        && let Err(error) = Nvrtc::find()
    {
        eprintln!("{error}\nthe tests compile kernels: `cargo xtask setup` fetches NVRTC, once");
        return ExitCode::FAILURE;
    }
    let mut reports = Vec::new();
    for (tier, run) in
        [("host", host as RunTier), ("compile", compile), ("tools", tools), ("sweep", sweep)]
    {
        if wants(tier) {
            reports.push(run(cases, &command));
        }
    }
    for language in Language::ALL {
        if wants(language.tier()) {
            reports.push(foreign(cases, &command, language));
        }
    }
    for tier in DEVICE_TIERS {
        if wants(tier) {
            reports.push(device(cases, &command, tier));
        }
    }
    if command.arguments.list {
        return ExitCode::SUCCESS;
    }
    if reports.is_empty() {
        eprintln!("there is no test of tier {}", command.tier.as_deref().unwrap_or(""));
        return ExitCode::from(2);
    }
    for report in &reports {
        if let Some(reason) = &report.not_run {
            println!("not run: tier {}: {reason}", report.tier);
        }
    }
    // A tier that is named must run.
    let missed = command.tier.is_some() && reports.iter().any(|report| report.not_run.is_some());
    let written = report::write(&reports);
    if let Err(error) = &written {
        eprintln!("the report could not be written: {error}");
    }
    if written.is_ok() && !missed && reports.iter().all(|report| report.failed == 0) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A name that two cases have.
fn twice(cases: &[Case]) -> Option<&'static str> {
    // A sweep is called as what it sweeps.
    let named = cases.iter().filter(|case| !matches!(case.run, Run::Sweep(_)));
    let mut names: Vec<_> = named.map(|case| case.name).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// The process of one fault test.
fn child(cases: &[Case], command: &Command, name: &str) -> ExitCode {
    let asked = command.tier.as_deref();
    let tier = DEVICE_TIERS.into_iter().find(|tier| asked == Some(*tier)).unwrap_or("gpu");
    let Some(case) = cases.iter().find(|case| case.name == name && case.is_fault()) else {
        eprintln!("there is no case {name}");
        return ExitCode::from(2);
    };
    match run_as_child(case, tier) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// The trials of a tier, and the counts of those that ran.
struct Tier<'a> {
    name: &'static str,
    command: &'a Command,
    tally: Arc<Tally>,
    trials: Vec<Trial>,
    /// How many trials are no cases.
    extra: u64,
    /// How many trials libtest left out, as `--skip` asks.
    left_out: u64,
    began: Began,
}

impl<'a> Tier<'a> {
    fn new(name: &'static str, command: &'a Command) -> Self {
        let (tally, trials, began) = (Arc::default(), Vec::new(), Began::now());
        Self { name, command, tally, trials, extra: 0, left_out: 0, began }
    }

    fn add(&mut self, name: &str, run: impl FnOnce() -> TestResult + Send + 'static) {
        if self.command.wants(&format!("{}::{name}", self.name)) {
            self.push(name, run);
        }
    }

    /// Adds a trial that is no case, and that no filter leaves out.
    fn add_always(&mut self, name: &str, run: impl FnOnce() -> TestResult + Send + 'static) {
        self.extra += 1;
        self.push(name, run);
    }

    fn push(&mut self, name: &str, run: impl FnOnce() -> TestResult + Send + 'static) {
        let name = format!("{}::{name}", self.name);
        let tally = self.tally.clone();
        self.trials.push(Trial::test(name.clone(), move || {
            let began = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied());
                Err(Failure::new(format!("panicked: {}", text.unwrap_or("no message"))))
            });
            let counter = if result.is_ok() { &tally.passed } else { &tally.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            tally.took(&name, began.elapsed());
            result.map_err(|failure| Failed::from(failure.to_string()))
        }));
    }

    /// Runs what was added. One thread if nothing else is asked for and `alone` says so.
    fn run(&mut self, alone: bool) {
        if self.trials.is_empty() {
            return;
        }
        let mut arguments = self.command.arguments.clone();
        if alone {
            arguments.test_threads.get_or_insert(1);
        }
        if !arguments.list {
            println!("\ntier {}", self.name);
        }
        // What passed and failed is in the tally.
        let done = libtest_mimic::run(&arguments, std::mem::take(&mut self.trials));
        self.left_out += done.num_filtered_out + done.num_ignored;
    }

    /// Returns how many cases have ended or were left out as asked.
    fn handled(&self) -> u64 {
        let (passed, failed) = self.tally.counts();
        (passed + failed + self.left_out).saturating_sub(self.extra)
    }

    fn report(self, not_run: Option<String>) -> TierReport {
        self.tally.print_slowest();
        let (passed, failed) = self.tally.counts();
        TierReport { tier: self.name, passed, failed, took: self.began.took(), not_run }
    }
}

/// Runs the cases of a tier.
type RunTier = fn(&[Case], &Command) -> TierReport;

/// Runs a case.
type RunCase = Box<dyn FnOnce() -> TestResult + Send>;

/// Returns whether a tier runs a case.
fn is_of_tier(case: &Case, tier: &str) -> bool {
    match case.run {
        Run::Host(_) => tier == "host",
        Run::Compile(_) => tier == "compile",
        Run::Tools(_) => tier == "tools",
        Run::Foreign(language, _) => tier == language.tier(),
        Run::Sweep(_) | Run::SweepEnd(_) => tier == "sweep",
        Run::Software(_) | Run::Named(_) => tier == "emu",
        Run::Library(..) => tier == "gpu",
        Run::Device(_) | Run::Fault(_) | Run::Process(_) => DEVICE_TIERS.contains(&tier),
    }
}

/// The cases, those that take long first.
fn long_first(cases: &[Case]) -> Vec<&Case> {
    let mut cases: Vec<&Case> = cases.iter().collect();
    cases.sort_by_key(|case| !case.long);
    cases
}

fn host(cases: &[Case], command: &Command) -> TierReport {
    let mut tier = Tier::new("host", command);
    for case in long_first(cases) {
        if let Run::Host(run) = case.run {
            tier.add(case.name, run);
        }
    }
    tier.run(false);
    tier.report(None)
}

fn tools(cases: &[Case], command: &Command) -> TierReport {
    let mut tier = Tier::new("tools", command);
    if let Some(reason) = tools::why_not().filter(|_| !command.arguments.list) {
        return tier.report(Some(reason));
    }
    for case in cases {
        if let Run::Tools(run) = case.run {
            tier.add(case.name, run);
        }
    }
    tier.run(false);
    tier.report(None)
}

fn sweep(cases: &[Case], command: &Command) -> TierReport {
    let mut tier = Tier::new("sweep", command);
    if let Some(reason) = why_not("emu").filter(|_| !command.arguments.list) {
        return tier.report(Some(reason));
    }
    for case in cases {
        if case.asked && command.filters.is_empty() && !command.arguments.list {
            continue;
        }
        if let Run::Sweep(run) = case.run {
            let name = case.name;
            tier.add(name, move || run(name));
        }
    }
    tier.run(false);
    for case in cases {
        if let Run::SweepEnd(run) = case.run {
            tier.add(case.name, run);
        }
    }
    tier.run(false);
    tier.report(None)
}

fn foreign(cases: &[Case], command: &Command, language: Language) -> TierReport {
    let mut tier = Tier::new(language.tier(), command);
    if let Some(reason) = language.why_not().filter(|_| !command.arguments.list) {
        return tier.report(Some(reason));
    }
    for case in cases {
        match case.run {
            Run::Foreign(of, run) if of == language => tier.add(case.name, run),
            _ => {}
        }
    }
    // nvcc is one thread that takes a second or more for each program.
    tier.run(language != Language::Cuda);
    tier.report(None)
}

fn compile(cases: &[Case], command: &Command) -> TierReport {
    let mut tier = Tier::new("compile", command);
    let compilers = match compilers() {
        Ok(compilers) => compilers,
        Err(reason) => return tier.report(Some(reason)),
    };
    let compilers: Vec<_> = compilers.into_iter().map(Arc::new).collect();
    for case in long_first(cases) {
        for compiler in &compilers {
            if let Run::Compile(run) = case.run {
                let compiler = compiler.clone();
                let name = format!("{}[{}]", case.name, compiler.version);
                tier.add(&name, move || run(&compiler));
            }
        }
    }
    tier.run(false);
    tier.report(None)
}

fn device(cases: &[Case], command: &Command, name: &'static str) -> TierReport {
    let mut tier = Tier::new(name, command);
    // Listing shows what there is, whether or not it can run here.
    let listing = command.arguments.list;
    if let Some(reason) = why_not(name).filter(|_| !listing) {
        return tier.report(Some(reason));
    }
    // A GPU has one run at a time: its tests take times.
    let shards = if name == "emu" { Shards::start(name, command) } else { Ok(Shards::whole()) };
    let mut shards = match shards {
        Ok(shards) => shards,
        Err(failure) => return tier.report(Some(failure.to_string())),
    };
    let mut device = None;
    for case in cases.iter().copied() {
        if case.is_fault() {
            if command.faults != Faults::Skip && shards.take() {
                tier.add(case.name, move || run_in_child(&case, name));
            }
            continue;
        }
        let software: Option<RunCase> = match case.run {
            Run::Software(run) => Some(Box::new(run)),
            Run::Named(run) => Some(Box::new(move || run(case.name))),
            _ => None,
        };
        if let Some(run) = software {
            if name == "emu" && command.faults != Faults::Only && shards.take() {
                tier.add(case.name, run);
            }
            continue;
        }
        let run = match case.run {
            Run::Device(run) => run,
            Run::Library(why_not, run) if name == "gpu" => {
                let wanted = command.wants(&format!("{name}::{}", case.name));
                if let Some(reason) = why_not().filter(|_| wanted && !listing) {
                    println!("not run: {name}::{}: {reason}", case.name);
                    continue;
                }
                run
            }
            _ => continue,
        };
        // The device is opened for those that run, not for those that are filtered out.
        let wanted = command.wants(&format!("{name}::{}", case.name));
        if command.faults == Faults::Only || !wanted || !shards.take() {
            continue;
        }
        if listing {
            tier.add(case.name, || Ok(()));
            continue;
        }
        let device = match device.get_or_insert_with(|| TestDevice::open(name).map(Arc::new)) {
            Ok(device) => device.clone(),
            Err(failure) => return tier.report(Some(failure.to_string())),
        };
        tier.add(case.name, move || device.run(run, case.serial));
    }
    tier.run(true);
    if let Some(Ok(device)) = device {
        // Also of a few: what they leaked is found only by this.
        tier.add_always("close", move || match Arc::try_unwrap(device) {
            Ok(device) => device.close(),
            Err(_) => Err(Failure::new("a test still holds the device")),
        });
        tier.run(true);
    }
    shards.end(&tier.tally, tier.handled());
    tier.report(None)
}
