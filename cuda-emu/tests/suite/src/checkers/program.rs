//! A program: what it does, and what is expected of the checkers. Each runs in a process of its own.

use std::process::ExitCode;

use cuda_emu::{Checks, Config};
use cuda_safe::sys::Driver;

use super::lab::Lab;
use test_harness::{Outcome, TestResult, ensure, ensure_eq, limited, nothing_found, spawn_self};

/// The option that runs one program; its name and the tier follow.
pub(super) const CHILD: &str = "--one-program";

/// The tools of compute-sanitizer that have a counterpart here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Race,
    Init,
    Leak,
}

/// What a checker says of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Finds,
    Nothing,
}

impl Verdict {
    pub(super) fn of(found: bool) -> Self {
        if found { Self::Finds } else { Self::Nothing }
    }
}

/// A row of the table.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) tool: Tool,
    pub(super) run: fn(&Lab) -> TestResult,
    /// What the software device says.
    pub(super) ours: Verdict,
    /// What compute-sanitizer says.
    pub(super) theirs: Verdict,
    /// Why they differ, if they do; empty otherwise.
    pub(super) why: &'static str,
}

/// How the child's last line begins; the verdict follows.
const FOUND: &str = "found: ";

impl Tool {
    fn checks(self) -> Checks {
        let mut checks = Checks::default();
        match self {
            Self::Race => checks.race = true,
            Self::Init => checks.init = true,
            Self::Leak => checks.leak = true,
        }
        checks
    }
}

/// Runs the program that the arguments name, on the tier that they name.
pub(super) fn child(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let (name, tier) = (arguments.next().unwrap_or_default(), arguments.next());
    match one(&name, tier.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn one(name: &str, tier: Option<&str>) -> TestResult {
    let program = super::program(name)?;
    if tier != Some("emu") {
        let lab = Lab::new(Driver::load()?)?;
        (program.run)(&lab)?;
        return lab.close();
    }
    Config::new().check(program.tool.checks()).install();
    let lab = Lab::new(cuda_emu::driver())?;
    (program.run)(&lab)?;
    lab.close()?;
    // As the harness asks after each case.
    let found = nothing_found();
    println!("{FOUND}{:?}", Verdict::of(found.is_err()));
    Ok(())
}

/// Runs a program on the software device: its checker says what the table says.
pub(super) fn check(name: &str) -> TestResult {
    let program = super::program(name)?;
    let Outcome { status, stdout, stderr } = limited(spawn_self(&[CHILD, name, "emu"])?)?;
    ensure!(status.success(), "{status}\n{stdout}{stderr}");
    let found = stdout.lines().rev().find_map(|line| line.strip_prefix(FOUND));
    let wanted = format!("{:?}", program.ours);
    ensure_eq!(found, Some(wanted.as_str()), "{stdout}{stderr}");
    Ok(())
}
