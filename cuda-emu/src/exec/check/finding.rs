//! The findings of the checkers.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::report::Report;

/// The checker of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// Two accesses that nothing orders, one of them a write.
    Race,
    /// A read of memory that nothing has written.
    Init,
    /// Something that was not given back.
    Leak,
}

/// A finding of a checker. It does not change what the driver returns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The checker.
    pub check: Check,
    /// The access that showed it; for what no kernel did only `what` and `address` say something.
    pub access: Report,
    /// The earlier access of the race.
    pub other: Option<Report>,
    /// How often these instructions did it.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.access)?;
        if let Some(other) = &self.other {
            write!(f, "\n with the earlier {other}")?;
        }
        Ok(())
    }
}

static FOUND: Mutex<Vec<Finding>> = Mutex::new(Vec::new());
static CHECKED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Returns how often each kernel was launched while `race` or `init` was checked, by its name in PTX: that nothing
/// was found in a kernel says nothing if it never ran.
#[must_use]
pub fn checked_kernels() -> BTreeMap<String, u64> {
    CHECKED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Notes that a kernel runs under the checkers.
pub(crate) fn note_checked(kernel: &str) {
    let mut checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    match checked.get_mut(kernel) {
        Some(launches) => *launches += 1,
        None => {
            checked.insert(kernel.to_owned(), 1);
        }
    }
}

/// Takes the checkers' findings so far.
#[must_use]
pub fn findings() -> Vec<Finding> {
    std::mem::take(&mut *FOUND.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Notes a finding; the same instructions of the same kernel are one.
pub(crate) fn note(finding: Finding) {
    note_with(finding, |_| ());
}

/// Notes a finding, which `complete` changes if it is a new one.
pub(crate) fn note_with(mut finding: Finding, complete: impl FnOnce(&mut Finding)) {
    crate::run::note_finding(&finding);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let line = |report: &Option<Report>| report.as_ref().map(|report| report.ptx_line);
    let same = |known: &&mut Finding| {
        let what = !finding.access.kernel.is_empty() || known.access.what == finding.access.what;
        known.check == finding.check
            && what
            && known.access.kernel == finding.access.kernel
            && known.access.ptx_line == finding.access.ptx_line
            && line(&known.other) == line(&finding.other)
    };
    match found.iter_mut().find(same) {
        Some(known) => known.count += 1,
        None => {
            complete(&mut finding);
            // Standard error may be closed, for example in a handler of the process's end.
            let _ = writeln!(std::io::stderr().lock(), "cuda-emu: {finding}");
            found.push(finding);
        }
    }
}
