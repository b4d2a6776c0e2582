//! What a test of declarations returns.

use std::fmt;

/// Why a test of declarations has failed. `Debug` writes the text of `Display`: a test that returns the error prints it so.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A kernel did something wrong in a launch that its declaration allows.
    #[error("{0}")]
    Broken(Box<Broken>),
    /// No launch meets all conditions of the declaration, or none was found.
    #[error(
        "kernel `{kernel}`: no launch was found that the declaration allows, in {draws} draws; mostly `{clause}` did not \
         hold"
    )]
    Unmet {
        /// The kernel's name in the declaration.
        kernel: String,
        /// The condition that was broken most often.
        clause: String,
        /// The number of draws.
        draws: usize,
    },
    /// Most launches that were found were refused, or had no blocks.
    #[error("kernel `{kernel}`: only {launched} of {wanted} launches were made{}", .refused.as_ref().map(|error| format!("; one was refused: {error}")).unwrap_or_default())]
    TooFew {
        /// The kernel's name in the declaration.
        kernel: String,
        /// The number of launches with at least one block.
        launched: usize,
        /// The number of launches that the test was to make.
        wanted: usize,
        /// The error of the last launch that was refused.
        refused: Option<crate::Error>,
    },
    /// A parameter has a type that no values are known of.
    #[error(
        "kernel `{kernel}`: there are no values of `{type_name}` for `{parameter}`: supply them by `Launches::values` or \
         `Launches::elements`"
    )]
    NoValues {
        /// The kernel's name in the declaration.
        kernel: String,
        /// The parameter's name.
        parameter: String,
        /// The Rust type.
        type_name: &'static str,
    },
    /// A call failed that was not to test anything: the kernels could not be loaded, or memory ran out.
    #[error(transparent)]
    Device(#[from] crate::Error),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A launch that a declaration allows and that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// The kernel's name in the declaration, with the types of its instance.
    pub kernel: String,
    /// Grid, block and shared memory.
    pub launch: String,
    /// The lengths and integers of the launch, and fields that clauses read: as the clauses write them, with their values.
    pub values: Vec<(String, i128)>,
    /// Other arguments, as text.
    pub others: Vec<(String, String)>,
    /// What was found: reports of the checkers, or memory that was written to.
    pub found: Vec<String>,
    /// The launch that was found first, and that this one was made from: its values.
    pub first: Vec<(String, i128)>,
    /// The number of the first one, from 1.
    pub number: usize,
    /// The seed, for [`Launches::seed`](super::Launches::seed).
    pub seed: u64,
}

impl Broken {
    /// Returns a length, an integer or a number of the launch as clauses write it: `x.len()`, `n` or `block.x`.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<i128> {
        self.values.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[(String, i128)]| {
            let each: Vec<String> =
                values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            each.join(", ")
        };
        writeln!(f, "kernel `{}`: the declaration allows a launch that goes wrong", self.kernel)?;
        writeln!(f, "  launch: {}", self.launch)?;
        writeln!(f, "  values: {}", list(&self.values))?;
        for (name, value) in &self.others {
            writeln!(f, "  {name} = {value}")?;
        }
        for found in &self.found {
            writeln!(f, "  found: {}", found.trim_end().replace('\n', "\n    "))?;
        }
        write!(f, "  launch {} of the seed {}", self.number, self.seed)?;
        if self.first != self.values {
            write!(f, ", made smaller from: {}", list(&self.first))?;
        }
        Ok(())
    }
}

/// What a test of declarations has tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The safe kernels, each instance for itself.
    pub tested: Vec<Tested>,
    /// The names of the `unsafe fn`s, which were not launched: their declarations promise nothing.
    pub skipped: Vec<String>,
}

/// The launches of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tested {
    /// The kernel's name in the declaration, with the types of its instance.
    pub kernel: String,
    /// The launches that were made, with at least one block each.
    pub launched: usize,
    /// Calls without blocks: the method enqueued nothing.
    pub empty: usize,
    /// Calls that returned an error, for example because the kernel can't have so many threads in a block.
    pub refused: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Tested { kernel, launched, empty, refused } in &self.tested {
            writeln!(
                f,
                "{kernel}: {launched} launches, {empty} without blocks, {refused} refused"
            )?;
        }
        for kernel in &self.skipped {
            writeln!(f, "{kernel}: not launched, because it is an unsafe fn")?;
        }
        Ok(())
    }
}
