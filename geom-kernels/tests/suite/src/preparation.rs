//! The kernels that are compiled together when a structure is made are those that it launches.

use std::collections::BTreeSet;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::hash_grid::{GridOptions, HashGrid};
use geom_kernels::isosurface::{DenseField, Map, MarchingCubes, VolumeField};
use geom_kernels::mesh::{Mesh, MeshOptions, shapes};
use geom_kernels::volume::{DenseOptions, Keep, Volume, VolumeOptions};
use geom_kernels::{Aabb, GeometryKernels, Operation};

use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "preparation",
        device(grids),
        device(trees),
        device(meshes),
        device(volumes),
        device(surfaces),
        device(every_operation),
    ]
}

type Made = cuda_safe::Result<()>;

/// Makes a structure with kernels that are compiled as they are launched, and with prepared ones: both times exactly
/// the operations' kernels are compiled.
fn check(
    device: &TestDevice,
    operations: &[Operation],
    make: impl Fn(&Stream, &GeometryKernels) -> Made,
) -> TestResult {
    let wanted: BTreeSet<String> = operations
        .iter()
        .flat_map(|operation| GeometryKernels::kernels_of(*operation))
        .map(str::to_owned)
        .collect();
    let context = device.context();
    for (how, geometry) in [
        ("launched", GeometryKernels::unprepared(context)),
        ("prepared", GeometryKernels::new(context)),
    ] {
        make(&device.stream()?, &geometry)?;
        let compiled = geometry.compiled_kernels();
        let missing: Vec<_> = compiled.difference(&wanted).collect();
        let more: Vec<_> = wanted.difference(&compiled).collect();
        ensure!(
            missing.is_empty() && more.is_empty(),
            "{operations:?}: {how}, but not prepared for: {missing:?}; the other way round: {more:?}"
        );
    }
    Ok(())
}

fn points(stream: &Stream) -> cuda_safe::Result<DeviceBuffer<[f32; 3]>> {
    let mut rng = Rng::new(7);
    let points: Vec<[f32; 3]> = (0..500).map(|_| rng.point()).collect();
    DeviceBuffer::from_slice(stream, &points)
}

fn grids(device: &TestDevice) -> TestResult {
    check(device, &[Operation::BOUNDED_GRID_F32], |stream, geometry| {
        let options = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
        HashGrid::build(stream, geometry, &points(stream)?, 0.1, options).map(drop)
    })?;
    check(device, &[Operation::UNBOUNDED_GRID_F32], |stream, geometry| {
        HashGrid::build(stream, geometry, &points(stream)?, 0.1, GridOptions::default()).map(drop)
    })?;
    let wide = |stream: &Stream| {
        let points = points(stream)?.to_vec(stream)?;
        let points: Vec<[f64; 3]> = points.into_iter().map(|point| point.map(f64::from)).collect();
        DeviceBuffer::from_slice(stream, &points)
    };
    check(device, &[Operation::BOUNDED_GRID_F64], |stream, geometry| {
        let options = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
        HashGrid::build(stream, geometry, &wide(stream)?, 0.1, options).map(drop)
    })?;
    check(device, &[Operation::UNBOUNDED_GRID_F64], |stream, geometry| {
        HashGrid::build(stream, geometry, &wide(stream)?, 0.1, GridOptions::default()).map(drop)
    })
}

fn trees(device: &TestDevice) -> TestResult {
    for (builder, tree) in
        [(BuildMode::Fast, Operation::FAST_TREE), (BuildMode::Quality, Operation::QUALITY_TREE)]
    {
        check(device, &[tree, Operation::BOXES], |stream, geometry| {
            let points = points(stream)?.to_vec(stream)?;
            let boxes: Vec<Aabb<f32>> = points
                .iter()
                .map(|lower| Aabb { lower: *lower, upper: lower.map(|x| x + 0.1) })
                .collect();
            let boxes = DeviceBuffer::from_slice(stream, &boxes)?;
            Bvh::build(stream, geometry, &boxes, builder).map(drop)
        })?;
    }
    Ok(())
}

fn meshes(device: &TestDevice) -> TestResult {
    let ball = shapes::icosphere(3, 1.0)?;
    let checked = MeshOptions::default();
    for (options, operations) in [
        (checked, vec![Operation::QUALITY_TREE, Operation::FACES, Operation::CHECKED_MESH]),
        (
            checked.build_mode(BuildMode::Fast),
            vec![Operation::FAST_TREE, Operation::FACES, Operation::CHECKED_MESH],
        ),
        (
            checked.topology(),
            vec![
                Operation::QUALITY_TREE,
                Operation::FACES,
                Operation::CHECKED_MESH,
                Operation::MESH_TOPOLOGY,
            ],
        ),
    ] {
        check(device, &operations, |stream, geometry| {
            Mesh::upload(stream, geometry, &ball, options).map(drop)
        })?;
    }
    check(
        device,
        &[
            Operation::QUALITY_TREE,
            Operation::FACES,
            Operation::CHECKED_MESH,
            Operation::MESH_REPORT,
        ],
        |stream, geometry| Mesh::upload(stream, geometry, &ball, checked)?.report(stream).map(drop),
    )
}

/// The voxels within 9 of the middle of a box of 24 voxels have the distance from there.
fn ball<T>(of: impl Fn(f64) -> T) -> Vec<T> {
    let all = (0..24 * 24 * 24).map(|i| [i / 576, i / 24 % 24, i % 24]);
    let distance = |at: [i32; 3]| {
        at.iter().map(|x| (f64::from(*x) - 11.5).powi(2)).sum::<f64>().sqrt().min(9.0) - 6.0
    };
    all.map(|at| of(distance(at))).collect()
}

fn dense(stream: &Stream, geometry: &GeometryKernels) -> cuda_safe::Result<Volume> {
    let values = DeviceBuffer::from_slice(stream, &ball(|x| x as f32))?;
    let options = DenseOptions::new(VolumeOptions::new(3.0));
    Volume::from_dense(stream, geometry, [24; 3], &values, options)
}

fn volumes(device: &TestDevice) -> TestResult {
    check(
        device,
        &[Operation::VOLUME_NODES, Operation::DENSE_KEYS, Operation::DENSE_LEAVES],
        |stream, geometry| dense(stream, geometry).map(drop),
    )?;
    check(
        device,
        &[Operation::VOLUME_NODES, Operation::INDEX_KEYS, Operation::DENSE_LEAVES],
        |stream, geometry| {
            let values = ball(|x| x as f32);
            let options = DenseOptions::new(VolumeOptions::new(3.0)).keep(Keep::NarrowBand(2.0));
            let value = |[x, y, z]: [i32; 3]| {
                values.get((x * 576 + y * 24 + z) as usize).copied().unwrap_or(3.0)
            };
            Volume::from_fn(stream, geometry, [24; 3], options, value).map(drop)
        },
    )?;
    let voxels =
        |stream: &Stream| DeviceBuffer::from_slice(stream, &[[1, 2, 3], [40, 5, 6], [-7, 8, 900]]);
    check(
        device,
        &[Operation::VOLUME_NODES, Operation::INDEX_KEYS, Operation::INDEX_LEAVES],
        |stream, geometry| {
            let options = VolumeOptions::new(0.0_f32);
            Volume::from_voxels(stream, geometry, &voxels(stream)?, options).map(drop)
        },
    )?;
    check(
        device,
        &[Operation::VOLUME_NODES, Operation::INDEX_KEYS, Operation::TILE_LEAVES],
        |stream, geometry| {
            let options = VolumeOptions::new(0.0_f32);
            Volume::from_leaves(stream, geometry, &voxels(stream)?, options).map(drop)
        },
    )?;
    check(
        device,
        &[Operation::VOLUME_NODES, Operation::WORLD_KEYS, Operation::WORLD_LEAVES],
        |stream, geometry| {
            let options = VolumeOptions::new(0.0_f32);
            Volume::from_voxels(stream, geometry, &points(stream)?, options).map(drop)
        },
    )
}

fn surfaces(device: &TestDevice) -> TestResult {
    let field = |stream: &Stream| DeviceBuffer::from_slice(stream, &ball(|x| x as f32));
    for (normals, operation) in
        [(false, Operation::DENSE_SURFACE), (true, Operation::DENSE_SURFACE_WITH_NORMALS)]
    {
        check(device, &[operation], |stream, geometry| {
            let (values, cubes) = (field(stream)?, MarchingCubes::new(geometry));
            let field = DenseField::new(&values, [24; 3], Map::default())?;
            if normals {
                cubes.extract_with_normals(stream, &field, 0.0).map(drop)
            } else {
                cubes.extract(stream, &field, 0.0).map(drop)
            }
        })?;
    }
    for (normals, operation) in
        [(false, Operation::BLOCK_SURFACE), (true, Operation::BLOCK_SURFACE_WITH_NORMALS)]
    {
        let operations = [
            Operation::VOLUME_NODES,
            Operation::DENSE_KEYS,
            Operation::DENSE_LEAVES,
            Operation::FIELD_F32,
            Operation::INDEX_KEYS,
            Operation::TILE_LEAVES,
            operation,
        ];
        check(device, &operations, |stream, geometry| {
            let volume = dense(stream, geometry)?;
            let field = VolumeField::build(stream, geometry, &volume)?;
            let cubes = MarchingCubes::new(geometry);
            if normals {
                cubes.extract_with_normals(stream, &field, 0.0).map(drop)
            } else {
                cubes.extract(stream, &field, 0.0).map(drop)
            }
        })?;
    }
    let operations = [
        Operation::VOLUME_NODES,
        Operation::DENSE_KEYS,
        Operation::DENSE_LEAVES,
        Operation::FIELD_F64,
        Operation::INDEX_KEYS,
        Operation::TILE_LEAVES,
    ];
    check(device, &operations, |stream, geometry| {
        let values = DeviceBuffer::from_slice(stream, &ball(|x| x))?;
        let options = DenseOptions::new(VolumeOptions::new(3.0));
        let volume = Volume::from_dense(stream, geometry, [24; 3], &values, options)?;
        VolumeField::build(stream, geometry, &volume).map(drop)
    })
}

/// No operation names a kernel that there is not.
fn every_operation(_: &TestDevice) -> TestResult {
    let texts = geom_kernels::ptx().map(|ptx| ptx.unpack()).collect::<Result<Vec<_>, _>>()?;
    let mut kernels = BTreeSet::new();
    for text in &texts {
        let found = ptx::entries(text).map_err(|error| Failure::new(error.to_string()))?;
        kernels.extend(found.into_iter().map(|signature| signature.name));
    }
    for operation in Operation::ALL.iter().copied() {
        for name in GeometryKernels::kernels_of(operation) {
            ensure!(kernels.contains(name), "{operation:?}: {name}");
        }
    }
    ensure_eq!(Operation::ALL.len(), 25);
    Ok(())
}
