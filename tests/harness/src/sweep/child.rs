//! The process that sweeps one test, until the time is over or something lasting is wrong.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::fault::faults;
use super::judge::{Ending, clean, faulty, note_panics};
use super::keeper::Keeper;
use crate::{Failure, Run, SEVERAL, TestDevice, TestResult, suite};

/// The first argument of such a process. Behind it: the test, how many calls of each function fail,
/// the file for what it finds, the place in the order from which on it tries, and the milliseconds
/// of a core that it has.
pub(crate) const CHILD: &str = "--sweep-child";

/// Only faults are tried in whose text this variable's value occurs, such as `call 2 of cuEventCreate`.
const ONLY_VARIABLE: &str = "TEST_FAULT";

/// How long a run may take, beside what it takes without a fault.
const STUCK: Duration = Duration::from_secs(20);

/// What a line of the file says. The words are followed by numbers or a text; this one by the number of
/// faults and the microseconds of the run without one.
pub(super) const POSSIBLE: &str = "possible";
/// A run begins: its place in the order, and the fault.
pub(super) const BEGINS: &str = "begins";
pub(super) const NAMED: &str = "named";
pub(super) const ABSORBED: &str = "absorbed";
pub(super) const MISSED: &str = "missed";
pub(super) const WRONG: &str = "wrong";
/// As `WRONG`, and the process is of no more use.
pub(super) const LASTING: &str = "lasting";
/// All was tried, or the time is over.
pub(super) const DONE: &str = "done";

pub(crate) fn child_main(arguments: impl Iterator<Item = String>) -> ExitCode {
    match sweep(&arguments.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Option<fn(&TestDevice) -> TestResult> {
    let case = suite().case(name)?;
    match case.run {
        Run::Device(run) => Some(run),
        Run::Fault(run) if case.is_of_several() => Some(run),
        _ => None,
    }
}

fn sweep(arguments: &[String]) -> TestResult {
    let [name, most, path, from, time] = arguments else {
        return Err(Failure::new(format!("a sweep does not take {arguments:?}")));
    };
    let (from, time) = (from.parse::<u64>()?, Duration::from_millis(time.parse::<u64>()?));
    let run = find(name).ok_or_else(|| Failure::new(format!("there is no test {name}")))?;
    let mut file = File::create(path)?;
    note_panics();
    let keeper = Keeper::new()?;
    // A test of times may fail on a busy machine. What is left by the first run fails the second too.
    let clean = clean(run, &keeper).or_else(|_| clean(run, &keeper))?;
    let mut faults = faults(name, &clean.calls, most.parse()?);
    if name.starts_with(SEVERAL) {
        // They open contexts, which `host/faults.rs` sweeps: the release with which that asks for the context's id.
        faults.retain(|fault| fault.name != "cuDevicePrimaryCtxRelease_v2");
    }
    if let Ok(only) = std::env::var(ONLY_VARIABLE) {
        faults.retain(|fault| fault.to_string().contains(&only));
    }
    writeln!(file, "{POSSIBLE} {} {}", faults.len(), clean.time.as_micros())?;

    let stuck = Watchdog::start(STUCK + 10 * clean.time);
    let budget = Budget::new(time);
    for fault in faults {
        let place = fault.place(name);
        if place < from {
            continue;
        }
        if budget.is_spent() {
            break;
        }
        writeln!(file, "{BEGINS} {place} {fault}")?;
        stuck.feed();
        let mut ending = faulty(name, run, &clean, &keeper, &fault);
        if matches!(&ending, Err(wrong) if wrong.silent) {
            // A test of times may have ended before it had heard of the fault.
            ending = faulty(name, run, &clean, &keeper, &fault);
        }
        match ending {
            Ok(Ending::Named) => writeln!(file, "{NAMED}")?,
            Ok(Ending::Absorbed) => writeln!(file, "{ABSORBED}")?,
            Ok(Ending::Missed) => writeln!(file, "{MISSED}")?,
            Err(wrong) => {
                let word = if wrong.lasting { LASTING } else { WRONG };
                writeln!(file, "{word} {}", wrong.text.replace('\n', " | "))?;
                if wrong.lasting {
                    // Leaving without any destructor: they could wait for what never ends.
                    std::process::exit(0);
                }
            }
        }
    }
    writeln!(file, "{DONE}")?;
    Ok(())
}

/// The processor time that a process may take for its faults: unlike that of the clock it buys the same
/// on a busy machine. Tests that only wait end by the clock.
struct Budget {
    time: Duration,
    busy: Duration,
    begin: Instant,
}

impl Budget {
    fn new(time: Duration) -> Self {
        Self { time, busy: busy(), begin: Instant::now() }
    }

    fn is_spent(&self) -> bool {
        let clock = (4 * self.time).min(Duration::from_secs(40));
        busy().saturating_sub(self.busy) > self.time || self.begin.elapsed() > clock
    }
}

/// The processor time of this process.
fn busy() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ends the process if nobody feeds it.
struct Watchdog(Arc<Mutex<Instant>>);

impl Watchdog {
    fn start(limit: Duration) -> Self {
        let fed = Arc::new(Mutex::new(Instant::now()));
        let seen = fed.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(100));
                if seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > limit {
                    println!("stuck for {} s", limit.as_secs());
                    std::process::exit(3);
                }
            }
        });
        Self(fed)
    }

    fn feed(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}
