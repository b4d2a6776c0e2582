//! What is no mesh, no point or no number.

use cuda_safe::DeviceBuffer;
use geom_kernels::mesh::{MeshOptions, PointQueries, Sign, TriangleMesh, shapes};

use super::inputs::queries;
use super::{BUILDERS, Fixture, errors, wanted};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "winding",
        device(of_no_faces),
        device(of_invalid_points),
        device(faces_without_area_add_nothing),
        device(invalid_faces_add_nothing),
        device(in_the_plane_of_a_face),
        device(bad_arguments),
    ]
}

const BETAS: [f32; 3] = [1.0, 2.0, f32::INFINITY];

fn of_no_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let at = [[0.0; 3], [1.0, 2.0, 3.0], [f32::NAN; 3]];
    let points_alone = TriangleMesh { points: vec![[1.0; 3]; 5], faces: Vec::new() };
    for host in [TriangleMesh::default(), points_alone] {
        for builder in BUILDERS {
            let mut mesh = fixture.mesh(&host, builder)?;
            for beta in BETAS {
                ensure_eq!(fixture.numbers(&mesh, &at, beta)?, vec![0.0; 3]);
            }
            mesh.refit(&fixture.stream)?;
            ensure_eq!(fixture.numbers(&mesh, &at, 2.0)?, vec![0.0; 3]);
            ensure_eq!(fixture.numbers(&mesh, &[], 2.0)?, Vec::<f32>::new());
        }
    }
    Ok(())
}

fn of_invalid_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let host = shapes::icosphere(2, 1.0)?;
    let mesh = fixture.mesh(&host, BUILDERS[0])?;
    let mut at = Vec::new();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2f32.powi(61), -f32::MAX] {
        at.extend([[bad, 0.0, 0.0], [0.0, bad, 0.0], [0.0, 0.0, bad], [bad; 3]]);
    }
    for beta in BETAS {
        ensure_eq!(fixture.numbers(&mesh, &at, beta)?, vec![0.0; at.len()]);
        // The last valid ones; from so far, nothing is seen.
        let far = [[2f32.powi(60), 0.0, 0.0], [-(2f32.powi(60)); 3]];
        ensure!(fixture.numbers(&mesh, &far, beta)?.iter().all(|number| number.abs() < 1e-20));
        // Corners and edges: something between the sides.
        let corners = fixture.numbers(&mesh, &host.points, beta)?;
        ensure!(corners.iter().all(|number| (-0.1..=1.1).contains(number)), "{corners:?}");
    }
    Ok(())
}

/// Beside others they change neither leaves that have some, nor the tree above; and alone they are nothing.
fn faces_without_area_add_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(830);
    let shape = shapes::icosphere(2, 1.0)?;
    let at = queries(&mut rng, &shape, 100);
    let wanted = wanted(&shape, &at);
    let mut host = shape.clone();
    let first = host.points.len() as u32;
    host.points.extend([[-4.0, 0.5, 0.5], [0.0, 0.5, 0.5], [4.0, 0.5, 0.5], [0.3, 0.2, 0.1]]);
    for i in 0..40 {
        host.faces.push([i, i, i + 1]);
        host.faces.push([i, i, i]);
        host.faces.push([first, first + 1, first + 2]);
        host.faces.push([first + 3; 3]);
    }
    for builder in BUILDERS {
        let mesh = fixture.mesh(&host, builder)?;
        for (beta, most) in [(f32::INFINITY, 2e-6), (2.0, 1e-2)] {
            let (greatest, _) = errors(&fixture.numbers(&mesh, &at, beta)?, &wanted);
            ensure!(greatest <= most, "{builder:?}, {beta}: {greatest}");
        }
        let alone = TriangleMesh {
            points: host.points.clone(),
            faces: host.faces[shape.faces.len()..].to_vec(),
        };
        let mesh = fixture.mesh(&alone, builder)?;
        for beta in BETAS {
            ensure_eq!(fixture.numbers(&mesh, &at, beta)?, vec![0.0; at.len()]);
            let corners = fixture.numbers(&mesh, &alone.points, beta)?;
            ensure_eq!(corners, vec![0.0; alone.points.len()]);
        }
    }
    Ok(())
}

/// Skipped by the build, and those that a refit finds.
fn invalid_faces_add_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(831);
    let host = shapes::torus(1.0, 0.4, 20, 10)?;
    let mut spoilt = host.clone();
    for (i, bad) in [f32::NAN, f32::INFINITY, 2f32.powi(61)].into_iter().enumerate() {
        spoilt.points[31 * (i + 1)][i] = bad;
    }
    let at = queries(&mut rng, &host, 100);
    let wanted = wanted(&spoilt, &at);
    for builder in BUILDERS {
        let mut mesh = fixture.mesh(&spoilt, builder)?;
        let check = |mesh: &geom_kernels::mesh::Mesh<'_>| -> TestResult {
            for (beta, most) in [(f32::INFINITY, 2e-6), (2.0, 1e-2)] {
                let (greatest, _) = errors(&fixture.numbers(mesh, &at, beta)?, &wanted);
                ensure!(greatest <= most, "{builder:?}, {beta}: {greatest}");
            }
            Ok(())
        };
        check(&mesh)?;
        mesh.refit_to(stream, DeviceBuffer::from_slice(stream, &host.points)?)?;
        check(&mesh)?;
        let mut mesh = fixture.mesh(&host, builder)?;
        mesh.refit_to(stream, DeviceBuffer::from_slice(stream, &spoilt.points)?)?;
        check(&mesh)?;
    }
    Ok(())
}

/// A face adds nothing there: on a side of a closed mesh the number is a half.
fn in_the_plane_of_a_face(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mesh = fixture.mesh(&shapes::cube(2.0)?, BUILDERS[0])?;
    let at = [[0.25, 0.125, 1.0], [1.0, -0.25, 0.5], [-0.5, -1.0, 0.125], [3.0, 1.0, 0.5]];
    let numbers = fixture.numbers(&mesh, &at, f32::INFINITY)?;
    for (number, wanted) in numbers.iter().zip([0.5, 0.5, 0.5, 0.0]) {
        ensure!((number - wanted).abs() < 1e-6, "{number}, not {wanted}");
    }
    Ok(())
}

fn bad_arguments(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let host = shapes::cube(1.0)?;
    let mesh = fixture.mesh(&host, BUILDERS[0])?;
    let without = fixture.made(&host, MeshOptions::default())?;
    ensure!(mesh.size_bytes() > without.size_bytes());
    let points = DeviceBuffer::from_slice(stream, &[[0.0f32; 3]; 3])?;
    let queries = PointQueries::at(&points);
    let mut numbers = DeviceBuffer::<f32>::zeroed(stream, 3)?;
    for beta in [0.999, 0.0, -2.0, f32::NAN, f32::NEG_INFINITY] {
        ensure_refused(mesh.winding_numbers(stream, &queries, beta, &mut numbers))?;
    }
    ensure_refused(without.winding_numbers(stream, &queries, 2.0, &mut numbers))?;
    let signed = without.signed_distances(stream, &queries, Sign::Winding, &mut numbers);
    ensure_refused(signed)?;
    let mut short = DeviceBuffer::<f32>::zeroed(stream, 2)?;
    ensure_refused(mesh.winding_numbers(stream, &queries, 2.0, &mut short))?;
    Ok(())
}
