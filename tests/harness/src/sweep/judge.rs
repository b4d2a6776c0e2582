//! One run of a test, and what is wrong with how it ended.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_emu::{Ledger, fault_report, ledger, watch};
use cuda_safe::Context;

use super::absorbed::absorbed;
use super::fault::{Fault, base};
use super::keeper::Keeper;
use crate::{Failure, TestDevice, TestResult};
use crate::{suite, take_failures};

/// Panics of all threads, by place and text.
static PANICS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn panics() -> MutexGuard<'static, BTreeSet<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on panics are noted, and not printed.
pub(super) fn note_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        panics().insert(format!("{place}: {}", text.unwrap_or("no text")));
    }));
}

/// What a run without a fault is like.
pub(super) struct Clean {
    pub(super) calls: std::collections::BTreeMap<&'static str, u64>,
    pub(super) time: Duration,
    /// What tests panic with on purpose.
    panics: BTreeSet<String>,
}

/// How a run with a fault ended, where nothing is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// An error named the call.
    Named,
    /// The library did without it.
    Absorbed,
    /// The call was not made again.
    Missed,
}

/// What is wrong with a run.
pub(super) struct Wrong {
    pub(super) text: String,
    /// Whether later runs of this process would suffer from it.
    pub(super) lasting: bool,
    /// Returns whether a missing report is all that is wrong.
    pub(super) silent: bool,
}

impl Wrong {
    fn new(lasting: bool, text: impl Into<String>) -> Self {
        Self { text: text.into(), lasting, silent: false }
    }
}

/// How long threads of the library may take to give back what they hold for a moment.
const MOMENT: Duration = Duration::from_secs(3);

/// Everything that the run reported, in order.
fn told(run: fn(&TestDevice) -> TestResult, device: TestDevice) -> Vec<String> {
    let mut told = Vec::new();
    match catch_unwind(AssertUnwindSafe(|| run(&device))) {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => told.push(failure.to_string()),
        Err(_) => told.push("the test panicked".to_owned()),
    }
    if let Err(error) = device.context().synchronize() {
        told.push(error.to_string());
    }
    told.extend(take_failures());
    let contexts = device.into_contexts();
    // A graph of several contexts leaves what it has kept of all to the one that it belonged to.
    for context in contexts.iter().skip(1) {
        // The second time after an error, as closing does.
        let failed = || context.free_deferred().err().map(|error| error.to_string());
        told.extend(failed().into_iter().chain(failed()));
    }
    for context in contexts {
        close(context, &mut told);
    }
    // Of what the tests shared, which the device has dropped.
    told.extend(take_failures());
    told
}

/// Returns the names of the driver's functions that have failed in stand-ins.
fn failed_calls() -> Vec<String> {
    suite().failed_calls.iter().flat_map(|take| take()).collect()
}

/// Closes a context, and adds what its drops and closing it report.
fn close(mut context: Context, told: &mut Vec<String>) {
    let begin = Instant::now();
    loop {
        told.extend(context.take_drop_errors().iter().map(ToString::to_string));
        // A failed close returns the context, and the run closes it again.
        let Err(refused) = context.close() else { return };
        let (back, error) = refused.into_parts();
        // The driver was not asked: something of the context is alive.
        let in_use = error.call().is_none();
        if begin.elapsed() > MOMENT {
            told.push(error.to_string());
            return;
        }
        if in_use {
            thread::sleep(Duration::from_millis(1));
        } else if told.last() != Some(&error.to_string()) {
            told.push(error.to_string());
        }
        context = back;
    }
}

/// What is alive, once that is `wanted` or enough time has passed.
fn settled(wanted: Ledger) -> Ledger {
    let begin = Instant::now();
    loop {
        let now = ledger();
        if now == wanted || begin.elapsed() > MOMENT {
            return now;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The device, with the contexts of all others: opening contexts is swept elsewhere.
fn opened() -> Result<TestDevice, Failure> {
    let device = TestDevice::open("emu")?;
    device.all_contexts()?;
    Ok(device)
}

/// The run without a fault. It goes first, and must pass.
pub(super) fn clean(run: fn(&TestDevice) -> TestResult, keeper: &Keeper) -> Result<Clean, Failure> {
    let device = opened()?;
    let watch = watch(None).ok_or_else(|| Failure::new("there is a watch already"))?;
    let begin = Instant::now();
    let told = told(run, device);
    let (time, calls) = (begin.elapsed(), watch.calls());
    drop(watch);
    if !told.is_empty() {
        return Err(Failure::new(format!("fails without a fault: {told:?}")));
    }
    let left = settled(keeper.empty);
    if left != keeper.empty {
        return Err(Failure::new(format!("leaves without a fault: {left:?}")));
    }
    Ok(Clean { calls, time, panics: panics().clone() })
}

/// A run with a fault.
pub(super) fn faulty(
    name: &str,
    run: fn(&TestDevice) -> TestResult,
    clean: &Clean,
    keeper: &Keeper,
    fault: &Fault,
) -> Result<Ending, Wrong> {
    let lasting =
        |what: &str, error: &dyn std::fmt::Display| Wrong::new(true, format!("{what}: {error}"));
    let device = opened().map_err(|error| lasting("the device", &error))?;
    panics().clear();
    let _earlier = failed_calls();
    let Some(watch) = watch(Some(fault.planted())) else {
        return Err(Wrong::new(true, "there is a watch already"));
    };
    let told = told(run, device);
    let met = watch.met();
    drop(watch);

    if let Some(report) = fault_report() {
        return Err(lasting("the device is lost", &report));
    }
    let left = settled(keeper.empty);
    if left != keeper.empty {
        let text = format!("left: {left:?}; told: {told:?}");
        return Err(Wrong::new(!keeper.clear(), text));
    }
    let new: Vec<_> = panics().difference(&clean.panics).cloned().collect();
    if !new.is_empty() {
        return Err(Wrong::new(false, format!("panicked: {new:?}")));
    }
    if !met {
        return Ok(Ending::Missed);
    }
    let of_stand_ins = if told.is_empty() { Vec::new() } else { failed_calls() };
    if told.iter().chain(&of_stand_ins).any(|text| text.contains(base(fault.name))) {
        return Ok(Ending::Named);
    }
    if told.is_empty() && absorbed(name, fault) {
        return Ok(Ending::Absorbed);
    }
    let text = format!("no error names the call; told: {told:?}");
    Err(Wrong { silent: true, ..Wrong::new(false, text) })
}
