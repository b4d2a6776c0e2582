//! Who starts the processes in which tests run, and reads what they tell.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::child::{COMMAND, END, RAN, WRONG};
use crate::sabotage::Plant;
use crate::{Failure, spawn_self, suite};

/// A test, and the seeds that it runs under. The first one that fails is the last.
#[derive(Debug, Clone)]
pub struct Unit {
    pub case: &'static str,
    pub plant: Plant,
    pub seeds: Vec<u64>,
}

/// A run that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    pub seed: u64,
    pub order: u64,
    pub operations: u64,
    pub choices: u64,
    pub numbers: u64,
    /// Launches under the checkers for races and unwritten memory.
    pub checked: u64,
}

impl Ran {
    fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text.split(' ').map_while(|word| word.parse().ok()).collect();
        let [seed, order, operations, choices, numbers, checked] = numbers[..] else { return None };
        Some(Self { seed, order, operations, choices, numbers, checked })
    }
}

/// What became of a unit.
#[derive(Debug, Default)]
pub struct Outcome {
    pub ran: Vec<Ran>,
    /// What is wrong, and how to see it again.
    pub wrong: Option<String>,
}

/// Environment variables of the processes.
type Variables = &'static [(&'static str, &'static str)];

/// A process that runs units.
struct Worker {
    variables: Variables,
    child: Child,
    units: ChildStdin,
    told: BufReader<ChildStdout>,
    /// Its standard error.
    errors: File,
    /// The lines of the units that it has run: a process that is given them runs the same schedules in the same order.
    lines: Vec<String>,
}

impl Worker {
    fn start(variables: Variables) -> Result<Self, Failure> {
        let mut command = spawn_self(&[COMMAND])?;
        command.envs(variables.iter().copied());
        let errors = tempfile::tempfile()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone()?);
        // Tests panic on purpose.
        command.env("RUST_BACKTRACE", "0");
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (units, told) = pipes.ok_or_else(|| Failure::new("a child without pipes"))?;
        Ok(Self { variables, child, units, told: BufReader::new(told), errors, lines: Vec::new() })
    }

    /// Runs a unit. Answers whether the process is good for another one.
    fn run(&mut self, unit: &Unit, outcome: &mut Outcome) -> Result<bool, Failure> {
        writeln!(self.units, "{}", line_of(unit, None))?;
        let mut other = String::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.told.read_until(b'\n', &mut line)? == 0 {
                let status = self.child.wait()?;
                self.errors.rewind()?;
                self.errors.read_to_string(&mut other)?;
                let at = outcome.ran.len();
                let seed = unit.seeds.get(at).copied().unwrap_or_default();
                let what = format!("{status}\n{other}");
                outcome.wrong = Some(self.failure(unit, seed, &what));
                return Ok(false);
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            // Tests and kernels print, too.
            if let Some(ran) = text.strip_prefix(RAN) {
                let ran = Ran::parse(ran);
                outcome.ran.push(ran.ok_or_else(|| Failure::new(text))?);
                other.clear();
            } else if let Some(rest) = text.strip_prefix(WRONG) {
                let (seed, what) = rest.split_once(' ').unwrap_or((rest, ""));
                let what = what.replace(" | ", "\n");
                outcome.wrong = Some(self.failure(unit, seed.parse()?, &what));
                // Who knows what the test has left behind.
                return Ok(false);
            } else if text == END {
                self.lines.push(line_of(unit, None));
                return Ok(true);
            } else {
                other += text;
                other.push('\n');
            }
        }
    }

    /// Returns a failure, with the commands that repeat it: alone, and after all that this process has run before.
    fn failure(&self, unit: &Unit, seed: u64, what: &str) -> String {
        let Unit { case, plant, .. } = unit;
        let set: String =
            self.variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let program = format!("{set}cargo test --release {} -- {COMMAND}", suite().again);
        let plant = match plant {
            Plant::Nothing => String::new(),
            plant => format!(" {}", plant.name()),
        };
        let mut text =
            format!("{case}, seed {seed}: {what}\nagain: {program} {case} {seed}{plant}");
        if !self.lines.is_empty() || unit.seeds.first() != Some(&seed) {
            let lines = self.lines.iter().cloned().chain([line_of(unit, Some(seed))]);
            let lines: Vec<String> = lines.map(|line| format!("'{line}'")).collect();
            text += &format!(
                "\nif that passes, as in this run: printf '%s\\n' {} | {program}",
                lines.join(" ")
            );
        }
        text
    }

    /// Without another line it ends by itself, if it has not.
    fn end(self) {
        let Self { mut child, units, told, .. } = self;
        drop((units, told));
        let _ = child.wait();
    }
}

/// Returns the line that asks for a unit, or for its seeds up to one.
fn line_of(unit: &Unit, last: Option<u64>) -> String {
    let end = last.and_then(|last| unit.seeds.iter().position(|&seed| seed == last));
    let seeds = &unit.seeds[..end.map_or(unit.seeds.len(), |end| end + 1)];
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    format!("{} {} {}", unit.case, unit.plant.name(), seeds.join(","))
}

/// Runs units, as many at a time as there are cores; answers in the order in which they end.
pub(crate) fn run_all(units: Vec<Unit>) -> Vec<(Unit, Outcome)> {
    run_all_with(&[], units)
}

/// Runs units in processes with these environment variables.
pub fn run_all_with(variables: Variables, units: Vec<Unit>) -> Vec<(Unit, Outcome)> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let ended = Mutex::new(Vec::with_capacity(units.len()));
    let threads = cores.min(units.len());
    let units = Mutex::new(VecDeque::from(units));
    let next = || units.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let mut worker = None;
        while let Some(unit) = next() {
            let mut outcome = Outcome::default();
            match run_on(&mut worker, variables, &unit, &mut outcome) {
                Ok(()) => {}
                Err(failure) => outcome.wrong = Some(format!("{}: {failure}", unit.case)),
            }
            ended.lock().unwrap_or_else(PoisonError::into_inner).push((unit, outcome));
        }
        if let Some(worker) = worker {
            worker.end();
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a unit on a process, or on a new one.
fn run_on(
    worker: &mut Option<Worker>,
    variables: Variables,
    unit: &Unit,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let mut this = match worker.take() {
        Some(this) => this,
        None => Worker::start(variables)?,
    };
    if this.run(unit, outcome)? {
        *worker = Some(this);
    } else {
        this.end();
    }
    Ok(())
}
