//! Drops the points that a mesh has borrowed.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Mesh::build`, `Mesh::points`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{DeviceBuffer, Result, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::{Mesh, MeshOptions};

pub fn attack(stream: &Stream, geometry: &GeometryKernels, points: DeviceBuffer<[f32; 3]>) -> Result<usize> {
    let faces = DeviceBuffer::<[u32; 3]>::zeroed(stream, 1)?;
    let mesh = Mesh::build(stream, geometry, &points, &faces, MeshOptions::default())?;
    drop(points); //~ refused
    Ok(mesh.points().len())
}
