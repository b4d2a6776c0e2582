//! Surfaces in graphs.

use cuda_safe::DeviceBuffer;
use geom_kernels::isosurface::{Counts, DenseField, Map, Output};

use super::Fixture;
use super::inputs::{noise, sphere};
use super::oracle::Oracle;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused};

pub(super) fn cases() -> Vec<Case> {
    cases!["isosurface", device(graphs_follow_the_field),]
}

/// All that a graph works on.
struct State {
    values: DeviceBuffer<f32>,
    vertices: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
    counts: DeviceBuffer<Counts>,
}

fn graphs_follow_the_field(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let (dims, map) = ([18, 17, 35], Map::scaled([0.5; 3], [1.0; 3])?);
    let room = [3000, 6000];
    let state = State {
        values: DeviceBuffer::zeroed(stream, dims.iter().product())?,
        vertices: DeviceBuffer::zeroed(stream, room[0])?,
        faces: DeviceBuffer::zeroed(stream, room[1])?,
        counts: DeviceBuffer::zeroed(stream, 1)?,
    };
    let mut graph = device.context().capture(state, |stream, state| {
        let field = DenseField::new(&state.values, dims, map)?;
        let output = Output::new(&mut state.vertices, &mut state.faces, &mut state.counts);
        fixture.cubes.extract_into(stream, &field, 0.0, output)
    })?;
    // Nothing has happened yet.
    ensure_eq!(graph.state().counts.to_vec(stream)?, [Counts::default()]);
    for radius in [3.0, 8.5, -1.0, 6.2] {
        let values = sphere(dims, [8.1, 8.4, 17.3], radius);
        graph.state_mut().values.upload(stream, &values.data)?;
        graph.launch(stream)?;
        graph.launch(stream)?;
        let wanted = Oracle::new(&values, 0.0).mesh(&map);
        let counts = graph.state().counts.to_vec(stream)?[0];
        ensure!(counts.is_complete() && !counts.not_finite());
        let (v, f) = (counts.vertices as usize, counts.faces as usize);
        ensure_eq!((v, f), (wanted.points.len(), wanted.faces.len()));
        ensure_eq!(f > 0, radius > 0.0);
        ensure_eq!(graph.state().vertices.slice(..v)?.to_vec(stream)?, wanted.points);
        ensure_eq!(graph.state().faces.slice(..f)?.to_vec(stream)?, wanted.faces);
    }
    // More than there is room for.
    let values = noise(&mut device.rng(940), dims);
    graph.state_mut().values.upload(stream, &values.data)?;
    graph.launch(stream)?;
    let wanted = Oracle::new(&values, 0.0).mesh(&map);
    let counts = graph.state().counts.to_vec(stream)?[0];
    ensure_eq!(counts.status, Counts::VERTICES_LEFT_OUT | Counts::FACES_LEFT_OUT);
    ensure_eq!(counts.faces, wanted.faces.len() as u64);
    ensure_eq!(graph.state().vertices.to_vec(stream)?, wanted.points[..room[0]]);
    ensure_eq!(graph.state().faces.to_vec(stream)?, wanted.faces[..room[1]]);

    // What waits can't be recorded.
    let refused = device.context().capture((), |stream, ()| {
        let field = DenseField::new(&graph.state().values, dims, map)?;
        fixture.cubes.extract(stream, &field, 0.0).map(drop)
    });
    ensure_refused(refused)?;
    Ok(())
}
