//! Problems of the inputs of a link.

use std::collections::HashSet;
use std::fmt;

use crate::Error;

/// A mistake in the inputs.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// There is no input.
    #[error("there is no input to link")]
    NoInput,
    /// An input is not PTX.
    #[error("{input}: {error}")]
    Parse {
        /// The input.
        input: String,
        /// The place and the reason.
        error: Error,
    },
    /// Two inputs define a symbol, neither as `.weak`.
    #[error("`{name}` is defined in {first} and in {second}")]
    DefinedTwice {
        /// The symbol.
        name: String,
        /// The first input.
        first: String,
        /// The other input.
        second: String,
    },
    /// No input defines a symbol that is used.
    #[error("`{name}` is used in {input} and defined in no input")]
    Undefined {
        /// The symbol.
        name: String,
        /// The first input that uses it.
        input: String,
    },
    /// Two inputs declare a symbol differently.
    #[error("`{name}` is {has} in {first}, but {other} in {second}")]
    Clash {
        /// The symbol.
        name: String,
        /// The input with the definition.
        first: String,
        /// What the symbol is there.
        has: String,
        /// The other input.
        second: String,
        /// What the symbol is there.
        other: String,
    },
    /// An alias leads back to itself.
    #[error("the alias `{name}` in {input} leads back to itself")]
    AliasCycle {
        /// The alias.
        name: String,
        /// The input.
        input: String,
    },
    /// Two inputs cannot be for one device.
    #[error("{first} is for {has}, which excludes {other} of {second}")]
    Target {
        /// One input.
        first: String,
        /// Its target.
        has: String,
        /// The other input.
        second: String,
        /// Its target.
        other: String,
    },
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All that is wrong with the inputs of a link. `Display` writes a line for each problem.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkError {
    /// The problems: at least one.
    pub problems: Vec<Problem>,
}

impl fmt::Debug for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for LinkError {}

/// The problems found so far, each once.
#[derive(Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
    /// The symbols and messages that are in the list.
    seen: HashSet<String>,
}

impl Problems {
    pub(super) fn add(&mut self, problem: Problem) {
        if self.seen.insert(problem.to_string()) {
            self.list.push(problem);
        }
    }

    /// Returns the problems as an error, if there are any.
    pub(super) fn finish(&mut self) -> Result<(), LinkError> {
        match std::mem::take(&mut self.list) {
            list if list.is_empty() => Ok(()),
            problems => Err(LinkError { problems }),
        }
    }
}
