//! What a run tells whoever started it: one line of JSON in the file that `TEST_REPORT` names.

use std::sync::atomic::{AtomicU64, Ordering};

/// Kernel launches made by this process and by the processes of its fault tests.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count_launches(launches: u64) {
    LAUNCHES.fetch_add(launches, Ordering::Relaxed);
}

pub(crate) fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Passed and failed tests of a tier, counted while they run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// One tier's result.
#[derive(Debug)]
pub(crate) struct TierReport {
    pub(crate) tier: &'static str,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Why it did not run, if it did not.
    pub(crate) not_run: Option<String>,
}

impl TierReport {
    fn to_json(&self) -> String {
        let reason = self.not_run.as_deref().map_or_else(|| "null".to_owned(), quoted);
        format!(
            r#"{{"tier":{},"ran":{},"passed":{},"failed":{},"not_run":{reason}}}"#,
            quoted(self.tier),
            self.passed + self.failed,
            self.passed,
            self.failed,
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
        "{{\"tiers\":[{}],\"launches\":{},\"checked_kernels\":[{}]}}\n",
        tiers.join(","),
        launches(),
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
