//! Every schedule: device tests on the software device again, each under many seeds of its
//! scheduler, and how many interleavings that has made of them.
//!
//! The tests are those of `cuda-safe`, of the tape and of geometry, unchanged, and judge as ever.
//! Which of them are in question is measured: one whose work was never left to the seed has one
//! interleaving, and runs no more. `schedules::every_seed` gives each of 200 seeds, in CI 1,000, to one of
//! the rest in turn; they are drawn from the run's seed. A deep run gives each of 1,000 to every one. Numbers of the
//! tape that are compared within a tolerance must be the same bits under every seed, unless atomics add them.
//!
//! A failure says how to run it again: `--schedule NAME SEED` runs one test under one seed.

mod child;
mod parent;
mod planted;
mod ports;

use std::collections::{BTreeMap, HashSet};

use crate::harness::{
    Case, Effort, Run, SEVERAL_DEVICES, TestDevice, TestResult, deep, ensure, ensure_eq, sample,
};
use crate::seeds::Plant;
use parent::{Ran, Unit, run_all, run_all_with};

pub(crate) use child::{COMMAND, command};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::software("schedules::every_seed", every_seed),
        Case::software("schedules::several_devices", several_devices),
        Case::host("schedules::numbers_that_change_are_told", changed_numbers),
    ];
    cases.extend(planted::cases());
    cases.extend(ports::cases());
    cases
}

/// How many seeds are tried: by all tests together, in a deep run by each.
fn seeds() -> u64 {
    if sample::effort() == Effort::Quick { 200 } else { 1000 }
}

/// The first seed after 0, drawn for this run.
fn first_seed() -> u64 {
    1 + sample::seed() % 1_000_000_000
}

/// So many seeds say in a deep run that a test has one interleaving.
const PROBES: u64 = 20;

/// A test with more work than this runs under the first seed alone, but for deep runs.
const MANY: u64 = 50_000;

/// The seeds that one process runs a test under, at most: so that many can share a slow one.
const CHUNK: usize = 100;

/// Tests whose claim is about time or progress, which a seed decides here; and why.
const APART: [(&str, &str); 2] = [
    ("events::time_is_plausible", "measures how long a kernel takes"),
    ("unified::others_are_not_waited_for", "wants a long kernel to be under way still"),
];

/// Tests whose numbers are sums that atomics add in any order: those of passes that were not asked
/// to be deterministic.
const ANY_ORDER: [&str; 5] = [
    "tape::graphs::backward_of_what_ran",
    "tape::graphs::forward_and_backward_in_one",
    "tape::graphs::forward_and_backward_in_two",
    "tape::graphs::gradients_of_a_pass_that_never_ran",
    "tape::unfinished::graphs_of_another_thread",
];

type Test = fn(&TestDevice) -> TestResult;

/// A test of a device.
struct Candidate {
    name: &'static str,
    test: Test,
    /// Whether it is one of geometry's, which are slow and mostly on one stream.
    geometry: bool,
}

/// All tests of a device.
fn tests() -> impl Iterator<Item = Candidate> {
    let of = |cases: Vec<Case>, geometry| {
        cases.into_iter().filter_map(move |case| match case.run {
            Run::Device(test) => Some(Candidate { name: case.name, test, geometry }),
            _ => None,
        })
    };
    of(crate::device::cases(), false)
        .chain(of(crate::tape::cases(), false))
        .chain(of(crate::geometry::cases(), true))
}

fn find(name: &str) -> Option<Test> {
    let candidate = tests().find(|candidate| candidate.name == name);
    let candidate = candidate.map(|candidate| candidate.test);
    candidate.or_else(|| ports::planted(name)).or_else(|| {
        let found = of_several().into_iter().find(|(other, _)| *other == name);
        found.map(|(_, test)| test)
    })
}

/// The tests of several devices.
fn of_several() -> Vec<(&'static str, Test)> {
    let cases = crate::device::cases().into_iter().filter(Case::is_of_several);
    let test = |case: Case| match case.run {
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

/// Those that may be in question; of geometry in a short run only those about graphs or streams.
fn candidates() -> Vec<Candidate> {
    let (part, of) = part();
    let of_order = |name: &str| name.contains("graph") || name.contains("stream");
    tests()
        .filter(|Candidate { name, geometry, .. }| deep() || !geometry || of_order(name))
        .filter(|candidate| !APART.iter().any(|(name, _)| *name == candidate.name))
        .skip(part)
        .step_by(of)
        .collect()
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
    let (mut sums, mut wrong) = (Sums::new(), Vec::new());
    let candidates = candidates();
    let probes = |test: &Candidate| match (deep(), test.geometry) {
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
                let seeds = (place as u64..seeds()).step_by(rest.len());
                seeds.map(|seed| first_seed() + seed).collect()
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
    for (name, why) in APART {
        println!("schedules: left out: {name}: {why}");
    }
    println!(
        "schedules: {several} tests, {runs} runs, {orders} distinct interleavings; \
         {} tests with one interleaving",
        alone.len(),
    );
}

/// Wants each test's numbers to be the same under every seed.
fn same_numbers(sums: &Sums) -> TestResult {
    let differ: Vec<String> = sums
        .iter()
        .filter(|(name, sum)| sum.numbers.len() > 1 && !ANY_ORDER.contains(name))
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
