//! The report of a run: what ran, how exact it was, and what failed.

mod facts;
mod recorder;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use cuda_sys::CUresult;

use crate::Checks;
use crate::exec::check::finding::{Check, Finding};
use crate::exec::{Executed, Reached, bound};
use facts::Facts;
pub(crate) use recorder::is_on;

/// The extension of the files of a report.
const EXTENSION: &str = "run";

/// The first words of keys.
mod kind {
    pub(super) const PROCESS: &str = "process";
    pub(super) const CHECKER: &str = "checker";
    pub(super) const KERNEL: &str = "kernel";
    pub(super) const APPROXIMATE: &str = "approximate";
    pub(super) const REFUSED: &str = "refused";
    pub(super) const FAILED: &str = "failed";
    pub(super) const UNSUPPORTED: &str = "unsupported";
    pub(super) const REACHED: &str = "reached";
    pub(super) const FINDING: &str = "finding";
    pub(super) const FAULT: &str = "fault";
}

/// The report of a run: of this process ([`run_report`]), or of all processes of a run ([`RunReport::read`]).
///
/// `Display` writes it for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunReport {
    /// The processes that used the device: number and program.
    pub processes: Vec<(u32, String)>,
    /// The kernels, in the order in which they first ran.
    pub kernels: Vec<KernelRun>,
    /// Kernels that the device refused, with the instruction that it does not execute, and how often.
    pub refused: Vec<(String, u64)>,
    /// Whether values that depend on an approximate instruction were followed ([`Config::taint`](crate::Config::taint)).
    pub traced: bool,
    /// Where approximate values decided something, in the order in which it first happened.
    pub reached: Vec<ReachedAt>,
    /// The checkers that were on, in any of the processes.
    pub checks: Checks,
    /// The checkers' findings.
    pub findings: Vec<Found>,
    /// The faults of kernels.
    pub faults: Vec<String>,
    /// Calls of the driver that failed: function, code, and how often. `CUDA_ERROR_NOT_READY` is no failure.
    pub failed: Vec<(String, String, u64)>,
    /// Functions that this device does not have and the program called or asked for, and how often.
    pub unsupported: Vec<(String, u64)>,
}

/// A kernel of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KernelRun {
    /// Its name in the image.
    pub name: String,
    /// Its launches.
    pub launches: u64,
    /// The blocks of all launches.
    pub blocks: u64,
    /// The threads of all launches.
    pub threads: u64,
    /// How long they took here.
    pub time: Duration,
    /// The instructions that they executed, each counted once for each thread that executed it. A thread whose guard is
    /// false does not execute the instruction. If a fault ends a launch, each basic block that had begun counts
    /// in full.
    pub instructions: u64,
    /// The approximate ones of them, by name without `.ftz`: how many, and the bound of their error.
    pub approximate: BTreeMap<String, (u64, String)>,
}

impl KernelRun {
    /// Returns the number of executed instructions that are not approximate. Their results are those of a GPU to the bit,
    /// except where ptxas fuses a multiplication and an addition ([`Contraction`](crate::Contraction)), and except products
    /// of float matrices, which are an H200's.
    #[must_use]
    pub fn exact(&self) -> u64 {
        self.instructions - self.approximate().min(self.instructions)
    }

    /// Returns the number of executed instructions that are approximate.
    #[must_use]
    pub fn approximate(&self) -> u64 {
        self.approximate.values().map(|(count, _)| *count).sum()
    }
}

/// A place where an approximate value decided something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReachedAt {
    /// What it decided: a branch, an address or an integer.
    pub what: String,
    /// The kernel's name in the image.
    pub kernel: String,
    /// The source line, or that of the PTX.
    pub place: String,
    /// How often, counted once for each thread.
    pub count: u64,
}

/// A finding of a checker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// `race`, `init` or `leak`.
    pub check: String,
    /// The finding, with its source lines.
    pub text: String,
    /// How often.
    pub count: u64,
}

/// Returns the report of this process so far. Empty unless [`Config::report`](crate::Config::report) is set.
#[must_use]
pub fn run_report() -> RunReport {
    RunReport::of(&recorder::recorded())
}

impl RunReport {
    /// Reads the reports of all processes that have written into a folder ([`Config::report_to`](crate::Config::report_to)).
    ///
    /// # Errors
    /// If the folder or a file cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                files.push((fs::metadata(&path)?.modified()?, path));
            }
        }
        // The directory's order means nothing.
        files.sort();
        let mut facts = Facts::default();
        for (_, path) in files {
            facts.read(&String::from_utf8_lossy(&fs::read(path)?));
        }
        Ok(Self::of(&facts))
    }

    fn of(facts: &Facts) -> Self {
        let mut report = Self::default();
        for (key, [count, a, b, c]) in facts.rows() {
            let words: Vec<&str> = key.iter().map(String::as_str).collect();
            match words[..] {
                [kind::PROCESS, number, program] => {
                    report.processes.push((number.parse().unwrap_or(0), program.to_owned()));
                    report.traced |= a != 0;
                }
                [kind::CHECKER, "race"] => report.checks.race = true,
                [kind::CHECKER, "init"] => report.checks.init = true,
                [kind::CHECKER, "leak"] => report.checks.leak = true,
                [kind::KERNEL, name, "launches"] => {
                    let kernel = report.kernel(name);
                    (kernel.launches, kernel.blocks, kernel.threads) = (count, a, b);
                    kernel.time = Duration::from_nanos(c);
                }
                [kind::KERNEL, name, "instructions"] => report.kernel(name).instructions = count,
                [kind::APPROXIMATE, name, opcode] => {
                    let found = (count, bound(opcode).to_owned());
                    report.kernel(name).approximate.insert(opcode.to_owned(), found);
                }
                [kind::REFUSED, why] => report.refused.push((why.to_owned(), count)),
                [kind::FAILED, function, code] => {
                    report.failed.push((function.to_owned(), code.to_owned(), count));
                }
                [kind::UNSUPPORTED, function] => {
                    report.unsupported.push((function.to_owned(), count));
                }
                [kind::REACHED, what, kernel, place] => {
                    let [what, kernel, place] = [what, kernel, place].map(str::to_owned);
                    report.reached.push(ReachedAt { what, kernel, place, count });
                }
                [kind::FINDING, check, text] => {
                    let (check, text) = (check.to_owned(), text.to_owned());
                    report.findings.push(Found { check, text, count });
                }
                [kind::FAULT, text] => report.faults.push(text.to_owned()),
                // Of another version.
                _ => {}
            }
        }
        report
    }

    fn kernel(&mut self, name: &str) -> &mut KernelRun {
        let at = self.kernels.iter().position(|kernel| kernel.name == name);
        let at = at.unwrap_or_else(|| {
            self.kernels.push(KernelRun { name: name.to_owned(), ..KernelRun::default() });
            self.kernels.len() - 1
        });
        &mut self.kernels[at]
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(self, f)
    }
}

/// A launch that has ended.
pub(crate) struct Launched<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) blocks: u64,
    pub(crate) threads: u64,
    pub(crate) time: Duration,
    pub(crate) executed: &'a Executed,
    pub(crate) reached: &'a [Reached],
}

/// Notes that the process uses the device, whether values are followed, and which checkers are on.
pub(crate) fn note_process(traced: bool, checks: Checks) {
    if is_on() {
        let number = std::process::id().to_string();
        let program = std::env::current_exe().unwrap_or_default();
        let key = [kind::PROCESS, &number, &program.to_string_lossy()];
        recorder::add(&key, [1, u64::from(traced), 0, 0]);
        let Checks { race, init, leak } = checks;
        for (on, name) in [(race, "race"), (init, "init"), (leak, "leak")] {
            if on {
                recorder::add(&[kind::CHECKER, name], [1, 0, 0, 0]);
            }
        }
    }
}

/// Notes a launch.
pub(crate) fn note_launch(launched: &Launched<'_>) {
    let Launched { kernel, blocks, threads, time, executed, reached } = *launched;
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let launches = [kind::KERNEL, kernel, "launches"];
    let instructions = [kind::KERNEL, kernel, "instructions"];
    let mut rows: Vec<(Vec<&str>, [u64; 4])> = vec![
        (launches.to_vec(), [1, blocks, threads, nanoseconds]),
        (instructions.to_vec(), [executed.all, 0, 0, 0]),
    ];
    for (name, count) in &executed.approximate {
        rows.push((vec![kind::APPROXIMATE, kernel, name], [*count, 0, 0, 0]));
    }
    let places: Vec<String> = reached.iter().map(|reached| reached.place.line()).collect();
    for (reached, place) in reached.iter().zip(&places) {
        let key = vec![kind::REACHED, reached.what.name(), kernel, place];
        rows.push((key, [reached.count, 0, 0, 0]));
    }
    let rows: Vec<_> = rows.iter().map(|(key, numbers)| (key.as_slice(), *numbers)).collect();
    recorder::add_all(&rows);
}

/// Notes a call that failed.
pub(crate) fn note_failure(function: &str, code: CUresult) {
    if code != CUresult::CUDA_ERROR_NOT_READY {
        let number = code.0.to_string();
        recorder::add(&[kind::FAILED, function, code.name().unwrap_or(&number)], [1, 0, 0, 0]);
    }
}

/// Notes a function that the device does not have.
pub(crate) fn note_unsupported(function: &str) {
    if is_on() {
        recorder::add(&[kind::UNSUPPORTED, function], [1, 0, 0, 0]);
    }
}

/// Notes a kernel that is refused, with the reason.
pub(crate) fn note_refused(why: &str) {
    if is_on() {
        recorder::add(&[kind::REFUSED, why], [1, 0, 0, 0]);
    }
}

/// Notes a finding.
pub(crate) fn note_finding(finding: &Finding) {
    if is_on() {
        let check = match finding.check {
            Check::Race => "race",
            Check::Init => "init",
            Check::Leak => "leak",
        };
        recorder::add(&[kind::FINDING, check, &finding.to_string()], [1, 0, 0, 0]);
    }
}

/// Notes a fault.
pub(crate) fn note_fault(text: &str) {
    if is_on() {
        recorder::add(&[kind::FAULT, text], [1, 0, 0, 0]);
    }
}
