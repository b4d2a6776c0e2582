//! Who starts the processes of a sweep and reads what they found.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::child::{ABSORBED, BEGINS, CHILD, DONE, LASTING, MISSED, NAMED, POSSIBLE, WRONG};
use super::{TOTALS, occurrences};
use crate::{Effort, Failure, SEVERAL, SEVERAL_DEVICES, TestResult, limited, sample, spawn_self};

/// The milliseconds of a core for the faults of a test, beside the first one.
const QUICK_SHARE: u64 = 10;
const CI_SHARE: u64 = 50;
/// That of a test with a planted bug, which is to be found.
const PLANTED_SHARE: u64 = 100;
/// A deep sweep tries all faults, and this is for one process of several.
const DEEP_SHARE: u64 = 30_000;
/// Sets the share in every sweep.
const SHARE_VARIABLE: &str = "TEST_SWEEP_MS";

/// The milliseconds that a process has, and whether others follow it until all was tried.
fn share(planted: bool) -> (u64, bool) {
    let asked = std::env::var(SHARE_VARIABLE).ok().and_then(|text| text.parse().ok());
    match (asked, sample::effort()) {
        (Some(asked), _) => (asked, false),
        (None, Effort::Deep) => (DEEP_SHARE, true),
        (None, _) if planted => (PLANTED_SHARE, false),
        (None, Effort::Quick) => (QUICK_SHARE, false),
        (None, Effort::Ci) => (CI_SHARE, false),
    }
}

/// How many findings are listed.
const SHOWN: usize = 20;

/// What the processes of a sweep found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) possible: u64,
    /// What the test takes without a fault.
    pub(super) clean: Duration,
    pub(super) named: u64,
    pub(super) absorbed: u64,
    pub(super) missed: u64,
    pub(super) wrong: Vec<String>,
}

/// Where the next process begins, if there is to be one.
fn read(found: &mut Found, text: &str, ending: &str, all: bool) -> Option<u64> {
    let (mut place, mut fault, mut open, mut done) = (None, "", false, false);
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        open &= word == BEGINS;
        match word {
            POSSIBLE => {
                let (faults, clean) = rest.split_once(' ').unwrap_or((rest, ""));
                found.possible = faults.parse().unwrap_or(0);
                found.clean = Duration::from_micros(clean.parse().unwrap_or(0));
            }
            BEGINS => {
                let (number, what) = rest.split_once(' ').unwrap_or((rest, ""));
                (place, fault, open) = (number.parse::<u64>().ok(), what, true);
            }
            NAMED => found.named += 1,
            ABSORBED => found.absorbed += 1,
            MISSED => found.missed += 1,
            WRONG | LASTING => found.wrong.push(format!("{fault}: {rest}")),
            DONE => done = true,
            _ => found.wrong.push(format!("not understood: {line}")),
        }
    }
    if open {
        found.wrong.push(format!("{fault}: the process ended: {ending}"));
    }
    // Where all are tried the time of one process is not the end.
    let over = if all { done && place.is_none() } else { done };
    if over { None } else { place.map(|place| place.saturating_add(1)) }
}

/// Sweeps a test. One with a planted bug has the time that finding it takes, in a short run too.
pub(super) fn try_all(name: &str, planted: bool) -> Result<Found, Failure> {
    let mut found = Found::default();
    let (share, all) = share(planted);
    let share = share.to_string();
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("found");
    let (mut from, most) = (0_u64, occurrences().to_string());
    loop {
        let file = path.to_string_lossy();
        let mut child = spawn_self(&[CHILD, name, &most, &file, &from.to_string(), &share])?;
        // Freed memory of the host is overwritten. A deep sweep is one of more calls, not of larger
        // tests.
        if name.starts_with(SEVERAL) {
            child.envs(SEVERAL_DEVICES.iter().copied());
        }
        child.env("MALLOC_PERTURB_", "165").env("CUDA_EMU_WORKERS", "1").env_remove("TEST_DEEP");
        let ending = match limited(child) {
            Ok(outcome) => format!("{}\n{}{}", outcome.status, outcome.stdout, outcome.stderr),
            Err(failure) => failure.to_string(),
        };
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !text.starts_with(POSSIBLE) {
            return Err(Failure::new(format!("no run without a fault: {ending}")));
        }
        match read(&mut found, &text, &ending, all) {
            // So much is wrong that more of it would only take time.
            Some(_) if found.wrong.len() >= SHOWN => return Ok(found),
            Some(next) if next > from => from = next,
            _ => return Ok(found),
        }
        fs::remove_file(&path)?;
    }
}

/// Sweeps a test, and wants nothing to be wrong.
pub(super) fn sweep(name: &'static str) -> TestResult {
    let found = try_all(name, false)?;
    TOTALS.cases.fetch_add(1, Ordering::Relaxed);
    TOTALS.clean_ms.fetch_add(found.clean.as_millis() as u64, Ordering::Relaxed);
    TOTALS.possible.fetch_add(found.possible, Ordering::Relaxed);
    TOTALS.named.fetch_add(found.named, Ordering::Relaxed);
    TOTALS.absorbed.fetch_add(found.absorbed, Ordering::Relaxed);
    TOTALS.missed.fetch_add(found.missed, Ordering::Relaxed);
    let tried = found.named + found.absorbed + found.missed + found.wrong.len() as u64;
    if tried > 0 || found.possible == 0 {
        TOTALS.swept.fetch_add(1, Ordering::Relaxed);
    }
    if found.wrong.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = found.wrong.iter().take(SHOWN).map(String::as_str).collect();
    Err(Failure::new(format!(
        "{} faults are handled wrongly:\n{}\nagain: {}cargo xtask test sweep::{name}",
        found.wrong.len(),
        shown.join("\n"),
        sample::environment(),
    )))
}
