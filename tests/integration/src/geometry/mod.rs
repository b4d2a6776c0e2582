//! Tests of `geom-kernels`.

mod adjoints;
mod boxes;
mod bvh;
mod bvh_queries;
mod exact;
mod flags;
mod gradients;
mod hash_grid;
mod headers;
mod isosurface;
mod maths;
mod mesh;
mod mesh_topology;
mod preparation;
mod refused;
mod sort;
mod triangle;
mod trusted;
mod volume;
mod volume_build;
mod volume_decode;
mod winding;

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        headers::cases(),
        exact::cases(),
        maths::cases(),
        boxes::cases(),
        triangle::cases(),
        sort::cases(),
        hash_grid::cases(),
        mesh_topology::cases(),
        bvh::cases(),
        winding::cases(),
        bvh_queries::cases(),
        mesh::cases(),
        volume_build::cases(),
        isosurface::cases(),
        volume::cases(),
        adjoints::cases(),
        gradients::cases(),
        refused::cases(),
        preparation::cases(),
        trusted::cases(),
    ]
    .concat()
}
