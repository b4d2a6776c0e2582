//! Lets vertices and normals of a surface be written to one buffer.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Output::new`, `Output::normals`
//! - must: not compile E0499 "more than once"

use cuda_safe::DeviceBuffer;
use geom_kernels::isosurface::{Counts, Output};

pub fn attack(
    vertices: &mut DeviceBuffer<[f32; 3]>,
    faces: &mut DeviceBuffer<[u32; 3]>,
    counts: &mut DeviceBuffer<Counts>,
) {
    let output = Output::new(&mut *vertices, faces, counts);
    let output = output.normals(&mut *vertices); //~ refused
    drop(output);
}
