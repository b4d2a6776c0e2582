//! The order between streams: random programs run on the recording driver, and its log says whether
//! all uses that conflict are ordered.

mod check;
mod program;
mod threads;

use std::collections::HashMap;

use check::{Findings, Use};
use cuda_safe::DeviceBuffer;
use program::Program;

use test_harness::lab::Lab;
use test_harness::table::Behaviour;
use test_harness::{Case, Failure, Rng, TestResult, cases, deep, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "order",
        host(the_checker = check::finds_missing_waits),
        host(random_programs),
        host(one_stream),
        host(a_writer_after_many_readers),
        host(threads = threads::share_buffers),
    ]
}

/// What each launch uses, by the number that is its first argument.
type Launches = HashMap<u64, Vec<Use>>;

fn run(seed: u64, streams: usize, steps: usize, pools: bool) -> Result<Findings, Failure> {
    let context = |what: String| {
        Failure::new(format!("seed {seed}, {streams} streams, pools {pools}: {what}"))
    };
    let mut program = Program::new(Rng::new(seed), streams, pools)?;
    for _ in 0..steps {
        program.step().map_err(|failure| context(failure.to_string()))?;
    }
    let (calls, launches) = program.finish().map_err(|failure| context(failure.to_string()))?;
    check::check(&calls, &launches).map_err(context)
}

fn random_programs() -> TestResult {
    let programs = if deep() { 20_000 } else { 600 };
    let mut all = Findings::default();
    for seed in 0..programs {
        let streams = 2 + (seed % 4) as usize;
        // One in ten is long: more readers, more ranges.
        let steps = if seed % 10 == 0 { 300 } else { 40 };
        all += run(seed, streams, steps, seed % 3 != 0)?;
    }
    println!(
        "{programs} programs: {} conflicts between streams, {} waits, {} of them needless",
        all.conflicts, all.waits, all.needless
    );
    ensure!(all.conflicts > 10_000 && all.waits > 1_000, "the programs test nothing: {all:?}");
    ensure!(all.needless * 4 < all.waits, "{} of {} waits are needless", all.needless, all.waits);
    Ok(())
}

/// On one stream nothing is ever waited for.
fn one_stream() -> TestResult {
    for seed in 0..100 {
        let findings = run(1000 + seed, 1, 60, seed % 2 == 0)?;
        ensure_eq!(findings, Findings::default());
    }
    Ok(())
}

/// More readers than an allocation remembers one by one: a writer elsewhere comes after all.
fn a_writer_after_many_readers() -> TestResult {
    let behaviour = Behaviour { named_launches: true, ..Behaviour::default() };
    let lab = Lab::with(behaviour, &[])?;
    let (home, writer) = (lab.context.stream()?, lab.context.stream()?);
    let one = lab.kernel("one")?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(&home, 64)?;
    let range = buffer.device_ptr()..buffer.device_ptr() + 64;
    let mut launches = Launches::new();
    for number in 0..40 {
        let reader = lab.context.stream()?;
        launches.insert(number, vec![Use { range: range.clone(), write: false }]);
        // SAFETY: nothing runs on this driver.
        unsafe { one.launch(&reader, (1, 1), (number, &buffer)) }?;
    }
    launches.insert(40, vec![Use { range, write: true }]);
    // SAFETY: as above.
    unsafe { one.launch(&writer, (1, 1), (40u64, &mut buffer)) }?;
    drop((buffer, one, home, writer));
    let findings = check::check(&lab.recorder.take(), &launches).map_err(Failure::new)?;
    // The write comes after 40 readers and the fill, the free after all of them.
    ensure!(findings.conflicts >= 81, "{findings:?}");
    lab.close()
}
