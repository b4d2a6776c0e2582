//! Uses a view of a mesh for a recorded launch after dropping the mesh.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Mesh::recorded_view`
//! - must: not compile E0505 "borrowed"

use cuda_safe::Result;
use geom_kernels::mesh::Mesh;
use geom_kernels::tape::RecordedMesh;
use tape::Recorder;

fn later(_: RecordedMesh<'_>) {}

pub fn attack(t: &mut Recorder<'_>, mesh: Mesh<'_>) -> Result<()> {
    let view = mesh.recorded_view(t)?;
    drop(mesh); //~ refused
    later(view);
    Ok(())
}
