//! Meshes' faces and edges: what is wrong with them, who is next to whom, normals. Against what the host
//! counts.

mod angles;
mod meshes;
mod neighbors;
mod normals;
mod oracle;
mod reports;
mod validation;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{MeshReport, Surface, Topology, Validation};

use crate::Geometry;
use meshes::Mesh;
use test_harness::{Case, Failure, TestDevice};

pub(crate) fn cases() -> Vec<Case> {
    [angles::cases(), validation::cases(), neighbors::cases(), normals::cases(), reports::cases()]
        .concat()
}

/// A stream, and the kernels.
struct Fixture {
    stream: Stream,
    topology: Topology,
}

/// A mesh on the device.
struct Uploaded {
    points: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
}

impl Uploaded {
    fn surface(&self) -> Result<Surface<'_>, Failure> {
        Ok(Surface::new(&self.points, &self.faces)?)
    }
}

impl Fixture {
    fn new(device: &TestDevice) -> Result<Self, Failure> {
        Ok(Self { stream: device.stream()?, topology: Topology::new(&device.geometry()) })
    }

    fn upload(&self, mesh: &Mesh) -> Result<Uploaded, Failure> {
        let points = DeviceBuffer::from_slice(&self.stream, &mesh.points)?;
        let faces = DeviceBuffer::from_slice(&self.stream, &mesh.faces)?;
        Ok(Uploaded { points, faces })
    }

    fn validate(&self, mesh: &Mesh) -> Result<Validation, Failure> {
        Ok(self.topology.validate(&self.stream, self.upload(mesh)?.surface()?)?)
    }

    fn neighbors(&self, mesh: &Mesh) -> Result<Vec<u32>, Failure> {
        let there = self.upload(mesh)?;
        // Full of what is no answer.
        let garbage = vec![0xabcd_ef01; 3 * mesh.faces.len()];
        let mut neighbors = DeviceBuffer::<u32>::from_slice(&self.stream, &garbage)?;
        self.topology.neighbors(&self.stream, there.surface()?, neighbors.as_slice_mut())?;
        Ok(neighbors.to_vec(&self.stream)?)
    }

    fn normals(&self, mesh: &Mesh) -> Result<Vec<[f32; 3]>, Failure> {
        let there = self.upload(mesh)?;
        let garbage = vec![[77.0; 3]; mesh.points.len()];
        let mut normals = DeviceBuffer::<[f32; 3]>::from_slice(&self.stream, &garbage)?;
        self.topology.vertex_normals(&self.stream, there.surface()?, normals.as_slice_mut())?;
        Ok(normals.to_vec(&self.stream)?)
    }

    fn report(&self, mesh: &Mesh) -> Result<MeshReport, Failure> {
        Ok(self.topology.report(&self.stream, self.upload(mesh)?.surface()?)?)
    }
}
