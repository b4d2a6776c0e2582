//! How far numbers are off.

use geom_kernels::mesh::TriangleMesh;

use super::inputs::{inputs, queries, soup};
use super::{BUILDERS, Fixture, errors, wanted};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, deep, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "winding",
        device(without_series_they_are_exact),
        device(of_any_number_of_faces),
        device(series_are_as_good_as_promised),
        device(series_are_of_second_order),
        device(inside_and_outside_of_closed_meshes),
        device(of_a_tree_too_deep_for_the_stack),
        device(of_meshes_of_any_scale),
        device(of_many_sheets),
    ]
}

fn count() -> usize {
    if deep() { 20_000 } else { 250 }
}

fn without_series_they_are_exact(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(800);
    for input in inputs(&mut rng)? {
        let at = queries(&mut rng, &input.mesh, count() / 2);
        let wanted = wanted(&input.mesh, &at);
        for builder in BUILDERS {
            let mesh = fixture.mesh(&input.mesh, builder)?;
            for beta in [f32::INFINITY, 1e30] {
                let (greatest, _) = errors(&fixture.numbers(&mesh, &at, beta)?, &wanted);
                ensure!(greatest <= 2e-6, "{}, {builder:?}, {beta}: {greatest}", input.name);
            }
        }
    }
    Ok(())
}

fn of_any_number_of_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(801);
    for n in [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 64, 1000] {
        let soup = soup(&mut rng, n, 0.3);
        let at = queries(&mut rng, &soup, 60);
        let wanted = wanted(&soup, &at);
        for builder in BUILDERS {
            let mesh = fixture.mesh(&soup, builder)?;
            let (greatest, _) = errors(&fixture.numbers(&mesh, &at, f32::INFINITY)?, &wanted);
            ensure!(greatest <= 2e-6, "{n} faces, {builder:?}: {greatest}");
            let (greatest, _) = errors(&fixture.numbers(&mesh, &at, 2.0)?, &wanted);
            ensure!(greatest <= 1e-2, "{n} faces, {builder:?}: {greatest} with series");
        }
    }
    Ok(())
}

/// What the documentation says, of meshes that are more or less surfaces.
fn series_are_as_good_as_promised(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(802);
    for input in inputs(&mut rng)? {
        let at = queries(&mut rng, &input.mesh, count());
        let wanted = wanted(&input.mesh, &at);
        for builder in BUILDERS {
            let mesh = fixture.mesh(&input.mesh, builder)?;
            for (beta, most, mean) in [(2.0, 1e-2, 1.5e-3), (3.0, 2e-3, 3e-4), (5.0, 3e-4, 5e-5)] {
                let (greatest, root) = errors(&fixture.numbers(&mesh, &at, beta)?, &wanted);
                let what = format!("{}, {builder:?}, beta {beta}: {greatest}, {root}", input.name);
                ensure!(greatest <= most && root <= mean, "{what}");
            }
        }
    }
    Ok(())
}

/// The error of one series goes down with the fourth power of the distance, relative to the number.
fn series_are_of_second_order(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(803);
    // A lopsided bowl: none of its moments is zero.
    let mut bowl = soup(&mut rng, 1, 0.5);
    bowl.append(&soup(&mut rng, 3, 0.4))?;
    for face in &mut bowl.faces {
        face.sort_unstable();
    }
    let mesh = fixture.mesh(&bowl, BUILDERS[0])?;
    let directions: Vec<[f32; 3]> = (0..40)
        .map(|_| {
            let v: [f32; 3] = std::array::from_fn(|_| rng.float());
            let length = v.map(|x| x * x).iter().sum::<f32>().sqrt();
            v.map(|x| x / length)
        })
        .collect();
    let mut relative = Vec::new();
    for distance in [8.0f32, 16.0] {
        let at: Vec<[f32; 3]> = directions.iter().map(|v| v.map(|x| x * distance)).collect();
        let wanted = wanted(&bowl, &at);
        let (_, error) = errors(&fixture.numbers(&mesh, &at, 1.0)?, &wanted);
        let (_, size) = errors(&vec![0.0; at.len()], &wanted);
        relative.push(error / size);
    }
    // 2^-3, and some terms of higher order.
    let ratio = relative[1] / relative[0];
    ensure!(relative[0] < 1e-2 && ratio < 0.16, "relative errors {relative:?}");
    Ok(())
}

fn inside_and_outside_of_closed_meshes(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(804);
    for input in inputs(&mut rng)?.into_iter().filter(|input| input.closed) {
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let at = queries(&mut rng, &input.mesh, 2 * count());
        for builder in BUILDERS {
            let mesh = fixture.mesh(&input.mesh, builder)?;
            let numbers = fixture.numbers(&mesh, &at, 2.0)?;
            let mut inside = 0;
            for (q, number) in at.iter().zip(numbers) {
                let wanted = oracle.inside(*q);
                inside += usize::from(wanted);
                ensure!((number > 0.5) == wanted, "{}: {number} at {q:?}", input.name);
            }
            ensure!(inside > at.len() / 20, "{}: {inside} points inside", input.name);
        }
    }
    Ok(())
}

/// Triangles whose centres' keys have one bit each: with every level three of them are left, and many in the
/// same place at the end.
pub(super) fn nested(rng: &mut Rng) -> TriangleMesh {
    let mut centers = vec![[0.0; 3]; 3000];
    for place in 0..60 {
        let mut center = [0.0; 3];
        center[place % 3] = 2f32.powi(-(place as i32 / 3) - 1) + 2f32.powi(-22);
        centers.push(center);
    }
    centers.push([1.0; 3]);
    let mut mesh = TriangleMesh::default();
    for center in centers {
        let first = mesh.points.len() as u32;
        let far: [f32; 3] = std::array::from_fn(|_| 0.25 * rng.float());
        let within = far.map(|x| x * rng.float());
        for corner in [far, far.map(|x| -x), within] {
            mesh.points.push(std::array::from_fn(|axis| center[axis] + corner[axis]));
        }
        mesh.faces.push([first, first + 1, first + 2]);
    }
    mesh
}

fn of_a_tree_too_deep_for_the_stack(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(805);
    let mesh = nested(&mut rng);
    let at = queries(&mut rng, &mesh, 30);
    let wanted = wanted(&mesh, &at);
    let mut deepest = 0;
    for builder in BUILDERS {
        let mesh = fixture.mesh(&mesh, builder)?;
        deepest = deepest.max(mesh.bvh_report(&fixture.stream)?.depth);
        for (beta, most) in [(f32::INFINITY, 2e-6), (2.0, 1e-2)] {
            let (greatest, _) = errors(&fixture.numbers(&mesh, &at, beta)?, &wanted);
            ensure!(greatest <= most, "{builder:?}, beta {beta}: {greatest}");
        }
    }
    // Else nothing of this was tested: a level pushes at most 3 children of 64.
    ensure!(deepest > 22, "depth {deepest}");
    Ok(())
}

fn of_meshes_of_any_scale(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(806);
    for input in inputs(&mut rng)?.into_iter().take(3) {
        let at = queries(&mut rng, &input.mesh, 50);
        let wanted = wanted(&input.mesh, &at);
        for power in [57, 20, -20, -40] {
            let scale = 2f32.powi(power);
            let mut mesh = input.mesh.clone();
            mesh.scale([scale; 3]);
            let at: Vec<[f32; 3]> = at.iter().map(|q| q.map(|x| x * scale)).collect();
            // Some of the far ones would lie beyond 2^60.
            let valid = |q: &[f32; 3]| q.iter().all(|x| x.abs() <= 2f32.powi(60));
            let kept: Vec<usize> = (0..at.len()).filter(|i| valid(&at[*i])).collect();
            ensure!(kept.len() > 25, "2^{power}: {} points", kept.len());
            let at: Vec<[f32; 3]> = kept.iter().map(|i| at[*i]).collect();
            let wanted: Vec<f64> = kept.iter().map(|i| wanted[*i]).collect();
            let mesh = fixture.mesh(&mesh, BUILDERS[0])?;
            for (beta, most) in [(f32::INFINITY, 2e-6), (2.0, 1e-2)] {
                let (greatest, _) = errors(&fixture.numbers(&mesh, &at, beta)?, &wanted);
                ensure!(greatest <= most, "{} by 2^{power}, {beta}: {greatest}", input.name);
            }
        }
    }
    Ok(())
}

/// Numbers far from 0 and 1: angles in a leaf add up to more than a turn.
fn of_many_sheets(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(807);
    let mut mesh = TriangleMesh::default();
    for _ in 0..9 {
        mesh.append(&geom_kernels::mesh::shapes::cube(1.0)?)?;
    }
    let at = queries(&mut rng, &mesh, 100);
    let wanted = wanted(&mesh, &at);
    ensure!(wanted.iter().any(|number| *number > 8.99));
    for flip in [false, true] {
        if flip {
            mesh.flip();
        }
        let sign = if flip { -1.0 } else { 1.0 };
        let wanted: Vec<f64> = wanted.iter().map(|number| sign * number).collect();
        for builder in BUILDERS {
            let mesh = fixture.mesh(&mesh, builder)?;
            let (greatest, _) = errors(&fixture.numbers(&mesh, &at, f32::INFINITY)?, &wanted);
            ensure!(greatest <= 1e-5, "{builder:?}, flipped {flip}: {greatest}");
            let (greatest, _) = errors(&fixture.numbers(&mesh, &at, 2.0)?, &wanted);
            ensure!(greatest <= 5e-2, "{builder:?}, flipped {flip}: {greatest} with series");
        }
    }
    Ok(())
}
