//! Every schedule: device tests on the software device again, each under many seeds of its
//! scheduler, and how many interleavings that has made of them.
//!
//! The tests are those of [`Suite::schedules`], unchanged, and judge as ever.
//! Which of them are in question is measured: one whose work was never left to the seed has one
//! interleaving, and runs no more. `schedules::every_seed` runs each of the rest under some seeds, which are drawn from
//! the run's seed. A deep run gives each of 1,000 to every one. Numbers of the
//! tape that are compared within a tolerance must be the same bits under every seed, unless atomics add them.
//!
//! A failure says how to run it again: `--schedule NAME SEED` runs one test under one seed.

mod child;
mod finds;
mod parent;

use std::collections::{BTreeMap, HashSet};

use crate::report::count_schedules;
use crate::sabotage::Plant;
use crate::{
    Case, Effort, Run, SEVERAL_DEVICES, Suite, TestDevice, TestResult, deep, ensure, ensure_eq,
    sample, suite,
};
use parent::run_all;

pub(crate) use child::{COMMAND, command};
pub use finds::{finds, hunt};
pub use parent::{Outcome, Ran, Unit, run_all_with};

/// The tests of a suite that run under seeds.
#[derive(Clone, Default)]
pub struct Schedules {
    pub tests: Vec<(&'static str, Test)>,
    /// Whether they are slow: then a deep run first tries one seed of each, not twenty.
    pub slow: bool,
    /// If they are mostly on one stream: how the names of those begin that a short run takes beside those about graphs or
    /// streams. Without it a short run takes all.
    pub short: Option<&'static [&'static str]>,
    /// Tests whose claim is about time or progress, which a seed decides here; and why.
    pub apart: &'static [(&'static str, &'static str)],
    /// Tests whose numbers are sums that atomics add in any order: those of passes that were not asked
    /// to be deterministic.
    pub any_order: &'static [&'static str],
}

impl Schedules {
    /// All tests on a device.
    #[must_use]
    pub fn of(cases: &[Case]) -> Self {
        let test = |case: &Case| match case.run {
            Run::Device(test) => Some((case.name, test)),
            _ => None,
        };
        Self { tests: cases.iter().filter_map(test).collect(), ..Self::default() }
    }
}

/// The tests of a suite's schedules.
pub(crate) fn cases(suite: &Suite) -> Vec<Case> {
    let mut cases = Vec::new();
    if !suite.schedules.is_empty() {
        cases.push(Case::software("schedules::every_seed", every_seed));
    }
    if suite.cases.iter().any(Case::is_of_several) {
        cases.push(Case::software("schedules::several_devices", several_devices));
    }
    cases
}

/// Tests of the schedules themselves.
pub(crate) fn own_cases() -> Vec<Case> {
    vec![Case::host("schedules::numbers_that_change_are_told", changed_numbers)]
}

/// How many seeds a deep run gives to each test, and how many those of several devices share.
fn seeds() -> u64 {
    if sample::effort() == Effort::Quick { 200 } else { 1000 }
}

/// How many seeds another run gives to a test. Together the tests of all crates have as many as `cargo xtask test` wants.
fn share() -> u64 {
    if sample::effort() == Effort::Quick { 2 } else { 8 }
}

/// The first seed after 0, drawn for this run.
#[must_use]
pub fn first_seed() -> u64 {
    1 + sample::seed() % 1_000_000_000
}

/// So many seeds say in a deep run that a test has one interleaving.
const PROBES: u64 = 20;

/// A test with more work than this runs under the first seed alone, but for deep runs.
const MANY: u64 = 50_000;

/// The seeds that one process runs a test under, at most: so that many can share a slow one.
const CHUNK: usize = 100;

/// A test of a device.
pub type Test = fn(&TestDevice) -> TestResult;

/// A test that may be in question.
struct Candidate {
    name: &'static str,
    slow: bool,
}

fn find(name: &str) -> Option<Test> {
    let case = suite().case(name)?;
    match case.run {
        Run::Device(test) => Some(test),
        Run::Fault(test) if case.is_of_several() => Some(test),
        _ => None,
    }
}

/// The tests of several devices.
fn of_several() -> Vec<(&'static str, Test)> {
    let cases = suite().cases.iter().filter(|case| case.is_of_several());
    let test = |case: &Case| match case.run {
        Run::Fault(test) => Some((case.name, test)),
        _ => None,
    };
    cases.filter_map(test).collect()
}

/// Each test of several devices under some seeds: a fifth of those of all others together, and in a deep run all.
fn several_devices() -> TestResult {
    let (tests, all) = (of_several(), seeds());
    let share = if deep() { all } else { all / 5 / tests.len() as u64 + 1 };
    let units = tests.iter().enumerate().map(|(place, &(case, _))| {
        let first = first_seed() + place as u64 * share;
        Unit { case, plant: Plant::Nothing, seeds: (first..first + share).collect() }
    });
    let (mut orders, mut choices, mut wrong) = (HashSet::new(), 0, Vec::new());
    for (unit, outcome) in run_all_with(SEVERAL_DEVICES, units.collect()) {
        wrong.extend(outcome.wrong);
        for ran in &outcome.ran {
            orders.insert((unit.case, ran.order));
            choices += ran.choices;
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(choices > 0, "nothing is left to the seed");
    println!(
        "schedules: {} tests of several devices, {} runs, {} distinct interleavings",
        tests.len(),
        share * tests.len() as u64,
        orders.len()
    );
    Ok(())
}

/// Does a deep run in parts: from `0/8`, the first of eight, to `7/8`.
const PART: &str = "TEST_SCHEDULES";

/// Which part of how many is asked for.
fn part() -> (usize, usize) {
    let asked = std::env::var(PART).ok().filter(|_| deep());
    let parsed = asked.as_ref().and_then(|text| text.split_once('/'));
    parsed
        .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)))
        .filter(|(_, of)| *of > 0)
        .unwrap_or((0, 1))
}

/// Those that may be in question.
fn candidates() -> Vec<Candidate> {
    let (part, of) = part();
    let of_order = |name: &str| name.contains("graph") || name.contains("stream");
    let of_short = |name: &str, short: Option<&[&str]>| {
        short.is_none_or(|short| of_order(name) || short.iter().any(|it| name.starts_with(it)))
    };
    let tests = suite().schedules.iter().flat_map(|these| {
        let apart = |test: &str| these.apart.iter().any(|(name, _)| *name == test);
        let names = these.tests.iter().map(|&(name, _)| name).filter(move |name| !apart(name));
        let names = names.filter(move |name| deep() || of_short(name, these.short));
        names.map(|name| Candidate { name, slow: these.slow })
    });
    tests.skip(part).step_by(of).collect()
}

/// What the runs of one test have come to.
#[derive(Default)]
struct Sum {
    runs: u64,
    orders: HashSet<u64>,
    /// The orders under the seed 0: more than one if threads of the host decide, too.
    first: HashSet<u64>,
    /// The most work that there was to order.
    operations: u64,
    choices: u64,
    numbers: HashSet<u64>,
}

impl Sum {
    fn add(&mut self, ran: &Ran) {
        self.runs += 1;
        self.orders.insert(ran.order);
        if ran.seed == 0 {
            self.first.insert(ran.order);
        }
        self.operations = self.operations.max(ran.operations);
        self.choices = self.choices.max(ran.choices);
        self.numbers.insert(ran.numbers);
    }

    /// Whether there is no other order: nothing was left to the seed, or it made no difference.
    fn is_alone(&self) -> bool {
        self.choices == 0 || self.runs >= PROBES && self.orders.len() == 1
    }
}

type Sums = BTreeMap<&'static str, Sum>;

/// Runs tests under seeds and adds what they come to.
fn play(
    tests: impl Iterator<Item = (&'static str, Vec<u64>)>,
    sums: &mut Sums,
    wrong: &mut Vec<String>,
) {
    let units = tests.flat_map(|(case, seeds)| {
        let chunks: Vec<Vec<u64>> = seeds.chunks(CHUNK).map(<[u64]>::to_vec).collect();
        chunks.into_iter().map(move |seeds| Unit { case, plant: Plant::Nothing, seeds })
    });
    for (unit, outcome) in run_all(units.collect()) {
        outcome.ran.iter().for_each(|ran| sums.entry(unit.case).or_default().add(ran));
        wrong.extend(outcome.wrong);
    }
}

fn every_seed() -> TestResult {
    for these in &suite().schedules {
        for begin in these.short.unwrap_or_default() {
            let named = these.tests.iter().any(|(name, _)| name.starts_with(begin));
            ensure!(named, "there is no test {begin} to run under seeds");
        }
    }
    let (mut sums, mut wrong) = (Sums::new(), Vec::new());
    let candidates = candidates();
    let probes = |test: &Candidate| match (deep(), test.slow) {
        (true, false) => PROBES,
        _ => 1,
    };
    let first = candidates.iter().map(|test| {
        let mut seeds: Vec<u64> = (0..probes(test)).collect();
        if deep() {
            // Twice, to see whether it is the seed alone that decides.
            seeds.push(0);
        }
        (test.name, seeds)
    });
    play(first, &mut sums, &mut wrong);

    let several = |test: &&Candidate| {
        let short = |sum: &Sum| deep() || sum.operations <= MANY;
        sums.get(test.name).is_some_and(|sum| !sum.is_alone() && short(sum))
    };
    let rest: Vec<&Candidate> = candidates.iter().filter(several).collect();
    ensure!(!rest.is_empty() || deep(), "no test leaves anything to the seed");
    let later: Vec<_> = rest
        .iter()
        .enumerate()
        .map(|(place, test)| {
            let seeds: Vec<u64> = if deep() {
                (probes(test)..seeds()).collect()
            } else {
                let first = first_seed() + place as u64 * share();
                (first..first + share()).collect()
            };
            (test.name, seeds)
        })
        .collect();
    play(later.into_iter(), &mut sums, &mut wrong);
    report(&sums);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let runs = |test: &&&Candidate| sums.get(test.name).map_or(0, |sum| sum.runs);
    let once: Vec<_> = rest.iter().filter(|test| runs(test) < 2).map(|test| test.name).collect();
    ensure!(once.is_empty(), "these ran under one seed only: {once:?}");
    same_numbers(&sums)
}

/// Prints what ran.
fn report(sums: &Sums) {
    let (mut several, mut runs, mut orders, mut threads) = (0, 0, 0, Vec::new());
    for (name, sum) in sums.iter().filter(|(_, sum)| !sum.is_alone()) {
        several += 1;
        runs += sum.runs;
        orders += sum.orders.len();
        if sum.first.len() > 1 {
            threads.push(*name);
        }
        println!(
            "schedules: {name}: {} runs, {} interleavings of up to {} operations",
            sum.runs,
            sum.orders.len(),
            sum.operations,
        );
    }
    let alone: Vec<&str> =
        sums.iter().filter(|(_, sum)| sum.is_alone()).map(|(name, _)| *name).collect();
    if deep() {
        println!("schedules: with one interleaving: {}", alone.join(" "));
        println!("schedules: threads of the host decide, too: {}", threads.join(" "));
    }
    for (name, why) in suite().schedules.iter().flat_map(|these| these.apart) {
        println!("schedules: left out: {name}: {why}");
    }
    count_schedules(runs);
    println!(
        "schedules: {several} tests, {runs} runs, {orders} distinct interleavings; \
         {} tests with one interleaving",
        alone.len(),
    );
}

/// Wants each test's numbers to be the same under every seed.
fn same_numbers(sums: &Sums) -> TestResult {
    let any_order =
        |name: &str| suite().schedules.iter().any(|these| these.any_order.contains(&name));
    let differ: Vec<String> = sums
        .iter()
        .filter(|(name, sum)| sum.numbers.len() > 1 && !any_order(name))
        .map(|(name, sum)| format!("{name}: {} results", sum.numbers.len()))
        .collect();
    ensure!(differ.is_empty(), "the seed changes numbers:\n{}", differ.join("\n"));
    Ok(())
}

/// One bit that another seed changes is found.
fn changed_numbers() -> TestResult {
    let mut sums = Sums::new();
    let ran =
        |seed, numbers| Ran { seed, order: seed, operations: 3, choices: 1, numbers, checked: 0 };
    sums.entry("a").or_default().add(&ran(0, 7));
    sums.entry("a").or_default().add(&ran(1, 7));
    sums.entry("b").or_default().add(&ran(0, 8));
    same_numbers(&sums)?;
    sums.entry("b").or_default().add(&ran(1, 9));
    let told = same_numbers(&sums).err().map(|failure| failure.to_string());
    ensure!(told.as_ref().is_some_and(|told| told.contains("b: 2 results")), "{told:?}");
    ensure_eq!(sums.get("a").map(|sum| sum.orders.len()), Some(2));
    Ok(())
}
