//! Takes two views to write to of one gradient: what was recorded twice has one.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Adjoint::gradient_mut`, `Adjoint::stream`
//! - must: not compile E0499 "more than once"

use cuda_safe::{Result, Stream};
use tape::{Adjoint, Handle};

pub fn attack(pass: &mut Adjoint<'_>, stream: &Stream, x: Handle<f32>) -> Result<()> {
    let first = pass.gradient_mut(x)?;
    let second = pass.gradient_mut(x)?; //~ refused
    let Some(mut first) = first else { return Ok(()) };
    first.fill(stream, 1.0)?;
    let Some(mut second) = pass.gradient_mut(x)? else { return Ok(()) };
    second.fill(stream, 2.0)
}
