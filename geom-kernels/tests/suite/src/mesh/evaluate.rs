//! What a mesh has at points of its faces.

use bytemuck::{AnyBitPattern, NoUninit};
use geom_kernels::mesh::{FacePoint, MeshOptions, NO_FACE, PointQueries, TriangleMesh};

use super::inputs::{Around, Input, inputs};
use super::queries::Fixture;
use super::{blend, cross, length, sub, wide};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(positions_and_normals_at_points),
        device(attributes_at_points),
        device(positions_of_answers_are_where_they_say),
        device(evaluation_refuses_wrong_lengths),
    ]
}

/// Half of an ulp, and what sums in f64 lack.
const ROUNDING: f64 = 0.500001 * super::EPS;

/// Points of all faces, of which some are outside of them, and of faces that there are not.
fn points(rng: &mut Rng, mesh: &TriangleMesh, n: usize) -> Vec<FacePoint> {
    let faces = mesh.faces.len();
    let mut points: Vec<FacePoint> = (0..n)
        .map(|i| {
            let [u, v] = [0; 2].map(|_: i32| rng.float());
            let face = if faces == 0 { NO_FACE } else { rng.below(faces) as u32 };
            match i % 4 {
                0 => FacePoint { face, u: 0.0, v: 1.0 },
                1 => FacePoint { face, u: u.abs() * 0.5, v: v.abs() * 0.5 },
                _ => FacePoint { face, u, v },
            }
        })
        .collect();
    for face in [faces as u32, NO_FACE, NO_FACE - 1, 1 << 31] {
        points.push(FacePoint { face, u: 0.25, v: 0.5 });
    }
    points
}

fn corners<T: Copy>(mesh: &TriangleMesh, face: u32, of: &[T]) -> Option<[T; 3]> {
    let [a, b, c] = mesh.faces.get(face as usize)?.map(|v| of.get(v as usize).copied());
    Some([a?, b?, c?])
}

fn positions_and_normals_at_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(850);
    let mut without_area = 0;
    for input in inputs(&mut rng, 0)? {
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let flat = oracle.report().degenerate;
        let points = points(&mut rng, &input.mesh, 200);
        let (positions, normals) =
            (fixture.positions(&mesh, &points)?, fixture.normals(&mesh, &points)?);
        for (at, (p, n)) in points.iter().zip(positions.iter().zip(&normals)) {
            let about = || format!("{}, {at:?}: {p:?} {n:?}", input.name);
            let Some(face) = oracle.triangle(at.face).copied() else {
                let there = corners(&input.mesh, at.face, &input.mesh.points).is_some();
                ensure!(there || p.iter().chain(n).all(|x| x.is_nan()), "{}", about());
                continue;
            };
            let wanted = blend(face, f64::from(at.u), f64::from(at.v));
            let size = face.as_flattened().iter().fold(0.0f64, |most, x| most.max(x.abs()));
            for (got, wanted) in p.iter().zip(wanted) {
                let error = (f64::from(*got) - wanted).abs();
                ensure!(error <= ROUNDING * wanted.abs() + 1e-14 * size + 1e-45, "{}", about());
            }
            if flat.binary_search(&at.face).is_ok() {
                ensure_eq!(*n, [0.0; 3], "{}", about());
                without_area += 1;
                continue;
            }
            ensure!((length(wide(*n)) - 1.0).abs() < super::EPS, "{}", about());
            let [a, b, c] = face;
            let (ab, ac) = (sub(b, a), sub(c, a));
            let area = cross(ab, ac);
            // Where f64 tells it.
            if length(area) > 1e-6 * length(ab) * length(ac) {
                let off = length(sub(wide(*n), area.map(|x| x / length(area))));
                ensure!(off < 2.0 * super::EPS, "{} is {off} off", about());
            }
        }
    }
    ensure!(without_area > 20, "{without_area}");
    // Corners are those of the mesh, without any rounding.
    let host = geom_kernels::mesh::shapes::knot(24, 5)?;
    let mesh = fixture.mesh(&host, MeshOptions::default())?;
    for (corner, [u, v]) in [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]].into_iter().enumerate() {
        let points: Vec<_> =
            (0..host.faces.len() as u32).map(|face| FacePoint { face, u, v }).collect();
        for (face, p) in host.faces.iter().zip(fixture.positions(&mesh, &points)?) {
            ensure_eq!(p, host.points[face[corner] as usize]);
        }
    }
    Ok(())
}

fn attributes_at_points(device: &TestDevice) -> TestResult {
    width::<1>(device)?;
    width::<2>(device)?;
    width::<3>(device)?;
    width::<4>(device)
}

fn width<const N: usize>(device: &TestDevice) -> TestResult
where
    [f32; N]: NoUninit + AnyBitPattern,
{
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(851);
    let host = geom_kernels::mesh::shapes::torus(1.0, 0.4, 9, 7)?;
    let mesh = fixture.mesh(&host, MeshOptions::default())?;
    let values: Vec<[f32; N]> =
        host.points.iter().map(|_| [0; N].map(|_: i32| rng.float())).collect();
    let points = points(&mut rng, &host, 300);
    let there = fixture.upload(&values)?;
    for (at, got) in points.iter().zip(fixture.attributes(&mesh, &points, &there)?) {
        let Some([a, b, c]) = corners(&host, at.face, &values) else {
            ensure!(got.iter().all(|x| x.is_nan()), "{at:?} {got:?}");
            continue;
        };
        let (u, v) = (f64::from(at.u), f64::from(at.v));
        for i in 0..N {
            let [a, b, c] = [a[i], b[i], c[i]].map(f64::from);
            let wanted = (1.0 - u - v) * a + u * b + v * c;
            let error = (f64::from(got[i]) - wanted).abs();
            ensure!(error <= ROUNDING * wanted.abs() + 1e-15, "{at:?} {got:?}, not {wanted}");
        }
    }
    let mut out = fixture.upload(&[[0.0f32; N]; 3])?;
    let points = fixture.upload(&points)?;
    let refused = mesh.attributes_at(&fixture.stream, &points, &there, &mut out);
    ensure_refused_for(refused, "attributes")?;
    let mut out = fixture.upload(&vec![[0.0f32; N]; points.len()])?;
    let few = there.slice(1..)?;
    let refused = mesh.attributes_at(&fixture.stream, &points, few, &mut out);
    ensure_refused_for(refused, "62 attributes for 63 points")?;
    Ok(())
}

/// Closest points and hits name points of faces, which are where their positions are.
fn positions_of_answers_are_where_they_say(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(852);
    let input = Input::new("knot", geom_kernels::mesh::shapes::knot(48, 6)?);
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default().topology())?;
    let queries = Around::new(&input).points(&mut rng, 400);
    let there = fixture.upload(&queries)?;
    let closest = fixture.closest(&mesh, &PointQueries::at(&there))?;
    let named: Vec<FacePoint> = closest.iter().map(|found| FacePoint::from(*found)).collect();
    for ((q, found), p) in queries.iter().zip(&closest).zip(fixture.positions(&mesh, &named)?) {
        let off = length(sub(wide(p), wide(found.position)));
        ensure!(off <= 2.0 * input.unit(*q), "{found:?} {p:?}");
    }
    let rays = super::ray_inputs::rays(&mut rng, &input, 400);
    for (ray, hits) in rays.iter().zip(fixture.hits(&mesh, &rays)?) {
        let named: Vec<FacePoint> = hits.iter().map(|hit| FacePoint::from(*hit)).collect();
        if named.is_empty() {
            continue;
        }
        let normals = fixture.normals(&mesh, &named)?;
        for (hit, n) in hits.iter().zip(normals) {
            let against = super::dot(wide(n), wide(ray.direction)) / length(wide(ray.direction));
            // Far off, a ray along a face is seen to come from either side.
            if against.abs() > 1e-3 && length(wide(ray.origin)) < 100.0 {
                ensure_eq!(hit.front == 1, against < 0.0, "{ray:?} {hit:?} {n:?}");
            }
        }
    }
    Ok(())
}

fn evaluation_refuses_wrong_lengths(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let host = geom_kernels::mesh::shapes::cube(1.0)?;
    let mesh = fixture.mesh(&host, MeshOptions::default())?;
    let points = fixture.upload(&[FacePoint::default(); 5])?;
    let mut few = fixture.room::<[f32; 3]>(4)?;
    let wrong = [
        (mesh.positions_at(stream, &points, &mut few), "positions"),
        (mesh.normals_at(stream, &points, &mut few), "normals"),
    ];
    for (refused, name) in wrong {
        ensure_refused_for(refused, name)?;
    }
    // None of them, of a mesh without faces, is fine.
    let empty = fixture.mesh(&TriangleMesh::default(), MeshOptions::default())?;
    ensure_eq!(fixture.positions(&empty, &[])?.len(), 0);
    let nowhere = fixture.positions(&empty, &[FacePoint::default()])?;
    ensure!(nowhere.as_flattened().iter().all(|x| x.is_nan()));
    Ok::<(), Failure>(())
}
