//! What tests of several subjects check in the same way.

use cuda_safe::{Context, DeviceBuffer, Error, GraphExec, GraphNode, Result, Stream};

use test_harness::{Failure, TestResult, ensure, first_difference};

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

/// Hands an error of the driver on, where the call was to succeed or to be refused.
pub(super) fn not_the_drivers<T>(result: &Result<T>) -> Result<()> {
    match result {
        Err(error) if error.code().is_some() => Err(error.clone()),
        _ => Ok(()),
    }
}

/// The call has panicked, as it had to: it did not end with an error before.
pub(super) fn has_panicked<T>(caught: std::thread::Result<Result<T>>) -> Result<()> {
    match caught {
        Err(_) => Ok(()),
        Ok(result) => result.and(Err(Error::invalid("it did not panic"))),
    }
}

/// No drop has met an error.
pub(super) fn no_drop_errors(context: &Context) -> TestResult {
    let errors = context.take_drop_errors();
    ensure!(errors.is_empty(), "drops met errors: {errors:?}");
    Ok(())
}

/// The error for a closure that had to run and did not.
pub(super) fn did_not_run() -> Failure {
    Failure::new("the closure did not run".to_owned())
}

/// The one launch that was named.
pub(super) fn named<S>(graph: &GraphExec<'_, S>) -> std::result::Result<GraphNode, Failure> {
    graph.nodes().next().ok_or_else(|| Failure::new("no node was named".to_owned()))
}
