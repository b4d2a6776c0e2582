//! The last launch of an operation that has several can't be named, so `GraphExec::update` leaves none half done.

use cuda_safe::{DeviceBuffer, ErrorKind, Stream};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};
use geom_kernels::isosurface::{Counts, DenseField, Map, MarchingCubes, Output};
use geom_kernels::mesh::{ClosestPoint, Mesh, MeshOptions, PointQueries, RayHit, shapes};
use geom_kernels::volume::{Capacity, Volume, VolumeOptions};
use geom_kernels::{Aabb, Ray};

use crate::Geometry;
use test_harness::{Case, Failure, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "trusted",
        device(last_launches_of_builds_are_not_named),
        device(last_launches_of_lists_and_sorts_are_not_named),
    ]
}

/// Records `enqueue`, and asks for the name of its last launch.
fn unnamed(
    device: &TestDevice,
    what: &str,
    mut enqueue: impl FnMut(&Stream) -> cuda_safe::Result<()>,
) -> TestResult {
    let mut named = None;
    device.context().capture((), |stream, ()| {
        enqueue(stream)?;
        named = Some(stream.last_node().map(drop));
        Ok(())
    })?;
    match named {
        Some(Err(error)) if matches!(error.kind(), ErrorKind::Invalid(_)) => Ok(()),
        other => Err(Failure::new(format!("{what}: {other:?}"))),
    }
}

const POINTS: [[f32; 3]; 4] = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 1.0]];

fn last_launches_of_builds_are_not_named(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (&device.stream()?, &device.geometry());
    let boxes = POINTS.map(|lower| Aabb { lower, upper: lower.map(|x| x + 0.5) });
    let boxes = DeviceBuffer::from_slice(stream, &boxes)?;
    for builder in [BuildMode::Fast, BuildMode::Quality] {
        let mut bvh = Bvh::build(stream, geometry, &boxes, builder)?;
        unnamed(device, "Bvh::rebuild", |s| bvh.rebuild(s, &boxes))?;
        unnamed(device, "Bvh::refit", |s| bvh.refit(s, &boxes))?;
    }

    let points = DeviceBuffer::from_slice(stream, &POINTS)?;
    let bounded = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    for options in [GridOptions::default(), bounded] {
        let mut grid = HashGrid::new(stream, geometry, options)?;
        grid.reserve(stream, POINTS.len())?;
        unnamed(device, "HashGrid::rebuild", |s| grid.rebuild(s, &points, 0.5))?;
        let none = points.slice(..0)?;
        unnamed(device, "HashGrid::rebuild of nothing", |s| grid.rebuild(s, none, 0.5))?;
    }

    let ball = shapes::icosphere(1, 1.0)?;
    let all = MeshOptions::default().topology().winding();
    for options in [MeshOptions::default(), MeshOptions::default().winding(), all] {
        let mut mesh = Mesh::upload(stream, geometry, &ball, options)?;
        unnamed(device, "Mesh::rebuild", |s| mesh.rebuild(s))?;
        unnamed(device, "Mesh::refit", |s| mesh.refit(s))?;
    }

    let voxels = DeviceBuffer::from_slice(stream, &[[1i32, 2, 3], [100, 0, -7]])?;
    let values = DeviceBuffer::from_slice(stream, &[1.0f32, 2.0])?;
    let capacity = Capacity { leaves: 4, lower: 4, upper: 4, entries: 4 };
    let options = VolumeOptions::<f32>::default().capacity(capacity);
    let mut volume = Volume::from_voxels(stream, geometry, &voxels, options)?;
    unnamed(device, "Volume::rebuild_from_leaves", |s| volume.rebuild_from_leaves(s, &voxels))?;
    unnamed(device, "Volume::rebuild_from_voxels_with", |s| {
        volume.rebuild_from_voxels_with(s, &voxels, &values)
    })?;
    let mut refused = DeviceBuffer::<u64>::zeroed(stream, 1)?;
    unnamed(device, "Volume::store", |s| volume.store(s, &voxels, &values, &mut refused))
}

fn last_launches_of_lists_and_sorts_are_not_named(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (&device.stream()?, &device.geometry());
    let points = DeviceBuffer::from_slice(stream, &POINTS)?;
    let grid = HashGrid::build(stream, geometry, &points, 0.5, GridOptions::default())?;
    let boxes = POINTS.map(|lower| Aabb { lower, upper: lower.map(|x| x + 0.5) });
    let boxes = DeviceBuffer::from_slice(stream, &boxes)?;
    let bvh = Bvh::build(stream, geometry, &boxes, BuildMode::Fast)?;
    let ball = shapes::icosphere(1, 1.0)?;
    let mesh = Mesh::upload(stream, geometry, &ball, MeshOptions::default())?;
    let rays = DeviceBuffer::from_slice(stream, &[Ray::new([-2.0, 0.1, 0.2], [1.0, 0.0, 0.0]); 4])?;

    let mut offsets = DeviceBuffer::<u64>::zeroed(stream, 5)?;
    let mut indices = DeviceBuffer::<u32>::zeroed(stream, 16)?;
    let mut hits = DeviceBuffer::<RayHit>::zeroed(stream, 16)?;
    unnamed(device, "HashGrid::neighbor_lists_into", |s| {
        grid.neighbor_lists_into(s, &GridQueries::at_grid_points(0.5), &mut offsets, &mut indices)
    })?;
    unnamed(device, "Bvh::overlap_lists_into", |s| {
        bvh.overlap_lists_into(s, &boxes, &mut offsets, &mut indices)
    })?;
    unnamed(device, "Mesh::all_hits_into", |s| {
        mesh.all_hits_into(s, &rays, &mut offsets, &mut hits)
    })?;

    let sort = geometry.algorithms();
    let keys = DeviceBuffer::from_slice(stream, &[3u32, 1, 2, 0])?;
    let mut out = DeviceBuffer::<u32>::zeroed(stream, 4)?;
    let mut one = DeviceBuffer::<u32>::zeroed(stream, 1)?;
    unnamed(device, "Algorithms::sort_keys", |s| sort.sort_keys(s, &keys, &mut out, ..))?;
    unnamed(device, "Algorithms::argsort", |s| sort.argsort(s, &keys, &mut out, ..))?;
    unnamed(device, "Algorithms::exclusive_scan", |s| sort.exclusive_scan(s, &keys, &mut out))?;
    unnamed(device, "Algorithms::sum", |s| sort.sum(s, &keys, &mut one))?;
    unnamed(device, "Algorithms::select", |s| sort.select(s, &keys, &keys, &mut out, &mut one))?;

    let cubes = MarchingCubes::new(geometry);
    let values =
        DeviceBuffer::from_slice(stream, &[-1.0f32, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0])?;
    let field = DenseField::new(&values, [2; 3], Map::default())?;
    let mut vertices = DeviceBuffer::<[f32; 3]>::zeroed(stream, 8)?;
    let mut faces = DeviceBuffer::<[u32; 3]>::zeroed(stream, 8)?;
    let mut counts = DeviceBuffer::<Counts>::zeroed(stream, 1)?;
    unnamed(device, "MarchingCubes::extract_into", |s| {
        let output = Output::new(&mut vertices, &mut faces, &mut counts);
        cubes.extract_into(s, &field, 0.0, output)
    })?;
    unnamed(device, "MarchingCubes::count", |s| cubes.count(s, &field, 0.0, &mut counts))?;

    // A query of one launch can be changed as ever.
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(stream, 4)?;
    device.context().capture((), |stream, ()| {
        mesh.closest_points(stream, &PointQueries::at(&points), &mut closest)?;
        stream.last_node().map(drop)
    })?;
    Ok(())
}
