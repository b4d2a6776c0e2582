//! Takes a view of what a tape keeps: its buffer is not borrowed, so that another view of it may be written.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Adjoint::value`, `Adjoint::wants`
//! - must: not compile E0308 "mismatched types"

use cuda_safe::{DeviceSlice, Result};
use tape::{Adjoint, Handle};

pub fn attack(pass: &mut Adjoint<'_>, x: Handle<f32>) -> Result<bool> {
    let _: DeviceSlice<'_, f32> = pass.value(x)?; //~ refused
    Ok(pass.wants(x))
}
