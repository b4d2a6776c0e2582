//! One process under compute-sanitizer.

use std::process::Command;

use super::plan::{Shard, Tool};
use super::results::Verdict;
use cuda_emu_tests::Sanitizer;

use test_harness::{CHILD_PASSED, Failure, Outcome, TestResult, ensure_eq, limited_to};

/// The first port that a sanitizer and its program talk by, and how many each gets.
const PORTS: (usize, usize) = (51_000, 20);

/// What the tool says of the shard, whose process is killed after `limit` seconds; `slot` tells processes at the
/// same time apart.
pub(super) fn run(
    sanitizer: &Sanitizer,
    shard: &Shard,
    tier: &str,
    slot: usize,
    limit: u64,
) -> Verdict {
    judged(sanitizer, shard, tier, slot, limit)
        .unwrap_or_else(|failure| Verdict::Found(format!("no verdict: {failure}")))
}

fn judged(
    sanitizer: &Sanitizer,
    shard: &Shard,
    tier: &str,
    slot: usize,
    limit: u64,
) -> Result<Verdict, Failure> {
    let port = (PORTS.0 + slot * PORTS.1).to_string();
    let mut command = sanitizer.command([("--base-port", port.as_str())]);
    command.args(["--tool", shard.tool.name()]);
    if shard.tool == Tool::Memory {
        // What a fatal fault leaves behind can't be freed.
        command.args(["--leak-check", if shard.fault { "no" } else { "full" }]);
    }
    if shard.fault {
        command.args(["--report-api-errors", "no"]);
    }
    command.arg(std::env::current_exe()?).args(["--tier", tier]);
    name_tests(&mut command, shard, tier);
    let Outcome { status, stdout, stderr } = limited_to(command, limit)?;
    let passed = match shard.fault {
        true => stdout.lines().any(|line| line.starts_with(CHILD_PASSED)),
        // The tests, and the one that closes the device.
        false => {
            stdout.lines().filter(|line| line.ends_with("... ok")).count() == shard.tests.len() + 1
        }
    };
    let counts = counts(shard.tool, &stdout);
    Ok(match counts[..] {
        [] => Verdict::Found(format!("no summary, {status}: {}", tail(&stdout, &stderr))),
        _ if counts.iter().any(|count| *count > 0) => {
            Verdict::Found(format!("{}: {}", summaries(&stdout), first_finding(&stdout)))
        }
        _ if !passed => Verdict::Found(format!("failed, {status}: {}", tail(&stdout, &stderr))),
        _ => Verdict::Clean,
    })
}

fn name_tests(command: &mut Command, shard: &Shard, tier: &str) {
    command.env_remove("TEST_REPORT").env_remove("TEST_DEEP");
    if shard.fault {
        command.arg("--child").args(&shard.tests).envs(shard.variables.iter().copied());
        return;
    }
    // One thread: the tools serialise launches anyway.
    command.args(["--test-threads", "1", "--exact"]);
    command.args(shard.tests.iter().map(|test| format!("{tier}::{test}")));
}

/// What each summary of the tool counts.
fn counts(tool: Tool, text: &str) -> Vec<u64> {
    let kinds: &[&str] = match tool {
        Tool::Memory => &["ERROR SUMMARY:", "LEAK SUMMARY:"],
        Tool::Race => &["RACECHECK SUMMARY:"],
        Tool::Init | Tool::Sync => &["ERROR SUMMARY:"],
    };
    let numbers = text.lines().filter_map(|line| {
        let (_, rest) = kinds.iter().find_map(|kind| line.split_once(kind))?;
        rest.split_whitespace().next()?.parse().ok()
    });
    numbers.collect()
}

fn summaries(text: &str) -> String {
    let lines = text.lines().filter(|line| line.contains(" SUMMARY:"));
    lines.map(|line| line.trim_start_matches(['=', ' '])).collect::<Vec<_>>().join(", ")
}

/// The first lines of the first finding.
fn first_finding(text: &str) -> String {
    let said = text.lines().filter_map(|line| line.strip_prefix("========="));
    let said = said.map(str::trim).filter(|line| !line.is_empty());
    let said = said.skip_while(|line| line.starts_with("COMPUTE-SANITIZER"));
    said.take(8).collect::<Vec<_>>().join(" | ")
}

/// The end of what was printed.
fn tail(stdout: &str, stderr: &str) -> String {
    let lines: Vec<_> = stdout.lines().chain(stderr.lines()).collect();
    lines[lines.len().saturating_sub(12)..].join(" | ")
}

/// What each tool writes at its end is understood.
pub(super) fn summaries_are_read() -> TestResult {
    let memory = "========= LEAK SUMMARY: 1024 bytes leaked in 1 allocations\n========= ERROR SUMMARY: 1 error\n";
    ensure_eq!(counts(Tool::Memory, memory), [1024, 1]);
    ensure_eq!(counts(Tool::Memory, "========= ERROR SUMMARY: 0 errors\n"), [0]);
    let race = "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n";
    ensure_eq!(counts(Tool::Race, race), [2]);
    for nothing in ["", "========= Error: No attachable process found.", "ERROR SUMMARY: many"] {
        ensure_eq!(counts(Tool::Sync, nothing), [0u64; 0], "{nothing}");
    }
    Ok(())
}
