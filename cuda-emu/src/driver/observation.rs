//! Observations: while there is one, faults of kernels end their launches alone, and are kept beside the checkers'
//! findings.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_sys::CUresult;

use crate::config::Config;
use crate::exec::check::finding::findings;

/// Whether there is an observation.
static ON: AtomicBool = AtomicBool::new(false);
/// The reports of the faults, as long as there is an observation.
static FAULTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Why there is no observation.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// A checker is off, and the configuration can no longer change.
    #[error(
        "the checkers `race` and `init` are off, and the first call of the driver in this process has fixed that: install \
         one Config with them in every test of this process that may run first, set CUDA_EMU_CHECK=race,init, or move the \
         test that observes to a file of its own in tests/"
    )]
    Unchecked,
    /// There is one at a time in a process.
    #[error("another observation is under way in this process: drop it first")]
    Busy,
}

/// Writes the text of `Display`, which a test that returns this error prints.
impl std::fmt::Debug for ObserveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A record of all mistakes of kernels since [`observe`], until it is dropped.
#[derive(Debug)]
pub struct Observation(());

/// Records the mistakes of kernels from now on: faults (accesses outside allocations, misaligned ones, traps, timeouts)
/// and the findings of the checkers `race` and `init`, which must be on.
///
/// A fault ends its launch, but the driver's calls succeed and the device is not lost, so a test can try many launches
/// in one process. A GPU would be lost at the first one. The kernels of all threads of the process are recorded: run a
/// test that observes in a separate process, or not concurrently with other tests of the device.
///
/// # Errors
/// [`ObserveError::Unchecked`] if one of the two checkers is off; then this call has fixed the configuration, as the
/// first call of the driver does. [`ObserveError::Busy`] while there is another observation.
pub fn observe() -> Result<Observation, ObserveError> {
    let checks = Config::active().checks;
    if !checks.race || !checks.init {
        return Err(ObserveError::Unchecked);
    }
    if ON.swap(true, Ordering::AcqRel) {
        return Err(ObserveError::Busy);
    }
    let observation = Observation(());
    // Earlier findings are not of this observation.
    drop(observation.found());
    Ok(observation)
}

impl Observation {
    /// Takes the reports of the mistakes so far: faults first, each with the driver's code, then the findings of the
    /// checkers, which [`findings`](crate::findings) no longer returns then. Wait for the kernels before.
    #[must_use]
    pub fn found(&self) -> Vec<String> {
        let mut reports = take_faults();
        reports.extend(findings().iter().map(ToString::to_string));
        reports
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        ON.store(false, Ordering::Release);
        take_faults();
    }
}

fn take_faults() -> Vec<String> {
    std::mem::take(&mut *FAULTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps the report of a kernel's fault. Returns whether there is an observation: if not, the device is lost.
pub(super) fn keep(code: CUresult, report: &str) -> bool {
    if !ON.load(Ordering::Acquire) {
        return false;
    }
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{code}: {report}"));
    true
}
