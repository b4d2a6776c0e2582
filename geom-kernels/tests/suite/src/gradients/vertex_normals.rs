//! The normals of a mesh's vertices.

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{Surface, Topology, TriangleMesh, shapes};
use tape::{Seeds, Tape};

use super::{near, points, slopes, wide};
use crate::Geometry;
use geom_oracle::linear::{add, cross, dot, length, normalize, scale, sub};
use geom_oracle::plain::point;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["gradients::vertex_normals", device(in_f64), device(in_graphs),]
}

/// The normals of vertices: unit sums of unit normals, times angles from their cosines.
fn normals_in_f64(vertices: &[f64], faces: &[[u32; 3]]) -> Vec<[f64; 3]> {
    let mut sums = vec![[0.0; 3]; vertices.len() / 3];
    for face in faces {
        for k in 0..3 {
            let [a, b, c] = [0, 1, 2].map(|i| point(vertices, face[(k + i) % 3] as usize));
            let (ab, ac) = (sub(b, a), sub(c, a));
            let angle = dot(&normalize(ab), &normalize(ac)).acos();
            let of = &mut sums[face[k] as usize];
            *of = add(*of, scale(normalize(cross(ab, ac)), angle));
        }
    }
    sums.into_iter().map(|sum| if length(&sum) > 0.0 { normalize(sum) } else { sum }).collect()
}

/// A bumpy sphere, a fan of 70 faces, whose middle a whole warp adds up, and a vertex without faces.
fn fans() -> Result<[TriangleMesh; 3], Failure> {
    let mut stone = shapes::icosphere(1, 1.0)?;
    stone.displace(&shapes::Noise::new(4), 0.2, 2.0)?;
    let mut fan = TriangleMesh::default();
    fan.points.push([0.0, 0.0, 0.4]);
    for i in 0..70 {
        let angle = i as f32 * std::f32::consts::TAU / 70.0;
        fan.points.push([angle.cos(), angle.sin(), 0.1 * (3.0 * angle).sin()]);
        fan.faces.push([0, 1 + i, 1 + (i + 1) % 70]);
    }
    let mut one = TriangleMesh::default();
    one.points.extend([[5.0, 5.0, 5.0], [0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.3, 0.8, 0.2]]);
    one.faces.push([1, 2, 3]);
    Ok([stone, fan, one])
}

fn in_f64(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1456));
    let topology = Topology::new(&device.geometry());
    for mesh in fans()? {
        let n = mesh.points.len();
        let vertices = DeviceBuffer::from_slice(&stream, &mesh.points)?;
        let faces = DeviceBuffer::from_slice(&stream, &mesh.faces)?;
        let surface = Surface::new(&vertices, &faces)?;
        let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        let mut plain = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        topology.vertex_normals(&stream, surface, plain.as_slice_mut())?;
        let weights = points(&mut rng, n, 1.0);
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        let at = wide(&mesh.points);
        let wanted = slopes(&at, |at| {
            let all = normals_in_f64(at, &mesh.faces);
            all.iter().zip(&weights).map(|(n, w)| dot(n, &w.map(f64::from))).sum()
        });
        for deterministic in [false, true] {
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(deterministic);
            tape.record_again(&stream, |t| {
                t.watch(&vertices)?;
                topology.record_vertex_normals(t, surface, &mut out)
            })?;
            ensure_eq!(out.to_vec(&stream)?, plain.to_vec(&stream)?);
            tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
            near(tape.gradient(&vertices)?.to_vec(&stream)?.as_flattened(), &wanted)?;
        }
    }
    Ok(())
}

/// What a graph works on.
struct State {
    vertices: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
    normals: DeviceBuffer<[f32; 3]>,
    topology: Topology,
    weights: DeviceBuffer<[f32; 3]>,
    tape: Tape,
}

impl State {
    fn forward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let Self { vertices, faces, normals, topology, tape, .. } = self;
        tape.record_again(stream, |t| {
            t.watch(&*vertices)?;
            topology.record_vertex_normals(t, Surface::new(&*vertices, &*faces)?, &mut *normals)
        })
    }

    fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let seeds = Seeds::new().with(&self.normals, &self.weights)?;
        self.tape.backward_with(stream, &seeds)
    }
}

/// Forward and backward in a graph each, launched again with other vertices: in one of them a face is not
/// finite, so that a vertex has none.
fn in_graphs(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1459));
    let [mesh, _, one] = fans()?;
    for mesh in [mesh, one] {
        let n = mesh.points.len();
        let weights = points(&mut rng, n, 1.0);
        let normals = DeviceBuffer::zeroed(&stream, n)?;
        let ones = DeviceBuffer::from_slice(&stream, &weights)?;
        let mut state = State {
            vertices: DeviceBuffer::from_slice(&stream, &mesh.points)?,
            faces: DeviceBuffer::from_slice(&stream, &mesh.faces)?,
            weights: ones,
            normals,
            topology: Topology::new(&device.geometry()),
            tape: Tape::new(&stream)?,
        };
        state.forward(&stream)?;
        state.backward(&stream)?;
        let mut forward = device.context().capture(Some(state), |stream, state| {
            state.as_mut().map_or(Ok(()), |state| state.forward(stream))
        })?;
        let Some(state) = forward.state_mut().take() else { return Ok(()) };
        let mut backward =
            device.context().capture(state, |stream, state| state.backward(stream))?;
        for round in 0..3 {
            let by = 0.05 * round as f32;
            let mut host = mesh.points.clone();
            for p in &mut host {
                *p = p.map(|x| x + by * rng.float());
            }
            let whole = n > 10 || round != 1;
            if !whole {
                host[2][0] = f32::INFINITY;
            }
            backward.state_mut().vertices.upload(&stream, &host)?;
            forward.launch(&stream)?;
            backward.launch(&stream)?;
            let state = backward.state();
            let by = state.tape.gradient(&state.vertices)?.to_vec(&stream)?;
            if !whole {
                ensure!(by.as_flattened().iter().all(|x| *x == 0.0), "{by:?}");
                continue;
            }
            let wanted = slopes(&wide(&host), |at| {
                let all = normals_in_f64(at, &mesh.faces);
                all.iter().zip(&weights).map(|(n, w)| dot(n, &w.map(f64::from))).sum()
            });
            near(by.as_flattened(), &wanted)?;
        }
    }
    Ok(())
}
