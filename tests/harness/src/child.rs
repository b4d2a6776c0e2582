//! Tests in processes of their own: this program again, with the case's name.

use std::process::Command;

use super::device::{nothing_found, open};
use super::report::{count_launches, launches};
use super::{Case, Failure, Run, TestDevice, TestResult};
use test_support::process::{Outcome, limited_to};

/// How the last line of a child's output begins if its case passed; its launches follow.
pub const PASSED: &str = "case passed; launches: ";

/// The prefix of a child's lines for the reader of the results.
const TOLD: &str = "told: ";

/// Says something about a case that runs in a process of its own, also if it passes.
pub fn tell(text: &str) {
    println!("{TOLD}{text}");
}

/// How long a child may take, in seconds, unless the variable `TEST_CHILD_SECONDS` says otherwise. The longest take 15 s
/// by themselves; beside four builds one took 60 s.
const LIMIT_SECONDS: u64 = 240;

/// This program again with these arguments.
pub fn spawn_self(arguments: &[&str]) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).env_remove("TEST_REPORT");
    Ok(command)
}

/// Runs a command to its end and collects its output; kills it after the time limit.
pub fn limited(command: Command) -> Result<Outcome, Failure> {
    limited_to(command, LIMIT_SECONDS)
}

/// Runs a case in a child: it must pass, say so, and exit with status 0.
pub(crate) fn run_in_child(case: &Case, tier: &str) -> TestResult {
    let mut command = spawn_self(&["--tier", tier, "--child", case.name])?;
    command.envs(case.variables.iter().copied());
    let Outcome { status, stdout, stderr } = limited(command)?;
    let passed = stdout.lines().rev().find_map(|line| line.strip_prefix(PASSED));
    if let (true, Some(count)) = (status.success(), passed) {
        count_launches(count.trim().parse().unwrap_or(0));
        stdout.lines().filter_map(|line| line.strip_prefix(TOLD)).for_each(|it| println!("{it}"));
        return Ok(());
    }
    let how = match passed {
        Some(_) => "the case passed, but then the process ended with",
        None => "ended with",
    };
    Err(Failure::new(format!("{how} {status}\n{stdout}{stderr}")))
}

/// What the child does.
pub(crate) fn run_as_child(case: &Case, tier: &'static str) -> TestResult {
    match case.run {
        Run::Process(run) => run(open(tier))?,
        Run::Fault(run) => {
            let device = TestDevice::open(tier)?;
            run(&device)?;
            device.close_unless_lost()?;
        }
        _ => return Err(Failure::new("this case has no process of its own")),
    }
    nothing_found()?;
    println!("{PASSED}{}", launches());
    Ok(())
}
