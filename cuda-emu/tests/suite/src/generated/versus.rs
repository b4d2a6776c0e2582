//! Many programs on a GPU and on the software device, which must agree: `suite --generated
//! 100000`.
//!
//! Three rounds of processes (`share`): shares of the programs are run; those that differ or do not end
//! are tried without the driver's compiler's optimisation, which says whose error it is; and some of
//! them are reduced.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ptx_gen::{Coverage, Program};

use super::share::{AGREES, DONE, EACH_PAIRS, REDUCER, STUCK, VERDICT, WORKER};
use super::summary::{Families, Summary};
use super::{BATCH, numbers};
use test_harness::{Failure, Outcome, TestDevice, ensure, limited_to, spawn_self};

/// The option: how many programs, and the first seed.
pub(super) const COMMAND: &str = "--generated";

/// Programs of one process.
const SHARE: u64 = 320;
/// Seconds after which a process is killed that did not end itself, and one more for each program.
const LIMIT: u64 = 120;
/// Programs that are reduced, at most.
const SHOWN: usize = 32;
/// How many programs there are between two lines that say how far the run is.
const TOLD: u64 = 5000;
/// Programs that fail to run, after which no more are looked for.
const ENOUGH: u64 = 10;

/// `--generated COUNT [FIRST] [--tier emu|gpu] [--report FILE]`
pub(super) fn main(arguments: impl Iterator<Item = String>) -> Result<ExitCode, Failure> {
    let mut arguments: Vec<_> = arguments.collect();
    let report = option(&mut arguments, "--report")?;
    let tier = option(&mut arguments, "--tier")?.unwrap_or_else(|| "gpu".to_owned());
    let tier = ["emu", "gpu"].into_iter().find(|known| *known == tier);
    let tier = tier.ok_or_else(|| Failure::new("--tier takes emu or gpu"))?;
    let (count, first) = match numbers(&arguments)?[..] {
        [count] => (count, 0),
        [count, first] => (count, first),
        _ => {
            let how = format!("{COMMAND} COUNT [FIRST] [--tier emu|gpu] [--report FILE]");
            return Err(Failure::new(how));
        }
    };
    // Said once, not by each process.
    TestDevice::open(tier)?.close()?;
    let summary = Mutex::new(Summary::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let begin = Instant::now();
    let coverage = run(first, count, tier, workers, &summary);
    let tried = verdicts(tier, workers, &summary);
    let elapsed = begin.elapsed().as_secs_f64();
    let wrong = {
        let summary = lock(&summary);
        print!("{coverage}{summary}");
        println!("{} programs in {elapsed:.1} s on {workers} processes", summary.programs);
        let complete = summary.programs + summary.failures.len() as u64 == count;
        ensure!(complete, "only {} programs were run", summary.programs);
        summary.wrong()
    };
    println!("{wrong} are wrong on a device");
    let examples = reductions(tried, tier, workers, &summary);
    print!("{examples}");
    if let Some(file) = &report {
        std::fs::write(file, &lock(&summary).report)?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all programs; what they consist of.
fn run(first: u64, count: u64, tier: &str, workers: usize, summary: &Mutex<Summary>) -> Coverage {
    let begin = Instant::now();
    // Of few programs each process has few; whole programs of pairs.
    let share = (count / (2 * workers as u64)).next_multiple_of(EACH_PAIRS).clamp(50, SHARE);
    let (next, failed, told) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let coverage = Mutex::new(Coverage::default());
    each(workers, || {
        loop {
            let at = next.fetch_add(share, Ordering::Relaxed);
            if at >= count || failed.load(Ordering::Relaxed) >= ENOUGH {
                return;
            }
            let (seed, share) = (first + at, share.min(count - at));
            let done = split(seed, share, tier, &failed);
            let mut counted = Coverage::default();
            (seed..seed + share).for_each(|seed| counted.add(&Program::new(seed)));
            lock(&coverage).merge(&counted);
            let mut summary = lock(summary);
            done.into_iter().for_each(|(seed, done)| summary.add(seed, done));
            let all = told.fetch_add(share, Ordering::Relaxed) + share;
            if all / TOLD > (all - share) / TOLD {
                let seconds = begin.elapsed().as_secs();
                let (differ, failures) = (&summary.different, summary.failures.len());
                eprintln!("{all} programs: {seconds} s, {failures} failed, differing: {differ:?}");
            }
        }
    });
    coverage.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Has those that differ or fail run unoptimised, where the summary learns of it; their seeds.
fn verdicts(tier: &str, workers: usize, summary: &Mutex<Summary>) -> Vec<u64> {
    let mut tried = lock(summary).different.clone();
    tried.extend(lock(summary).failures.iter().map(|(seed, _)| *seed));
    tried.sort_unstable();
    let left = Mutex::new(tried.clone());
    each(workers, || {
        loop {
            let Some(seed) = lock(&left).pop() else { return };
            // A program that fails unoptimised as well is the device's.
            let text = process(&[VERDICT, &seed.to_string(), tier], LIMIT).unwrap_or_default();
            if text.contains(AGREES) {
                lock(summary).compiler.push(seed);
            }
        }
    });
    tried
}

/// Reduces programs, those of the device first; families of them, with examples.
fn reductions(
    mut seeds: Vec<u64>,
    tier: &str,
    workers: usize,
    summary: &Mutex<Summary>,
) -> Families {
    let compiler = lock(summary).compiler.clone();
    let failed: Vec<_> = lock(summary).failures.iter().map(|(seed, _)| *seed).collect();
    // One that never ends says nothing smaller.
    seeds.retain(|seed| !failed.contains(seed));
    seeds.sort_by_key(|seed| compiler.contains(seed));
    seeds.truncate(SHOWN);
    seeds.reverse();
    let seeds = Mutex::new(seeds);
    each(workers, || {
        loop {
            let Some(seed) = lock(&seeds).pop() else { return };
            let text = process(&[REDUCER, &seed.to_string(), tier], LIMIT)
                .unwrap_or_else(|failure| format!("seed {seed} was not reduced: {failure}\n"));
            lock(summary).reduced(&text);
        }
    });
    std::mem::take(&mut lock(summary).families)
}

/// Takes an option and its value out of the arguments.
fn option(arguments: &mut Vec<String>, name: &str) -> Result<Option<String>, Failure> {
    let Some(at) = arguments.iter().position(|one| one == name) else { return Ok(None) };
    ensure!(at + 1 < arguments.len(), "{name} needs a value");
    arguments.remove(at);
    Ok(Some(arguments.remove(at)))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs `work` on so many threads.
fn each(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(&work))));
}

/// What processes said of some programs, each with its first seed.
type Said = Vec<(u64, Result<String, Failure>)>;

/// Runs a process for a share. Of one that fails, since a kernel faults or hangs, the programs of the
/// batch that it was at are run one by one.
fn split(first: u64, count: u64, tier: &str, failed: &AtomicU64) -> Said {
    let done = worker(first, count, tier);
    let Err(failure) = &done else { return vec![(first, done)] };
    if count == 1 || failed.load(Ordering::Relaxed) >= ENOUGH {
        failed.fetch_add(1, Ordering::Relaxed);
        return vec![(first, done)];
    }
    let (text, end) = (failure.to_string(), first + count);
    let at =
        text.lines().filter_map(|line| line.strip_prefix(STUCK)?.parse::<u64>().ok()).next_back();
    // One that says nothing failed before its first batch, or at pairs: any of its programs.
    let at = at.filter(|at| count > BATCH as u64 && (first..end).contains(at));
    let (from, to) = at.map_or((first, end), |at| (at, end.min(at + BATCH as u64)));
    let mut said = Said::new();
    if first < from {
        said.extend(split(first, from - first, tier, failed));
    }
    (from..to).for_each(|seed| said.extend(split(seed, 1, tier, failed)));
    if to < end {
        said.extend(split(to, end - to, tier, failed));
    }
    said
}

/// Runs a process for a share; its output.
fn worker(first: u64, count: u64, tier: &str) -> Result<String, Failure> {
    let text = process(&[WORKER, &first.to_string(), &count.to_string(), tier], LIMIT + count)?;
    ensure!(text.contains(DONE), "{text}");
    Ok(text)
}

fn process(arguments: &[&str], limit: u64) -> Result<String, Failure> {
    let mut command = spawn_self(arguments)?;
    // One thread, and nothing of so many programs kept by the driver.
    command.env("CUDA_EMU_WORKERS", "1").env("CUDA_CACHE_DISABLE", "1");
    let Outcome { status, stdout, stderr } = limited_to(command, limit)?;
    ensure!(status.success(), "{status}\n{stdout}{stderr}");
    Ok(stdout)
}
