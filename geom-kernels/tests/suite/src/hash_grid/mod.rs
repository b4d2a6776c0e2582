//! Hash grids, against what brute force finds.

mod answers;
mod build;
mod cpu;
mod inputs;
mod invalid;
mod kernels;
mod lists;
mod nearest;
mod number;
mod oracle;
mod order;
mod replays;
mod sets;
mod sums;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, NeighborLists};

use crate::Geometry;
use number::Number;
use test_harness::{Case, Failure, TestDevice, deep, ensure};

pub(crate) fn cases() -> Vec<Case> {
    [
        sets::cases(),
        order::cases(),
        lists::cases(),
        nearest::cases(),
        sums::cases(),
        kernels::cases(),
        build::cases(),
        replays::cases(),
        answers::cases(),
        invalid::cases(),
        cpu::cases(),
    ]
    .concat()
}

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

    fn grid<T: Number>(&self, options: GridOptions<T>) -> Result<HashGrid<T>, Failure> {
        Ok(HashGrid::new(&self.stream, &self.geometry, options)?)
    }

    fn upload<E: bytemuck::NoUninit>(&self, data: &[E]) -> Result<DeviceBuffer<E>, Failure> {
        Ok(DeviceBuffer::from_slice(&self.stream, data)?)
    }

    /// A grid of these points, built with the default options.
    fn built<T: Number>(&self, points: &[[T; 3]], radius: T) -> Result<HashGrid<T>, Failure> {
        let mut grid = self.grid(GridOptions::default())?;
        let points = self.upload(points)?;
        grid.reserve(&self.stream, points.len())?;
        grid.rebuild(&self.stream, T::points(&points), radius)?;
        Ok(grid)
    }

    /// The list of each query.
    fn lists<T: Number>(
        &self,
        grid: &HashGrid<T>,
        queries: &GridQueries<'_, T>,
    ) -> Result<Vec<Vec<u32>>, Failure> {
        self.split(&grid.neighbor_lists(&self.stream, queries)?)
    }

    /// Lists, one by one.
    fn split(&self, lists: &NeighborLists) -> Result<Vec<Vec<u32>>, Failure> {
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

/// Whether there is time for more and larger cases.
fn thorough(device: &TestDevice) -> bool {
    deep() || (device.tier() == "gpu" && !device.is_instrumented())
}

/// Ascending.
fn sorted(list: &[u32]) -> Vec<u32> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list
}
