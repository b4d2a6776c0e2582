//! What the processes of a run over many programs do. Each has one software device of one thread and a
//! context of its own on the GPU: the driver compiles in one process one text at a time. One that makes
//! no headway ends itself, since a kernel that never ends slows the other processes' too.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cuda_safe::Driver;
use ptx_gen::{Ending, Pairs, Program};

use super::pairs::{self, Counts};
use super::report::{differs, reduced, report};
use super::run::Runner;
use super::{BATCH, numbers};
use test_harness::{Failure, TestDevice, TestResult};

/// Runs programs: the first seed, how many, the tier.
pub(super) const WORKER: &str = "--generated-worker";
/// Runs one unoptimised: its seed, the tier.
pub(super) const VERDICT: &str = "--generated-verdict";
/// Reduces one: its seed, the tier.
pub(super) const REDUCER: &str = "--generated-reducer";

/// How lines of a worker begin: the last one, with its programs and counts of pairs; that of the seeds
/// that differ; and the first seed of the batch that it is at.
pub(super) const DONE: &str = "done: ";
pub(super) const DIFFER: &str = "seeds that differ: ";
pub(super) const STUCK: &str = "at ";
/// What a verdict says if the devices agree.
pub(super) const AGREES: &str = "unoptimised, both agree";

/// How many programs there are for each program of pairs.
pub(super) const EACH_PAIRS: u64 = 10;
/// Seconds without headway after which a process ends itself.
const PATIENCE: u64 = 20;

/// Counts up as a process gets on; without that it ends, since a launch that never ends can't be called
/// back.
struct Headway(Arc<AtomicU64>);

impl Headway {
    fn watched() -> Self {
        let counter = Arc::new(AtomicU64::new(0));
        let watched = counter.clone();
        std::thread::spawn(move || {
            let mut last = (0, Instant::now());
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let now = watched.load(Ordering::Relaxed);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > Duration::from_secs(PATIENCE) {
                    eprintln!("no headway for {PATIENCE} s");
                    std::process::exit(1);
                }
            }
        });
        Self(counter)
    }

    fn made(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does something with the device of a tier and the software device.
fn with_both(tier: &str, work: impl FnOnce(&Runner<'_>, &Runner<'_>) -> TestResult) -> TestResult {
    let tier = if tier == "emu" { "emu" } else { "gpu" };
    let (device, software) =
        (TestDevice::open(tier)?, TestDevice::on(Driver::from_sys(cuda_emu::driver())?)?);
    let (tested, trusted) = (Runner::new(&device)?, Runner::new(&software)?);
    work(&tested, &trusted)?;
    drop((tested, trusted));
    // On the software device both are one.
    if tier == "gpu" {
        device.close()?;
        software.close()?;
    }
    Ok(())
}

/// What a worker does.
pub(super) fn run(arguments: impl Iterator<Item = String>) -> TestResult {
    let mut arguments: Vec<_> = arguments.collect();
    let tier = arguments.pop().unwrap_or_default();
    let [first, count] = numbers(&arguments)?[..] else {
        return Err(Failure::new(format!("{WORKER} FIRST COUNT TIER")));
    };
    let headway = Headway::watched();
    with_both(&tier, |tested, trusted| {
        let mut different = Vec::new();
        for from in (first..first + count).step_by(BATCH) {
            // Said before it is run: it may not come back.
            println!("{STUCK}{from}");
            std::io::stdout().flush()?;
            let programs: Vec<_> =
                (from..(first + count).min(from + BATCH as u64)).map(Program::new).collect();
            let which = |failure: Failure| Failure::new(format!("programs from {from}: {failure}"));
            let got = tested.run(&programs, Ending::Hash, 1).map_err(which)?;
            let wanted = trusted.run(&programs, Ending::Hash, 1).map_err(which)?;
            let pairs = programs.iter().zip(got.iter().zip(&wanted));
            different
                .extend(pairs.filter(|(_, (got, wanted))| got != wanted).map(|(one, _)| one.seed));
            headway.made();
        }
        if !different.is_empty() {
            let seeds: Vec<_> = different.iter().map(u64::to_string).collect();
            println!("{DIFFER}{}", seeds.join(" "));
        }
        // Shares side by side have all pairs between them.
        let pairs: Vec<_> =
            (first / EACH_PAIRS..(first + count) / EACH_PAIRS).map(Pairs::new).collect();
        // Where the software device is tested too, it fuses as its process is set.
        let mut counts = Counts::default();
        for pairs in pairs.chunks(BATCH) {
            counts.add(pairs::compare(tested, trusted, pairs, None)?);
            headway.made();
        }
        let Counts { pairs, told_apart, fused } = counts;
        println!("{DONE}{count} {pairs} {told_apart} {fused}");
        Ok(())
    })
}

/// The program and the tier of a process that has one.
fn one(mut arguments: impl Iterator<Item = String>) -> Result<(Program, String), Failure> {
    match (arguments.next(), arguments.next()) {
        (Some(seed), Some(tier)) => Ok((Program::new(seed.parse()?), tier)),
        _ => Err(Failure::new("a seed and a tier are wanted")),
    }
}

/// Where both devices agree once the compiler does not optimise, it errs when it does.
pub(super) fn verdict(arguments: impl Iterator<Item = String>) -> TestResult {
    let (program, tier) = one(arguments)?;
    let _headway = Headway::watched();
    with_both(&tier, |tested, trusted| {
        let unoptimised = tested.unoptimised()?;
        let differ = differs(&program, &unoptimised, trusted)?;
        // It may have failed for its pairs.
        let seed = program.seed;
        for pairs in (seed / EACH_PAIRS..(seed + 1) / EACH_PAIRS).map(Pairs::new) {
            pairs::compare(&unoptimised, trusted, &[pairs], None)?;
        }
        println!("{}", if differ { "unoptimised, they differ" } else { AGREES });
        Ok(())
    })
}

/// Reduces a program that differs, and prints a report.
pub(super) fn reducer(arguments: impl Iterator<Item = String>) -> TestResult {
    let (program, tier) = one(arguments)?;
    let headway = Headway::watched();
    with_both(&tier, |tested, trusted| {
        let small = reduced(&program, tested, trusted, || headway.made());
        print!("{}", report(&program, &small, tested, trusted)?);
        Ok(())
    })
}
