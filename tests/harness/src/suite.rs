//! The tests of a crate, with what the tiers must know of them.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::OnceLock;

use crate::schedules::Schedules;
use crate::sweep::{self, Absorbed};
use crate::{Case, Failure, Run, shards};

/// The names of kernels, read from the PTX of a crate.
pub(crate) type Kernels = fn() -> Result<BTreeSet<String>, Failure>;

/// Does what the program's arguments ask for, if it knows them.
pub(crate) type Command = fn() -> Option<ExitCode>;

/// The tests of a crate.
#[derive(Clone, Default)]
pub struct Suite {
    /// The arguments of `cargo test` that run it.
    pub again: &'static str,
    pub cases: Vec<Case>,
    /// Tests that are wrong on purpose. Other tests run them by name, in child processes.
    pub planted: Vec<Case>,
    /// Other uses of the program, by its first argument.
    pub commands: Vec<Command>,
    /// Tests that take long without a fault: a run sweeps a part of them.
    pub slow: Vec<&'static str>,
    /// Calls whose failure no error reports.
    pub absorbed: Vec<Absorbed>,
    /// The names of the driver's functions that have failed in a stand-in, whose callers get codes alone.
    pub failed_calls: Vec<fn() -> Vec<String>>,
    /// How the names of tests begin or end that are not swept, and why.
    pub not_swept: Vec<(&'static str, &'static str)>,
    /// The tests that run under seeds.
    pub schedules: Vec<Schedules>,
    /// The crates' kernels, which the checkers must have seen, and tests of little time that launch all of them.
    pub kernels: Vec<Kernels>,
    pub checked: Vec<&'static str>,
}

impl Suite {
    /// The tests of a crate, which `cargo test` runs with these arguments.
    #[must_use]
    pub fn new(again: &'static str, cases: Vec<Case>) -> Self {
        Self { again, cases, ..Self::default() }
    }

    /// Adds the tests of another crate.
    fn extend(&mut self, other: Self) {
        self.cases.extend(other.cases);
        self.planted.extend(other.planted);
        self.commands.extend(other.commands);
        self.slow.extend(other.slow);
        self.absorbed.extend(other.absorbed);
        self.failed_calls.extend(other.failed_calls);
        self.not_swept.extend(other.not_swept);
        self.schedules.extend(other.schedules);
        self.kernels.extend(other.kernels);
        self.checked.extend(other.checked);
    }

    /// Returns all of these suites as one, which the first names.
    #[must_use]
    pub fn joined(suites: impl IntoIterator<Item = Self>) -> Self {
        let mut suites = suites.into_iter();
        let mut all = suites.next().unwrap_or_default();
        suites.for_each(|other| all.extend(other));
        all
    }

    /// Returns the tests with those that the harness makes of them.
    #[must_use]
    pub fn all_cases(&self) -> Vec<Case> {
        let mut cases = self.cases.clone();
        cases.extend(crate::schedules::cases(self));
        cases.extend(crate::checked::cases(self));
        cases.extend(sweep::cases(self));
        cases
    }

    /// Prints each test with what is done with it, so that two versions of the tests can be compared.
    pub(crate) fn print_record(&self) {
        let mut lines: Vec<String> =
            self.all_cases().iter().map(|case| self.record(case)).collect();
        lines.sort_unstable();
        lines.iter().for_each(|line| println!("{line}"));
    }

    fn record(&self, case: &Case) -> String {
        let Case { name, run, serial, long, variables, .. } = case;
        let mut line = format!("{name} {}", run.name());
        let scheduled = self.schedules.iter().any(|these| {
            these.tests.iter().any(|(test, _)| test == name)
                && !these.apart.iter().any(|(test, _)| test == name)
        });
        let marks = [
            (*serial, "serial"),
            (*long, "long"),
            (self.slow.contains(name), "slow"),
            (self.checked.contains(name), "checked"),
            (scheduled && matches!(run, Run::Device(_)), "scheduled"),
        ];
        for (_, mark) in marks.iter().filter(|(is_set, _)| *is_set) {
            line += &format!(" {mark}");
        }
        for (variable, value) in *variables {
            line += &format!(" {variable}={value}");
        }
        line
    }

    /// The test of this name, of all that children run.
    pub(crate) fn case(&self, name: &str) -> Option<&Case> {
        // A sweep of a planted test has its name.
        self.planted.iter().chain(&self.cases).find(|case| case.name == name)
    }
}

static SUITE: OnceLock<Suite> = OnceLock::new();

/// The suite of this program. Until [`main`](crate::main) has set it, it is empty.
pub fn suite() -> &'static Suite {
    SUITE.get_or_init(Suite::default)
}

pub(crate) fn set(suite: Suite) -> &'static Suite {
    SUITE.get_or_init(|| suite)
}

/// The tests of the harness itself.
#[must_use]
pub fn own_suite() -> Suite {
    let cases = [shards::cases(), crate::schedules::own_cases(), sweep::own_cases()].concat();
    Suite { planted: sweep::planted(), ..Suite::new("-p test-harness --test suite", cases) }
}
