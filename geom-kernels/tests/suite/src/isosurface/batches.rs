//! Memory of the caller's, and what is refused.

use cuda_safe::DeviceBuffer;
use geom_kernels::isosurface::{Counts, DenseField, Map, Output};

use super::Fixture;
use super::inputs::{Values, broken, noise};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "isosurface",
        device(too_little_room_is_told),
        device(wrong_arguments_are_refused),
        device(runs_are_the_same),
    ]
}

const UNTOUCHED: f32 = 777.0;

/// Everything that was written.
#[derive(Debug, PartialEq)]
struct Written {
    vertices: Vec<[f32; 3]>,
    normals: Vec<[f32; 3]>,
    faces: Vec<[u32; 3]>,
    counts: Counts,
}

fn into(
    fixture: &Fixture,
    values: &Values,
    [vertex_room, face_room]: [usize; 2],
    with_normals: bool,
) -> Result<Written, Failure> {
    let stream = &fixture.stream;
    let there = DeviceBuffer::from_slice(stream, &values.data)?;
    let field = DenseField::new(&there, values.dims, Map::default())?;
    let blank = vec![[UNTOUCHED; 3]; vertex_room + 10];
    let mut vertices = DeviceBuffer::from_slice(stream, &blank)?;
    let mut normals = DeviceBuffer::from_slice(stream, &blank)?;
    let mut faces = DeviceBuffer::from_slice(stream, &vec![[77; 3]; face_room + 10])?;
    let garbage = Counts { vertices: 5, faces: 6, status: 7 };
    let mut counts = DeviceBuffer::from_slice(stream, &[garbage])?;
    let (some_vertices, some_faces) =
        (vertices.slice_mut(..vertex_room)?, faces.slice_mut(..face_room)?);
    let mut output = Output::new(some_vertices, some_faces, &mut counts);
    if with_normals {
        output = output.normals(normals.slice_mut(..vertex_room)?);
    }
    fixture.cubes.extract_into(stream, &field, 0.0, output)?;
    let counts = counts.to_vec(stream)?[0];
    let mut only = DeviceBuffer::from_slice(stream, &[garbage])?;
    fixture.cubes.count(stream, &field, 0.0, &mut only)?;
    let only = only.to_vec(stream)?[0];
    ensure_eq!((only.faces, only.vertices), (counts.faces, counts.vertices));
    ensure!(only.is_complete() && only.not_finite() == counts.not_finite());
    Ok(Written {
        vertices: vertices.to_vec(stream)?,
        normals: normals.to_vec(stream)?,
        faces: faces.to_vec(stream)?,
        counts,
    })
}

fn too_little_room_is_told(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(930);
    for values in [noise(&mut rng, [20, 13, 33]), broken(&mut rng, [5, 6, 70], 30)] {
        let all = fixture.extract(&values, Map::default(), 0.0)?;
        let (v, f) = (all.mesh.points.len(), all.mesh.faces.len());
        ensure!(v > 600 && f > 600, "{v}, {f}");
        let rooms = [
            [v, f],
            [v - 1, f],
            [v, f - 1],
            [v + 3, f + 3],
            [0, 0],
            [0, f],
            [v, 0],
            [v / 2, f / 3],
            [1, 1],
        ];
        for (i, [vertex_room, face_room]) in rooms.into_iter().enumerate() {
            let with_normals = i % 2 == 0;
            let written = into(&fixture, &values, [vertex_room, face_room], with_normals)?;
            let counts = written.counts;
            ensure_eq!((counts.vertices as usize, counts.faces as usize), (v, f));
            let mut status = all.counts.status;
            if vertex_room < v {
                status |= Counts::VERTICES_LEFT_OUT;
            }
            if face_room < f {
                status |= Counts::FACES_LEFT_OUT;
            }
            ensure_eq!(counts.status, status);
            ensure_eq!(counts.is_complete(), vertex_room >= v && face_room >= f);
            let (n, m) = (vertex_room.min(v), face_room.min(f));
            ensure_eq!(written.vertices[..n], all.mesh.points[..n]);
            ensure_eq!(written.faces[..m], all.mesh.faces[..m]);
            let normals = if with_normals { n } else { 0 };
            ensure_eq!(written.normals[..normals], all.normals[..normals]);
            // Nothing beyond.
            ensure!(written.vertices[n..].iter().all(|p| *p == [UNTOUCHED; 3]));
            ensure!(written.normals[normals..].iter().all(|p| *p == [UNTOUCHED; 3]));
            ensure!(written.faces[m..].iter().all(|face| *face == [77; 3]));
        }
    }
    // No cells.
    let written = into(&fixture, &noise(&mut rng, [9, 1, 9]), [4, 4], true)?;
    ensure_eq!(written.counts, Counts::default());
    ensure!(written.faces.iter().all(|face| *face == [77; 3]));
    Ok(())
}

fn wrong_arguments_are_refused(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, map) = (&fixture.stream, Map::default());
    let values = DeviceBuffer::<f32>::zeroed(stream, 24)?;
    let field = DenseField::new(&values, [2, 3, 4], map)?;
    for dims in [[2, 3, 5], [0, 3, 4], [usize::MAX, usize::MAX, 24], [1 << 40, 1 << 40, 1 << 40]] {
        let Err(error) = DenseField::new(&values, dims, map) else {
            return Err(Failure::new(format!("{dims:?} are not 24")));
        };
        ensure!(error.to_string().contains("24 values in a field of"), "{error}");
    }
    for iso in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        ensure_refused(fixture.cubes.extract(stream, &field, iso))?;
    }
    let mut vertices = DeviceBuffer::<[f32; 3]>::zeroed(stream, 8)?;
    let mut normals = DeviceBuffer::<[f32; 3]>::zeroed(stream, 7)?;
    let mut faces = DeviceBuffer::<[u32; 3]>::zeroed(stream, 8)?;
    let mut counts = DeviceBuffer::<Counts>::zeroed(stream, 1)?;
    let output = Output::new(&mut vertices, &mut faces, &mut counts).normals(&mut normals);
    let Err(error) = fixture.cubes.extract_into(stream, &field, 0.0, output) else {
        return Err(Failure::new("7 normals for 8 vertices"));
    };
    ensure!(error.to_string().contains("room for 7 normals, and 8 vertices"), "{error}");
    for n in [0, 2] {
        let mut counts = DeviceBuffer::<Counts>::zeroed(stream, n)?;
        ensure_refused(fixture.cubes.count(stream, &field, 0.0, &mut counts))?;
        let output = Output::new(&mut vertices, &mut faces, &mut counts);
        ensure_refused(fixture.cubes.extract_into(stream, &field, 0.0, output))?;
    }
    Ok(())
}

fn runs_are_the_same(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let values = noise(&mut device.rng(931), [30, 20, 40]);
    let first = into(&fixture, &values, [40_000, 90_000], true)?;
    ensure!(first.counts.faces > 10_000 && first.counts.is_complete());
    for _ in 0..3 {
        ensure!(into(&fixture, &values, [40_000, 90_000], true)? == first);
    }
    Ok(())
}
