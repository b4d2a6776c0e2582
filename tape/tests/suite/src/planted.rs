//! Missing dependencies, planted at the driver's table, which the schedules must find.

use test_harness::sabotage::Plant;
use test_harness::schedules::finds;
use test_harness::{Case, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases!["schedules::planted", software(in_a_tape), software(in_a_graph_of_a_tape),]
}

/// One wait of one stream for another in three is left out.
fn in_a_tape() -> TestResult {
    finds("tape::streams::each_step_on_another", Plant::MissingEvent)
}

/// Two streams of one recording don't wait for each other.
fn in_a_graph_of_a_tape() -> TestResult {
    finds("tape::streams::branches_of_a_graph", Plant::ReuseInCapture)
}
