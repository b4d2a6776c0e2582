//! Graphs: captured, launched, changed, and ordered with all other work.

mod change;
mod record;

use cuda_safe::{DeviceBuffer, GraphExec, GraphNode, Result, Stream};

use crate::harness::{Case, Failure, TestResult, ensure, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    [record::cases(), change::cases()].concat()
}

const N: usize = 10_000;
const SHAPE: (u32, u32) = (8, 256);

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, N)
}

fn all_are(buffer: &DeviceBuffer<u32>, stream: &Stream, value: u32) -> TestResult {
    first_difference(&buffer.to_vec(stream)?, &vec![value; buffer.len()])
}

fn is_invalid<T>(result: Result<T>, part: &str) -> TestResult {
    match result {
        Ok(_) => Err(Failure::new(format!("no error about {part:?}"))),
        Err(error) => {
            ensure!(error.code().is_none(), "the driver was asked: {error}");
            ensure!(error.to_string().contains(part), "{error}");
            Ok(())
        }
    }
}

fn did_not_run() -> Failure {
    Failure::new("the closure did not run".to_owned())
}

/// The one launch that was named.
fn named<S>(graph: &GraphExec<'_, S>) -> std::result::Result<GraphNode, Failure> {
    graph.nodes().next().ok_or_else(|| Failure::new("no node was named".to_owned()))
}
