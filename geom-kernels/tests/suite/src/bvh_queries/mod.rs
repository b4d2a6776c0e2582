//! Queries of hierarchies of boxes, against all boxes one by one.

mod batches;
mod cpu;
mod deep;
mod graphs;
pub(super) mod inputs;
mod kernels;
mod lists;
pub(super) mod oracle;
mod rust;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::bvh::{BuildMode, Bvh, OverlapLists};
use geom_kernels::{Aabb, GeometryKernels};

use crate::Geometry;
use test_harness::{Case, Failure, TestDevice, ensure};

pub(super) const SOURCE: &str = include_str!("../../kernels/bvh.cu");

pub(super) fn cases() -> Vec<Case> {
    [
        batches::cases(),
        lists::cases(),
        graphs::cases(),
        kernels::cases(),
        deep::cases(),
        cpu::cases(),
        rust::cases(),
    ]
    .concat()
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

    fn upload<E: bytemuck::NoUninit>(&self, data: &[E]) -> Result<DeviceBuffer<E>, Failure> {
        Ok(DeviceBuffer::from_slice(&self.stream, data)?)
    }

    fn built(&self, boxes: &[Aabb<f32>], builder: BuildMode) -> Result<Bvh, Failure> {
        let boxes = self.upload(boxes)?;
        Ok(Bvh::build(&self.stream, &self.geometry, &boxes, builder)?)
    }

    /// Lists, one by one.
    fn split(&self, lists: &OverlapLists) -> Result<Vec<Vec<u32>>, Failure> {
        let offsets = lists.offsets.to_vec(&self.stream)?;
        let indices = lists.indices.to_vec(&self.stream)?;
        ensure!(offsets.first() == Some(&0), "{offsets:?}");
        ensure!(offsets.last() == Some(&(indices.len() as u64)), "{offsets:?}");
        let list = |pair: &[u64]| indices.get(pair[0] as usize..pair[1] as usize);
        let all: Option<Vec<_>> =
            offsets.windows(2).map(|p| list(p).map(<[u32]>::to_vec)).collect();
        all.ok_or_else(|| Failure::new(format!("offsets {offsets:?}")))
    }
}
