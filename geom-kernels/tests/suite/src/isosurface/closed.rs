//! Surfaces that are closed: as meshes, their volumes and their handles.

use std::f64::consts::PI;

use geom_kernels::isosurface::Map;
use geom_kernels::mesh::{MeshOptions, MeshReport};

use super::Fixture;
use super::inputs::{Values, gyroid, noise, sphere, steps, torus};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "isosurface",
        device(closed_surfaces_are_watertight),
        device(spheres_and_tori),
        device(mirrored_maps_turn_faces_around),
    ]
}

fn report(fixture: &Fixture, values: &Values, map: Map, iso: f32) -> Result<MeshReport, Failure> {
    let surface = fixture.buffers(values, map, iso)?;
    let stream = &fixture.stream;
    let host = surface.download(stream)?;
    let mesh = surface.into_mesh(stream, &fixture.geometry, MeshOptions::default())?;
    let report = mesh.report(stream)?;
    ensure_eq!((report.points, report.faces), (host.points.len(), host.faces.len()));
    ensure!((report.volume - host.volume()).abs() <= 1e-9 * host.volume().abs());
    Ok(report)
}

fn closed_surfaces_are_watertight(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(910);
    let map = Map::scaled([0.5, 1.0, 2.0], [0.0; 3])?;
    for (name, values) in [
        ("noise", noise(&mut rng, [14, 13, 15])),
        ("steps", steps(&mut rng, [14, 13, 15])),
        ("gyroid", gyroid([20, 20, 31], 9.7)),
    ] {
        let inside = values.data.iter().filter(|x| **x < 0.0).count();
        let report = report(&fixture, &values.within(1.0), map, 0.0)?;
        ensure!(report.watertight && report.isolated_points == 0, "{name}: {report:?}");
        ensure_eq!(report.skipped_faces, 0);
        // Degenerate faces only where numbers equal the value.
        ensure!(name == "steps" || report.degenerate_faces == 0, "{name}: {report:?}");
        // About one cell's volume for each number inside.
        let (wanted, share) = (inside as f64, if name == "gyroid" { 0.05 } else { 0.5 });
        ensure!((report.volume / wanted - 1.0).abs() < share, "{name}: {report:?}, {inside}");
    }
    // One number inside alone, everywhere in a cell's corners: an octahedron.
    for at in 0..27 {
        let lone = [at / 9 + 1, at / 3 % 3 + 30, at % 3 + 30];
        let values = Values::from_fn([5, 34, 34], |at| if at == lone { -1.0 } else { 1.0 });
        let report = report(&fixture, &values, Map::default(), 0.0)?;
        ensure_eq!((report.points, report.faces, report.euler_characteristic), (6, 8, 2));
        ensure!(report.watertight && (report.volume - 1.0 / 6.0).abs() < 1e-6, "{report:?}");
    }
    Ok(())
}

fn spheres_and_tori(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let spacing = [0.5, 0.25, 0.5];
    let map = Map::scaled(spacing, [10.0, -3.0, 0.0])?;
    let cell: f64 = spacing.iter().product();
    let r = 12.4;
    let ball = sphere([30, 31, 32], [14.3, 15.1, 15.7], r);
    let of_ball = report(&fixture, &ball, map, 0.0)?;
    ensure!(of_ball.watertight && of_ball.euler_characteristic == 2, "{of_ball:?}");
    let volume = 4.0 / 3.0 * PI * r.powi(3) * cell;
    ensure!((of_ball.volume / volume - 1.0).abs() < 0.01, "{of_ball:?}, {volume}");
    // Farther out, at another value.
    let r = r + 1.5;
    let volume = 4.0 / 3.0 * PI * r.powi(3) * cell;
    let of_ball = report(&fixture, &ball, map, 1.5)?;
    ensure!((of_ball.volume / volume - 1.0).abs() < 0.01, "{of_ball:?}, {volume}");

    let ring = torus([36, 36, 20], [17.2, 17.9, 9.6], [11.0, 4.5]);
    let of_ring = report(&fixture, &ring, map, 0.0)?;
    ensure!(of_ring.watertight && of_ring.euler_characteristic == 0, "{of_ring:?}");
    let volume = 2.0 * PI * PI * 11.0 * 4.5 * 4.5 * cell;
    ensure!((of_ring.volume / volume - 1.0).abs() < 0.02, "{of_ring:?}, {volume}");
    Ok(())
}

fn mirrored_maps_turn_faces_around(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let ball = sphere([16, 16, 40], [7.4, 7.8, 20.0], 5.5);
    let volume = report(&fixture, &ball, Map::default(), 0.0)?.volume;
    ensure!(volume > 600.0);
    let turned = [[0.0, 1.0, 0.0, 2.0], [1.0, 0.0, 0.0, -5.0], [0.0, 0.0, 1.0, 0.0]];
    for map in [
        Map::scaled([-1.0, 1.0, 1.0], [0.0; 3])?,
        Map::scaled([-1.0, -1.0, 1.0], [0.0; 3])?,
        Map::scaled([-1.0; 3], [0.0; 3])?,
        Map::from_rows(turned)?,
    ] {
        let report = report(&fixture, &ball, map, 0.0)?;
        ensure!(report.watertight && (report.volume / volume - 1.0).abs() < 1e-6, "{report:?}");
    }
    Ok(())
}
