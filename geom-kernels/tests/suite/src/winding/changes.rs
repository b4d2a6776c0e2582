//! Meshes that are refitted and built again.

use cuda_safe::DeviceBuffer;
use geom_kernels::QueryOrder;
use geom_kernels::mesh::{Mesh, PointQueries, TriangleMesh, shapes};

use super::inputs::{queries, soup};
use super::{BUILDERS, Fixture, errors, wanted};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases!["winding", device(after_refits_and_builds), device(in_graphs), device(in_any_order),]
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// The same faces between other points.
fn twisted(mesh: &TriangleMesh) -> TriangleMesh {
    let mut mesh = mesh.clone();
    for point in &mut mesh.points {
        let [x, y, z] = *point;
        let (sin, cos) = (0.7 * z).sin_cos();
        *point = [cos * x - sin * y, sin * x + cos * y, 1.5 * z];
    }
    mesh
}

fn check(fixture: &Fixture, mesh: &Mesh<'_>, host: &TriangleMesh, at: &[[f32; 3]]) -> TestResult {
    let wanted = wanted(host, at);
    for (beta, most) in [(f32::INFINITY, 2e-6), (2.0, 1e-2)] {
        let (greatest, _) = errors(&fixture.numbers(mesh, at, beta)?, &wanted);
        ensure!(greatest <= most, "beta {beta}: {greatest}");
    }
    Ok(())
}

fn after_refits_and_builds(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(810);
    for host in [shapes::knot(48, 12)?, soup(&mut rng, 200, 0.3)] {
        let other = twisted(&host);
        let (at, at_other) = (queries(&mut rng, &host, 100), queries(&mut rng, &other, 100));
        for builder in BUILDERS {
            let mut mesh = fixture.mesh(&host, builder)?;
            let first = bits(&fixture.numbers(&mesh, &at, 2.0)?);
            mesh.refit(stream)?;
            first_difference(&bits(&fixture.numbers(&mesh, &at, 2.0)?), &first)?;
            mesh.refit_to(stream, DeviceBuffer::from_slice(stream, &other.points)?)?;
            check(&fixture, &mesh, &other, &at_other)?;
            mesh.rebuild(stream)?;
            check(&fixture, &mesh, &other, &at_other)?;
            mesh.refit_to(stream, DeviceBuffer::from_slice(stream, &host.points)?)?;
            mesh.rebuild(stream)?;
            first_difference(&bits(&fixture.numbers(&mesh, &at, 2.0)?), &first)?;
        }
    }
    Ok(())
}

struct State {
    mesh: Mesh<'static>,
    at: DeviceBuffer<[f32; 3]>,
    numbers: DeviceBuffer<f32>,
}

fn in_graphs(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(811);
    let host = shapes::knot(40, 10)?;
    let other = twisted(&host);
    let at = queries(&mut rng, &other, 64);
    for rebuilds in [false, true] {
        let state = State {
            mesh: fixture.mesh(&host, BUILDERS[0])?,
            at: DeviceBuffer::from_slice(stream, &at)?,
            numbers: DeviceBuffer::zeroed(stream, at.len())?,
        };
        let mut graph = device.context().capture(state, |stream, state| {
            match rebuilds {
                true => state.mesh.rebuild(stream)?,
                false => state.mesh.refit(stream)?,
            }
            let queries = PointQueries::at(&state.at);
            state.mesh.winding_numbers(stream, &queries, 2.0, &mut state.numbers)
        })?;
        for points in [&host.points, &other.points] {
            let mut now = graph
                .state_mut()
                .mesh
                .points_mut()
                .ok_or_else(|| Failure::new("the mesh owns its points"))?;
            now.upload(stream, points)?;
            graph.launch(stream)?;
            graph.launch(stream)?;
        }
        let numbers = graph.state().numbers.to_vec(stream)?;
        let (greatest, _) = errors(&numbers, &wanted(&other, &at));
        ensure!(greatest <= 1e-2, "rebuilds: {rebuilds}: {greatest}");
    }
    Ok(())
}

/// A point's number has the same bits whatever other points are queried beside it, and in a mesh that was built once more.
fn in_any_order(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(812);
    let host = shapes::knot(64, 12)?;
    let at = queries(&mut rng, &host, 300);
    for builder in BUILDERS {
        let mesh = fixture.mesh(&host, builder)?;
        let points = DeviceBuffer::from_slice(stream, &at)?;
        let mut all = Vec::new();
        for order in [QueryOrder::Given, QueryOrder::Sorted] {
            let mut numbers = DeviceBuffer::zeroed(stream, at.len())?;
            let queries = PointQueries::at(&points).order(order);
            mesh.winding_numbers(stream, &queries, 2.0, &mut numbers)?;
            all.push(bits(&numbers.to_vec(stream)?));
        }
        let reversed: Vec<[f32; 3]> = at.iter().rev().copied().collect();
        let mut numbers = bits(&fixture.numbers(&mesh, &reversed, 2.0)?);
        numbers.reverse();
        all.push(numbers);
        all.push(bits(&fixture.numbers(&fixture.mesh(&host, builder)?, &at, 2.0)?));
        for numbers in &all {
            ensure_eq!(*numbers, all[0], "{builder:?}");
        }
    }
    Ok(())
}
