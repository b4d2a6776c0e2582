//! Tests again under the checkers of the software device, and the kernels that these have seen.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use crate::{
    Case, Failure, Outcome, Suite, TestResult, deep, ensure, limited_to, spawn_self, suite,
};

/// Seconds that all of it may take.
const LIMIT: u64 = 300;
const DEEP_LIMIT: u64 = 4 * 3600;

/// Tests that are not run under the checkers, by the beginnings of their names: kernels as they were recorded on a GPU,
/// of which one reads plainly before a loop of compare-and-swap, and one padding; generated programs; and planted mistakes.
const OTHERS: [&str; 4] = ["golden", "generated", "seeds", "schedules"];

/// A launch of thousands of blocks that meet again and again, which each learn of each. The bits of 64 voxels are a word:
/// a look-up reads plainly what other threads write atomically. Tiles in memory of the block race in NVIDIA's header,
/// which relies on lanes that execute together.
const NOT_CHECKED: [&str; 3] = [
    "kernels::blocks_that_meet",
    "volume::kernels_store_and_look_up",
    "groups::tiles_in_memory_of_the_block",
];

pub(crate) fn cases(suite: &Suite) -> Vec<Case> {
    if suite.kernels.is_empty() {
        return Vec::new();
    }
    vec![Case::host("checkers::own_kernels", own_kernels).long()]
}

/// The kernels that a report says were checked.
fn checked(report: &str) -> BTreeSet<String> {
    let list = report.split_once("\"checked_kernels\":[").map_or("", |(_, list)| list);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The tier again, or these cases of it, with its kernels checked for races and for reads of unwritten memory: a
/// case with a finding fails. The kernels that ran.
fn run(cases: &[&str]) -> Result<BTreeSet<String>, Failure> {
    let mut command = spawn_self(&["--tier", "emu"])?;
    command.env("CUDA_EMU_CHECK", "race,init");
    // Of the usual size: checked they take long enough.
    command.env_remove("TEST_DEEP");
    if cases.is_empty() {
        for other in OTHERS.iter().chain(&NOT_CHECKED) {
            command.args(["--skip", &format!("emu::{other}")]);
        }
    } else {
        command.arg("--exact").args(cases.iter().map(|case| format!("emu::{case}")));
    }
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    command.env("TEST_REPORT", &report);
    let limit = if cases.is_empty() { DEEP_LIMIT } else { LIMIT };
    let Outcome { status, stdout, stderr } = limited_to(command, limit)?;
    ensure!(status.success(), "{status}\n{stdout}{stderr}");
    if !cases.is_empty() {
        // The cases, and the one that closes the device.
        let ran = stdout.lines().filter(|line| line.ends_with("... ok")).count();
        ensure!(ran == cases.len() + 1, "{ran} of {} cases\n{stdout}", cases.len());
    }
    Ok(checked(&fs::read_to_string(report)?))
}

/// Runs device tests under the checkers for races and unwritten memory, and returns the kernels that these have seen.
/// Under the checkers a launch has one worker, so there are two processes for two cores.
pub fn check(cases: &[&str]) -> Result<BTreeSet<String>, Failure> {
    let (first, second) = thread::scope(|scope| {
        let (left, right) = cases.split_at(cases.len() / 2);
        let left = scope.spawn(|| run(left));
        let right = run(right);
        (left.join(), right)
    });
    let first = first.unwrap_or_else(|_| Err(Failure::new("a process could not be run")))?;
    Ok(&first | &second?)
}

/// The checkers find nothing in the crates' kernels, and have seen all of them.
fn own_kernels() -> TestResult {
    let suite = suite();
    let seen = if deep() { run(&[])? } else { check(&suite.checked)? };
    let mut all = BTreeSet::new();
    for kernels in &suite.kernels {
        all.extend(kernels()?);
    }
    let missed: Vec<_> = all.difference(&seen).collect();
    ensure!(missed.is_empty(), "of {} kernels {missed:?} were not checked", all.len());
    crate::report::count_kernels(all.len() as u64);
    println!("checkers: {} kernels", all.len());
    Ok(())
}
