//! Missing dependencies, planted at the driver's table, which the schedules must find.

use test_harness::sabotage::Plant;
use test_harness::schedules::{finds, hunt};
use test_harness::{Case, TestResult, ensure};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::software("schedules::planted::in_a_graph", graph),
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

/// What cannot run is a failure, and no test that found nothing.
fn not_there() -> TestResult {
    let outcome = hunt("graphs::none", Plant::Nothing, vec![0])?;
    ensure!(outcome.wrong.is_some() && outcome.ran.is_empty(), "{outcome:?}");
    Ok(())
}
