//! Runs a tier in several processes, each with a separate device. The tests of one process share its device, so they
//! run one after the other, and most of them use one core.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Stdio};
use std::thread;

use super::command::{Command, Faults};
use super::report::{Tally, count_launches, launches};
use super::{Failure, spawn_self};

/// Set for the processes: which of how many it is, such as `1/2`.
const VARIABLE: &str = "TEST_SHARD";

/// How the last line of a process begins. The tests that passed and failed and the number of launches follow.
const RESULT: &str = "shard: ";

/// The most processes: each has the memory of a device.
const MOST: usize = 4;

/// The part of a tier's tests that this process runs, and the processes that run the others.
pub(super) struct Shards {
    index: usize,
    count: usize,
    seen: usize,
    others: Vec<Other>,
}

struct Other {
    process: Child,
    output: File,
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
        self.seen % self.count == self.index % self.count
    }

    /// Waits for the other processes, prints their output and adds their results. In one of them: prints its result.
    pub(super) fn end(self, tally: &Tally) {
        if self.index > 0 {
            let (passed, failed) = tally.counts();
            println!("{RESULT}{passed} {failed} {}", launches());
        }
        for other in self.others {
            let (passed, failed, launches) = other.end().unwrap_or_else(|failure| {
                println!("FAILED: {failure}");
                (0, 1, 0)
            });
            tally.add(passed, failed);
            count_launches(launches);
        }
    }
}

impl Other {
    /// Waits, prints the output, and returns the tests that passed and failed and the launches.
    fn end(mut self) -> Result<(u64, u64, u64), Failure> {
        let status = self.process.wait()?;
        let mut text = String::new();
        self.output.rewind()?;
        self.output.read_to_string(&mut text)?;
        print!("{text}");
        let numbers = text.lines().rev().find_map(|line| line.strip_prefix(RESULT));
        let numbers: Vec<u64> = numbers.map_or(Vec::new(), |numbers| {
            numbers.split(' ').filter_map(|number| number.parse().ok()).collect()
        });
        match numbers[..] {
            [passed, failed, launches] if status.success() == (failed == 0) => {
                Ok((passed, failed, launches))
            }
            _ => Err(Failure::new(format!("a process of the tier ended with {status}"))),
        }
    }
}
