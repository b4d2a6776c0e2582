//! Reports.

use std::f64::consts::PI;

use geom_kernels::mesh::MeshReport;

use super::meshes::{Mesh, all, bad_soup, book, cube, grid, icosahedron, moebius, soup, torus};
use super::{Fixture, oracle};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh_topology",
        device(reports_equal_the_hosts),
        device(reports_of_many_faces),
        device(reports_of_known_shapes),
        device(areas_and_volumes_have_the_same_bits_on_every_run),
    ]
}

/// The same but for rounding of the sums.
fn check(fixture: &Fixture, name: &str, mesh: &Mesh) -> Result<MeshReport, Failure> {
    let (report, wanted) = (fixture.report(mesh)?, oracle::report(mesh));
    let close = |a: f64, b: f64, size: f64| (a - b).abs() <= 1e-12 * size;
    ensure!(close(report.area, wanted.area, wanted.area), "{name}: {report:?}, {wanted:?}");
    let size = wanted.area * extent(mesh);
    ensure!(close(report.volume, wanted.volume, size), "{name}: {report:?}, {wanted:?}");
    let counts = MeshReport { area: wanted.area, volume: wanted.volume, ..report };
    ensure_eq!(counts, wanted, "{name}");
    Ok(report)
}

/// How long a mesh is at most.
fn extent(mesh: &Mesh) -> f64 {
    let all = mesh.points.iter().flatten().map(|x| f64::from(*x)).filter(|x| x.abs() < 1e6);
    let (least, most) = all.fold((0.0f64, 0.0f64), |(least, most), x| (least.min(x), most.max(x)));
    1.0 + most - least
}

fn reports_equal_the_hosts(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for (name, mesh) in all(&mut device.rng(617)) {
        check(&fixture, &name, &mesh)?;
    }
    Ok(())
}

fn reports_of_many_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(618);
    let report = check(&fixture, "a torus", &torus(100, 100))?;
    ensure!(report.watertight && report.euler_characteristic == 0, "{report:?}");
    let report = check(&fixture, "few points", &soup(&mut rng, 60, 20_000))?;
    ensure!(report.degenerate_faces > 1000 && report.non_manifold_edges > 1000, "{report:?}");
    let report = check(&fixture, "many points", &bad_soup(&mut rng, 30_000, 20_000))?;
    ensure!(report.isolated_points > 1000 && report.skipped_faces > 1000, "{report:?}");
    Ok(())
}

fn reports_of_known_shapes(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let cube = fixture.report(&cube())?;
    let closed =
        MeshReport { closed: true, oriented: true, watertight: true, ..MeshReport::default() };
    let wanted = MeshReport {
        points: 8,
        faces: 12,
        edges: 18,
        euler_characteristic: 2,
        volume: 1.0,
        area: 6.0,
        ..closed
    };
    ensure_eq!(cube, wanted);
    // From the inside; far away it is the same.
    let mut inside_out = self::cube().moved(4096.0);
    inside_out.faces.iter_mut().for_each(|face| face.swap(0, 1));
    ensure_eq!(fixture.report(&inside_out)?, MeshReport { volume: -1.0, ..wanted });

    let report = fixture.report(&icosahedron())?;
    // Of edges of length 2.
    let (area, volume) = (20.0 * 3f64.sqrt(), 10.0 / 3.0 * (3.0 + 5f64.sqrt()));
    ensure!((report.area - area).abs() < 1e-5 && (report.volume - volume).abs() < 1e-5);
    ensure_eq!((report.edges, report.euler_characteristic, report.watertight), (30, 2, true));

    let report = fixture.report(&torus(120, 80))?;
    ensure!((report.volume / (4.0 * PI * PI) - 1.0).abs() < 5e-3, "{report:?}");
    ensure!((report.area / (8.0 * PI * PI) - 1.0).abs() < 5e-3, "{report:?}");

    let report = fixture.report(&grid(4, 3))?;
    let wanted = MeshReport {
        points: 20,
        faces: 24,
        edges: 43,
        boundary_edges: 14,
        euler_characteristic: 1,
        oriented: true,
        area: 1.0,
        ..MeshReport::default()
    };
    let area = report.area;
    ensure!((area - 1.0).abs() < 1e-6);
    ensure_eq!(MeshReport { area: 1.0, ..report }, wanted);

    // A strip of one side: where its ends meet, faces disagree.
    let report = fixture.report(&moebius(11))?;
    ensure_eq!((report.euler_characteristic, report.inconsistent_edges), (0, 2));
    ensure_eq!((report.closed, report.oriented, report.watertight), (false, false, false));

    let report = fixture.report(&book())?;
    ensure_eq!((report.non_manifold_edges, report.boundary_edges, report.edges), (1, 6, 7));

    // One face turned around disagrees with three.
    let report = fixture.report(&icosahedron().flipped(0))?;
    ensure_eq!((report.inconsistent_edges, report.closed, report.oriented), (3, true, false));
    ensure!(!report.watertight);

    // Open, by a face that is skipped.
    let mut open = icosahedron();
    open.faces[6] = [1, 2, 99];
    let report = fixture.report(&open)?;
    ensure_eq!((report.skipped_faces, report.boundary_edges, report.closed), (1, 3, false));

    // Nothing is not closed.
    ensure_eq!(fixture.report(&Mesh::default())?, MeshReport::default());
    let points = Mesh { points: vec![[1.0; 3]; 5], faces: vec![[0, 0, 1]] };
    let report = fixture.report(&points)?;
    let wanted = MeshReport {
        points: 5,
        faces: 1,
        degenerate_faces: 1,
        isolated_points: 5,
        ..MeshReport::default()
    };
    ensure_eq!(report, wanted);
    Ok(())
}

fn areas_and_volumes_have_the_same_bits_on_every_run(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mesh = torus(90, 60);
    let first = fixture.report(&mesh)?;
    for _ in 0..3 {
        let report = fixture.report(&mesh)?;
        ensure_eq!(report.volume.to_bits(), first.volume.to_bits());
        ensure_eq!(report.area.to_bits(), first.area.to_bits());
    }
    Ok(())
}
