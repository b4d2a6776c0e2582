//! Says of any kernel that it is an operation with an adjoint.
//!
//! - row: `OpSpec::register`
//! - targets: `OpSpec::register`, `OpSpec::new`, `OpSpec::param`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{Module, Result};
use tape::{Element, OpSpec, Param};

pub fn attack(module: &Module) -> Result<OpSpec> {
    let out = Param::buffer("out", Element::F32).overwrites().active();
    let spec = OpSpec::new("fill").param(out);
    let _ = spec.clone().register(module); //~ refused
    Ok(spec)
}
