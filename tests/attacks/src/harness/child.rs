//! The process of one run of an attack.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use super::header;
use super::{Attack, Failure, Lab, Program, TestResult, ensure};

/// The first argument of such a process; then the attack's name, the variant and the step.
pub(crate) const COMMAND: &str = "--attack";

/// The last line of the output of a run in which everything held.
pub(super) const HELD: &str = "the attack was withstood";

/// Runs the attack that the arguments name. `program` returns its function.
pub(crate) fn main(
    program: impl Fn(&str) -> Option<Program>,
    mut arguments: impl Iterator<Item = String>,
) -> ExitCode {
    let mut next = || arguments.next().unwrap_or_default();
    let (name, variant, step) = (next(), next(), next());
    let attack = match header::program_named(&name) {
        Ok(attack) => attack,
        Err(failure) => {
            eprintln!("{failure}");
            return ExitCode::from(2);
        }
    };
    let (Some(attack), Some(program)) = (attack, program(&name)) else {
        eprintln!("there is no attack {name}");
        return ExitCode::from(2);
    };
    end_when_orphaned(attack.limit);
    match run(&attack, program, &variant, &step) {
        Ok(()) => {
            println!("{HELD}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(attack: &Attack, program: Program, variant: &str, step: &str) -> TestResult {
    let lab = Lab::new(&attack.name, attack.must.clone(), variant, step)?;
    let caught = catch_unwind(AssertUnwindSafe(|| (program.run)(&lab)));
    match (caught, &attack.panics) {
        (Ok(result), None) => result?,
        (Ok(result), Some(text)) => {
            result?;
            return Err(Failure::new(format!("no panic with `{text}`")));
        }
        (Err(panic), declared) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            let expected = declared.as_deref().is_some_and(|declared| text.contains(declared));
            ensure!(expected, "a panic came out of the attack: {text}");
        }
    }
    // A step has a first process behind it, which judges.
    if step.is_empty() {
        lab.finish(attack.drops.as_deref())?;
    }
    drop(lab);
    let found: Vec<String> = cuda_emu::findings().iter().map(ToString::to_string).collect();
    ensure!(found.is_empty(), "the checkers found {}", found.join("\n"));
    Ok(())
}

/// Ends this process if nobody has killed it long after its time limit: the parent is gone then.
fn end_when_orphaned(limit: u64) {
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(limit.saturating_mul(10).max(600)));
        std::process::exit(3);
    });
}
