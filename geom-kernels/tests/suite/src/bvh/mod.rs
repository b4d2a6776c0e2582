//! Hierarchies of boxes: what builds and refits leave in memory, against what it must be.

mod build;
mod faces;
mod graphs;
mod inputs;
mod refit;
mod structure;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::{Aabb, GeometryKernels};

use crate::Geometry;
use test_harness::{Case, Failure, TestDevice};

pub(crate) fn cases() -> Vec<Case> {
    [build::cases(), refit::cases(), graphs::cases(), faces::cases()].concat()
}

/// Both builders.
const BUILDERS: [BuildMode; 2] = [BuildMode::Fast, BuildMode::Quality];

/// A stream, and the kernels.
struct Fixture<'a> {
    device: &'a TestDevice,
    stream: Stream,
    geometry: GeometryKernels,
}

impl<'a> Fixture<'a> {
    fn new(device: &'a TestDevice) -> Result<Self, Failure> {
        Ok(Self { device, stream: device.stream()?, geometry: device.geometry() })
    }

    fn upload(&self, boxes: &[Aabb<f32>]) -> Result<DeviceBuffer<Aabb<f32>>, Failure> {
        Ok(DeviceBuffer::from_slice(&self.stream, boxes)?)
    }

    fn built(&self, boxes: &[Aabb<f32>], builder: BuildMode) -> Result<Bvh, Failure> {
        let boxes = self.upload(boxes)?;
        Ok(Bvh::build(&self.stream, &self.geometry, &boxes, builder)?)
    }

    fn with_capacity(&self, capacity: usize, builder: BuildMode) -> Result<Bvh, Failure> {
        Ok(Bvh::new(&self.stream, &self.geometry, capacity, builder)?)
    }
}
