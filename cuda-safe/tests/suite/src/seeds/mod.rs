//! Random programs on several streams, in every order that the software device's scheduler draws
//! from a seed, against plain arithmetic in the order of the program; and planted bugs, which these
//! programs must find.
//!
//! A failure names its seed and lists the program. `TEST_PROGRAM=<seed>` runs that one alone, in a
//! plant's case with the plant.

mod machine;
mod oracle;
mod program;

use std::collections::HashSet;
use std::rc::Rc;

use cuda_emu::Interleaving;
use cuda_safe::{Context, Driver};
use machine::Machine;

use test_harness::programs::Basic;
use test_harness::sabotage::{self, Plant};
use test_harness::{
    Case, Failure, Open, TestDevice, TestResult, deep, ensure, limited, spawn_self, tell,
};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::process("seeds::programs", programs),
        Case::process("seeds::nothing_planted", nothing_planted),
        Case::process(MISSING_EVENT, |open| hunt(open, MISSING_EVENT, Plant::MissingEvent)),
        Case::process(FORGOTTEN, |open| hunt(open, FORGOTTEN, Plant::ForgottenReader)),
        Case::process(FREE, |open| hunt(open, FREE, Plant::FreeTooEarly)),
        Case::process(HOST, |open| hunt(open, HOST, Plant::HostTooEarly)),
        Case::process(CAPTURE, |open| hunt(open, CAPTURE, Plant::ReuseInCapture)),
    ]
}

const MISSING_EVENT: &str = "seeds::planted::missing_event";
const FORGOTTEN: &str = "seeds::planted::forgotten_second_reader";
const FREE: &str = "seeds::planted::free_too_early";
const HOST: &str = "seeds::planted::host_read_before_wait";
const CAPTURE: &str = "seeds::planted::reuse_in_a_capture";

const SEEDS: u64 = 1000;

/// The seeds of a hunt.
const HUNTED: u64 = 200;

/// The first seed of a hunter's process.
const FROM: &str = "TEST_SEEDS_FROM";
/// How a line of a hunter begins that names a seed that found the bug, and the one to go on with.
const FOUND: &str = "found: ";
const NEXT: &str = "next seed ";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The seeds that are asked for, from `first` on.
fn seeds(first: u64, all: u64) -> std::ops::Range<u64> {
    match number("TEST_PROGRAM") {
        Some(seed) => seed.max(first)..seed + 1,
        None => first..all,
    }
}

fn is_emu(driver: &Driver) -> bool {
    std::ptr::eq(driver.as_sys(), cuda_emu::driver())
}

/// Runs the program of a seed. The device is idle before and, but for lost ones, after.
fn run(context: &Context, basic: &Rc<Basic>, seed: u64) -> TestResult {
    let (streams, steps) = program::generate(seed);
    let mut machine = Machine::new(context, basic.clone(), streams)?;
    let failed = |at: usize, failure: Failure| {
        let mut text = format!("seed {seed}, {streams} streams, step {at}: {failure}\n");
        for (number, step) in steps.iter().enumerate().take(at + 1) {
            text += &format!("{number:4} {step:?}\n");
        }
        Failure::new(text)
    };
    for (at, step) in steps.iter().enumerate() {
        machine.step(step).map_err(|failure| failed(at, failure))?;
    }
    machine.finish().map_err(|failure| failed(steps.len(), failure))
}

/// In how many orders programs have run.
#[derive(Default)]
struct Orders {
    runs: u64,
    different: HashSet<u64>,
    /// The most work that there was to order.
    operations: u64,
}

impl Orders {
    fn add(&mut self, interleaving: Interleaving) {
        self.runs += 1;
        // Which program it was is the seed's choice, too.
        self.different.insert(interleaving.order);
        self.operations = self.operations.max(interleaving.operations);
    }
}

/// What a program leaves behind is done and gone before the next one's.
fn tidy(context: &Context) -> TestResult {
    context.synchronize()?;
    context.free_deferred()?;
    Ok(())
}

/// On the software device: each program in the order of its seed. On a GPU: in the one that comes.
fn programs(open: Open) -> TestResult {
    let driver = open()?;
    let emu = is_emu(&driver);
    let device = TestDevice::on(driver)?;
    let count = match (emu, deep()) {
        (true, true) => 2 * SEEDS,
        (true, false) => SEEDS,
        (false, _) => 100,
    };
    let Orders { runs, different, operations } = play(&device, count, emu)?;
    if emu {
        let different = different.len();
        tell(&format!(
            "seeds: {runs} programs, {different} interleavings of up to {operations} operations"
        ));
    }
    Ok(())
}

fn play(device: &TestDevice, count: u64, seeded: bool) -> Result<Orders, Failure> {
    let (context, basic) = (device.context(), Rc::new(Basic::of(device)?));
    let mut orders = Orders::default();
    for seed in seeds(0, count) {
        if seeded {
            ensure!(cuda_emu::reseed(Some(seed)), "seed {seed}: the device is not idle");
        }
        run(context, &basic, seed)?;
        tidy(context)?;
        if let Some(interleaving) = cuda_emu::interleaving().filter(|_| seeded) {
            orders.add(interleaving);
        }
    }
    Ok(orders)
}

/// The driver that plants bugs is a good one without.
fn nothing_planted(open: Open) -> TestResult {
    if !is_emu(&open()?) {
        return Ok(());
    }
    play(&TestDevice::on(Driver::from_sys(sabotage::driver())?)?, HUNTED, true).map(drop)
}

/// Runs the programs with a bug planted: one of the seeds must fail. Nobody hunts on a GPU, where
/// the order that would show the bug may never come.
fn hunt(open: Open, name: &str, plant: Plant) -> TestResult {
    if !is_emu(&open()?) {
        return Ok(());
    }
    if let Some(from) = number(FROM) {
        return hunter(plant, from);
    }
    let (mut next, mut found) = (0, Vec::new());
    // Some bugs lose the device, and then the next process goes on.
    while next < HUNTED {
        let mut child = spawn_self(&["--tier", "emu", "--child", name])?;
        child.env(FROM, next.to_string());
        let outcome = limited(child)?;
        let lines = || outcome.stdout.lines();
        found.extend(lines().filter_map(|line| line.strip_prefix(FOUND)).map(str::to_owned));
        let went_on = lines().find_map(|line| line.strip_prefix(NEXT)?.parse().ok());
        next = match went_on {
            Some(later) if later > next && outcome.status.success() => later,
            _ => {
                return Err(Failure::new(format!(
                    "seeds from {next}: {}\n{}{}",
                    outcome.status, outcome.stdout, outcome.stderr
                )));
            }
        };
    }
    println!("{plant:?}: found by {} of {HUNTED} seeds", found.len());
    match found.first() {
        Some(first) => println!("the first: {first}"),
        None => return Err(Failure::new(format!("no seed of {HUNTED} finds {plant:?}"))),
    }
    Ok(())
}

/// A process that hunts from a seed on, until the device is lost or the hunt is over.
fn hunter(plant: Plant, from: u64) -> TestResult {
    let device = TestDevice::on(Driver::from_sys(sabotage::driver())?)?;
    let (context, basic) = (device.context(), Rc::new(Basic::of(&device)?));
    let mut next = HUNTED;
    for seed in seeds(from, HUNTED) {
        ensure!(cuda_emu::reseed(Some(seed)), "seed {seed}: the device is not idle");
        sabotage::plant(plant);
        let outcome = run(context, &basic, seed);
        sabotage::plant(Plant::Nothing);
        let lost = context.synchronize().is_err_and(|error| error.is_fatal());
        if let Err(failure) = &outcome {
            let text = failure.to_string();
            let what = text.lines().next().unwrap_or_default();
            println!("{FOUND}{what}");
        }
        if lost {
            // Leaving before the drops' own waits: nothing works any more.
            next = seed + 1;
            break;
        }
        // A drop may have met what the bug has done.
        let _ = context.take_drop_errors();
        tidy(context)?;
    }
    println!("{NEXT}{next}");
    Ok(())
}
