//! What tests of several subjects check in the same way.

use cuda_safe::{DeviceBuffer, GraphExec, GraphNode, Result, Stream};

use crate::harness::{Failure, TestResult, ensure, first_difference};

/// Every word of `buffer` is `value`.
pub(super) fn all_are(buffer: &DeviceBuffer<u32>, stream: &Stream, value: u32) -> TestResult {
    first_difference(&buffer.to_vec(stream)?, &vec![value; buffer.len()])
}

/// The call was refused for a reason that names `part`, before the driver was asked.
pub(super) fn is_invalid<T>(result: Result<T>, part: &str) -> TestResult {
    match result {
        Ok(_) => Err(Failure::new(format!("no error about {part:?}"))),
        Err(error) => {
            ensure!(error.code().is_none(), "the driver was asked: {error}");
            ensure!(error.to_string().contains(part), "{error}");
            Ok(())
        }
    }
}

/// The error for a closure that had to run and did not.
pub(super) fn did_not_run() -> Failure {
    Failure::new("the closure did not run".to_owned())
}

/// The one launch that was named.
pub(super) fn named<S>(graph: &GraphExec<'_, S>) -> std::result::Result<GraphNode, Failure> {
    graph.nodes().next().ok_or_else(|| Failure::new("no node was named".to_owned()))
}
