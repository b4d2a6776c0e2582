//! Takes a slice of what a tape keeps, which nobody has borrowed, without `unsafe`.
//!
//! - row: `Saved::as_slice`
//! - row: no safe code gets a view of memory that is not borrowed
//! - targets: `Adjoint::value`, `Saved::len`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::Result;
use tape::{Adjoint, Handle};

pub fn attack(pass: &mut Adjoint<'_>, x: Handle<f32>) -> Result<usize> {
    let saved = pass.value(x)?;
    let _ = saved.as_slice(); //~ refused
    Ok(saved.len())
}
