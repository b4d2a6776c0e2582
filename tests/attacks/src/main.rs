//! The attack suite: programs in safe code that try to break what `docs/soundness.md` guarantees.
//!
//! `README.md` says how to add one. Each trial is an attack, `theme::name`, or a check of the suite itself,
//! `suite::name`.

mod attacks;
mod harness;
mod suite;

use std::process::ExitCode;
use std::sync::Arc;

use harness::{Attack, Failure, TestResult};
use libtest_mimic::{Arguments, Failed, Trial};

/// Options of libtest that take a value.
const WITH_VALUE: [&str; 6] =
    ["--test-threads", "--skip", "--format", "--color", "--logfile", "-Z"];

fn main() -> ExitCode {
    let mut given = std::env::args().skip(1);
    if std::env::args().nth(1).as_deref() == Some(harness::COMMAND) {
        given.next();
        return harness::child_main(attacks::program, given);
    }
    let all = match harness::attacks() {
        Ok(all) => all,
        Err(failure) => {
            eprintln!("{failure}");
            return ExitCode::from(2);
        }
    };
    let (arguments, filters) = command_line(given);
    let all = Arc::new(all);
    let mut trials = Vec::new();
    for index in 0..all.len() {
        let all = all.clone();
        let name = all[index].name.clone();
        trials.push((name, trial(move || harness::run(&all[index]))));
    }
    for (name, check) in suite::CHECKS {
        let all = all.clone();
        trials.push((format!("suite::{name}"), trial(move || check(&all))));
    }
    let wanted = |name: &str| {
        let fits =
            |filter: &String| if arguments.exact { name == filter } else { name.contains(filter) };
        filters.is_empty() || filters.iter().any(fits)
    };
    let trials = trials.into_iter().filter(|(name, _)| wanted(name));
    let trials = trials.map(|(name, run)| Trial::test(name, run)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Run = Box<dyn FnOnce() -> Result<(), Failed> + Send>;

fn trial(run: impl FnOnce() -> TestResult + Send + 'static) -> Run {
    Box::new(move || run().map_err(|failure: Failure| Failed::from(failure.to_string())))
}

/// The options for libtest-mimic, and the filters, of which it takes only one.
fn command_line(given: impl Iterator<Item = String>) -> (Arguments, Vec<String>) {
    let (mut options, mut filters) = (vec!["attacks".to_owned()], Vec::new());
    let mut value_follows = false;
    for argument in given {
        if value_follows || argument.starts_with('-') {
            value_follows = WITH_VALUE.contains(&argument.as_str());
            options.push(argument);
        } else {
            filters.push(argument);
        }
    }
    (Arguments::from_iter(options), filters)
}

/// A check of the suite itself.
type Check = fn(&[Attack]) -> TestResult;
