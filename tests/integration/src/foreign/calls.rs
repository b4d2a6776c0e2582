//! The device's log of calls, counted by name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use test_harness::{Failure, TestResult, ensure, ensure_eq};

/// `CUDA_ERROR_NOT_SUPPORTED`
const NOT_SUPPORTED: &str = "801";

/// How often a function was called.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    succeeded: u64,
    not_supported: u64,
    failed: u64,
}

/// The calls of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Calls(BTreeMap<String, Count>);

impl Calls {
    /// Reads a log.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("no log of calls: {error}")))?;
        Self::of(&text)
    }

    /// Of lines such as `ThreadId(5) cuInit(flags=0) -> 0 CUDA_SUCCESS`.
    fn of(log: &str) -> Result<Self, Failure> {
        let mut calls = Self::default();
        for line in log.lines() {
            let (name, code) = parts(line)
                .ok_or_else(|| Failure::new(format!("this is no line of a log: {line}")))?;
            let count = calls.0.entry(name.to_owned()).or_default();
            match code {
                "0" => count.succeeded += 1,
                NOT_SUPPORTED => count.not_supported += 1,
                _ => count.failed += 1,
            }
        }
        Ok(calls)
    }

    /// Adds the calls of another program.
    pub(super) fn add(&mut self, other: Self) {
        for (name, more) in other.0 {
            let count = self.0.entry(name).or_default();
            count.succeeded += more.succeeded;
            count.not_supported += more.not_supported;
            count.failed += more.failed;
        }
    }

    /// How many functions have done what they were called for.
    pub(super) fn distinct(&self) -> usize {
        self.0.values().filter(|count| count.succeeded > 0).count()
    }

    /// Whether a function has done what it was called for.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|count| count.succeeded > 0)
    }

    /// What was asked for and is not there. The runtime's private tables are no part of the driver API;
    /// libnvrtc asks for one, and does without.
    pub(super) fn refused(&self) -> impl Iterator<Item = &str> {
        let refused = self.0.iter().filter(|(_, count)| count.not_supported > 0);
        refused.map(|(name, _)| name.as_str()).filter(|name| *name != "cuGetExportTable")
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.0.iter().filter(|(_, count)| count.succeeded > 0);
        let shown: Vec<_> =
            done.map(|(name, count)| format!("{name} {}", count.succeeded)).collect();
        f.write_str(&shown.join(", "))
    }
}

/// The function's name and the code of its answer.
fn parts(line: &str) -> Option<(&str, &str)> {
    let (thread, call) = line.split_once(' ')?;
    let (name, rest) = call.split_once('(')?;
    // Arguments may hold whatever text.
    let (_, answer) = rest.rsplit_once(") -> ")?;
    let (code, _) = answer.split_once(' ')?;
    let is_call = thread.starts_with("ThreadId(") && name.starts_with("cu");
    (is_call && code.parse::<i32>().is_ok()).then_some((name, code))
}

pub(super) fn are_counted() -> TestResult {
    let mut calls = Calls::of(
        "ThreadId(1) cuInit(flags=0) -> 0 CUDA_SUCCESS\n\
         ThreadId(1) cuInit(flags=1) -> 1 CUDA_ERROR_INVALID_VALUE\n\
         ThreadId(2) cuModuleGetFunction(function=0x1, name=0x2) -> 500 CUDA_ERROR_NOT_FOUND\n\
         ThreadId(2) cuTexRefCreate() -> 801 CUDA_ERROR_NOT_SUPPORTED\n\
         ThreadId(2) cuGetExportTable(table=0x1, id=0x2) -> 801 CUDA_ERROR_NOT_SUPPORTED\n\
         ThreadId(2) cuCtxSynchronize() -> 0 CUDA_SUCCESS\n\
         ThreadId(3) cuCtxSynchronize() -> 0 CUDA_SUCCESS\n",
    )?;
    ensure_eq!(calls.distinct(), 2, "failures and what is refused do not count");
    ensure_eq!(calls.to_string(), "cuCtxSynchronize 2, cuInit 1");
    ensure!(calls.has("cuInit") && !calls.has("cuModuleGetFunction") && !calls.has("cuNothing"));
    ensure_eq!(calls.refused().collect::<Vec<_>>(), ["cuTexRefCreate"]);
    calls.add(Calls::of("ThreadId(1) cuInit(flags=0) -> 0 CUDA_SUCCESS\n")?);
    ensure_eq!(calls.to_string(), "cuCtxSynchronize 2, cuInit 2");
    for broken in ["cuInit(flags=0) -> 0 CUDA_SUCCESS", "ThreadId(1) cuInit(flags", "\n"] {
        ensure!(Calls::of(broken).is_err(), "{broken:?}");
    }
    Ok(())
}
