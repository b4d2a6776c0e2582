//! The tests of a device tier under compute-sanitizer: `integration --sanitize FOLDER`.
//!
//! Memcheck with its leak check runs over the whole tier. Racecheck, initcheck and synccheck run over the tests that
//! together launch every kernel of geometry and tape, and over all tests of order, graphs and tapes. The tests are
//! split into shards, each a process under the tool. Results are appended to a file of the folder, so a run that a
//! time limit has ended goes on where it stopped; results of another build do not count. What was not reached is
//! listed by name.

mod plan;
mod results;
mod shard;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cuda_emu_tests::Sanitizer;

use plan::{Shard, Tool};
use results::{Results, Verdict};
use test_harness::{Case, Failure, Suite};

/// The option; the folder for the results follows.
const COMMAND: &str = "--sanitize";

/// Seconds after which a shard is killed.
const SHARD_SECONDS: u64 = 240;

/// What the command line asks for.
struct Options {
    folder: PathBuf,
    tier: String,
    /// No shard is started after so many seconds, and what still runs is killed soon after.
    seconds: u64,
    /// Shards that run at the same time.
    jobs: usize,
    /// The tools to run; all of them if empty.
    tools: Vec<Tool>,
}

/// Does what the command line asks for, if it is something of this module.
pub(crate) fn command() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let done = Options::parse(arguments).and_then(|options| run(test_harness::suite(), &options));
    Some(match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("not run: {failure}");
            ExitCode::from(2)
        }
    })
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::host("sanitize::plan", plan::covers_what_it_promises),
        Case::host("sanitize::summaries", shard::summaries_are_read),
        Case::host("sanitize::resumed", results::resumed),
    ]
}

impl Options {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let how = format!(
            "{COMMAND} FOLDER [--seconds N] [--jobs N] [--tier T] [--tool memcheck|racecheck|initcheck|synccheck]..."
        );
        let folder = given.next().map(PathBuf::from).ok_or_else(|| Failure::new(how.clone()))?;
        let mut options =
            Self { folder, tier: "gpu".to_owned(), seconds: 6 * 3600, jobs: 8, tools: Vec::new() };
        while let Some(option) = given.next() {
            let value = given.next().ok_or_else(|| Failure::new(how.clone()))?;
            match option.as_str() {
                "--seconds" => options.seconds = value.parse()?,
                "--jobs" => options.jobs = value.parse::<usize>()?.max(1),
                "--tier" => options.tier = value,
                "--tool" => options.tools.push(Tool::named(&value)?),
                _ => return Err(Failure::new(how)),
            }
        }
        Ok(options)
    }
}

/// Runs what earlier runs of this build have left; whether all has run and nothing was found.
fn run(suite: &Suite, options: &Options) -> Result<bool, Failure> {
    std::fs::create_dir_all(&options.folder)?;
    let sanitizer = Sanitizer::find()?;
    let results = Results::open(&options.folder)?;
    let tools = if options.tools.is_empty() { Tool::ALL.to_vec() } else { options.tools.clone() };
    let planned = plan::plan(suite, &tools);
    println!("{}; build {}", sanitizer.version()?, results.build());

    let mut left: VecDeque<Shard> = planned.iter().map(|shard| results.left_of(shard)).collect();
    left.retain(|shard| !shard.tests.is_empty());
    println!("{} shards, of which {} are left", planned.len(), left.len());
    let (queue, results) = (Mutex::new(left), Mutex::new(results));
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let next_slot = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                let slot = next_slot.fetch_add(1, Ordering::Relaxed);
                while let Some(remaining) = end.checked_duration_since(Instant::now()) {
                    let Some(shard) = lock(&queue).pop_front() else { return };
                    let limit = SHARD_SECONDS.min(remaining.as_secs() + 1);
                    let said = shard::run(&sanitizer, &shard, &options.tier, slot, limit);
                    if shard.tests.len() > 1 && !said.is_clean() {
                        // Alone, so that the result names the test.
                        let mut queue = lock(&queue);
                        shard.singles().for_each(|single| queue.push_back(single));
                        continue;
                    }
                    if !said.is_clean() && Instant::now() >= end {
                        // Killed because the time was up: not reached.
                        continue;
                    }
                    lock(&results).add(&shard, said);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    report(&planned, &results, options)
}

/// Prints what was found and what was not reached; whether neither is anything.
fn report(planned: &[Shard], results: &Results, options: &Options) -> Result<bool, Failure> {
    results.written()?;
    let mut missed = String::new();
    let mut good = true;
    for tool in Tool::ALL {
        let shards = planned.iter().filter(|shard| shard.tool == tool);
        let (mut clean, mut unreached) = (0, 0);
        for test in shards.flat_map(|shard| &shard.tests) {
            match results.of_test(tool, test) {
                Some(Verdict::Clean) => clean += 1,
                Some(Verdict::Found(what)) => {
                    let why = plan::on_purpose(tool, test);
                    good &= why.is_some();
                    println!("{}: {test}: {what}{}", tool.name(), why.unwrap_or_default());
                }
                None => {
                    unreached += 1;
                    missed.push_str(&format!("{} {test}\n", tool.name()));
                }
            }
        }
        if clean + unreached > 0 {
            println!("{}: {clean} tests without a finding, {unreached} not reached", tool.name());
        }
        good &= unreached == 0;
    }
    for (tool, test, why) in plan::NOT_JUDGED {
        println!("{}: {test} is left out: {why}", tool.name());
    }
    let file = options.folder.join("not-reached.txt");
    std::fs::write(&file, &missed)?;
    if !missed.is_empty() {
        println!("not reached: {} names in {}", missed.lines().count(), file.display());
    }
    Ok(good)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
