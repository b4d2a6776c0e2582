//! Meshes that change: before the question, behind it, and in graphs.

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{Mesh, PointQueries, Sign, TriangleMesh, shapes};
use tape::{Seeds, Tape};

use super::mesh_points::{soup, upload};
use super::user::{User, threads};
use super::{near, points, refused, slopes, wide};
use geom_oracle::plain::{closest, point};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::mesh",
        device(vertices_changed_behind_the_tape),
        device(vertices_that_a_launch_has_moved),
        device(in_graphs),
        fault(refitted_in_graphs),
        device(moved_in_graphs),
        device(without_faces),
    ]
}

fn vertices_changed_behind_the_tape(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1410));
    let mut mesh = upload(device, &stream, &shapes::icosphere(1, 1.0)?)?;
    let n = 40;
    let queries = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 2.0))?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let seeds = Seeds::new().with(&out, &ones)?;
    let record = |mesh: &Mesh<'_>, out: &mut DeviceBuffer<f32>| {
        Tape::record(&stream, |t| {
            t.watch(&queries)?;
            mesh.record_signed_distances(t, &PointQueries::at(&queries), Sign::Normal, out)
        })
    };
    // The hierarchy may change, and comes to the same.
    let mut tape = record(&mesh, &mut out)?;
    tape.backward_with(&stream, &seeds)?;
    let before = tape.gradient(&queries)?.to_vec(&stream)?;
    mesh.refit(&stream)?;
    tape.backward_with(&stream, &seeds)?;
    let wanted: Vec<Option<f64>> = wide(&before).into_iter().map(Some).collect();
    near(tape.gradient(&queries)?.to_vec(&stream)?.as_flattened(), &wanted)?;
    // The vertices may not.
    let moved = vec![[0.5f32; 3]; mesh.points().len()];
    let missing = || Failure::new("the mesh does not own its points");
    mesh.points_mut().ok_or_else(missing)?.upload(&stream, &moved)?;
    refused(tape.backward_with(&stream, &seeds), "`mesh signed distances`) was overwritten")?;
    // Nor may they be others than those that the hierarchy is of.
    refused(record(&mesh, &mut out).map(|_| ()), "changed since it was built")?;
    mesh.refit(&stream)?;
    let mut tape = record(&mesh, &mut out)?;
    tape.backward_with(&stream, &seeds)?;
    // Distances are looked at; what is not the tape's to keep is missed.
    out.fill(&stream, 0.0)?;
    refused(
        tape.backward_with(&stream, &seeds),
        "was written since by something that is not recorded",
    )
}

/// Twice: vertices are moved by a recorded launch, the hierarchy is refitted, points are asked. The gradient
/// comes through both, though the second launch overwrites the vertices of the first.
fn vertices_that_a_launch_has_moved(device: &TestDevice) -> TestResult {
    let (stream, mut rng, user) = (device.stream()?, device.rng(1411), User::new(device)?);
    let soup = soup(&mut rng, 12);
    let mut mesh = upload(device, &stream, &soup)?;
    let rest = DeviceBuffer::from_slice(&stream, &soup.points)?;
    let (vertices, n) = (soup.points.len(), 50);
    let host = points(&mut rng, n, 2.0);
    let queries = DeviceBuffer::from_slice(&stream, &host)?;
    let rows: Vec<f32> =
        (0..24).map(|i| if i % 12 % 5 == 0 { 1.1 } else { 0.3 * rng.float() }).collect();
    let maps = DeviceBuffer::from_slice(&stream, &rows)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 2 * n)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&maps)?;
        t.watch(&rest)?;
        t.fill(&mut loss, 0.0)?;
        for step in 0..2 {
            let map = maps.slice(12 * step..12 * (step + 1))?;
            if let Some(moved) = mesh.points_mut() {
                t.launch(&user.transform, threads(vertices), (map, &rest, moved, vertices as u32))?;
            }
            mesh.refit(t.stream())?;
            let distances = out.slice_mut(n * step..n * (step + 1))?;
            mesh.record_distances(t, &PointQueries::at(&queries), distances)?;
        }
        t.launch(&user.add_squares, threads(2 * n), (&out, &mut loss, 2 * n as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let value = |rows: &[f64], rest: &[f64]| {
        let mut sum = 0.0;
        for rows in rows.chunks(12) {
            let row = |i: usize, r: usize| {
                (0..3).map(|k| rows[4 * r + k] * rest[3 * i + k]).sum::<f64>() + rows[4 * r + 3]
            };
            let moved: Vec<f64> = (0..vertices)
                .flat_map(|i| (0..3).map(move |r| (i, r)))
                .map(|(i, r)| row(i, r))
                .collect();
            let at = wide(&host);
            let one = |i| closest(&moved, &soup.faces, point(&at, i)).distance.powi(2);
            sum += (0..n).map(one).sum::<f64>();
        }
        sum
    };
    let rows: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
    let at_rest = wide(&soup.points);
    near(&tape.gradient(&maps)?.to_vec(&stream)?, &slopes(&rows, |rows| value(rows, &at_rest)))?;
    let by_rest = tape.gradient(&rest)?.to_vec(&stream)?;
    near(by_rest.as_flattened(), &slopes(&at_rest, |rest| value(&rows, rest)))
}

/// What a graph works on.
struct State {
    queries: DeviceBuffer<[f32; 3]>,
    distances: DeviceBuffer<f32>,
    loss: DeviceBuffer<f32>,
    mesh: Mesh<'static>,
    tape: Tape,
}

impl State {
    fn forward(&mut self, stream: &Stream, user: &User) -> cuda_safe::Result<()> {
        let Self { queries, distances, loss, mesh, tape } = self;
        let n = queries.len();
        tape.record_again(stream, |t| {
            t.watch(&*queries)?;
            t.fill(&mut *loss, 0.0)?;
            let at = PointQueries::at(&*queries);
            mesh.record_signed_distances(t, &at, Sign::Normal, &mut *distances)?;
            t.launch(&user.add_squares, threads(n), (&*distances, &mut *loss, n as u32))
        })
    }
}

/// Forward and backward in a graph each, launched again with other points.
fn in_graphs(device: &TestDevice) -> TestResult {
    let (stream, mut rng, user) = (device.stream()?, device.rng(1412), User::new(device)?);
    let sphere = shapes::icosphere(1, 1.0)?;
    let n = 45;
    let mut state = State {
        queries: DeviceBuffer::zeroed(&stream, n)?,
        distances: DeviceBuffer::zeroed(&stream, n)?,
        loss: DeviceBuffer::zeroed(&stream, 1)?,
        mesh: upload(device, &stream, &sphere)?,
        tape: Tape::new(&stream)?,
    };
    state.forward(&stream, &user)?;
    state.tape.backward(&stream, &state.loss)?;
    let mut forward = device.context().capture(Some(state), |stream, state| {
        state.as_mut().map_or(Ok(()), |state| state.forward(stream, &user))
    })?;
    let Some(state) = forward.state_mut().take() else { return Ok(()) };
    let mut backward = device
        .context()
        .capture(state, |stream, state| state.tape.backward(stream, &state.loss))?;
    let vertices = wide(&sphere.points);
    for _ in 0..3 {
        let host = points(&mut rng, n, 2.0);
        backward.state_mut().queries.upload(&stream, &host)?;
        forward.launch(&stream)?;
        backward.launch(&stream)?;
        let state = backward.state();
        let by = state.tape.gradient(&state.queries)?.to_vec(&stream)?;
        let wanted = slopes(&wide(&host), |x| {
            (0..n).map(|i| closest(&vertices, &sphere.faces, point(x, i)).distance.powi(2)).sum()
        });
        near(by.as_flattened(), &wanted)?;
    }
    Ok(())
}

/// A mesh's answer of a distance from (5, 0, 0), or that it is refused.
fn is_current(stream: &Stream, mesh: &Mesh<'_>, wanted: Option<f32>) -> TestResult {
    let query = DeviceBuffer::from_slice(stream, &[[5.0f32, 0.0, 0.0]])?;
    let mut out = DeviceBuffer::<f32>::zeroed(stream, 1)?;
    let done = Tape::record(stream, |t| {
        t.watch(&query)?;
        mesh.record_distances(t, &PointQueries::at(&query), &mut out)
    });
    let Some(wanted) = wanted else {
        return refused(done.map(|_| ()), "changed since it was built");
    };
    done?;
    let got = out.to_vec(stream)?;
    ensure!((got[0] - wanted).abs() < 1e-6, "{got:?}, not {wanted}");
    Ok(())
}

/// A cube of sides 2, times `size`, so that its distance from (5, 0, 0) is 5 - `size`.
fn resize(stream: &Stream, mesh: &mut Mesh<'_>, size: f32) -> TestResult {
    let corners: Vec<[f32; 3]> = (0..8).map(|i| corner(i).map(|x| size * x)).collect();
    let missing = || Failure::new("the mesh does not own its points");
    Ok(mesh.points_mut().ok_or_else(missing)?.upload(stream, &corners)?)
}

fn corner(i: usize) -> [f32; 3] {
    [0, 1, 2].map(|k| if i >> k & 1 == 1 { 1.0 } else { -1.0 })
}

/// Two faces across x = 1, and what else there is of a cube's corners.
fn plate(device: &TestDevice, stream: &Stream) -> Result<Mesh<'static>, Failure> {
    let mut mesh = TriangleMesh::default();
    mesh.points.extend((0..8).map(corner));
    mesh.faces.extend([[1, 3, 7], [1, 7, 5]]);
    upload(device, stream, &mesh)
}

/// A graph refits. Points that change behind its launch are noticed, however often it was launched before.
fn refitted_in_graphs(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut mesh = plate(device, &stream)?;
    is_current(&stream, &mesh, Some(4.0))?;
    resize(&stream, &mut mesh, 2.0)?;
    is_current(&stream, &mesh, None)?;
    let mut graph = device.context().capture(mesh, |stream, mesh| mesh.refit(stream))?;
    // That it was recorded changes nothing yet.
    is_current(&stream, graph.state(), None)?;
    for (now, then) in [(2.0, 3.0), (3.0, 1.5), (1.5, 2.5)] {
        graph.launch(&stream)?;
        is_current(&stream, graph.state(), Some(5.0 - now))?;
        graph.launch(&stream)?;
        is_current(&stream, graph.state(), Some(5.0 - now))?;
        resize(&stream, graph.state_mut(), then)?;
        is_current(&stream, graph.state(), None)?;
    }
    // Without the graph.
    let mesh = graph.state_mut();
    mesh.rebuild(&stream)?;
    is_current(&stream, mesh, Some(2.5))?;
    resize(&stream, mesh, 1.0)?;
    is_current(&stream, mesh, None)?;
    mesh.refit(&stream)?;
    is_current(&stream, mesh, Some(4.0))?;
    graph.launch(&stream)?;
    is_current(&stream, graph.state(), Some(4.0))?;
    // Recorded twice, and never launched.
    resize(&stream, graph.state_mut(), 2.0)?;
    graph.recapture(|stream, mesh| mesh.refit(stream).and_then(|()| mesh.rebuild(stream)))?;
    is_current(&stream, graph.state(), None)?;
    graph.launch(&stream)?;
    is_current(&stream, graph.state(), Some(3.0))
}

/// A graph moves the points, and refits before it or behind it.
fn moved_in_graphs(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for refit_last in [true, false] {
        let mesh = plate(device, &stream)?;
        let large: Vec<[f32; 3]> = (0..8).map(|i| corner(i).map(|x| 2.0 * x)).collect();
        let large = DeviceBuffer::from_slice(&stream, &large)?;
        let mut graph = device.context().capture(mesh, |stream, mesh| {
            if !refit_last {
                mesh.refit(stream)?;
            }
            if let Some(mut points) = mesh.points_mut() {
                points.copy_from(stream, &large)?;
            }
            if refit_last {
                mesh.refit(stream)?;
            }
            Ok(())
        })?;
        for _ in 0..2 {
            graph.launch(&stream)?;
            is_current(&stream, graph.state(), refit_last.then_some(3.0))?;
        }
        graph.state_mut().refit(&stream)?;
        is_current(&stream, graph.state(), Some(3.0))?;
    }
    Ok(())
}

/// Nothing is written for a mesh without faces: its points are never too new.
fn without_faces(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut points = TriangleMesh::default();
    points.points.extend((0..8).map(corner));
    let mut mesh = upload(device, &stream, &points)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let query = DeviceBuffer::from_slice(&stream, &[[5.0f32, 0.0, 0.0]])?;
    for _ in 0..2 {
        Tape::record(&stream, |t| {
            t.watch(&query)?;
            mesh.record_distances(t, &PointQueries::at(&query), &mut out)
        })?;
        ensure_eq!(out.to_vec(&stream)?, [f32::INFINITY]);
        resize(&stream, &mut mesh, 2.0)?;
    }
    mesh.refit(&stream).map_err(Failure::from)
}
