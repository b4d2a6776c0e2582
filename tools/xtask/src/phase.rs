//! The phases of a run: their times, and their budgets in CI.

use std::fmt;
use std::time::Duration;

use test_support::time::{Began, Took};

/// A part of a run, with its time and, if it ran tests, their result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) took: Took,
    /// The result, or why there is none.
    pub(crate) result: String,
}

impl Phase {
    /// The phase that began then and ends now.
    pub(crate) fn ended(name: impl Into<String>, began: Began, result: impl Into<String>) -> Self {
        Self { name: name.into(), took: began.took(), result: result.into() }
    }

    /// Returns what is wrong with the time, if it is over the budget.
    pub(crate) fn over(&self, budgets: &[(&str, u64)]) -> Option<String> {
        let (_, budget) = budgets.iter().find(|(name, _)| *name == self.name)?;
        let seconds = seconds(self.took.processor);
        (self.took.processor > Duration::from_secs(*budget)).then(|| {
            format!("{} took {seconds} s of the processors: its budget is {budget} s", self.name)
        })
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, took, result } = self;
        let (clock, processor) = (seconds(took.clock), seconds(took.processor));
        write!(f, "{name:20} {clock:>7} s, {processor:>7} s of the processors  {result}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(processor: u64) -> Phase {
        let took =
            Took { clock: Duration::from_millis(1250), processor: Duration::from_secs(processor) };
        Phase { name: "sweep".to_owned(), took, result: "3 passed, 0 failed".to_owned() }
    }

    #[test]
    fn both_times_are_shown() {
        assert_eq!(
            phase(7).to_string(),
            "sweep                    1.2 s,     7.0 s of the processors  3 passed, 0 failed"
        );
    }

    #[test]
    fn a_budget_is_of_the_processors() {
        assert_eq!(phase(7).over(&[("host", 1), ("sweep", 7)]), None);
        assert_eq!(phase(7).over(&[("host", 1)]), None);
        let over = phase(8).over(&[("host", 1), ("sweep", 7)]);
        assert_eq!(over.as_deref(), Some("sweep took 8.0 s of the processors: its budget is 7 s"));
    }
}
