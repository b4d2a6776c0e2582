//! Who starts the processes in which tests run, and reads what they tell.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::child::{COMMAND, END, RAN, WRONG};
use crate::harness::{Failure, spawn_self};
use crate::seeds::Plant;

/// A test, and the seeds that it runs under. The first one that fails is the last.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) case: &'static str,
    pub(super) plant: Plant,
    pub(super) seeds: Vec<u64>,
}

/// A run that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) seed: u64,
    pub(super) order: u64,
    pub(super) operations: u64,
    pub(super) choices: u64,
    pub(super) numbers: u64,
    /// Launches under the checkers for races and unwritten memory.
    pub(super) checked: u64,
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
pub(super) struct Outcome {
    pub(super) ran: Vec<Ran>,
    /// What is wrong, and how to see it again.
    pub(super) wrong: Option<String>,
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
        Ok(Self { variables, child, units, told: BufReader::new(told), errors })
    }

    /// Runs a unit. Answers whether the process is good for another one.
    fn run(&mut self, unit: &Unit, outcome: &mut Outcome) -> Result<bool, Failure> {
        let seeds: Vec<String> = unit.seeds.iter().map(u64::to_string).collect();
        writeln!(self.units, "{} {} {}", unit.case, unit.plant.name(), seeds.join(","))?;
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
                outcome.wrong = Some(told(unit, self.variables, seed, &what));
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
                outcome.wrong = Some(told(unit, self.variables, seed.parse()?, &what));
                // Who knows what the test has left behind.
                return Ok(false);
            } else if text == END {
                return Ok(true);
            } else {
                other += text;
                other.push('\n');
            }
        }
    }

    /// Without another line it ends by itself, if it has not.
    fn end(self) {
        let Self { mut child, units, told, .. } = self;
        drop((units, told));
        let _ = child.wait();
    }
}

/// A failure, with the command that shows it again.
fn told(unit: &Unit, variables: Variables, seed: u64, what: &str) -> String {
    let Unit { case, plant, .. } = unit;
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let plant = match plant {
        Plant::Nothing => String::new(),
        plant => format!(" {}", plant.name()),
    };
    format!(
        "{case}, seed {seed}: {what}\n\
         again: {set}cargo test --release -p integration-tests --test integration -- \
         {COMMAND} {case} {seed}{plant}"
    )
}

/// Runs units, as many at a time as there are cores; answers in the order in which they end.
pub(super) fn run_all(units: Vec<Unit>) -> Vec<(Unit, Outcome)> {
    run_all_with(&[], units)
}

/// Runs units in processes with these environment variables.
pub(super) fn run_all_with(variables: Variables, units: Vec<Unit>) -> Vec<(Unit, Outcome)> {
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
