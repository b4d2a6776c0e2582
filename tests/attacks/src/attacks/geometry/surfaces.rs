//! Attacks on surfaces in fields, and on recorded queries of meshes.

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::isosurface::{
    BlockField, Counts, DenseField, Map, MarchingCubes, Output, VolumeField,
};
use geom_kernels::mesh::{
    ClosestPoint, FacePoint, Mesh, MeshOptions, NO_FACE, PointQueries, shapes,
};
use geom_kernels::volume::{DenseOptions, Volume, VolumeOptions};
use tape::{Seeds, Tape};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

/// Finds surfaces in fields with NaNs and infinities, of sizes that overflow, at values that are no numbers.
///
/// - row: launching foreign code is unsafe
/// - targets: `DenseField::new`, `MarchingCubes::extract`, `MarchingCubes::count`,
///   `MarchingCubes::extract_with_normals`
fn fields_of_no_numbers(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let marching = MarchingCubes::new(&GeometryKernels::new(&lab.context()?));
    let map = Map::default();
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, -1.0, 0.0, -0.0, 1e-45];
    let host: Vec<f32> = (0..7 * 9 * 11).map(|i| odd[(i * i + i / 7) % 8]).collect();
    let values = DeviceBuffer::from_slice(&stream, &host)?;
    let most = usize::MAX;
    for dims in [
        [7, 9, 12],
        [most, most, 1],
        [1 << 63, 2, 693],
        [0, 0, 0],
        [most, 1, 693],
        [1 << 32, 1 << 32, 1],
    ] {
        lab.refused(DenseField::new(&values, dims, map), "693 values in a field of")?;
    }
    for spacing in [[0.0, 1.0, 1.0], [f64::NAN; 3], [1.0, 1.0, f64::INFINITY]] {
        lab.refused(Map::scaled(spacing, [0.0; 3]), "the map or its inverse is not finite")?;
        lab.refused(
            Map::scaled([1.0; 3], [0.0, spacing[0].recip(), f64::NAN]),
            "the map or its inverse is not finite",
        )?;
    }
    lab.refused(Map::from_rows([[1.0; 4]; 3]), "the map or its inverse is not finite")?;
    let field = DenseField::new(&values, [7, 9, 11], map)?;
    for iso in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        lab.refused(marching.extract(&stream, &field, iso), "a surface where a field is")?;
    }
    for iso in [0.0f32, 0.5, f32::MAX, -1.0, 1e-45] {
        let surface = marching.extract_with_normals(&stream, &field, iso)?;
        ensure!(surface.counts.not_finite());
        let mesh = surface.download(&stream)?;
        ensure_eq!(mesh.points.len() as u64, surface.counts.vertices);
        ensure!(mesh.faces.iter().flatten().all(|i| (*i as usize) < mesh.points.len()));
        ensure!(mesh.points.iter().flatten().all(|x| x.is_finite()), "a vertex is no number");
    }
    // Flat fields have no surface, whatever is in them.
    for dims in [[1usize, 1, 693], [693, 1, 1], [1, 693, 1], [7, 99, 1]] {
        let flat = DenseField::new(&values, dims, map)?;
        ensure_eq!(marching.extract(&stream, &flat, 0.5)?.counts.faces, 0);
    }
    let mut counts = DeviceBuffer::<Counts>::zeroed(&stream, 2)?;
    lab.refused(
        marching.count(&stream, &field, 0.5, &mut counts),
        "counts have 2 elements, not 1",
    )?;
    lab.refused(
        marching.count(&stream, &field, 0.5, counts.slice_mut(..0)?),
        "counts have 0 elements, not 1",
    )?;
    Ok(())
}

/// Extracts a surface into room for fewer vertices and faces than there are, with other values behind it.
///
/// - row: launching foreign code is unsafe
/// - targets: `MarchingCubes::extract_into`, `Output::new`, `Output::normals`, `Mesh::build`
fn surfaces_without_room(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let marching = MarchingCubes::new(&geometry);
    let ball = |i: usize| {
        let [x, y, z] = [i / 100, i / 10 % 10, i % 10].map(|x| x as f32 - 4.4);
        x * x + y * y + z * z - 9.0
    };
    let host: Vec<f32> = (0..1000).map(ball).collect();
    let values = DeviceBuffer::from_slice(&stream, &host)?;
    let field = DenseField::new(&values, [10; 3], Map::default())?;
    let whole = marching.extract(&stream, &field, 0.0)?;
    let (vertices, faces) = (whole.vertices.to_vec(&stream)?, whole.faces.to_vec(&stream)?);
    let (nv, nf) = (vertices.len(), faces.len());
    for (room, face_room) in
        [(0, 0), (1, nf), (nv, 1), (nv - 1, nf - 1), (nv, nf), (nv + 5, nf + 5)]
    {
        let mut out = DeviceBuffer::from_slice(&stream, &vec![[7.0f32; 3]; nv + 10])?;
        let mut normals = DeviceBuffer::from_slice(&stream, &vec![[7.0f32; 3]; nv + 10])?;
        let mut out_faces = DeviceBuffer::from_slice(&stream, &vec![[7u32; 3]; nf + 10])?;
        let mut counts = DeviceBuffer::<Counts>::zeroed(&stream, 1)?;
        let wrong =
            Output::new(out.slice_mut(..room)?, out_faces.slice_mut(..face_room)?, &mut counts)
                .normals(normals.slice_mut(..room + 1)?);
        lab.refused(marching.extract_into(&stream, &field, 0.0, wrong), "normals, and")?;
        let output =
            Output::new(out.slice_mut(..room)?, out_faces.slice_mut(..face_room)?, &mut counts)
                .normals(normals.slice_mut(..room)?);
        marching.extract_into(&stream, &field, 0.0, output)?;
        let counted = counts.to_vec(&stream)?[0];
        ensure_eq!((counted.vertices, counted.faces), (nv as u64, nf as u64));
        ensure_eq!(counted.is_complete(), room >= nv && face_room >= nf);
        let (seen, seen_faces) = (out.to_vec(&stream)?, out_faces.to_vec(&stream)?);
        let (least, least_faces) = (room.min(nv), face_room.min(nf));
        ensure_eq!(seen[..least], vertices[..least]);
        ensure!(seen[least..].iter().all(|vertex| *vertex == [7.0; 3]), "behind {room}");
        ensure_eq!(seen_faces[..least_faces], faces[..least_faces]);
        ensure!(seen_faces[least_faces..].iter().all(|face| *face == [7; 3]));
        ensure!(normals.to_vec(&stream)?[least..].iter().all(|normal| *normal == [7.0; 3]));
        // Faces may name vertices that had no room: a mesh of them skips those.
        let part = out.slice(..room)?;
        let options = MeshOptions::default();
        let mesh = Mesh::build(&stream, &geometry, part, out_faces.slice(..face_room)?, options);
        if room < nv && face_room >= nf - 1 {
            lab.refused(mesh, "but there are 1")?;
        }
        let options = MeshOptions::default().skip_validation();
        let mesh = Mesh::build(&stream, &geometry, part, out_faces.slice(..face_room)?, options)?;
        let at = DeviceBuffer::from_slice(&stream, &[[4.0f32; 3]])?;
        let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 1)?;
        mesh.closest_points(&stream, &PointQueries::at(&at), &mut closest)?;
        let face = closest.to_vec(&stream)?[0].face;
        ensure!(face == NO_FACE || (face as usize) < face_room, "{face}");
    }
    Ok(())
}

/// Tells lies about the neighbours, the origins and the strides of blocks.
///
/// - row: an index that a kernel reads from memory
/// - targets: `BlockField::new`, `MarchingCubes::extract`, `MarchingCubes::record_extract_into`, `Tape::backward_with`
fn blocks_that_lie(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let marching = MarchingCubes::new(&GeometryKernels::new(&lab.context()?));
    let host: Vec<f32> = (0..3 * 520).map(|i| if i % 5 < 2 { -1.0 } else { 1.0 }).collect();
    let values = DeviceBuffer::from_slice(&stream, &host)?;
    let map = Map::default();
    let origins = [[0, 0, 0], [i32::MAX; 3], [i32::MIN, 0, i32::MAX]];
    let origins = DeviceBuffer::from_slice(&stream, &origins)?;
    let mut lies = [[0u32; 27], [1; 27], [2; 27]];
    for (i, lie) in [3, u32::MAX, u32::MAX - 1, 1 << 31, 1 << 23, 0, 1, 2].iter().enumerate() {
        lies[i % 3][i * 3] = *lie;
        lies[i % 3][26 - i] = *lie;
    }
    let neighbors = DeviceBuffer::from_slice(&stream, &lies)?;
    let most = usize::MAX;
    for stride in [0usize, 511, 525, most, most / 2, 1 << 61] {
        lab.refused(
            BlockField::new(&values, stride, &origins, &neighbors, map),
            "1560 values for 3 blocks, each",
        )?;
    }
    lab.refused(
        BlockField::new(&values, 512, origins.slice(1..)?, &neighbors, map),
        "3 times neighbours for 2 blocks",
    )?;
    lab.refused(
        BlockField::new(values.slice(..1500)?, 512, &origins, &neighbors, map),
        "1500 values for 3 blocks, each 512 from the last",
    )?;
    let mut vertices = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 9000)?;
    let mut faces = DeviceBuffer::<[u32; 3]>::zeroed(&stream, 9000)?;
    let mut counts = DeviceBuffer::<Counts>::zeroed(&stream, 1)?;
    for stride in [512usize, 513, 520] {
        let field = BlockField::new(&values, stride, &origins, &neighbors, map)?;
        let surface = marching.extract(&stream, &field, 0.0)?;
        ensure!(surface.counts.faces > 0);
        ensure_eq!(surface.vertices.len() as u64, surface.counts.vertices);
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&values)?;
            let output = Output::new(&mut vertices, &mut faces, &mut counts);
            marching.record_extract_into(t, &field, 0.0, output)
        })?;
        let seed = DeviceBuffer::from_slice(&stream, &vec![[1.0f32; 3]; 9000])?;
        tape.backward_with(&stream, &Seeds::new().with(&vertices, &seed)?)?;
        ensure_eq!(tape.gradient(&values)?.to_vec(&stream)?.len(), host.len());
    }
    Ok(())
}

/// Reads the values of a field's blocks from volumes of other types, other nodes and another device.
///
/// - row: launching foreign code is unsafe
/// - targets: `VolumeField::build`, `VolumeField::update`, `VolumeField::as_blocks`, `VolumeField::values`
fn fields_of_other_volumes(lab: &Lab) -> TestResult {
    let refusal = "surfaces in a volume of int32";
    let (context, far) = (lab.context()?, lab.context_of(1)?);
    let (stream, strange) = (context.stream()?, far.stream()?);
    let geometry = GeometryKernels::new(&context);
    let marching = MarchingCubes::new(&geometry);
    let ball = |p: [i32; 3]| p.iter().map(|x| (x - 8) as f32 * (x - 8) as f32).sum::<f32>() - 30.0;
    let dense = DenseOptions::new(VolumeOptions::new(99.0f32));
    let volume = Volume::from_fn(&stream, &geometry, [17; 3], dense.clone(), ball)?;
    let mut field = VolumeField::build(&stream, &geometry, &volume)?;
    let before = marching.extract(&stream, &field, 0.0)?.counts;
    ensure!(before.faces > 100 && field.is_complete());
    // Other nodes: those that the field has no blocks for are not seen.
    let elsewhere = dense.clone().origin([1000, -3000, 500]);
    let elsewhere = Volume::from_fn(&stream, &geometry, [17; 3], elsewhere.clone(), ball)?;
    field.update(&stream, &elsewhere)?;
    ensure!(field.values().to_vec(&stream)?.iter().all(|value| *value == 99.0));
    ensure_eq!(marching.extract(&stream, &field.as_blocks(), 0.0)?.counts.faces, 0);
    let integers = DenseOptions::new(VolumeOptions::new(0i32));
    let integers = Volume::from_fn(&stream, &geometry, [8; 3], integers.clone(), |p| p[0])?;
    lab.refused(field.update(&stream, &integers), refusal)?;
    lab.refused(VolumeField::build(&stream, &geometry, &integers), refusal)?;
    let theirs = Volume::from_fn(&strange, &GeometryKernels::new(&far), [17; 3], dense, ball)?;
    lab.refused(
        field.update(&stream, &theirs),
        "the buffer belongs to another context than the stream it is used on",
    )?;
    lab.refused(
        field.update(&strange, &theirs),
        "kernel `isosurface_fill_blocks_f32` belongs to another context than the stream",
    )?;
    lab.refused(
        VolumeField::build(&stream, &geometry, &theirs),
        "the buffer belongs to another context than the stream it is used on",
    )?;
    lab.refused(
        marching.extract(&strange, &field, 0.0),
        "kernel `isosurface_signs_blocks` belongs to another context than the stream",
    )?;
    field.update(&stream, &volume)?;
    ensure_eq!(marching.extract(&stream, &field, 0.0)?.counts, before);
    Ok(())
}

/// Changes points, faces and answers of a mesh between recorded queries and the pass.
///
/// - row: a pass reads what was recorded
/// - targets: `Mesh::record_closest_points`, `Mesh::record_distances`, `Mesh::record_positions_at`, `Mesh::points_mut`,
///   `Mesh::faces_mut`, `Mesh::refit`, `Mesh::rebuild`, `Tape::backward_with`
fn meshes_changed_before_the_pass(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let cube = shapes::cube(2.0)?;
    let mut mesh = Mesh::upload(&stream, &geometry, &cube, MeshOptions::default())?;
    let host: Vec<[f32; 3]> = (0..6).map(|i| [i as f32 - 2.4, 0.3, 4.0]).collect();
    let mut at = DeviceBuffer::from_slice(&stream, &host)?;
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 6)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(mesh.points())?;
        t.watch(&at)?;
        mesh.record_closest_points(t, &PointQueries::at(&at), &mut closest)
    })?;
    let seed = closest.to_vec(&stream)?;
    let seed: Vec<_> = seed
        .iter()
        .map(|c| ClosestPoint {
            position: [1.0, 0.0, 0.0],
            distance_squared: 0.0,
            u: 0.0,
            v: 0.0,
            ..*c
        })
        .collect();
    let seed = DeviceBuffer::from_slice(&stream, &seed)?;
    tape.backward_with(&stream, &Seeds::new().with(&closest, &seed)?)?;
    ensure!(tape.gradient(&at)?.to_vec(&stream)?.iter().flatten().all(|g| g.is_finite()));
    let bad = vec![[u32::MAX, 1 << 31, 8]; 12];
    match lab.variant() {
        "points" | "refitted" | "rebuilt" => {
            let Some(mut points) = mesh.points_mut() else { return Err(Failure::new("no")) };
            points.fill(&stream, [f32::NAN; 3])?;
            match lab.variant() {
                "refitted" => mesh.refit(&stream)?,
                "rebuilt" => mesh.rebuild(&stream)?,
                _ => {}
            }
        }
        "faces" => {
            let Some(mut faces) = mesh.faces_mut() else { return Err(Failure::new("no")) };
            faces.upload(&stream, &bad)?;
        }
        "answers" => {
            let nowhere = ClosestPoint { face: NO_FACE - 7, ..seed.to_vec(&stream)?[0] };
            closest.upload(&stream, &[nowhere; 6])?;
        }
        _ => at.fill(&stream, [f32::NAN; 3])?,
    }
    lab.refused(tape.backward_with(&stream, &Seeds::new().with(&closest, &seed)?), "recorded")
}

/// Records evaluations at faces that are not there, and runs the pass.
///
/// - row: an index that a kernel reads from memory
/// - targets: `Mesh::record_positions_at`, `Mesh::record_normals_at`, `Mesh::record_attributes_at`,
///   `Mesh::record_distances`, `Tape::gradient`
fn passes_through_faces_that_are_not_there(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let cube = shapes::cube(2.0)?;
    let mut bad = cube.faces.clone();
    (bad[3], bad[4]) = ([8, 0, 1], [u32::MAX, 1 << 31, 2]);
    let points = DeviceBuffer::from_slice(&stream, &cube.points)?;
    let faces = DeviceBuffer::from_slice(&stream, &bad)?;
    let options = MeshOptions::default().skip_validation();
    let mesh = Mesh::build(&stream, &geometry, &points, &faces, options)?;
    let asked = [3, 4, 12, 1 << 31, NO_FACE - 1, NO_FACE];
    let asked: Vec<_> =
        asked.iter().map(|face| FacePoint { face: *face, u: 0.25, v: 0.25 }).collect();
    let asked = DeviceBuffer::from_slice(&stream, &asked)?;
    let attributes = DeviceBuffer::from_slice(&stream, &[[1.0f32; 2]; 8])?;
    let mut positions = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 6)?;
    let mut normals = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 6)?;
    let mut out = DeviceBuffer::<[f32; 2]>::zeroed(&stream, 6)?;
    let nowhere = DeviceBuffer::from_slice(&stream, &[[f32::NAN; 3], [1e30; 3]])?;
    let mut distances = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&points)?;
        t.watch(&attributes)?;
        t.watch(&nowhere)?;
        mesh.record_positions_at(t, &asked, &mut positions)?;
        mesh.record_normals_at(t, &asked, &mut normals)?;
        mesh.record_attributes_at(t, &asked, &attributes, &mut out)?;
        mesh.record_distances(t, &PointQueries::at(&nowhere), &mut distances)
    })?;
    ensure!(positions.to_vec(&stream)?.iter().flatten().all(|x| x.is_nan()));
    ensure!(out.to_vec(&stream)?.iter().flatten().all(|x| x.is_nan()));
    ensure_eq!(distances.to_vec(&stream)?, [f32::INFINITY; 2]);
    let vectors = DeviceBuffer::from_slice(&stream, &[[1.0f32; 3]; 6])?;
    let pairs = DeviceBuffer::from_slice(&stream, &[[1.0f32; 2]; 6])?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 2])?;
    let seeds = Seeds::new().with(&positions, &vectors)?.with(&normals, &vectors)?;
    let seeds = seeds.with(&out, &pairs)?.with(&distances, &ones)?;
    tape.backward_with(&stream, &seeds)?;
    ensure_eq!(tape.gradient(&points)?.to_vec(&stream)?, [[0.0; 3]; 8]);
    ensure_eq!(tape.gradient(&attributes)?.to_vec(&stream)?, [[0.0; 2]; 8]);
    ensure_eq!(tape.gradient(&nowhere)?.to_vec(&stream)?, [[0.0; 3]; 2]);
    Ok(())
}

attacks![
    "geometry",
    refused(fields_of_no_numbers),
    refused(surfaces_without_room),
    refused(blocks_that_lie),
    refused(fields_of_other_volumes).devices(2),
    refused(meshes_changed_before_the_pass)
        .variants(&["points", "refitted", "rebuilt", "faces", "answers", "queries"]),
    right(passes_through_faces_that_are_not_there),
];
