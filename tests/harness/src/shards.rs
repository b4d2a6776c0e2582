//! Runs a tier in several processes, each with a separate device. The tests of one process share its device, so they
//! run one after the other, and most of them use one core. The tier fails unless the processes together have handled
//! each case.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Stdio};
use std::thread;

use super::command::{Command, Faults};
use super::report::{Tally, count_launches, count_schedules, launches, schedules};
use super::{Case, Failure, TestResult, ensure, ensure_eq, spawn_self};

/// Set for the processes: which of how many it is, such as `1/2`.
const VARIABLE: &str = "TEST_SHARD";

/// How the last line of a process begins. The numbers of [`Ended`] follow.
const RESULT: &str = "shard: ";

/// The most processes: each has the memory of a device.
const MOST: usize = 4;

/// The part of a tier's tests that this process runs, and the processes that run the others.
pub(super) struct Shards {
    index: usize,
    count: usize,
    seen: u64,
    others: Vec<Other>,
}

struct Other {
    process: Child,
    output: File,
}

/// What a process reports.
struct Ended {
    passed: u64,
    failed: u64,
    launches: u64,
    schedules: u64,
    /// The cases that have ended or were left out as asked.
    handled: u64,
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::host("shards::each_case_is_of_one_process", each_case_is_of_one_process),
        Case::host(
            "shards::cases_that_no_process_ran_are_missed",
            cases_that_no_process_ran_are_missed,
        ),
    ]
}

impl Shards {
    /// All tests, in this process.
    pub(super) fn whole() -> Self {
        Self { index: 0, count: 1, seen: 0, others: Vec::new() }
    }

    /// Starts a process for each core but one, unless some tests or threads were asked for.
    ///
    /// # Errors
    /// A process can't be started.
    pub(super) fn start(tier: &str, command: &Command) -> Result<Self, Failure> {
        if let Ok(part) = std::env::var(VARIABLE) {
            let (index, count) = part.split_once('/').unwrap_or((&part, "1"));
            let (index, count) = (index.parse()?, count.parse::<usize>()?.max(1));
            return Ok(Self { index, count, ..Self::whole() });
        }
        let asked = !command.filters.is_empty()
            || command.faults != Faults::Also
            || command.arguments.test_threads.is_some()
            // The report names the kernels that were checked in its process.
            || std::env::var_os("CUDA_EMU_CHECK").is_some();
        if asked || command.arguments.list {
            return Ok(Self::whole());
        }
        let count = thread::available_parallelism().map_or(1, usize::from).min(MOST);
        let mut this = Self { count, ..Self::whole() };
        for index in 1..count {
            let output = tempfile::tempfile()?;
            let mut program = spawn_self(&["--tier", tier])?;
            for skip in &command.arguments.skip {
                program.args(["--skip", skip]);
            }
            program.env(VARIABLE, format!("{index}/{count}")).stdin(Stdio::null());
            program.stdout(output.try_clone()?).stderr(output.try_clone()?);
            this.others.push(Other { process: program.spawn()?, output });
        }
        Ok(this)
    }

    /// Returns whether the next test is of this process.
    pub(super) fn take(&mut self) -> bool {
        self.seen += 1;
        self.seen % self.count as u64 == self.index as u64 % self.count as u64
    }

    /// Waits for the other processes, prints their output and adds their results. In one of them: prints its result.
    /// `handled` is the number of cases of this process that have ended or were left out as asked.
    pub(super) fn end(self, tally: &Tally, handled: u64) {
        if self.index > 0 {
            let (passed, failed) = tally.counts();
            println!("{RESULT}{passed} {failed} {} {} {handled}", launches(), schedules());
        }
        if self.others.is_empty() {
            return;
        }
        let mut all = Some(handled);
        for other in self.others {
            match other.end() {
                Ok(ended) => {
                    tally.add(ended.passed, ended.failed);
                    count_launches(ended.launches);
                    count_schedules(ended.schedules);
                    all = all.map(|all| all + ended.handled);
                }
                Err(failure) => {
                    println!("FAILED: {failure}");
                    tally.add(0, 1);
                    // It has failed already, so its cases are not missed again.
                    all = None;
                }
            }
        }
        if let Some(problem) = all.and_then(|all| missed(self.seen, all)) {
            println!("FAILED: {problem}");
            tally.add(0, 1);
        }
    }
}

/// Returns what is wrong if the processes together have not handled the cases that one of them has seen.
fn missed(seen: u64, handled: u64) -> Option<String> {
    (seen != handled).then(|| format!("of {seen} cases the processes of the tier ran {handled}"))
}

impl Other {
    /// Waits, prints the output, and returns the result.
    fn end(mut self) -> Result<Ended, Failure> {
        let status = self.process.wait()?;
        let mut text = String::new();
        self.output.rewind()?;
        self.output.read_to_string(&mut text)?;
        print!("{text}");
        match ended(&text) {
            Some(ended) if status.success() == (ended.failed == 0) => Ok(ended),
            _ => Err(Failure::new(format!("a process of the tier ended with {status}"))),
        }
    }
}

/// Reads the result from the output of a process.
fn ended(text: &str) -> Option<Ended> {
    let numbers = text.lines().rev().find_map(|line| line.strip_prefix(RESULT))?;
    let numbers: Vec<u64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [passed, failed, launches, schedules, handled] = numbers[..] else { return None };
    Some(Ended { passed, failed, launches, schedules, handled })
}

fn each_case_is_of_one_process() -> TestResult {
    for count in 1..=MOST {
        let shards = (0..count).map(|index| Shards { index, count, ..Shards::whole() });
        let mut shards: Vec<Shards> = shards.collect();
        for case in 0..50 {
            let takers = shards.iter_mut().filter_map(|shard| shard.take().then_some(shard.index));
            let takers: Vec<usize> = takers.collect();
            ensure_eq!(takers.len(), 1, "case {case} of {count} processes is of {takers:?}");
        }
    }
    Ok(())
}

fn cases_that_no_process_ran_are_missed() -> TestResult {
    let of =
        |text| ended(text).map(|it| (it.passed, it.failed, it.launches, it.schedules, it.handled));
    ensure_eq!(of("test a\nshard: 10 2 300 4 11\n"), Some((10, 2, 300, 4, 11)));
    ensure_eq!(of("shard: 10 2 300 4\n"), None);
    ensure_eq!(of("test a\n"), None);
    ensure_eq!(missed(20, 11 + 9), None);
    let problem = missed(20, 11 + 8).unwrap_or_default();
    ensure!(problem.contains("20") && problem.contains("19"), "{problem}");
    ensure!(missed(20, 21).is_some(), "a case that two processes ran");
    Ok(())
}
