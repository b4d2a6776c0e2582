//! Takes a view of what a tape keeps: its buffer is not borrowed, so that another view of it may be written.
//!
//! - row: no safe code gets a view of memory that is not borrowed
//! - targets: `Adjoint::value`, `Adjoint::wants`
//! - must: not compile E0308 "found struct `Saved"

use cuda_safe::{DeviceSlice, Result};
use tape::{Adjoint, Handle};

pub fn attack(pass: &mut Adjoint<'_>, x: Handle<f32>) -> Result<bool> {
    let _: DeviceSlice<'_, f32> = pass.value(x)?; //~ refused
    Ok(pass.wants(x))
}
