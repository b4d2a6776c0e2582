//! The process in which tests run under one seed after the other.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cuda_emu::Interleaving;
use cuda_safe::Driver;

use super::Test;
use crate::sabotage::{self, Plant};
use crate::{Failure, TestDevice, TestResult, ensure, take_numbers};

/// The first argument of such a process. Behind it a test, a seed, and perhaps a planted bug; or
/// nothing, and then standard input has a line for each test: its name, the bug, and the seeds.
pub(crate) const COMMAND: &str = "--schedule";

/// How the lines begin that tell of a run: the seed, the order, how many operations and choices, the
/// numbers, and how many launches were checked.
pub(super) const RAN: &str = "schedule ran ";
/// A run that failed: the seed, and why.
pub(super) const WRONG: &str = "schedule failed ";
/// All seeds have run.
pub(super) const END: &str = "schedule end";

/// How long a run may take.
const STUCK: Duration = Duration::from_secs(120);

pub(crate) fn command(arguments: impl Iterator<Item = String>) -> ExitCode {
    // Blocks one after the other, so that the seed decides their order, too.
    cuda_emu::Config::from_env().workers(1).install();
    let arguments: Vec<String> = arguments.collect();
    let done = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve(),
        [name, seed] => once(name, seed, Plant::Nothing.name()),
        [name, seed, plant] => once(name, seed, plant),
        _ => Err(Failure::new(format!("{COMMAND} takes a test and a seed"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Result<Test, Failure> {
    super::find(name).ok_or_else(|| Failure::new(format!("there is no test {name}")))
}

fn planted(name: &str) -> Result<Plant, Failure> {
    Plant::of(name).ok_or_else(|| Failure::new(format!("there is no plant {name}")))
}

/// What a person asks for.
fn once(name: &str, seed: &str, plant: &str) -> TestResult {
    let (interleaving, numbers) = run(find(name)?, seed.parse()?, planted(plant)?)?;
    let checked = checked_launches();
    println!(
        "{name}, seed {seed}: {interleaving:x?}, numbers {numbers:x}, {checked} launches checked"
    );
    Ok(())
}

/// What a parent asks for.
fn serve() -> TestResult {
    watch();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let [name, plant, seeds] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(Failure::new(format!("not understood: {line}")));
        };
        let (test, plant) = (find(name)?, planted(plant)?);
        for seed in seeds.split(',').filter(|seed| !seed.is_empty()) {
            RUNS.fetch_add(1, Ordering::Relaxed);
            let before = checked_launches();
            // A line of its own, whatever kernels have printed.
            match run(test, seed.parse()?, plant) {
                Ok((Interleaving { order, operations, choices, .. }, numbers)) => {
                    let checked = checked_launches() - before;
                    println!("\n{RAN}{seed} {order} {operations} {choices} {numbers} {checked}");
                }
                Err(failure) => {
                    println!("\n{WRONG}{seed} {}", failure.to_string().replace('\n', " | "));
                    std::io::stdout().flush()?;
                    // Without a destructor: the device may be lost, or wait for ever.
                    std::process::exit(0);
                }
            }
        }
        println!("\n{END}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Returns how many launches of this process the checkers for races and unwritten memory have seen.
fn checked_launches() -> u64 {
    cuda_emu::checked_kernels().values().sum()
}

/// Runs begun.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Ends the process if a run does not end.
fn watch() {
    thread::spawn(|| {
        let mut before = 0;
        loop {
            thread::sleep(STUCK);
            let runs = RUNS.load(Ordering::Relaxed);
            if runs != 0 && runs == before {
                println!("\nno end for {} s", STUCK.as_secs());
                std::process::exit(3);
            }
            before = runs;
        }
    });
}

/// Runs a test as a process that starts does: on a device that is opened for it, so that what ran
/// before changes nothing.
fn run(test: Test, seed: u64, plant: Plant) -> Result<(Interleaving, u64), Failure> {
    let driver = match plant {
        Plant::Nothing => Driver::from_sys(cuda_emu::driver())?,
        _ => Driver::from_sys(sabotage::driver())?,
    };
    ensure!(cuda_emu::reseed(Some(seed)), "the device is not idle");
    sabotage::plant(plant);
    take_numbers();
    let device = TestDevice::seeded(driver)?;
    let tried = catch_unwind(AssertUnwindSafe(|| device.run(test, true)));
    tried.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure::new(format!("panicked: {}", text.unwrap_or("no message"))))
    })?;
    device.context().free_deferred()?;
    let interleaving = cuda_emu::interleaving();
    device.close()?;
    sabotage::plant(Plant::Nothing);
    let interleaving = interleaving.ok_or_else(|| Failure::new("no seed was set"))?;
    Ok((interleaving, take_numbers()))
}
