//! Meshes in host memory: their winding numbers have the bits of the device's.

use cuda_safe::DeviceBuffer;
use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{ClosestPoint, MeshOptions, PointQueries, Sign, TriangleMesh, shapes};
use geom_kernels::structures::{self, Limit};

use super::accuracy::nested;
use super::inputs::{inputs, queries, soup};
use super::{BUILDERS, Fixture, errors, wanted};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure, ensure_eq, ensure_refused_for,
    first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "winding::cpu",
        device(numbers_have_the_bits_of_the_device),
        device(of_any_number_of_faces),
        device(of_a_tree_too_deep_for_the_stack),
        device(of_coinciding_and_invalid_faces),
        device(signed_distances_have_the_bits_of_the_device),
        device(after_refits),
        host(numbers_are_right),
        host(bad_arguments),
    ]
}

const NOTHING: ClosestPoint =
    ClosestPoint { position: [0.0; 3], distance_squared: 0.0, face: 0, u: 0.0, v: 0.0, feature: 0 };

fn options(builder: BuildMode) -> MeshOptions {
    MeshOptions::default().winding().build_mode(builder)
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn numbers(mesh: &structures::Mesh, at: &[[f32; 3]], beta: f32) -> Result<Vec<f32>, Failure> {
    // Full of what is no answer.
    let mut numbers = vec![77.0; at.len()];
    mesh.winding_numbers(at, beta, &mut numbers)?;
    Ok(numbers)
}

/// Points that are not valid, and corners of faces.
fn more(at: &mut Vec<[f32; 3]>, mesh: &TriangleMesh) {
    at.extend([[f32::NAN, 0.0, 0.0], [0.0, f32::INFINITY, 0.0], [0.0, 0.0, 2f32.powi(61)]]);
    at.extend(mesh.points.iter().take(10));
}

/// Compares the numbers of both meshes.
fn check(
    fixture: &Fixture,
    name: &str,
    (mesh, cpu): (&geom_kernels::mesh::Mesh<'_>, &structures::Mesh),
    at: &[[f32; 3]],
) -> TestResult {
    for beta in [1.0, 2.0, 3.5, 1e30, f32::INFINITY] {
        let wanted = bits(&fixture.numbers(mesh, at, beta)?);
        first_difference(&bits(&numbers(cpu, at, beta)?), &wanted)
            .map_err(|e| Failure::new(format!("{name}, beta {beta}: {e}")))?;
    }
    Ok(())
}

fn compare(
    fixture: &Fixture,
    rng: &mut Rng,
    name: &str,
    host: &TriangleMesh,
    n: usize,
) -> TestResult {
    let mut at = queries(rng, host, n);
    more(&mut at, host);
    for builder in BUILDERS {
        let mesh = fixture.mesh(host, builder)?;
        let cpu = structures::Mesh::new(host, options(builder))?;
        check(fixture, &format!("{name}, {builder:?}"), (&mesh, &cpu), &at)?;
    }
    Ok(())
}

fn numbers_have_the_bits_of_the_device(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(840);
    let n = if deep() { 5000 } else { 100 };
    for input in inputs(&mut rng)? {
        compare(&fixture, &mut rng, input.name, &input.mesh, n)?;
    }
    // More faces than the builder by nearness merges into one list.
    compare(&fixture, &mut rng, "a large knot", &shapes::knot(150, 24)?, n)
}

fn of_any_number_of_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(841);
    for n in [0, 1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 64, 1023, 1024, 1025] {
        let host = soup(&mut rng, n, 0.3);
        compare(&fixture, &mut rng, &format!("{n} faces"), &host, 33)?;
    }
    Ok(())
}

/// Where the device's stack is full, it adds in another order.
fn of_a_tree_too_deep_for_the_stack(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(842);
    let host = nested(&mut rng);
    let depth = fixture.mesh(&host, BUILDERS[0])?.bvh_report(&fixture.stream)?.depth;
    ensure!(depth > 22, "depth {depth}");
    compare(&fixture, &mut rng, "a deep tree", &host, 60)
}

/// Equal keys are ordered by index; skipped faces are in no list; faces without an area, and tiny ones, have no moments.
fn of_coinciding_and_invalid_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(843);
    let mut host = TriangleMesh::default();
    for _ in 0..40 {
        host.append(&shapes::cube(1.0)?)?;
    }
    compare(&fixture, &mut rng, "cubes", &host, 50)?;
    for (i, bad) in [f32::NAN, f32::INFINITY, 2f32.powi(61)].into_iter().enumerate() {
        host.points[31 * (i + 1)][i] = bad;
    }
    for face in host.faces.iter_mut().step_by(7) {
        face[1] = face[0];
    }
    compare(&fixture, &mut rng, "spoilt cubes", &host, 50)?;
    for power in [57, -60, -100] {
        let mut host = soup(&mut rng, 60, 0.3);
        host.scale([2f32.powi(power); 3]);
        let at: Vec<[f32; 3]> = (0..50)
            .map(|_| std::array::from_fn(|_| 1.5 * rng.float() * 2f32.powi(power)))
            .collect();
        for builder in BUILDERS {
            let cpu = structures::Mesh::new(&host, options(builder))?;
            check(&fixture, &format!("2^{power}"), (&fixture.mesh(&host, builder)?, &cpu), &at)?;
        }
    }
    Ok(())
}

fn signed_distances_have_the_bits_of_the_device(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(844);
    let mut inside = 0;
    for input in inputs(&mut rng)? {
        let mut at = queries(&mut rng, &input.mesh, 60);
        more(&mut at, &input.mesh);
        let points = DeviceBuffer::from_slice(stream, &at)?;
        for builder in BUILDERS {
            let mesh = fixture.mesh(&input.mesh, builder)?;
            let cpu = structures::Mesh::new(&input.mesh, options(builder))?;
            let all = PointQueries::at(&points);
            for (limit, queries) in [(Limit::None, all), (Limit::All(0.4), all.within(0.4))] {
                let mut wanted = DeviceBuffer::<f32>::zeroed(stream, at.len())?;
                mesh.signed_distances(stream, &queries, Sign::Winding, &mut wanted)?;
                let wanted = wanted.to_vec(stream)?;
                let (mut distances, mut found) =
                    (vec![77.0; at.len()], vec![(77.0, NOTHING); at.len()]);
                cpu.signed_distances(&at, limit, Sign::Winding, &mut distances)?;
                cpu.signed_closest_points(&at, limit, Sign::Winding, &mut found)?;
                let about = |e| Failure::new(format!("{}, {builder:?}: {e}", input.name));
                first_difference(&bits(&distances), &bits(&wanted)).map_err(about)?;
                let of_found: Vec<f32> = found.iter().map(|(distance, _)| *distance).collect();
                ensure_eq!(bits(&of_found), bits(&wanted), "{}", input.name);
                let mut closest = vec![NOTHING; at.len()];
                cpu.closest_points(&at, limit, &mut closest)?;
                for ((_, found), closest) in found.iter().zip(&closest) {
                    ensure_eq!(found.face, closest.face, "{}", input.name);
                }
                inside += wanted.iter().filter(|distance| **distance < 0.0).count();
            }
        }
    }
    ensure!(inside > 200, "{inside} points inside");
    Ok(())
}

fn after_refits(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(845);
    for host in [shapes::knot(48, 12)?, soup(&mut rng, 200, 0.3)] {
        let mut bent = host.clone();
        for point in &mut bent.points {
            *point = [point[1] + 0.2 * rng.float(), 1.5 * point[0], point[2]];
        }
        // A face whose corner is no longer valid adds nothing.
        bent.points[5][1] = f32::NAN;
        let at = queries(&mut rng, &host, 80);
        for builder in BUILDERS {
            let mut mesh = fixture.mesh(&host, builder)?;
            let mut cpu = structures::Mesh::new(&host, options(builder))?;
            for points in [&bent.points, &host.points] {
                mesh.refit_to(stream, DeviceBuffer::from_slice(stream, points)?)?;
                cpu.refit_to(points)?;
                check(&fixture, &format!("{builder:?}"), (&mesh, &cpu), &at)?;
            }
        }
    }
    Ok(())
}

/// Against the sum of solid angles in f64.
fn numbers_are_right() -> TestResult {
    let mut rng = Rng::new(846);
    for input in inputs(&mut rng)? {
        let at = queries(&mut rng, &input.mesh, if deep() { 20_000 } else { 500 });
        let wanted = wanted(&input.mesh, &at);
        for builder in BUILDERS {
            let cpu = structures::Mesh::new(&input.mesh, options(builder))?;
            for (beta, most) in [(f32::INFINITY, 2e-6), (2.0, 1e-2), (3.0, 2e-3)] {
                let (greatest, _) = errors(&numbers(&cpu, &at, beta)?, &wanted);
                ensure!(greatest <= most, "{}, {builder:?}, {beta}: {greatest}", input.name);
            }
        }
    }
    Ok(())
}

fn bad_arguments() -> TestResult {
    let cube = shapes::cube(1.0)?;
    let without = structures::Mesh::new(&cube, MeshOptions::default())?;
    let mesh = structures::Mesh::new(&cube, options(BUILDERS[0]))?;
    let at = [[0.0; 3]; 3];
    for beta in [0.999, 0.0, -2.0, f32::NAN, f32::NEG_INFINITY] {
        ensure_refused_for(mesh.winding_numbers(&at, beta, &mut [0.0; 3]), "a beta of")?;
    }
    ensure_refused_for(mesh.winding_numbers(&at, 2.0, &mut [0.0; 2]), "winding numbers")?;
    ensure_refused_for(without.winding_numbers(&at, 2.0, &mut [0.0; 3]), "MeshOptions::winding")?;
    let signed = without.signed_distances(&at, Limit::None, Sign::Winding, &mut [0.0; 3]);
    ensure_refused_for(signed, "MeshOptions::winding")
}
