//! Winding numbers: against the sum of solid angles in f64.

mod accuracy;
mod changes;
mod cpu;
mod headers;
mod inputs;
mod invalid;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, TriangleMesh};

use crate::Geometry;
use test_harness::{Case, Failure, TestDevice};

pub(crate) fn cases() -> Vec<Case> {
    [accuracy::cases(), changes::cases(), cpu::cases(), headers::cases(), invalid::cases()].concat()
}

/// Both builders.
const BUILDERS: [BuildMode; 2] = [BuildMode::Fast, BuildMode::Quality];

/// A stream, and the kernels.
struct Fixture {
    stream: Stream,
    geometry: GeometryKernels,
}

impl Fixture {
    fn new(device: &TestDevice) -> Result<Self, Failure> {
        Ok(Self { stream: device.stream()?, geometry: device.geometry() })
    }

    fn mesh(&self, mesh: &TriangleMesh, builder: BuildMode) -> Result<Mesh<'static>, Failure> {
        self.made(mesh, MeshOptions::default().winding().build_mode(builder))
    }

    fn made(&self, mesh: &TriangleMesh, options: MeshOptions) -> Result<Mesh<'static>, Failure> {
        Ok(Mesh::upload(&self.stream, &self.geometry, mesh, options)?)
    }

    fn numbers(&self, mesh: &Mesh<'_>, at: &[[f32; 3]], beta: f32) -> Result<Vec<f32>, Failure> {
        let points = DeviceBuffer::from_slice(&self.stream, at)?;
        // Full of what is no answer.
        let mut numbers = DeviceBuffer::from_slice(&self.stream, &vec![77.0; at.len()])?;
        let queries = PointQueries::at(&points);
        mesh.winding_numbers(&self.stream, &queries, beta, &mut numbers)?;
        Ok(numbers.to_vec(&self.stream)?)
    }
}

/// What the sum in f64 is.
fn wanted(mesh: &TriangleMesh, at: &[[f32; 3]]) -> Vec<f64> {
    let oracle = geom_oracle::Mesh::new(&mesh.points, &mesh.faces);
    at.iter().map(|q| oracle.generalized_winding(q.map(f64::from))).collect()
}

/// The greatest difference, and the root of the mean of the squares.
fn errors(numbers: &[f32], wanted: &[f64]) -> (f64, f64) {
    let (mut greatest, mut squares) = (0.0f64, 0.0);
    for (number, wanted) in numbers.iter().zip(wanted) {
        let error = (f64::from(*number) - wanted).abs();
        // A NaN is no answer.
        greatest = if error <= greatest { greatest } else { error };
        squares += error * error;
    }
    (greatest, (squares / numbers.len().max(1) as f64).sqrt())
}
