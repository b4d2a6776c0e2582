//! Sparse volumes on the device: against grids that are decoded here, by a reader that shares nothing with the
//! crates, and interpolated in f64.

mod cpu;
mod grids;
mod indexed;
mod interpolation;
mod kernels;
mod layouts;
mod lookups;
mod maps;
mod march;
mod march_inputs;
mod march_oracle;
mod roots;
mod sampling;
mod stores;
mod transfers;

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::volume::Volume;
use geom_kernels::volume::nanovdb::Grid;

use crate::Geometry;
use test_harness::{Case, Failure, TestDevice};

pub(super) use kernels::SOURCE;

pub(crate) fn cases() -> Vec<Case> {
    [
        cpu::cases(),
        lookups::cases(),
        roots::cases(),
        stores::cases(),
        transfers::cases(),
        maps::cases(),
        sampling::cases(),
        layouts::cases(),
        indexed::cases(),
        kernels::cases(),
        march::cases(),
    ]
    .concat()
}

/// A stream and the kernels.
struct Fixture {
    stream: Stream,
    geometry: GeometryKernels,
}

impl Fixture {
    fn new(device: &TestDevice) -> Result<Self, Failure> {
        Ok(Self { stream: device.stream()?, geometry: device.geometry() })
    }

    fn volume(&self, grid: &Grid) -> Result<Volume, Failure> {
        Ok(Volume::upload(&self.stream, &self.geometry, grid)?)
    }

    fn upload<T: NoUninit>(&self, data: &[T]) -> Result<DeviceBuffer<T>, Failure> {
        Ok(DeviceBuffer::from_slice(&self.stream, data)?)
    }

    /// Room for answers, full of what is none.
    fn room<T: NoUninit + AnyBitPattern>(&self, n: usize) -> Result<DeviceBuffer<T>, Failure> {
        let garbage: T = bytemuck::pod_read_unaligned(&vec![0xa5u8; size_of::<T>()]);
        self.upload(&vec![garbage; n])
    }
}
