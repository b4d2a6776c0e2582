//! Faces that are skipped, and the errors that name them.

use cuda_safe::DeviceBuffer;
use geom_kernels::mesh::{Fault, Surface};

use super::meshes::{Mesh, all, bad_soup, grid, torus};
use super::{Fixture, oracle};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh_topology",
        device(first_faults_are_found),
        device(each_corner_is_looked_at),
        device(errors_name_the_first_face),
        device(refuses_what_does_not_fit),
    ]
}

fn first_faults_are_found(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(611);
    let mut meshes = all(&mut rng);
    meshes.push(("many".into(), bad_soup(&mut rng, 5000, 20_000)));
    for (name, mesh) in meshes {
        ensure_eq!(fixture.validate(&mesh)?, oracle::validation(&mesh), "{name}");
    }
    Ok(())
}

fn each_corner_is_looked_at(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mesh = grid(40, 7);
    for (value, is_bad) in [
        (f32::NAN, true),
        (f32::INFINITY, true),
        (2f32.powi(60).next_up(), true),
        (-2f32.powi(60).next_up(), true),
        (2f32.powi(60), false),
        (-2f32.powi(60), false),
        (1e-45, false),
    ] {
        for axis in 0..3 {
            let mut mesh = mesh.clone();
            mesh.points[100][axis] = value;
            let found = fixture.validate(&mesh)?;
            ensure_eq!(found, oracle::validation(&mesh));
            ensure_eq!(found.not_finite, if is_bad { 6 } else { 0 }, "{value} in axis {axis}");
        }
    }
    for corner in 0..3 {
        let mut mesh = mesh.clone();
        mesh.faces[411][corner] = mesh.points.len() as u32;
        mesh.faces[411][2] = u32::MAX;
        let wanted = Fault { face: 411, corner: corner as u32, vertex: mesh.faces[411][corner] };
        let found = fixture.validate(&mesh)?;
        ensure_eq!((found.out_of_range, found.first_out_of_range), (1, Some(wanted)));
    }
    Ok(())
}

fn errors_name_the_first_face(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut mesh = torus(100, 50);
    fixture.validate(&mesh)?.check_indices(5000)?;
    mesh.faces[17][2] = 1_000_000;
    let error = fixture.validate(&mesh)?.check_indices(mesh.points.len());
    let Err(error) = error else { return Err(test_harness::Failure::new("not refused")) };
    let text = error.to_string();
    ensure!(text.contains("face 17: vertex index 1000000, but there are 5000 points"), "{text}");
    ensure!(!text.contains("first of"), "{text}");
    mesh.faces[9000] = [5000; 3];
    let error = fixture.validate(&mesh)?.check_indices(mesh.points.len());
    let text = error.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.contains("face 17: vertex index 1000000"), "{text}");
    ensure!(text.contains("the first of 2 such faces"), "{text}");
    // What is not finite is no error: such faces are skipped.
    let mut mesh = torus(10, 5);
    mesh.points[3][1] = f32::NAN;
    let found = fixture.validate(&mesh)?;
    ensure_eq!((found.skipped(), found.not_finite), (6, 6));
    found.check_indices(mesh.points.len())?;
    Ok(())
}

fn refuses_what_does_not_fit(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, topology) = (&fixture.stream, &fixture.topology);
    let there = fixture.upload(&grid(3, 3))?;
    let surface = there.surface()?;
    let mut neighbors = DeviceBuffer::<u32>::zeroed(stream, 53)?;
    let refused = topology.neighbors(stream, surface, neighbors.as_slice_mut());
    ensure_refused_for(refused, "53 neighbours, and 54 are written")?;
    let mut normals = DeviceBuffer::<[f32; 3]>::zeroed(stream, 17)?;
    let refused = topology.vertex_normals(stream, surface, normals.as_slice_mut());
    ensure_refused_for(refused, "17 normals, and 16 are written")?;
    // Empty ones are meshes, too.
    let nothing = fixture.upload(&Mesh::default())?;
    let surface = Surface::new(&nothing.points, &nothing.faces)?;
    topology.neighbors(stream, surface, neighbors.slice_mut(..0)?)?;
    topology.vertex_normals(stream, surface, normals.slice_mut(..0)?)?;
    Ok(())
}
