//! Missing dependencies, planted at the driver's table, which the schedules must find.

use super::parent::{Outcome, Unit, run_all};
use crate::harness::{Case, Failure, TestResult, ensure};
use crate::seeds::Plant;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::software("schedules::planted::in_a_graph", graph),
        Case::software("schedules::planted::in_a_tape", tape),
        Case::software("schedules::planted::in_a_graph_of_a_tape", graph_of_a_tape),
        Case::software("schedules::planted::when_a_lent_call_ends", lent_call),
        Case::software("schedules::planted::before_a_consumer", consumer),
        Case::software("schedules::planted::before_a_deleter", deleter),
        Case::software("schedules::planted::a_test_that_there_is_not", not_there),
    ]
}

/// Two streams of one recording don't wait for each other.
fn graph() -> TestResult {
    finds("graphs::forks_wait_where_memory_asks", Plant::ReuseInCapture)
}

/// One wait of one stream for another in three is left out.
fn tape() -> TestResult {
    finds("tape::streams::each_step_on_another", Plant::MissingEvent)
}

fn graph_of_a_tape() -> TestResult {
    finds("tape::streams::branches_of_a_graph", Plant::ReuseInCapture)
}

/// The lent stream does not wait for work on another stream.
fn lent_call() -> TestResult {
    finds("lent::used_on_other_streams", Plant::MissingEvent)
}

/// A framework's stream does not wait for the work that writes an exported tensor.
fn consumer() -> TestResult {
    finds("dlpack::consumers_wait", Plant::MissingEvent)
}

/// A tensor goes back to its framework while another stream uses it.
fn deleter() -> TestResult {
    finds("dlpack::kept_tensors", Plant::MissingEvent)
}

/// How many seeds a bug has.
const HUNTED: u64 = 50;

fn run(case: &'static str, plant: Plant, seeds: Vec<u64>) -> Result<Outcome, Failure> {
    let outcome = run_all(vec![Unit { case, plant, seeds }]).pop();
    outcome.map(|(_, outcome)| outcome).ok_or_else(|| Failure::new("nothing ran"))
}

/// Runs a test with a bug under one seed after the other, until one finds it. That must find nothing
/// without the bug.
fn finds(case: &'static str, plant: Plant) -> TestResult {
    let Outcome { ran, wrong } = run(case, plant, (0..HUNTED).collect())?;
    let Some(wrong) = wrong else {
        return Err(Failure::new(format!("no seed of {HUNTED} finds {plant:?} in {case}")));
    };
    let seed = ran.len() as u64;
    println!("{plant:?}: found by seed {seed}: {wrong}");
    ensure!(wrong.starts_with(&format!("{case}, seed {seed}: ")), "another failure");
    let Outcome { ran, wrong } = run(case, Plant::Nothing, vec![seed, seed])?;
    ensure!(wrong.is_none(), "without the bug: {wrong:?}");
    ensure!(ran.len() == 2 && ran[0] == ran[1], "a seed is not one schedule: {ran:?}");
    Ok(())
}

/// What cannot run is a failure, and no test that found nothing.
fn not_there() -> TestResult {
    let outcome = run("graphs::none", Plant::Nothing, vec![0])?;
    ensure!(outcome.wrong.is_some() && outcome.ran.is_empty(), "{outcome:?}");
    Ok(())
}
