//! Uses a view of a mesh for an adjoint without a tape after dropping the mesh.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Mesh::differentiable_view`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{Result, Stream};
use geom_kernels::mesh::Mesh;
use geom_kernels::tape::RecordedMesh;

fn later(_: RecordedMesh<'_>) {}

pub fn attack(stream: &Stream, mesh: Mesh<'_>) -> Result<()> {
    let view = mesh.differentiable_view(stream)?;
    drop(mesh); //~ refused
    later(view);
    Ok(())
}
