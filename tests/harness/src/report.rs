//! The report of a run for the program that started it: one line of JSON in the file that `TEST_REPORT` names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use test_support::time::Took;

/// Kernel launches made by this process and by the processes of its fault tests.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// Faults that the sweep tried, runs under seeds, and kernels that the checkers have seen.
static FAULTS: AtomicU64 = AtomicU64::new(0);
static SCHEDULES: AtomicU64 = AtomicU64::new(0);
static KERNELS: AtomicU64 = AtomicU64::new(0);

pub fn count_launches(launches: u64) {
    LAUNCHES.fetch_add(launches, Ordering::Relaxed);
}

pub(crate) fn count_faults(faults: u64) {
    FAULTS.fetch_add(faults, Ordering::Relaxed);
}

pub(crate) fn count_schedules(schedules: u64) {
    SCHEDULES.fetch_add(schedules, Ordering::Relaxed);
}

pub(crate) fn schedules() -> u64 {
    SCHEDULES.load(Ordering::Relaxed)
}

pub(crate) fn count_kernels(kernels: u64) {
    KERNELS.fetch_add(kernels, Ordering::Relaxed);
}

pub(crate) fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Passed and failed tests of a tier, counted while they run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub passed: AtomicU64,
    pub failed: AtomicU64,
    /// How long each took.
    times: Mutex<Vec<(Duration, String)>>,
}

/// How many of the slowest tests are named.
const SLOWEST: usize = 8;

impl Tally {
    /// Returns how many passed and failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.passed.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Adds tests of another process.
    pub(crate) fn add(&self, passed: u64, failed: u64) {
        self.passed.fetch_add(passed, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }

    pub(crate) fn took(&self, name: &str, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push((time, name.to_owned()));
    }

    /// Prints the slowest tests, so that a tier that has become slow shows where.
    pub(crate) fn print_slowest(&self) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.sort_unstable_by(|a, b| b.cmp(a));
        let shown: Vec<String> = times
            .iter()
            .take(SLOWEST)
            .map(|(time, name)| format!("{name} {:.1} s", time.as_secs_f64()))
            .collect();
        if !shown.is_empty() {
            println!("slowest: {}", shown.join(", "));
        }
    }
}

/// One tier's result.
#[derive(Debug)]
pub(crate) struct TierReport {
    pub tier: &'static str,
    pub passed: u64,
    pub failed: u64,
    pub took: Took,
    /// Why it did not run, if it did not.
    pub not_run: Option<String>,
}

impl TierReport {
    fn to_json(&self) -> String {
        let reason = self.not_run.as_deref().map_or_else(|| "null".to_owned(), quoted);
        format!(
            r#"{{"tier":{},"ran":{},"passed":{},"failed":{},"seconds":{:.1},"processor_seconds":{:.1},"not_run":{reason}}}"#,
            quoted(self.tier),
            self.passed + self.failed,
            self.passed,
            self.failed,
            self.took.clock.as_secs_f64(),
            self.took.processor.as_secs_f64(),
        )
    }
}

/// Writes the report, if `TEST_REPORT` asks for one.
pub(crate) fn write(tiers: &[TierReport]) -> std::io::Result<()> {
    let Some(path) = std::env::var_os("TEST_REPORT") else { return Ok(()) };
    let tiers: Vec<String> = tiers.iter().map(TierReport::to_json).collect();
    let checked = cuda_emu::checked_kernels();
    let checked: Vec<String> = checked.keys().map(|kernel| quoted(kernel)).collect();
    let report = format!(
        "{{\"tiers\":[{}],\"launches\":{},\"faults\":{},\"schedules\":{},\"kernels\":{},\"checked_kernels\":[{}]}}\n",
        tiers.join(","),
        launches(),
        FAULTS.load(Ordering::Relaxed),
        schedules(),
        KERNELS.load(Ordering::Relaxed),
        checked.join(","),
    );
    std::fs::write(path, report)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}
