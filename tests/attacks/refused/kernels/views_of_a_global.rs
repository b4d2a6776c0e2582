//! Asks a global for views, of which there could be two by two handles.
//!
//! - row: a global gives out no views
//! - targets: `Module::global`, `Global::len`
//! - must: not compile E0599 "no method named"

use cuda_safe::{Module, Result, Stream};

pub fn attack(stream: &Stream, module: &Module) -> Result<usize> {
    let mut global = module.global::<f32>(stream, "weights")?;
    let _ = global.as_slice_mut(); //~ refused
    global.write(stream, &[1.0])?;
    Ok(global.len())
}
