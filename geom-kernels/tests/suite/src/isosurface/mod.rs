//! Surfaces in fields: their table against rules, and what comes out, bit for bit, against an oracle.

mod batches;
mod blocks;
mod closed;
mod fields;
mod generator;
mod graphs;
mod inputs;
mod normals;
mod oracle;
mod table;
mod volume;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::isosurface::{Counts, DenseField, Map, MarchingCubes, TriangleBuffers};
use geom_kernels::mesh::TriangleMesh;

use self::inputs::Values;
use crate::Geometry;
use test_harness::{Case, Failure, TestDevice, deep};

pub(crate) fn cases() -> Vec<Case> {
    [
        table::cases(),
        fields::cases(),
        blocks::cases(),
        closed::cases(),
        normals::cases(),
        batches::cases(),
        graphs::cases(),
        volume::cases(),
    ]
    .concat()
}

/// Whether there is time for larger fields.
fn thorough(device: &TestDevice) -> bool {
    deep() || (device.tier() == "gpu" && !device.is_instrumented())
}

/// A stream and the kernels.
struct Fixture {
    stream: Stream,
    geometry: GeometryKernels,
    cubes: MarchingCubes,
}

/// A surface in host memory.
struct Extracted {
    mesh: TriangleMesh,
    normals: Vec<[f32; 3]>,
    counts: Counts,
}

impl Fixture {
    fn new(device: &TestDevice) -> Result<Self, Failure> {
        let geometry = device.geometry();
        Ok(Self { stream: device.stream()?, cubes: MarchingCubes::new(&geometry), geometry })
    }

    fn buffers(&self, values: &Values, map: Map, iso: f32) -> Result<TriangleBuffers, Failure> {
        let there = DeviceBuffer::from_slice(&self.stream, &values.data)?;
        let field = DenseField::new(&there, values.dims, map)?;
        Ok(self.cubes.extract_with_normals(&self.stream, &field, iso)?)
    }

    fn extract(&self, values: &Values, map: Map, iso: f32) -> Result<Extracted, Failure> {
        let there = self.buffers(values, map, iso)?;
        let Some(normals) = &there.normals else {
            return Err(Failure::new("normals were asked for"));
        };
        let normals = normals.to_vec(&self.stream)?;
        Ok(Extracted { mesh: there.download(&self.stream)?, normals, counts: there.counts })
    }
}
