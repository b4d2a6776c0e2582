//! Normals of vertices.

use super::meshes::{Mesh, all, cube, dot, fan, grid, torus};
use super::{Fixture, oracle};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh_topology",
        device(normals_equal_the_hosts),
        device(normals_of_many_faces),
        device(normals_do_not_depend_on_the_triangulation),
        device(normals_that_cancel_are_zero),
        device(normals_of_needles),
        device(normals_have_the_same_bits_on_every_run),
    ]
}

/// The number of normals that are not zero.
fn check(fixture: &Fixture, name: &str, mesh: &Mesh) -> Result<usize, test_harness::Failure> {
    let normals = fixture.normals(mesh)?;
    let sums = oracle::normal_sums(mesh);
    ensure_eq!(normals.len(), sums.len());
    let mut some = 0;
    for (vertex, (normal, (sum, angles))) in normals.iter().zip(&sums).enumerate() {
        let length = dot(*sum, *sum).sqrt();
        if length <= 1e-15 * angles {
            ensure_eq!(normal.map(f32::to_bits), [0; 3], "{name}, vertex {vertex}");
            continue;
        }
        some += 1;
        // Where nearly all cancels, so do digits.
        let tolerance = 1.0e-7 + 1e-14 * angles / length;
        if tolerance > 1e-3 {
            continue;
        }
        for axis in 0..3 {
            let difference = f64::from(normal[axis]) - sum[axis] / length;
            ensure!(difference.abs() < tolerance, "{name}, vertex {vertex}: {normal:?}, {sum:?}");
        }
    }
    Ok(some)
}

fn normals_equal_the_hosts(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut some = 0;
    for (name, mesh) in all(&mut device.rng(615)) {
        some += check(&fixture, &name, &mesh)?;
    }
    ensure!(some > 1000, "{some} normals");
    Ok(())
}

fn normals_of_many_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    ensure_eq!(check(&fixture, "a torus", &torus(100, 100))?, 10_000);
    // Vertices of so many faces that a warp adds them, and of just not as many.
    for n in [31, 32, 33, 34, 63, 64, 65, 3000] {
        ensure_eq!(check(&fixture, &format!("fan of {n}"), &fan(n))?, n + 2);
    }
    // Several in the same warp and block, that begin in its midst.
    let mut fans = Mesh::default();
    for n in [3, 40, 1, 33, 32, 100, 5] {
        let offset = fans.points.len() as u32;
        let fan = fan(n);
        fans.points.extend(fan.points);
        fans.faces.extend(fan.faces.iter().map(|face| face.map(|vertex| vertex + offset)));
    }
    check(&fixture, "fans", &fans)?;
    Ok(())
}

fn normals_do_not_depend_on_the_triangulation(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for side in [1.0f32, 1e-30, 1e-38, 1e17] {
        let mut mesh = cube();
        for point in &mut mesh.points {
            *point = point.map(|x| x * side);
        }
        // Corners have one, two or three faces at a side, but sides count alike.
        let normals = fixture.normals(&mesh)?;
        for (point, normal) in mesh.points.iter().zip(&normals) {
            for axis in 0..3 {
                let wanted = if point[axis] > 0.0 { 1.0 } else { -1.0 } / 3f64.sqrt();
                let difference = f64::from(normal[axis]) - wanted;
                ensure!(difference.abs() < 6e-8, "{side}: {point:?}, {normal:?}");
            }
        }
    }
    let flat = fixture.normals(&grid(6, 6))?;
    ensure!(flat.iter().all(|normal| *normal == [0.0, 0.0, 1.0]));
    Ok(())
}

fn normals_that_cancel_are_zero(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(616);
    // Faces from both sides, each of random corners, several at the first point.
    let mut mesh =
        Mesh { points: (0..21).map(|_| [0; 3].map(|_: u8| rng.float())).collect(), faces: vec![] };
    for i in 0..10 {
        let [a, b, c] = [0, 1 + 2 * i, 2 + 2 * i];
        mesh.faces.extend([[a, b, c], [b, a, c]]);
    }
    ensure_eq!(fixture.normals(&mesh)?, vec![[0.0; 3]; 21]);
    Ok(())
}

/// Thin faces have the right normal, and exactly flat ones none.
fn normals_of_needles(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let tiny = 2f32.powi(-100);
    let far = 2f32.powi(60);
    let up = [0.0, 0.0, 1.0];
    let cases = [
        // On a line, that f64 does not hold the differences of.
        ([[tiny; 3], [1.0; 3], [far; 3]], [0.0; 3]),
        (
            [
                [tiny, 2.0 * tiny, 3.0 * tiny],
                [-1.0, -2.0, -3.0],
                [far / 4.0, far / 2.0, 0.75 * far],
            ],
            [0.0; 3],
        ),
        // An ulp of a number off it, that vanishes in them.
        ([[tiny, tiny, 0.0], [1.0, 1.0, 0.0], [far.next_down(), far, 0.0]], up),
        ([[tiny.next_down(), tiny, 0.0], [1.0, 1.0, 0.0], [far, far, 0.0]], up),
        ([[0.0, 0.0, 0.0], [far, 0.0, 0.0], [0.0, 1e-45, 0.0]], up),
    ];
    for (index, (points, wanted)) in cases.into_iter().enumerate() {
        let mesh = Mesh { points: points.to_vec(), faces: vec![[0, 1, 2]] };
        let report = fixture.report(&mesh)?;
        ensure_eq!(report.degenerate_faces, usize::from(wanted == [0.0; 3]), "{index}");
        ensure_eq!(fixture.normals(&mesh)?, [wanted; 3], "{index}");
        let turned = Mesh { faces: vec![[0, 2, 1]], ..mesh };
        ensure_eq!(fixture.normals(&turned)?, [wanted.map(|x: f32| 0.0 - x); 3], "{index}");
    }
    Ok(())
}

fn normals_have_the_same_bits_on_every_run(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let bits = |normals: Vec<[f32; 3]>| -> Vec<[u32; 3]> {
        normals.into_iter().map(|normal| normal.map(f32::to_bits)).collect()
    };
    let mesh = torus(64, 40).and(&fan(200).faces);
    let first = bits(fixture.normals(&mesh)?);
    for _ in 0..3 {
        ensure!(bits(fixture.normals(&mesh)?) == first);
    }
    Ok(())
}
