//! Builds a mesh again while a view of it is still to be launched with.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Mesh::view`, `Mesh::rebuild`
//! - must: not compile E0502 "borrow"

use cuda_safe::{KernelArg, Result, Stream};
use geom_kernels::mesh::Mesh;

fn launched_with(_: impl KernelArg) {}

pub fn attack(mesh: &mut Mesh<'_>, stream: &Stream) -> Result<()> {
    let view = mesh.view();
    mesh.rebuild(stream)?; //~ refused
    launched_with(view);
    Ok(())
}
