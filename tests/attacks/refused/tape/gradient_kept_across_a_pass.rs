//! Keeps the view of a gradient over the next pass, which takes its memory again.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Tape::gradient`, `Tape::backward`
//! - must: not compile E0502 "borrow"

use cuda_safe::{DeviceBuffer, Result, Stream};
use tape::Tape;

pub fn attack(
    tape: &mut Tape,
    stream: &Stream,
    x: &DeviceBuffer<f32>,
    loss: &DeviceBuffer<f32>,
) -> Result<Vec<f32>> {
    let gradient = tape.gradient(x)?;
    tape.backward(stream, loss)?; //~ refused
    gradient.to_vec(stream)
}
