//! Missing dependencies, planted at the driver's table, which the schedules must find.

use test_harness::sabotage::Plant;
use test_harness::schedules::{finds, hunt};
use test_harness::{Case, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "schedules::planted",
        software(in_a_graph),
        software(when_a_lent_call_ends),
        software(before_a_consumer),
        software(before_a_deleter),
        software(a_test_that_there_is_not),
    ]
}

/// Two streams of one recording don't wait for each other.
fn in_a_graph() -> TestResult {
    finds("graphs::forks_wait_where_memory_asks", Plant::ReuseInCapture)
}

/// The lent stream does not wait for work on another stream.
fn when_a_lent_call_ends() -> TestResult {
    finds("lent::used_on_other_streams", Plant::MissingEvent)
}

/// A framework's stream does not wait for the work that writes an exported tensor.
fn before_a_consumer() -> TestResult {
    finds("dlpack::consumers_wait", Plant::MissingEvent)
}

/// A tensor goes back to its framework while another stream uses it.
fn before_a_deleter() -> TestResult {
    finds("dlpack::kept_tensors", Plant::MissingEvent)
}

/// What cannot run is a failure, and no test that found nothing.
fn a_test_that_there_is_not() -> TestResult {
    let outcome = hunt("graphs::none", Plant::Nothing, vec![0])?;
    ensure!(outcome.wrong.is_some() && outcome.ran.is_empty(), "{outcome:?}");
    Ok(())
}
