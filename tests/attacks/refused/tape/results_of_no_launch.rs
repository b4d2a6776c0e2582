//! Runs an adjoint that reads results of a launch, without a promise that they are those of one.
//!
//! - row: `Op::vjp_of_results`
//! - row: an adjoint that is called without a tape takes no value for a result of the launch without a promise
//! - targets: `Op::vjp_of_results`, `Gradients::new`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream};
use tape::{Gradients, Op};

pub fn attack(stream: &Stream, op: &Op, index: &mut DeviceBuffer<u32>) -> Result<()> {
    let gradients = Gradients::new();
    let _ = op.vjp_of_results(stream, LaunchConfig::cover(1, 1), (index,), gradients); //~ refused
    Ok(())
}
