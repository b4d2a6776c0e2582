//! Queries at points of every layout: the bits of those at packed points.

use cuda_safe::DeviceBuffer;
use cuda_safe::vector::{Float3, Float4};
use geom_kernels::Points;
use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, Sign, shapes};
use tape::{Seeds, Tape};

use super::queries::{Fixture, bits};
use super::thorough;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(queries_take_every_layout_of_points),
        device(recorded_queries_take_packed_points),
    ]
}

/// What queries find, as words.
type Found = Vec<(&'static str, Vec<u32>)>;

fn queries_take_every_layout_of_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(2025);
    let host = shapes::icosphere(0, 1.0)?;
    let mesh = fixture.mesh(&host, MeshOptions::default().topology().winding())?;
    // The last size is sorted.
    for n in [0, 1, 31, 32, 33, 40_000] {
        let mut points: Vec<[f32; 3]> =
            (0..n).map(|_| std::array::from_fn(|_| 1.5 * rng.float())).collect();
        if let [_, .., strange] = points.as_mut_slice() {
            *strange = [f32::NAN, 0.0, 1.0];
        }
        let limits: Vec<f32> = (0..n).map(|_| rng.float().abs()).collect();
        let limits = fixture.upload(&limits)?;
        let all = n < 1000 || thorough(device);
        let packed = fixture.upload(&points)?;
        let wanted = find(&fixture, &mesh, (&packed).into(), &limits, all)?;
        let same = |layout: &str, points: Points<'_, f32>| -> TestResult {
            ensure_eq!(points.len(), n);
            let found = find(&fixture, &mesh, points, &limits, all)?;
            for ((query, found), (_, wanted)) in found.iter().zip(&wanted) {
                ensure!(found == wanted, "{query} of {n} points, {layout}");
            }
            Ok(())
        };
        let vectors: Vec<Float3> = points.iter().map(|&[x, y, z]| Float3 { x, y, z }).collect();
        same("Float3", (&fixture.upload(&vectors)?).into())?;
        let fours: Vec<Float4> =
            points.iter().map(|&[x, y, z]| Float4 { x, y, z, w: f32::NAN }).collect();
        same("Float4", (&fixture.upload(&fours)?).into())?;
        same("flat", Points::flat(&fixture.upload(points.as_flattened())?)?)?;
        let planar: Vec<f32> =
            (0..3).flat_map(|axis| points.iter().map(move |point| point[axis])).collect();
        same("planar", Points::strided(&fixture.upload(&planar)?, n, 1, n)?)?;
        // Particles of 8 numbers, the position from the third on; nothing after the last coordinate.
        let mut particles = vec![f32::NAN; (8 * n).max(5) - 3];
        for (i, point) in points.iter().enumerate() {
            particles[8 * i + 2..8 * i + 5].copy_from_slice(point);
        }
        let particles = fixture.upload(&particles)?;
        same("strided", Points::strided(particles.slice(2..)?, n, 8, 1)?)?;
    }
    Ok(())
}

/// The results of all queries, or of the first.
fn find(
    fixture: &Fixture<'_>,
    mesh: &Mesh<'_>,
    points: Points<'_, f32>,
    limits: &DeviceBuffer<f32>,
    all: bool,
) -> Result<Found, Failure> {
    let queries = PointQueries::at(points);
    let mut found = vec![("closest", bits(&fixture.closest(mesh, &queries)?).to_vec())];
    if !all {
        return Ok(found);
    }
    let limited = queries.within_each(limits);
    found.push(("closest within", bits(&fixture.closest(mesh, &limited)?).to_vec()));
    let within = fixture.within(mesh, &limited)?;
    found.push(("any within", within.iter().map(|flag| u32::from(*flag)).collect()));
    for sign in [Sign::Normal, Sign::Parity, Sign::Winding] {
        let (distances, closest) = fixture.signed(mesh, &queries, sign)?;
        found.push(("signed distances", bits(&distances).to_vec()));
        found.push(("signed closest points", bits(&closest).to_vec()));
    }
    found.push(("sides", bits(&fixture.sides(mesh, &queries)?).to_vec()));
    let mut numbers = fixture.room::<f32>(queries.len())?;
    mesh.winding_numbers(&fixture.stream, &queries, 2.0, &mut numbers)?;
    found.push(("winding numbers", bits(&numbers.to_vec(&fixture.stream)?).to_vec()));
    Ok(found)
}

/// Points that are packed have gradients, however they were given; others are refused.
fn recorded_queries_take_packed_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mesh = fixture.mesh(&shapes::cube(1.0)?, MeshOptions::default())?;
    let numbers = fixture.upload(&[2.0f32, 0.1, 0.2, 0.3, 3.0, 0.2, 9.0, 9.0])?;
    let mut out = fixture.room::<f32>(2)?;
    let ones = fixture.upload(&[1.0f32, 1.0])?;
    let packed = Points::strided(&numbers, 2, 3, 1)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&numbers)?;
        mesh.record_distances(t, &PointQueries::at(packed), &mut out)
    })?;
    let seeds = Seeds::new().with(&out, &ones)?;
    tape.backward_with(stream, &seeds)?;
    let gradient = tape.gradient(&numbers)?.to_vec(stream)?;
    ensure_eq!(gradient, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    for (stride, component) in [(4, 1), (1, 2)] {
        let points = Points::strided(&numbers, 2, stride, component)?;
        let refused = Tape::record(stream, |t| {
            t.watch(&numbers)?;
            mesh.record_distances(t, &PointQueries::at(points), &mut out)
        });
        ensure_refused_for(refused, "packed")?;
    }
    Ok(())
}
