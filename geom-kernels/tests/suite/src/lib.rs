//! Device tests of `geom-kernels`.

mod adjoints;
mod bits;
mod boxes;
mod bvh;
mod bvh_queries;
mod exact;
mod flags;
mod gradients;
mod grid;
mod hash_grid;
mod headers;
mod isosurface;
mod maths;
mod mesh;
mod mesh_topology;
#[allow(dead_code, reason = "the tests of `tape` use the rest")]
#[path = "../../../../tape/tests/suite/src/ops.rs"]
mod ops;
mod preparation;
mod refused;
mod rust_kernels;
mod sequences;
mod sort;
mod suite;
mod triangle;
mod trusted;
mod volume;
mod volume_build;
mod volume_decode;
mod winding;

use geom_kernels::GeometryKernels;

use test_harness::{Case, TestDevice};

pub use suite::suite;

/// The kernels of `geom-kernels`, which a device loads once.
pub trait Geometry {
    /// Returns the kernels.
    fn geometry(&self) -> GeometryKernels;
}

impl Geometry for TestDevice {
    fn geometry(&self) -> GeometryKernels {
        self.shared(GeometryKernels::new)
    }
}

fn cases() -> Vec<Case> {
    [
        headers::cases(),
        grid::cases(),
        exact::cases(),
        maths::cases(),
        boxes::cases(),
        triangle::cases(),
        sort::cases(),
        sequences::cases(),
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
        rust_kernels::cases(),
        preparation::cases(),
        trusted::cases(),
    ]
    .concat()
}
