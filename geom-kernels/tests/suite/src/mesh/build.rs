//! Builds: what is refused, what is skipped, of how many faces, and how points and faces change.

use cuda_safe::DeviceBuffer;
use geom_kernels::mesh::{Array, Mesh, MeshOptions, NO_FACE, Ray, TriangleMesh, shapes};

use super::brute::Brute;
use super::closest::check as check_closest;
use super::inputs::{Around, Input, all_options, displaced, soup};
use super::queries::{Fixture, same};
use super::ray_inputs::rays;
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
    ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(builds_name_the_first_wrong_face),
        device(unchecked_builds_skip_wrong_faces),
        device(builds_of_any_number_of_faces),
        device(builds_of_nothing),
        device(meshes_own_or_borrow),
        device(points_and_faces_change),
    ]
}

/// Holds a mesh against the oracle and against all faces.
fn check(
    fixture: &Fixture<'_>,
    brute: &Brute,
    (rng, name): (&mut Rng, &str),
    mesh: &Mesh<'_>,
    host: &TriangleMesh,
) -> TestResult {
    let fail = |e: Failure| Failure::new(format!("{name}: {e}"));
    let input = Input::new(name, host.clone());
    let oracle = geom_oracle::Mesh::new(&host.points, &host.faces);
    let points = Around::new(&input).points(rng, 60);
    let found = fixture.closest_to(mesh, &points)?;
    let wanted = oracle.closest_of_all(&points);
    for (q, pair) in points.iter().zip(found.iter().zip(wanted)) {
        check_closest(&input, &oracle, *q, pair).map_err(fail)?;
    }
    let rays = rays(rng, &input, 60);
    brute.check(fixture, mesh, &points, &rays).map_err(fail)?;
    let report = mesh.bvh_report(&fixture.stream)?;
    ensure_eq!(report.items + oracle.skipped(), host.faces.len(), "{name}");
    ensure_eq!(mesh.report(&fixture.stream)?.skipped_faces, oracle.skipped(), "{name}");
    Ok(())
}

fn builds_name_the_first_wrong_face(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut host = shapes::icosphere(2, 1.0)?;
    let n = host.points.len() as u32;
    let points = host.points.clone();
    for (face, corner, index) in [(300, 1, n), (201, 2, u32::MAX), (17, 0, n + 5)] {
        host.faces[face][corner] = index;
        let refused = fixture.mesh(&host, MeshOptions::default());
        let Err(error) = refused else {
            return Err(Failure::new(format!("face {face} is wrong")));
        };
        let wanted = format!("face {face}: vertex index {index}, but there are {n} points");
        ensure!(error.to_string().contains(&wanted), "{error}");
    }
    // Not a number is no error.
    host.faces.truncate(17);
    host.points[3][1] = f32::NAN;
    fixture.mesh(&host, MeshOptions::default())?;
    ensure!(points.len() == n as usize);
    // Faces without any points.
    let none = TriangleMesh { points: vec![], faces: vec![[0, 0, 0]] };
    ensure_refused(fixture.mesh(&none, MeshOptions::default()))?;
    Ok(())
}

fn unchecked_builds_skip_wrong_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let brute = Brute::new(&fixture)?;
    let mut rng = device.rng(860);
    let mut host = soup(&mut rng, 200, 0.3);
    for _ in 0..40 {
        let (face, corner) = (rng.below(200), rng.below(3));
        host.faces[face][corner] = [600, u32::MAX, 1 << 31, 601 + face as u32][rng.below(4)];
        let (i, axis) = (rng.below(600), rng.below(3));
        host.points[i][axis] = [f32::NAN, f32::INFINITY, 1.2e18][rng.below(3)];
    }
    ensure_refused(fixture.mesh(&host, MeshOptions::default()))?;
    for (name, options) in all_options() {
        let mesh = fixture.mesh(&host, options.skip_validation())?;
        check(&fixture, &brute, (&mut rng, name), &mesh, &host)?;
        // What is seen of a face that is not there, or has no vertex.
        let bad = host.faces.iter().position(|face| face.iter().any(|v| *v >= 600));
        let at = geom_kernels::mesh::FacePoint { face: bad.unwrap_or(0) as u32, u: 0.5, v: 0.5 };
        ensure!(fixture.positions(&mesh, &[at])?[0].iter().all(|x| x.is_nan()));
        ensure!(fixture.normals(&mesh, &[at])?[0].iter().all(|x| x.is_nan()));
    }
    // All of them.
    host.points.iter_mut().for_each(|point| point[0] = f32::NAN);
    for (name, options) in all_options() {
        let mesh = fixture.mesh(&host, options.skip_validation())?;
        let found = fixture.closest_to(&mesh, &[[0.0; 3]])?;
        ensure_eq!(found[0].face, NO_FACE, "{name}");
        let hits = fixture.hits(&mesh, &[Ray::new([0.0; 3], [1.0, 0.0, 0.0])])?;
        ensure!(hits[0].is_empty(), "{name}");
    }
    Ok(())
}

fn builds_of_any_number_of_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let brute = Brute::new(&fixture)?;
    let mut rng = device.rng(861);
    for n in [1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 127, 128, 129, 257] {
        let host = soup(&mut rng, n, 0.5);
        for (name, options) in all_options() {
            let mesh = fixture.mesh(&host, options)?;
            ensure_eq!((mesh.points().len(), mesh.faces().len()), (3 * n, n));
            ensure!(mesh.size_bytes() >= 64 * n, "{}", mesh.size_bytes());
            ensure_eq!(mesh.options(), options);
            check(&fixture, &brute, (&mut rng, &format!("{n} faces, {name}")), &mesh, &host)?;
        }
    }
    Ok(())
}

fn builds_of_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let brute = Brute::new(&fixture)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(862);
    let points = shapes::cube(1.0)?.points;
    for host in [TriangleMesh::default(), TriangleMesh { points, faces: vec![] }] {
        for (name, options) in all_options() {
            let mut mesh = fixture.mesh(&host, options)?;
            mesh.refit(stream)?;
            mesh.rebuild(stream)?;
            check(&fixture, &brute, (&mut rng, name), &mesh, &host)?;
            ensure_eq!(mesh.bvh_report(stream)?.bounds, None);
            let hits = fixture.hits(&mesh, &[Ray::new([0.0; 3], [1.0, 0.0, 0.0])])?;
            ensure!(hits[0].is_empty());
        }
    }
    Ok(())
}

fn meshes_own_or_borrow(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, geometry) = (&fixture.stream, &fixture.geometry);
    let mut rng = device.rng(863);
    let input = Input::new("torus", shapes::torus(1.0, 0.4, 16, 10)?);
    let queries = Around::new(&input).points(&mut rng, 100);
    let options = MeshOptions::default();
    let mut owned = fixture.mesh(&input.mesh, options)?;
    let wanted = fixture.closest_to(&owned, &queries)?;
    ensure!(owned.points_mut().is_some() && owned.faces_mut().is_some());

    // Parts of larger arrays.
    let mut points = vec![[f32::NAN; 3]; 7];
    points.extend(&input.mesh.points);
    let mut faces = vec![[u32::MAX; 3]; 5];
    faces.extend(&input.mesh.faces);
    let (points, faces) = (fixture.upload(&points)?, fixture.upload(&faces)?);
    let (some_points, some_faces) = (points.slice(7..)?, faces.slice(5..)?);
    let mut borrowed = Mesh::build(stream, geometry, some_points, some_faces, options)?;
    ensure!(borrowed.points_mut().is_none() && borrowed.faces_mut().is_none());
    same("borrowed", &fixture.closest_to(&borrowed, &queries)?, &wanted)?;
    ensure_eq!(borrowed.points().to_vec(stream)?, input.mesh.points);
    ensure_eq!(borrowed.faces().to_vec(stream)?, input.mesh.faces);
    // Its points become its own.
    let other = fixture.upload(&displaced(&mut rng, &input.mesh, 0.1))?;
    borrowed.refit_to(stream, other)?;
    ensure!(borrowed.points_mut().is_some());
    borrowed.refit_to(stream, some_points)?;
    same("borrowed again", &fixture.closest_to(&borrowed, &queries)?, &wanted)?;
    let whole = fixture.upload(&input.mesh.points)?;
    let mixed: Array<'_, [f32; 3]> = (&whole).into();
    let mixed = Mesh::build(stream, geometry, mixed, some_faces, options)?;
    same("mixed", &fixture.closest_to(&mixed, &queries)?, &wanted)?;

    // Other numbers of points are no points of this mesh.
    let few = fixture.upload(&input.mesh.points[1..])?;
    let n = input.mesh.points.len();
    let refused = borrowed.refit_to(stream, few);
    let wanted_text = format!("{} points for a mesh of {n}", n - 1);
    ensure_refused_for(refused, &wanted_text)?;
    same("as before", &fixture.closest_to(&borrowed, &queries)?, &wanted)?;
    let wrong = DeviceBuffer::<[f32; 3]>::zeroed(stream, 0)?;
    ensure_refused(borrowed.refit_to(stream, wrong))?;
    Ok(())
}

/// Points in place and refitted, rebuilt, and faces in place.
fn points_and_faces_change(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let brute = Brute::new(&fixture)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(864);
    for (name, options) in all_options() {
        let mut host = shapes::torus(1.0, 0.4, 16, 10)?;
        let mut mesh = fixture.mesh(&host, options)?;
        for step in 0..4 {
            host.points = displaced(&mut rng, &host, [0.05, 0.5, 0.0, 3.0][step]);
            if step == 1 {
                host.points[7] = [f32::NAN; 3];
            }
            let Some(mut points) = mesh.points_mut() else {
                return Err(Failure::new("the mesh owns its points"));
            };
            points.upload(stream, &host.points)?;
            if step % 2 == 0 {
                mesh.refit(stream)?;
            } else {
                mesh.rebuild(stream)?;
            }
            check(&fixture, &brute, (&mut rng, &format!("{name}, {step}")), &mesh, &host)?;
        }
        // A refit that loses faces, and one that has them again.
        let good = host.points.clone();
        let all = host.clone();
        host.points[20] = [f32::INFINITY; 3];
        mesh.refit_to(stream, fixture.upload(&host.points)?)?;
        let oracle = geom_oracle::Mesh::new(&host.points, &host.faces);
        let (lost, input) = (oracle.skipped(), Input::new(name, all.clone()));
        ensure!(lost > 3, "{lost}");
        let points = Around::new(&input).points(&mut rng, 100);
        let found = fixture.closest_to(&mesh, &points)?;
        for (q, pair) in points.iter().zip(found.iter().zip(oracle.closest_of_all(&points))) {
            check_closest(&input, &oracle, *q, pair)?;
        }
        // What was skipped by the last build stays so, and all else comes back.
        mesh.refit_to(stream, fixture.upload(&good)?)?;
        mesh.rebuild(stream)?;
        check(&fixture, &brute, (&mut rng, name), &mesh, &all)?;

        let mut other = all;
        other.faces.iter_mut().for_each(|face| face.rotate_left(1));
        other.faces.reverse();
        other.faces[9] = [4, 2, 9000];
        let Some(mut faces) = mesh.faces_mut() else {
            return Err(Failure::new("the mesh owns its faces"));
        };
        faces.upload(stream, &other.faces)?;
        mesh.rebuild(stream)?;
        check(&fixture, &brute, (&mut rng, &format!("{name}, faces")), &mesh, &other)?;
    }
    Ok(())
}
