//! Attacks on what is made of the faces of meshes and of surfaces, and on kernels that are compiled here.

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::isosurface::{BlockField, DenseField, Map, MarchingCubes};
use geom_kernels::mesh::{
    Array, ClosestPoint, Mesh, MeshOptions, NO_FACE, Overlap, PointQueries, Surface, Topology,
    shapes,
};
use tape::{Seeds, Tape};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

/// Asks for neighbours and normals of faces that name no points, or one point three times, and runs a pass through
/// them; with answers of other lengths.
///
/// - row: an index that a kernel reads from memory
/// - targets: `Topology::new`, `Surface::new`, `Topology::neighbors`, `Topology::vertex_normals`,
///   `Topology::record_vertex_normals`, `Topology::closed`, `Topology::report`
fn topologies_of_nonsense(lab: &Lab) -> TestResult {
    let refusal = "neighbours, and 336 are written";
    let stream = lab.stream()?;
    let topology = Topology::new(&GeometryKernels::new(&lab.context()?));
    let cube = shapes::cube(2.0)?;
    let mut bad = cube.faces.clone();
    (bad[0], bad[1], bad[2]) = ([u32::MAX; 3], [0, 0, 0], [1, 2, 1 << 31]);
    // A hundred faces share an edge.
    bad.extend((0..100).map(|i| [3u32, 4, i % 8]));
    let mut points = cube.points.clone();
    points[6] = [f32::NAN, f32::INFINITY, 0.0];
    let points = DeviceBuffer::from_slice(&stream, &points)?;
    let faces = DeviceBuffer::from_slice(&stream, &bad)?;
    let surface = Surface::new(&points, &faces)?;
    let mut neighbors = DeviceBuffer::<u32>::zeroed(&stream, 3 * bad.len())?;
    let mut normals = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 8)?;
    let mut closed = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    for wrong in [0, 1, 3 * bad.len() - 1] {
        let wrong = neighbors.slice_mut(..wrong)?;
        lab.refused(topology.neighbors(&stream, surface, wrong), refusal)?;
    }
    lab.refused(
        topology.vertex_normals(&stream, surface, normals.slice_mut(..7)?),
        "room for 7 normals, and 8 are written",
    )?;
    topology.neighbors(&stream, surface, neighbors.as_slice_mut())?;
    let seen = neighbors.to_vec(&stream)?;
    ensure!(seen.iter().all(|face| *face == NO_FACE || (*face as usize) < bad.len()));
    ensure!(seen[..9].iter().all(|face| *face == NO_FACE), "{:?}", &seen[..9]);
    // Neighbours that lie: the answer is wrong, and nothing else.
    neighbors.fill(&stream, u32::MAX - 1)?;
    topology.closed(&stream, surface, neighbors.as_slice(), closed.as_slice_mut())?;
    let short = neighbors.slice(1..)?;
    lab.refused(topology.closed(&stream, surface, short, closed.as_slice_mut()), refusal)?;
    ensure!(!topology.report(&stream, surface)?.closed);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&points)?;
        topology.record_vertex_normals(t, surface, &mut normals)
    })?;
    ensure!(normals.to_vec(&stream)?.iter().flatten().all(|x| x.is_finite()));
    let seed = DeviceBuffer::from_slice(&stream, &[[1.0f32, 0.5, 0.25]; 8])?;
    tape.backward_with(&stream, &Seeds::new().with(&normals, &seed)?)?;
    let gradient = tape.gradient(&points)?.to_vec(&stream)?;
    ensure!(gradient.iter().flatten().all(|x| x.is_finite()), "{gradient:?}");
    Ok(())
}

/// Turns a recorded surface into a mesh, drops the field and the mesh, and runs the pass.
///
/// - row: device memory is freed after the last work
/// - row: a pass reads what was recorded
/// - targets: `MarchingCubes::record_extract`, `TriangleBuffers::into_mesh`, `DenseField::values`,
///   `BlockField::values`, `Mesh::faces`, `Mesh::overlap_lists`
fn a_surface_given_away_before_the_pass(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let marching = MarchingCubes::new(&geometry);
    // The plane x = 1.5 in a box of 4 x 3 x 3 numbers.
    let host: Vec<f32> = (0..36).map(|i| (i / 9) as f32 - 1.5).collect();
    let values = DeviceBuffer::from_slice(&stream, &host)?;
    let field = DenseField::new(&values, [4, 3, 3], Map::default())?;
    ensure_eq!(field.values().device_ptr(), values.device_ptr());
    let mut surface = None;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(field.values())?;
        surface = Some(marching.record_extract(t, &field, 0.0)?);
        Ok(())
    })?;
    let Some(surface) = surface else { return Err(Failure::new("none")) };
    ensure_eq!((surface.counts.vertices, surface.counts.faces), (9, 8));
    let seed = DeviceBuffer::from_slice(&stream, &[[1.0f32, 0.0, 0.0]; 9])?;
    let mesh = surface.into_mesh(&stream, &geometry, MeshOptions::default())?;
    let vertices = mesh.points().to_vec(&stream)?;
    ensure!(vertices.iter().all(|vertex| vertex[0] == 1.5));
    ensure_eq!(mesh.faces().len(), 8);
    let boxes = [geom_kernels::Aabb { lower: [1.0f32, -1.0, -1.0], upper: [2.0, 9.0, 9.0] }];
    let boxes = DeviceBuffer::from_slice(&stream, &boxes)?;
    let lists = mesh.overlap_lists(&stream, &boxes, Overlap::Faces)?;
    ensure!(lists.indices.to_vec(&stream)?.into_iter().eq(0..8));
    let seeds = Seeds::new().with(mesh.points(), &seed)?;
    drop((mesh, lists));
    let _taken = DeviceBuffer::from_slice(&stream, &[0xffu8; 4096])?;
    tape.backward_with(&stream, &seeds)?;
    let gradient = tape.gradient(&values)?.to_vec(&stream)?;
    // Each vertex moves against the two numbers beside it, by half of what they grow.
    let expected: Vec<f32> =
        (0..36).map(|i| if (9..27).contains(&i) { -0.5 } else { 0.0 }).collect();
    ensure_eq!(gradient, expected);
    let origins = DeviceBuffer::<[i32; 3]>::zeroed(&stream, 0)?;
    let none = DeviceBuffer::<[u32; 27]>::zeroed(&stream, 0)?;
    let empty = BlockField::new(&values, 512, &origins, &none, Map::default())?;
    ensure_eq!(empty.values().len(), 36);
    ensure_eq!(marching.extract(&stream, &empty, 0.0)?.counts.faces, 0);
    Ok(())
}

/// Compares answers of kernels that are compiled here with those that are part of the crate, bit for bit.
///
/// - row: launching foreign code is unsafe
/// - targets: `GeometryKernels::compiled`, `Mesh::closest_points`, `PointQueries::at`, `Array::as_slice`,
///   `Array::as_slice_mut`
fn kernels_compiled_here(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let ball = shapes::icosphere(2, 1.0)?;
    let at: Vec<[f32; 3]> = (0..64).map(|i| [(i as f32).sin(), 1e-3 * i as f32, -0.7]).collect();
    let at = DeviceBuffer::from_slice(&stream, &at)?;
    let mut answers = Vec::new();
    for geometry in [GeometryKernels::new(&context), GeometryKernels::compiled(&context)] {
        let points = DeviceBuffer::from_slice(&stream, &ball.points)?;
        let mut borrowed = Array::from(&points);
        ensure!(borrowed.as_slice_mut().is_none(), "borrowed points can be changed");
        ensure_eq!(borrowed.as_slice().len(), 162);
        let faces = DeviceBuffer::from_slice(&stream, &ball.faces)?;
        let mesh = Mesh::build(&stream, &geometry, borrowed, faces, MeshOptions::default())?;
        let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 64)?;
        mesh.closest_points(&stream, &PointQueries::at(&at), &mut closest)?;
        let bits = closest.as_slice().cast::<[u32; 8]>()?.to_vec(&stream)?;
        answers.push(bits);
    }
    ensure!(answers[0] == answers[1], "the bits differ");
    Ok(())
}

attacks![
    "geometry",
    refused(topologies_of_nonsense),
    right(a_surface_given_away_before_the_pass),
    right(kernels_compiled_here).limit(120),
];
