//! Missing dependencies, planted at the driver's table, which the schedules must find.

use test_harness::sabotage::Plant;
use test_harness::schedules::finds;
use test_harness::{Case, TestResult};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::software("schedules::planted::in_a_tape", tape),
        Case::software("schedules::planted::in_a_graph_of_a_tape", graph_of_a_tape),
    ]
}

/// One wait of one stream for another in three is left out.
fn tape() -> TestResult {
    finds("tape::streams::each_step_on_another", Plant::MissingEvent)
}

/// Two streams of one recording don't wait for each other.
fn graph_of_a_tape() -> TestResult {
    finds("tape::streams::branches_of_a_graph", Plant::ReuseInCapture)
}
