//! Tests of `geom-kernels`.

mod boxes;
mod bvh;
mod bvh_queries;
mod exact;
mod flags;
mod hash_grid;
mod headers;
mod maths;
mod mesh;
mod mesh_topology;
mod oracle;
mod refused;
mod sort;
mod triangle;
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
        refused::cases(),
    ]
    .concat()
}
