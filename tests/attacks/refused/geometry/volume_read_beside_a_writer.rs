//! Gives a kernel a view of a volume to write to and one to read.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Volume::view_mut`, `Volume::view`
//! - must: not compile E0502 "borrow"

use cuda_safe::{KernelArg, Result};
use geom_kernels::volume::Volume;

fn launched_with(_: impl KernelArg, _: impl KernelArg) {}

pub fn attack(volume: &mut Volume) -> Result<()> {
    let writer = volume.view_mut::<f32>()?;
    let reader = volume.view::<f32>()?; //~ refused
    launched_with(writer, 0u32);
    let reader = volume.view::<f32>()?;
    launched_with(reader, 0u32);
    Ok(())
}
