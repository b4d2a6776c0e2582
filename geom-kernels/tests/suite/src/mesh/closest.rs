//! Closest points: against the oracle, against all faces, and the same however the mesh was built.

use cuda_safe::DeviceBuffer;
use geom_kernels::QueryOrder;
use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{ClosestPoint, MeshOptions, NO_FACE, PointQueries, TriangleMesh};

use super::brute::Brute;
use super::inputs::{Around, Input, displaced, inputs, invalid_points};
use super::queries::{Fixture, bits, same};
use super::{EPS, blend, length, sub, thorough, wide};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(closest_points_are_those_of_the_oracle),
        device(closest_points_are_those_of_all_faces),
        device(closest_points_do_not_depend_on_the_hierarchy),
        device(closest_points_of_ties_are_of_the_first_face),
        device(points_beyond_the_tips_of_needles),
        device(points_that_find_nothing),
    ]
}

/// Needles whose two long edges are all but one line, and points that lie on it, beyond the tips: no rounding of
/// the edges' sides may take such a point to be above the face.
fn points_beyond_the_tips_of_needles(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(830);
    let n = if thorough(device) { 20_000 } else { 2000 };
    let (mut mesh, mut points) = (TriangleMesh::default(), Vec::new());
    for i in 0..n {
        let tip: [f32; 3] = std::array::from_fn(|_| rng.float());
        let along: [f32; 3] = std::array::from_fn(|_| rng.float());
        let width = (-17.0 - (i % 8) as f32).exp2();
        let far: [f32; 3] = std::array::from_fn(|axis| tip[axis] - along[axis]);
        let beside = std::array::from_fn(|axis| far[axis] + width * rng.float());
        let at = mesh.points.len() as u32;
        mesh.points.extend([far, tip, beside]);
        mesh.faces.push([at, at + 1, at + 2]);
        let step = 0.75 * rng.float().abs();
        points.push(std::array::from_fn(|axis| tip[axis] + step * along[axis]));
    }
    let oracle = geom_oracle::Mesh::new(&mesh.points, &mesh.faces);
    let wanted = oracle.closest_of_all(&points);
    let input = Input::new("tips", mesh);
    let built = fixture.mesh(&input.mesh, MeshOptions::default())?;
    let there = fixture.upload(&points)?;
    let found = fixture.closest(&built, &PointQueries::at(&there))?;
    for ((q, got), wanted) in points.into_iter().zip(&found).zip(wanted) {
        check(&input, &oracle, q, (got, wanted))?;
    }
    Ok(())
}

/// How many points are asked about of each mesh.
fn count(device: &TestDevice, few: usize) -> usize {
    if thorough(device) { 10 * few } else { few }
}

/// Holds an answer against the oracle's; gives the error of its distance in eps (|q| + diagonal).
pub(super) fn check(
    input: &Input,
    oracle: &geom_oracle::Mesh,
    q: [f32; 3],
    (got, wanted): (&ClosestPoint, Option<geom_oracle::Closest>),
) -> Result<f64, Failure> {
    let Some(wanted) = wanted else {
        ensure_eq!(got.face, NO_FACE);
        ensure!(got.distance_squared == f32::INFINITY);
        ensure!(got.position.iter().all(|x| x.is_nan()));
        return Ok(0.0);
    };
    let unit = input.unit(q);
    let distance = f64::from(got.distance_squared).sqrt();
    let error = (distance - wanted.distance).abs();
    ensure!(error <= 4.0 * unit + input.floor, "{got:?}: {distance}, {} units off", error / unit);

    // It is the face's point, and what else is said of it fits.
    let p = wide(got.position);
    let off = oracle.distance_to_face(got.face, p);
    ensure!(
        off.is_some_and(|off| off <= 2.0 * unit + input.floor),
        "{got:?} is {off:?} off its face"
    );
    let face = oracle.triangle(got.face).copied().unwrap_or_default();
    for (axis, x) in p.iter().enumerate() {
        let low = face.iter().map(|corner| corner[axis]).fold(f64::INFINITY, f64::min);
        let high = face.iter().map(|corner| corner[axis]).fold(f64::NEG_INFINITY, f64::max);
        ensure!((low..=high).contains(x), "{got:?} is outside of its face's box");
    }
    let [x, y, z]: [f32; 3] = std::array::from_fn(|i| q[i] - got.position[i]);
    let squared = z.mul_add(z, y.mul_add(y, x * x));
    ensure_eq!(got.distance_squared.to_bits(), squared.to_bits());
    check_place(got, face)?;
    let (u, v) = (f64::from(got.u), f64::from(got.v));
    let off = length(sub(blend(face, u, v), p));
    ensure!(off <= 2.0 * unit + input.floor, "{got:?}: u and v are {off} off");
    Ok(error / unit)
}

/// Whether u, v and the feature fit each other and the position.
fn check_place(got: &ClosestPoint, face: [[f64; 3]; 3]) -> TestResult {
    let (u, v) = (got.u, got.v);
    ensure!((0.0..=1.0).contains(&u) && (0.0..=1.0).contains(&v), "{got:?}");
    ensure!(f64::from(u) + f64::from(v) <= 1.0 + EPS, "{got:?}");
    match got.feature {
        corner @ 0..=2 => {
            ensure_eq!(wide(got.position), face[corner as usize], "{got:?}");
            ensure_eq!([u, v], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]][corner as usize], "{got:?}");
        }
        3 => ensure!(v == 0.0, "{got:?}"),
        4 => ensure!((f64::from(u) + f64::from(v) - 1.0).abs() <= EPS, "{got:?}"),
        5 => ensure!(u == 0.0, "{got:?}"),
        feature => ensure_eq!(feature, 6, "{got:?}"),
    }
    Ok(())
}

fn closest_points_are_those_of_the_oracle(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(800);
    let mut features = [0; 7];
    for input in inputs(&mut rng, u32::from(thorough(device)))? {
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let mut points = Around::new(&input).points(&mut rng, count(device, 400));
        points.extend(invalid_points());
        let found = fixture.closest_to(&mesh, &points)?;
        let wanted = oracle.closest_of_all(&points);
        for (q, pair) in points.iter().zip(found.iter().zip(wanted)) {
            check(&input, &oracle, *q, pair)
                .map_err(|e| Failure::new(format!("{}, {q:?}, {:?}: {e}", input.name, pair.1)))?;
            if let Some(count) = features.get_mut(pair.0.feature as usize) {
                *count += 1;
            }
        }
    }
    ensure!(features.iter().all(|n| *n > 200), "all features occur: {features:?}");
    Ok(())
}

fn closest_points_are_those_of_all_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let brute = Brute::new(&fixture)?;
    let mut rng = device.rng(801);
    for input in inputs(&mut rng, u32::from(thorough(device)))? {
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let mut points = Around::new(&input).points(&mut rng, count(device, 200));
        points.extend(invalid_points());
        brute
            .check(&fixture, &mesh, &points, &[])
            .map_err(|e| Failure::new(format!("{}: {e}", input.name)))?;
    }
    Ok(())
}

/// Both builders, refits, rebuilds, and queries in any order: bit for bit the same.
fn closest_points_do_not_depend_on_the_hierarchy(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(802);
    let step = if thorough(device) { 1 } else { 2 };
    for input in inputs(&mut rng, u32::from(thorough(device)))?.into_iter().step_by(step) {
        let points = Around::new(&input).points(&mut rng, count(device, 200));
        let there = fixture.upload(&points)?;
        let queries = PointQueries::at(&there);
        let quality = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let wanted = fixture.closest(&quality, &queries)?;
        for order in [QueryOrder::Given, QueryOrder::Sorted] {
            let got = fixture.closest(&quality, &queries.order(order))?;
            same(format!("{}, {order:?}", input.name), &got, &wanted)?;
        }
        let by = (input.diagonal() * 0.2) as f32;
        let bent = fixture.upload(&displaced(&mut rng, &input.mesh, by))?;
        let straight = fixture.upload(&input.mesh.points)?;
        for builder in [BuildMode::Fast, BuildMode::Quality] {
            let name = |what: &str| format!("{}, {builder:?}, {what}", input.name);
            let options = MeshOptions::default().build_mode(builder);
            let mut mesh = fixture.mesh(&input.mesh, options)?;
            same(name("built"), &fixture.closest(&mesh, &queries)?, &wanted)?;
            mesh.refit_to(stream, &bent)?;
            let others = fixture.closest(&mesh, &queries)?;
            ensure!(by == 0.0 || bits(&others) != bits(&wanted), "the mesh is bent");
            mesh.refit_to(stream, &straight)?;
            same(name("refitted"), &fixture.closest(&mesh, &queries)?, &wanted)?;
            mesh.rebuild(stream)?;
            same(name("rebuilt"), &fixture.closest(&mesh, &queries)?, &wanted)?;
            // Built of the bent one, then straight.
            let mut mesh = geom_kernels::mesh::Mesh::build(
                stream,
                &fixture.geometry,
                &bent,
                fixture.upload(&input.mesh.faces)?,
                options,
            )?;
            mesh.refit_to(stream, &straight)?;
            same(name("built of others"), &fixture.closest(&mesh, &queries)?, &wanted)?;
        }
    }
    // So many that they are sorted by themselves.
    let input = Input::new("knot", geom_kernels::mesh::shapes::knot(12, 3)?);
    let points = Around::new(&input).points(&mut rng, 33_000);
    let there = fixture.upload(&points)?;
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
    let queries = PointQueries::at(&there);
    let sorted = fixture.closest(&mesh, &queries)?;
    same("sorted", &sorted, &fixture.closest(&mesh, &queries.order(QueryOrder::Given))?)
}

/// Copies of a mesh: the first one is found.
fn closest_points_of_ties_are_of_the_first_face(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(803);
    let mut host = geom_kernels::mesh::shapes::icosphere(1, 1.0)?;
    let once = host.clone();
    for _ in 0..3 {
        host.append(&once)?;
    }
    let input = Input::new("copies", host);
    let points = Around::new(&input).points(&mut rng, 500);
    for builder in [BuildMode::Fast, BuildMode::Quality] {
        let options = MeshOptions::default().build_mode(builder);
        let copies = fixture.closest_to(&fixture.mesh(&input.mesh, options)?, &points)?;
        let alone = fixture.closest_to(&fixture.mesh(&once, options)?, &points)?;
        same("of the first copy", &copies, &alone)?;
        ensure!(copies.iter().all(|found| (found.face as usize) < once.faces.len()));
    }
    // In the middle of a cube, all its faces are equally near, and at a corner those around it.
    let cube = super::shapes::lattice_cube(1)?;
    let corner = cube.points[3];
    let first = cube.faces.iter().position(|face| face.contains(&3));
    let mesh = fixture.mesh(&cube, MeshOptions::default())?;
    let found = fixture.closest_to(&mesh, &[[0.0; 3], corner, corner.map(|x| 3.0 * x)])?;
    ensure_eq!((found[0].face, found[0].distance_squared), (0, 1.0));
    for found in &found[1..] {
        ensure_eq!(Some(found.face as usize), first);
        ensure_eq!(found.position, corner);
        ensure!(found.feature < 3);
    }
    Ok(())
}

/// Points that are not valid, and meshes without faces.
fn points_that_find_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let host = geom_kernels::mesh::shapes::icosphere(0, 1.0)?;
    let mesh = fixture.mesh(&host, MeshOptions::default())?;
    let mut points = invalid_points();
    let oracle = geom_oracle::Mesh::new(&[], &[]);
    let input = Input::new("nothing", host);
    let check_all = |found: &[ClosestPoint]| -> TestResult {
        for found in found {
            check(&input, &oracle, [0.0; 3], (found, None))?;
        }
        Ok(())
    };
    check_all(&fixture.closest_to(&mesh, &points)?)?;
    // The greatest coordinates that there may be.
    let most = 2f32.powi(60);
    let found = fixture.closest_to(&mesh, &[[most; 3], [-most, 0.0, most]])?;
    ensure!(found.iter().all(|found| found.face != NO_FACE && found.distance_squared > 1e36));
    points.push([0.0; 3]);
    let empty = fixture.mesh(&Default::default(), MeshOptions::default())?;
    check_all(&fixture.closest_to(&empty, &points)?)?;
    let none = DeviceBuffer::<[f32; 3]>::zeroed(stream, 0)?;
    ensure_eq!(fixture.closest(&mesh, &PointQueries::at(&none))?.len(), 0);
    ensure!(PointQueries::at(&none).is_empty());

    // Lengths that do not fit.
    let there = fixture.upload(&points)?;
    let mut few = fixture.room::<ClosestPoint>(points.len() - 1)?;
    let refused = mesh.closest_points(stream, &PointQueries::at(&there), &mut few);
    ensure_refused_for(refused, "closest points")?;
    let distances = fixture.upload(&[1.0f32; 3])?;
    let queries = PointQueries::at(&there).within_each(&distances);
    let mut room = fixture.room::<ClosestPoint>(points.len())?;
    let refused = mesh.closest_points(stream, &queries, &mut room);
    ensure_refused_for(refused, "3 distances for")?;
    Ok(())
}
