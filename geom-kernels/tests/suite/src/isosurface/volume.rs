//! Surfaces in sparse volumes: those of dense fields with the same values, and closed wherever leaves end.

use cuda_safe::DeviceBuffer;
use geom_kernels::isosurface::{Counts, Map, Output, TriangleBuffers, VolumeField};
use geom_kernels::mesh::{MeshOptions, MeshReport};
use geom_kernels::volume::nanovdb::Builder;
use geom_kernels::volume::{Capacity, DenseOptions, Keep, Volume, VolumeOptions, VolumeValue};

use super::blocks::{shapes, sorted};
use super::inputs::{Values, gyroid, noise, sphere, steps};
use super::oracle::Oracle;
use super::{Fixture, thorough};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "isosurface",
        device(volumes_are_dense_fields),
        device(fog_is_closed_where_leaves_end),
        device(one_voxel_of_a_volume),
        device(tiles_that_meet),
        device(tiles_of_upper_nodes),
        device(volumes_without_a_whole_surface),
        device(graphs_follow_a_volume),
    ]
}

/// Where the first number of a field is.
const ORIGINS: [[i32; 3]; 4] =
    [[0; 3], [-7, -20, 5], [4090, -10, 4083], [8 - (1 << 23), (1 << 23) - 48, -4096]];

fn report(fixture: &Fixture, surface: TriangleBuffers) -> Result<MeshReport, Failure> {
    let stream = &fixture.stream;
    let mesh = surface.into_mesh(stream, &fixture.geometry, MeshOptions::default())?;
    Ok(mesh.report(stream)?)
}

/// The surface is that of these values, which begin at `origin`, with `outside` around them, and closed.
fn check(
    fixture: &Fixture,
    field: &VolumeField,
    (values, outside, origin): (&Values, f32, [i32; 3]),
    iso: f32,
) -> TestResult {
    ensure!(field.is_complete());
    let surface = fixture.cubes.extract_with_normals(&fixture.stream, field, iso)?;
    ensure!(surface.counts.is_complete() && !surface.counts.not_finite());
    let found = surface.download(&fixture.stream)?;
    let within = values.within(outside);
    let mut oracle = Oracle::new(&within, iso);
    oracle.origin = origin.map(|x| x - 1);
    let wanted = oracle.mesh(&field.map());
    let bits = |points: &[[f32; 3]]| sorted(points.iter().map(|p| p.map(f32::to_bits)).collect());
    ensure_eq!((found.points.len(), found.faces.len()), (wanted.points.len(), wanted.faces.len()));
    ensure!(bits(&found.points) == bits(&wanted.points));
    ensure!(
        shapes(&found.points, &found.faces) == shapes(&wanted.points, &wanted.faces),
        "other faces"
    );
    let report = report(fixture, surface)?;
    ensure!(report.watertight && report.isolated_points == 0, "{report:?}");
    Ok(())
}

/// A volume of these values.
fn dense<T: VolumeValue>(
    fixture: &Fixture,
    values: &Values,
    as_value: fn(f32) -> T,
    (background, map): (f32, Map),
    (keep, origin): (Keep, [i32; 3]),
) -> Result<Volume, Failure> {
    let all: Vec<T> = values.data.iter().map(|x| as_value(*x)).collect();
    let options = VolumeOptions::new(as_value(background)).map(map);
    let options = DenseOptions::new(options).keep(keep).origin(origin);
    let (stream, geometry) = (&fixture.stream, &fixture.geometry);
    Ok(Volume::from_host_dense(stream, geometry, values.dims, &all, options)?)
}

fn volumes_are_dense_fields(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(960);
    let mirrored = [[0.0, 0.5, 0.0], [0.25, 0.0, 0.0], [0.125, 0.0, 1.0]];
    let maps = [Map::default(), Map::affine(mirrored, [1.0, -2.0, 0.5])?];
    let fields = [
        ("noise", noise(&mut rng, [14, 13, 15])),
        ("steps", steps(&mut rng, [9, 16, 8])),
        ("gyroid", gyroid([20, 16, 24], 9.7)),
        ("sphere", sphere([34, 33, 35], [16.3, 16.1, 17.8], 15.2)),
    ];
    let mut with_tiles = 0;
    for (round, (name, values)) in fields.iter().enumerate() {
        for (i, keep) in
            [Keep::All, Keep::Tolerance(0.0), Keep::NarrowBand(0.75)].into_iter().enumerate()
        {
            let origin = ORIGINS[(round + i) % ORIGINS.len()];
            let map = maps[(round + i) % 2];
            // With the band's own background, for what lies outside of it.
            let clamped = match keep {
                Keep::NarrowBand(width) => Values::from_fn(values.dims, |at| {
                    let x = values.at(at);
                    let far = f64::from(x.abs()) >= width;
                    if far { 1.0f32.copysign(if x < 0.0 { -1.0 } else { 1.0 }) } else { x }
                }),
                _ => values.clone(),
            };
            let fail = |e: Failure| Failure::new(format!("{name}, {keep:?}: {e}"));
            let volume = dense(&fixture, values, |x| x, (1.0, map), (keep, origin))?;
            let field = VolumeField::build(stream, &fixture.geometry, &volume)?;
            let rows = map.matrix();
            for (row, (matrix, shift)) in
                field.map().rows().iter().zip(rows.iter().zip(map.translation()))
            {
                ensure_eq!(*row, [matrix[0], matrix[1], matrix[2], shift]);
            }
            let leaves = volume.leaf_origins(stream)?.len();
            ensure!(field.blocks() > leaves && field.blocks() <= 27 * leaves);
            ensure_eq!(field.size_bytes(), field.blocks() * (2048 + 12 + 108));
            check(&fixture, &field, (&clamped, 1.0, origin), 0.0).map_err(fail)?;
            check(&fixture, &field, (&clamped, 1.0, origin), -0.25).map_err(fail)?;
            let all = values.dims.map(|n| n.div_ceil(8)).iter().product::<usize>();
            with_tiles += usize::from(name == &"sphere" && i == 2 && leaves < all);

            let wide = dense(&fixture, values, f64::from, (1.0, map), (keep, origin))?;
            let field = VolumeField::build(stream, &fixture.geometry, &wide)?;
            check(&fixture, &field, (&clamped, 1.0, origin), 0.0).map_err(fail)?;
        }
    }
    ensure_eq!(with_tiles, 1);
    if thorough(device) {
        let ball = sphere([150, 140, 145], [74.2, 70.1, 71.9], 66.0);
        let place = (Keep::NarrowBand(3.0), [-80, 30, 4000]);
        let volume = dense(&fixture, &ball, |x| x, (3.0, maps[0]), place)?;
        let field = VolumeField::build(stream, &fixture.geometry, &volume)?;
        check(&fixture, &field, (&ball, 3.0, place.1), 0.0)?;
    }
    Ok(())
}

/// Boxes of ones in zeros, which begin and end at all places of a leaf.
fn fog_is_closed_where_leaves_end(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for (k, dims) in [[8, 8, 8], [16, 8, 24], [1, 8, 9], [7, 9, 17]].into_iter().enumerate() {
        for origin in ORIGINS {
            let origin = origin.map(|x| x + k as i32);
            let ones = Values::from_fn(dims, |at| 1.0 - at[0] as f32 / 64.0);
            let place = (Keep::Tolerance(0.0), origin);
            let volume = dense(&fixture, &ones, |x| x, (0.0, Map::default()), place)?;
            let field = VolumeField::build(&fixture.stream, &fixture.geometry, &volume)?;
            check(&fixture, &field, (&ones, 0.0, origin), 0.5)?;
            let surface = fixture.cubes.extract(&fixture.stream, &field, 0.5)?;
            let report = report(&fixture, surface)?;
            let voxels = dims.iter().product::<usize>() as f64;
            // Faces look towards greater values.
            ensure!(
                report.euler_characteristic == 2 && report.volume < -0.1 * voxels,
                "{report:?}"
            );
        }
    }
    Ok(())
}

fn one_voxel_of_a_volume(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, geometry) = (&fixture.stream, &fixture.geometry);
    for i in 0..8 {
        let at = [0, 1, 2].map(|axis| if i >> axis & 1 == 1 { 7 } else { -8 });
        let list = DeviceBuffer::from_slice(stream, &[at])?;
        let value = DeviceBuffer::from_slice(stream, &[-1.0f32])?;
        let options = VolumeOptions::new(1.0f32);
        let volume = Volume::from_voxels_with(stream, geometry, &list, &value, options.clone())?;
        let field = VolumeField::build(stream, geometry, &volume)?;
        ensure_eq!(field.blocks(), 27);
        let lone = Values::from_fn([1; 3], |_| -1.0);
        check(&fixture, &field, (&lone, 1.0, at), 0.0)?;
        let surface = fixture.cubes.extract(stream, &field, 0.0)?;
        ensure_eq!((surface.counts.vertices, surface.counts.faces), (6, 8));
    }
    // None.
    let none = DeviceBuffer::<[i32; 3]>::zeroed(stream, 0)?;
    let options = VolumeOptions::new(1.0f32);
    let volume = Volume::from_voxels(stream, geometry, &none, options)?;
    let mut field = VolumeField::build(stream, geometry, &volume)?;
    field.update(stream, &volume)?;
    ensure!(field.is_complete() && field.blocks() == 0);
    let surface = fixture.cubes.extract_with_normals(stream, &field, 0.0)?;
    ensure_eq!(surface.counts, Counts::default());
    // Other values.
    let volume = Volume::from_voxels(stream, geometry, &none, VolumeOptions::<i32>::default())?;
    ensure_refused(field.update(stream, &volume))?;
    let Err(error) = VolumeField::build(stream, geometry, &volume) else {
        return Err(Failure::new("a field of i32"));
    };
    ensure!(error.to_string().contains("surfaces in a volume of"), "{error}");
    Ok(())
}

fn upload(fixture: &Fixture, builder: &Builder<f32>) -> Result<Volume, Failure> {
    Ok(Volume::upload(&fixture.stream, &fixture.geometry, &builder.build()?)?)
}

/// Tiles of 8^3 voxels with values of both signs, beside each other, leaves and nothing.
fn tiles_that_meet(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(961);
    for round in 0..6 {
        let background = [1.0, -1.0, 0.5][round % 3];
        let corner = [[-16, 4080, 112], [-24, -8, -16]][round % 2];
        let places = [4, 3, 4];
        let kinds: Vec<usize> = (0..48).map(|_| rng.below(6)).collect();
        let mut values = Values::from_fn(places.map(|n| 8 * n), |_| background);
        let mut builder = Builder::<f32>::new(background);
        for (i, kind) in kinds.into_iter().enumerate() {
            let place = [i / 12, i / 4 % 3, i % 4];
            let at = |voxel: usize| {
                let in_leaf = [voxel / 64, voxel / 8 % 8, voxel % 8];
                [0, 1, 2].map(|axis| 8 * place[axis] + in_leaf[axis])
            };
            let index = |at: [usize; 3]| [0, 1, 2].map(|axis| corner[axis] + at[axis] as i32);
            let tile = [1.0, -1.0, 0.25, -0.5][rng.below(4)];
            let mut set = |at: [usize; 3], value: f32| {
                values.data[(at[0] * 24 + at[1]) * 32 + at[2]] = value;
            };
            match kind {
                // A leaf.
                0 => {
                    for voxel in 0..512 {
                        let value = rng.float();
                        set(at(voxel), value);
                        builder.set(index(at(voxel)), value);
                    }
                }
                // Nothing.
                1 | 2 => {}
                _ => {
                    builder.fill_tile(1, index(at(0)), tile, rng.below(2) == 0);
                    (0..512).for_each(|voxel| set(at(voxel), tile));
                }
            }
        }
        let volume = upload(&fixture, &builder)?;
        let field = VolumeField::build(&fixture.stream, &fixture.geometry, &volume)?;
        let fail = |e: Failure| Failure::new(format!("round {round}: {e}"));
        check(&fixture, &field, (&values, background, corner), 0.0).map_err(fail)?;
        check(&fixture, &field, (&values, background, corner), 0.75).map_err(fail)?;
    }
    Ok(())
}

/// A tile of 128^3 voxels alone, with a notch of background in it, and with a leaf at its side.
fn tiles_of_upper_nodes(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for round in 0..3 {
        let mut builder = Builder::<f32>::new(1.0);
        builder.fill_tile(2, [-128, 0, 3968], -1.0, true);
        match round {
            1 => drop(builder.fill_tile(1, [-128, 64, 4088], 1.0, false)),
            2 => drop(builder.set([0, 64, 4095], -1.0)),
            _ => {}
        }
        let volume = upload(&fixture, &builder)?;
        let field = VolumeField::build(&fixture.stream, &fixture.geometry, &volume)?;
        ensure!(field.is_complete());
        let surface = fixture.cubes.extract(&fixture.stream, &field, 0.0)?;
        let counts = surface.counts;
        // The notch lies at an edge: two faces of 64 are gone, and four are new, two more at its ends.
        let wanted = 6 * 128 * 128 + [0, 2 * 64, 4][round];
        ensure_eq!((counts.vertices, counts.faces), (wanted, 2 * wanted - 4), "round {round}");
        let report = report(&fixture, surface)?;
        ensure!(report.watertight && report.euler_characteristic == 2, "{report:?}");
        // Half a step larger than the voxels' places.
        ensure!((report.volume / 128f64.powi(3) - 1.0).abs() < 0.001, "{report:?}");
    }
    Ok(())
}

fn volumes_without_a_whole_surface(device: &TestDevice) -> TestResult {
    const END: i32 = 1 << 23;
    type Fill = fn(&mut Builder<f32>);
    let fixture = Fixture::new(device)?;
    // What is filled, whether the field is complete then, and whether there is a whole surface.
    let cases: [(&str, bool, bool, Fill); 14] = [
        ("a tile of the root", false, false, |b| {
            let _ = b.fill_tile(3, [0; 3], -1.0, true);
        }),
        ("one that is as the background", true, false, |b| {
            let _ = b.fill_tile(3, [0; 3], 1.0, true);
        }),
        ("two", false, false, |b| {
            b.fill_tile(3, [0; 3], 2.0, true).fill_tile(3, [-1; 3], 2.0, false);
        }),
        ("many", false, false, |b| {
            for i in 0..7 * 7 * 7 {
                b.fill_tile(3, [i / 49, i / 7 % 7, i % 7].map(|x| 4096 * (x - 3)), 2.0, true);
            }
        }),
        ("a voxel far away", false, false, |b| {
            let _ = b.set([1 << 24, 0, 0], -1.0);
        }),
        ("one at the end of i32", false, false, |b| {
            let _ = b.set([i32::MAX, 0, i32::MIN], -1.0);
        }),
        ("the last voxel", false, false, |b| {
            let _ = b.set([END - 1, 0, 0], -1.0);
        }),
        ("the last leaf", false, true, |b| {
            let _ = b.set([0, 0, END - 4], -1.0);
        }),
        ("the leaf before it", true, true, |b| {
            let _ = b.set([0, END - 9, 0], -1.0);
        }),
        ("the first voxel", false, false, |b| {
            let _ = b.set([-END, 0, 0], -1.0);
        }),
        ("the second leaf", true, true, |b| {
            let _ = b.set([8 - END, 0, 0], -1.0);
        }),
        ("a tile far away", false, false, |b| {
            let _ = b.fill_tile(1, [1 << 24, 0, 0], -1.0, true);
        }),
        ("a tile at the end", false, false, |b| {
            let _ = b.fill_tile(1, [0, END - 8, 0], -1.0, true);
        }),
        ("a tile before it", true, true, |b| {
            let _ = b.fill_tile(1, [0, END - 16, 0], -1.0, true);
        }),
    ];
    for (name, complete, whole, fill) in cases {
        let mut builder = Builder::<f32>::new(1.0);
        fill(&mut builder);
        let volume = upload(&fixture, &builder)?;
        let field = VolumeField::build(&fixture.stream, &fixture.geometry, &volume)?;
        ensure_eq!(field.is_complete(), complete, "{name}");
        let surface = fixture.cubes.extract(&fixture.stream, &field, 0.0)?;
        let found = surface.counts.faces > 0 && report(&fixture, surface)?.watertight;
        ensure_eq!(found, whole, "{name}");
    }
    Ok(())
}

/// All that a graph works on.
struct State {
    voxels: DeviceBuffer<[i32; 3]>,
    values: DeviceBuffer<f32>,
    volume: Volume,
    field: VolumeField,
    vertices: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
    counts: DeviceBuffer<Counts>,
}

/// Values that are stored anew, and surfaces that reach the ends of leaves by that.
fn graphs_follow_a_volume(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, geometry) = (&fixture.stream, &fixture.geometry);
    let dims = [16, 8, 24];
    let origin = [-8, 16, 4088];
    let ball = |radius: f64| sphere(dims, [7.6, 3.4, 11.8], radius);
    let voxels: Vec<[i32; 3]> = (0..16 * 8 * 24)
        .map(|i| [i / 192 + origin[0], i / 24 % 8 + origin[1], i % 24 + origin[2]])
        .collect();
    let voxels = DeviceBuffer::from_slice(stream, &voxels)?;
    let values = DeviceBuffer::from_slice(stream, &ball(2.0).data)?;
    let room = Capacity { leaves: 12, lower: 4, upper: 4, entries: 16 * 8 * 24 };
    let options = VolumeOptions::new(4.0f32).capacity(room);
    let volume = Volume::from_voxels_with(stream, geometry, &voxels, &values, options)?;
    ensure!(volume.build_status(stream)?.is_built());
    let field = VolumeField::build(stream, geometry, &volume)?;
    let state = State {
        voxels,
        values,
        volume,
        field,
        vertices: DeviceBuffer::zeroed(stream, 4000)?,
        faces: DeviceBuffer::zeroed(stream, 8000)?,
        counts: DeviceBuffer::zeroed(stream, 1)?,
    };
    let mut graph = device.context().capture(state, |stream, state| {
        state.volume.rebuild_from_voxels_with(stream, &state.voxels, &state.values)?;
        state.field.update(stream, &state.volume)?;
        let output = Output::new(&mut state.vertices, &mut state.faces, &mut state.counts);
        fixture.cubes.extract_into(stream, &state.field, 0.0, output)
    })?;
    for radius in [3.0, 14.0, -1.0, 6.2, 40.0] {
        let values = ball(radius);
        graph.state_mut().values.upload(stream, &values.data)?;
        graph.launch(stream)?;
        graph.launch(stream)?;
        let within = values.within(4.0);
        let mut oracle = Oracle::new(&within, 0.0);
        oracle.origin = origin.map(|x| x - 1);
        let wanted = oracle.mesh(&Map::default());
        let counts = graph.state().counts.to_vec(stream)?[0];
        ensure!(counts.is_complete() && !counts.not_finite());
        let (v, f) = (counts.vertices as usize, counts.faces as usize);
        ensure_eq!((v, f), (wanted.points.len(), wanted.faces.len()));
        ensure_eq!(f > 0, radius > 0.0);
        let points = graph.state().vertices.slice(..v)?.to_vec(stream)?;
        let faces = graph.state().faces.slice(..f)?.to_vec(stream)?;
        ensure!(shapes(&points, &faces) == shapes(&wanted.points, &wanted.faces), "{radius}");
    }
    Ok(())
}
