//! Vertices of surfaces, with respect to the fields that they are in.

use std::collections::HashMap;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::isosurface::{
    BlockField, Counts, DenseField, Map, MarchingCubes, Output, VolumeField,
};
use geom_kernels::mesh::{MeshOptions, PointQueries};
use geom_kernels::tape::DifferentiableValue;
use geom_kernels::volume::{DenseOptions, Volume, VolumeOptions};
use tape::{Differentiable, Seeds, Tape};

use super::user::{User, threads};
use super::{near, points, refused, slopes, within};
use crate::Geometry;
use geom_oracle::linear::dot;
use geom_oracle::plain::closest;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::isosurface",
        device(dense_fields),
        device(blocks),
        device(volumes),
        device(room_that_is_not_needed),
        device(fields_without_cells),
        device(distances_from_a_surface),
        device(deterministic_bits),
        device(what_is_refused),
        device(in_graphs),
    ]
}

const ISO: f32 = 0.05;

/// A map that is sheared, so that all rows matter.
const ROWS: [[f64; 4]; 3] =
    [[0.5, 0.125, -0.0625, 1.0], [-0.25, 0.75, 0.1, -3.5], [0.3, -0.2, 0.4, 0.25]];

/// Numbers that are far enough from the surface's value, on both sides.
fn values(rng: &mut Rng, n: usize) -> Vec<f32> {
    let far = |x: f32| if x < 0.0 { 0.8 * x - 0.2 } else { 0.8 * x + 0.3 };
    rng.floats(n).into_iter().map(far).collect()
}

/// A crossed edge: its lower end, and the axis that it is along.
type Edge = ([i32; 3], usize);

/// Where the vertex of an edge is.
fn vertex((at, axis): Edge, value: &impl Fn([i32; 3]) -> f64, rows: &[[f64; 4]; 3]) -> [f64; 3] {
    let mut to = at;
    to[axis] += 1;
    let (a, b) = (value(at), value(to));
    let mut p = [f64::from(at[0]), f64::from(at[1]), f64::from(at[2]), 1.0];
    p[axis] += (f64::from(ISO) - a) / (b - a);
    std::array::from_fn(|i| dot(&rows[i], &p))
}

/// The edge of each vertex, of those between voxels that `has`.
fn edges_of(
    found: &[[f32; 3]],
    voxels: &[[i32; 3]],
    has: impl Fn([i32; 3]) -> bool,
    value: impl Fn([i32; 3]) -> f64,
    rows: &[[f64; 4]; 3],
) -> Result<Vec<Edge>, Failure> {
    let inside = |p| value(p) < f64::from(ISO);
    let mut all = Vec::new();
    for at in voxels {
        for axis in 0..3 {
            let mut to = *at;
            to[axis] += 1;
            if has(to) && inside(*at) != inside(to) {
                let edge = (*at, axis);
                all.push((edge, vertex(edge, &value, rows)));
            }
        }
    }
    let off = |p: &[f64; 3], q: &[f32; 3]| {
        (0..3).fold(0.0f64, |most, i| most.max((p[i] - f64::from(q[i])).abs()))
    };
    let one = |q: &[f32; 3]| {
        let best = all.iter().min_by(|a, b| off(&a.1, q).total_cmp(&off(&b.1, q)));
        best.filter(|(_, p)| off(p, q) < 1e-5)
            .map(|(edge, _)| *edge)
            .ok_or_else(|| Failure::new(format!("a vertex at {q:?}, where no edge is crossed")))
    };
    ensure_eq!(found.len(), all.len());
    found.iter().map(one).collect()
}

/// The sum of w . vertex.
fn loss(
    edges: &[Edge],
    weights: &[[f32; 3]],
    rows: &[[f64; 4]; 3],
    value: impl Fn([i32; 3]) -> f64,
) -> f64 {
    let one = |(edge, w): (&Edge, &[f32; 3])| dot(&vertex(*edge, &value, rows), &w.map(f64::from));
    edges.iter().zip(weights).map(one).sum()
}

fn lattice(dims: [usize; 3]) -> Vec<[i32; 3]> {
    let [nx, ny, nz] = dims.map(|n| n as i32);
    (0..nx * ny * nz).map(|i| [i / (ny * nz), i / nz % ny, i % nz]).collect()
}

fn dense_fields(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1460));
    let marching = MarchingCubes::new(&device.geometry());
    for dims in [[2, 2, 2], [3, 2, 31], [2, 3, 33], [3, 4, 70], [6, 7, 8]] {
        let voxels = lattice(dims);
        let host = values(&mut rng, voxels.len());
        let at = |[x, y, z]: [i32; 3]| ((x * dims[1] as i32 + y) * dims[2] as i32 + z) as usize;
        let given = DeviceBuffer::from_slice(&stream, &host)?;
        let field = DenseField::new(&given, dims, Map::from_rows(ROWS)?)?;
        let plain = marching.extract(&stream, &field, ISO)?;
        let wide: Vec<f64> = host.iter().map(|x| f64::from(*x)).collect();
        let inside = |p: [i32; 3]| (0..3).all(|k| p[k] < dims[k] as i32);
        let found = plain.vertices.to_vec(&stream)?;
        let edges = edges_of(&found, &voxels, inside, |p| wide[at(p)], &ROWS)?;
        let n = found.len();
        let weights = points(&mut rng, n, 1.0);
        let wanted = slopes(&wide, |wide| loss(&edges, &weights, &ROWS, |p| wide[at(p)]));
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        for deterministic in [false, true] {
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(deterministic);
            let mut surface = None;
            tape.record_again(&stream, |t| {
                t.watch(&given)?;
                surface = Some(marching.record_extract(t, &field, ISO)?);
                Ok(())
            })?;
            let Some(surface) = surface else { return Err(Failure::new("no surface")) };
            ensure_eq!(surface.counts, plain.counts);
            ensure_eq!(surface.vertices.to_vec(&stream)?, found);
            ensure_eq!(surface.faces.to_vec(&stream)?, plain.faces.to_vec(&stream)?);
            tape.backward_with(&stream, &Seeds::new().with(&surface.vertices, &seeds)?)?;
            near(&tape.gradient(&given)?.to_vec(&stream)?, &wanted)?;
        }
    }
    Ok(())
}

/// Two blocks beside each other, and one alone.
fn blocks(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1461));
    let origins = [[0, 0, 0], [0, 0, 8], [40, -8, 16]];
    let stride = 520;
    let mut neighbors = [[u32::MAX; 27]; 3];
    (neighbors[0][14], neighbors[1][12]) = (1, 0);
    let host = values(&mut rng, 2 * stride + 512);
    let mut places = HashMap::new();
    for (b, origin) in origins.iter().enumerate() {
        for (i, [x, y, z]) in lattice([8; 3]).into_iter().enumerate() {
            places.insert([origin[0] + x, origin[1] + y, origin[2] + z], b * stride + i);
        }
    }
    let voxels: Vec<[i32; 3]> = places.keys().copied().collect();
    let given = DeviceBuffer::from_slice(&stream, &host)?;
    let map = Map::from_rows(ROWS)?;
    let (at, beside) = (
        DeviceBuffer::from_slice(&stream, &origins)?,
        DeviceBuffer::from_slice(&stream, &neighbors)?,
    );
    let field = BlockField::new(&given, stride, &at, &beside, map)?;
    let mut tape = Tape::new(&stream)?;
    let mut surface = None;
    tape.record_again(&stream, |t| {
        t.watch(&given)?;
        surface = Some(MarchingCubes::new(&device.geometry()).record_extract(t, &field, ISO)?);
        Ok(())
    })?;
    let Some(surface) = surface else { return Err(Failure::new("no surface")) };
    let wide: Vec<f64> = host.iter().map(|x| f64::from(*x)).collect();
    let value = |wide: &[f64], p: [i32; 3]| places.get(&p).map_or(0.0, |place| wide[*place]);
    let found = surface.vertices.to_vec(&stream)?;
    let has = |p| places.contains_key(&p);
    let edges = edges_of(&found, &voxels, has, |p| value(&wide, p), &ROWS)?;
    let weights = points(&mut rng, found.len(), 1.0);
    let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
    tape.backward_with(&stream, &Seeds::new().with(&surface.vertices, &seeds)?)?;
    let wanted = slopes(&wide, |wide| loss(&edges, &weights, &ROWS, |p| value(wide, p)));
    near(&tape.gradient(&given)?.to_vec(&stream)?, &wanted)
}

/// By the voxels of a volume, through the field that is made of it.
fn volume_of<V>(device: &TestDevice, number: fn(f32) -> V, back: fn(V) -> f64) -> TestResult
where
    V: DifferentiableValue<Number = V> + Differentiable<Gradient = V> + Send + Sync + PartialEq,
{
    const SIDE: i32 = 9;
    let (stream, mut rng) = (device.stream()?, device.rng(1462));
    let host = values(&mut rng, 9 * 9 * 9);
    let background = 0.7;
    let inside = |p: &[i32; 3]| p.iter().all(|x| (0..SIDE).contains(x));
    let place = |[x, y, z]: [i32; 3]| ((x * SIDE + y) * SIDE + z) as usize;
    let options = VolumeOptions::new(number(background)).map(Map::uniform(0.5, [1.0, -2.0, 0.0])?);
    let options = DenseOptions::new(options);
    let volume = {
        let host = host.clone();
        let of = move |p: [i32; 3]| number(host[place(p)]);
        Volume::from_fn(&stream, &device.geometry(), [SIDE as usize; 3], options.clone(), of)?
    };
    let mut field = VolumeField::build(&stream, &device.geometry(), &volume)?;
    let rows = field.map().rows();
    let marching = MarchingCubes::new(&device.geometry());
    let mut surface = None;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(volume.variables::<V>()?)?;
        field.record_update(t, &volume)?;
        surface = Some(marching.record_extract(t, &field, ISO)?);
        Ok(())
    })?;
    let Some(surface) = surface else { return Err(Failure::new("no surface")) };
    let around: Vec<[i32; 3]> = lattice([18; 3]).into_iter().map(|p| p.map(|x| x - 4)).collect();
    let wide: Vec<f64> = host.iter().map(|x| f64::from(*x)).collect();
    let value = |wide: &[f64], p: [i32; 3]| {
        if inside(&p) { wide[place(p)] } else { f64::from(background) }
    };
    let found = surface.vertices.to_vec(&stream)?;
    let edges = edges_of(&found, &around, |_| true, |p| value(&wide, p), &rows)?;
    let weights = points(&mut rng, found.len(), 1.0);
    let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
    tape.backward_with(&stream, &Seeds::new().with(&surface.vertices, &seeds)?)?;
    let voxels = lattice([SIDE as usize; 3]);
    let asked = DeviceBuffer::from_slice(&stream, &voxels)?;
    let mut by = DeviceBuffer::<V>::zeroed(&stream, voxels.len())?;
    let gradient = tape.gradient(volume.variables::<V>()?)?;
    volume.gradients_of_voxels::<V>(&stream, gradient, &asked, &mut by)?;
    let wanted = slopes(&wide, |wide| loss(&edges, &weights, &rows, |p| value(wide, p)));
    let got: Vec<f64> = by.to_vec(&stream)?.into_iter().map(back).collect();
    within(super::OF_F32, &got, &wanted)?;
    // The field's numbers are others now.
    field.update(&stream, &volume)?;
    let again = tape.backward_with(&stream, &Seeds::new().with(&surface.vertices, &seeds)?);
    refused(again, "`marching cubes`) was overwritten")
}

fn volumes(device: &TestDevice) -> TestResult {
    volume_of::<f32>(device, |x| x, f64::from)?;
    volume_of::<f64>(device, f64::from, |x| x)
}

/// What vertices had no need for keeps its gradient; vertices that had no room have none.
fn room_that_is_not_needed(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1463));
    let marching = MarchingCubes::new(&device.geometry());
    let dims = [4, 5, 40];
    let host = values(&mut rng, dims.iter().product());
    let given = DeviceBuffer::from_slice(&stream, &host)?;
    let field = DenseField::new(&given, dims, Map::default())?;
    let plain = marching.extract(&stream, &field, ISO)?;
    let found = plain.vertices.to_vec(&stream)?;
    let wide: Vec<f64> = host.iter().map(|x| f64::from(*x)).collect();
    let at = |[x, y, z]: [i32; 3]| ((x * 5 + y) * 40 + z) as usize;
    let inside = |p: [i32; 3]| (0..3).all(|k| p[k] < dims[k] as i32);
    let rows = Map::default().rows();
    let edges = edges_of(&found, &lattice(dims), inside, |p| wide[at(p)], &rows)?;
    for room in [found.len() + 50, found.len(), found.len() / 2, 1] {
        let weights = points(&mut rng, room, 1.0);
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        let before = DeviceBuffer::<[f32; 3]>::zeroed(&stream, room)?;
        let mut vertices = DeviceBuffer::<[f32; 3]>::zeroed(&stream, room)?;
        let mut faces = DeviceBuffer::<[u32; 3]>::zeroed(&stream, 10)?;
        let mut counts = DeviceBuffer::<Counts>::zeroed(&stream, 1)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&given)?;
            t.watch(&before)?;
            t.copy(&before, &mut vertices)?;
            let output = Output::new(&mut vertices, &mut faces, &mut counts);
            marching.record_extract_into(t, &field, ISO, output)
        })?;
        // The adjoint does not look at these.
        faces.fill(&stream, [0; 3])?;
        counts.upload(&stream, &[Counts::default()])?;
        tape.backward_with(&stream, &Seeds::new().with(&vertices, &seeds)?)?;
        let kept = room.min(found.len());
        ensure_eq!(vertices.to_vec(&stream)?[..kept], found[..kept]);
        let wanted =
            slopes(&wide, |wide| loss(&edges[..kept], &weights[..kept], &rows, |p| wide[at(p)]));
        near(&tape.gradient(&given)?.to_vec(&stream)?, &wanted)?;
        let by_before = tape.gradient(&before)?.to_vec(&stream)?;
        ensure!(by_before[..kept].iter().all(|g| *g == [0.0; 3]));
        ensure_eq!(by_before[kept..], weights[kept..]);
    }
    Ok(())
}

/// A field of one plane, and one that is above the value everywhere.
fn fields_without_cells(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let marching = MarchingCubes::new(&device.geometry());
    for (dims, value) in [([1, 4, 4], -1.0f32), ([4, 4, 4], 1.0), ([0, 4, 4], 0.0)] {
        let n = dims.iter().product::<usize>();
        let given = DeviceBuffer::from_slice(&stream, &vec![value; n])?;
        let field = DenseField::new(&given, dims, Map::default())?;
        let mut vertices = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 3)?;
        let mut faces = DeviceBuffer::<[u32; 3]>::zeroed(&stream, 3)?;
        let mut counts = DeviceBuffer::<Counts>::zeroed(&stream, 1)?;
        let ones = DeviceBuffer::from_slice(&stream, &[[1.0f32; 3]; 3])?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&given)?;
            let output = Output::new(&mut vertices, &mut faces, &mut counts);
            marching.record_extract_into(t, &field, ISO, output)
        })?;
        let done = tape.backward_with(&stream, &Seeds::new().with(&vertices, &ones)?);
        if n == 0 {
            continue;
        }
        done?;
        ensure_eq!(tape.gradient(&given)?.to_vec(&stream)?, vec![0.0; n]);
    }
    Ok(())
}

/// loss = sum of the squared distances of points from the surface in a field: through the vertices of a mesh that
/// is made of it, as a fit does.
fn distances_from_a_surface(device: &TestDevice) -> TestResult {
    let (stream, mut rng, user) = (device.stream()?, device.rng(1464), User::new(device)?);
    let dims = [5, 5, 5];
    let map = Map::scaled([0.5; 3], [-1.0; 3])?;
    let host: Vec<f32> = lattice(dims)
        .into_iter()
        .map(|p| {
            let p = p.map(|x| f64::from(x) * 0.5 - 1.0);
            (dot(&p, &p).sqrt() - 0.65) as f32 + 0.05 * rng.float()
        })
        .collect();
    let given = DeviceBuffer::from_slice(&stream, &host)?;
    let field = DenseField::new(&given, dims, map)?;
    let n = 60;
    let asked = points(&mut rng, n, 1.2);
    let queries = DeviceBuffer::from_slice(&stream, &asked)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut sum = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut faces = Vec::new();
    let mut vertices = Vec::new();
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&given)?;
        t.fill(&mut sum, 0.0)?;
        let surface = MarchingCubes::new(&device.geometry()).record_extract(t, &field, ISO)?;
        faces = surface.faces.to_vec(t.stream())?;
        vertices = surface.vertices.to_vec(t.stream())?;
        let mesh = surface.into_mesh(t.stream(), &device.geometry(), MeshOptions::default())?;
        mesh.record_distances(t, &PointQueries::at(&queries), &mut out)?;
        t.launch(&user.add_squares, threads(n), (&out, &mut sum, n as u32))
    })?;
    tape.backward(&stream, &sum)?;
    let at = |[x, y, z]: [i32; 3]| ((x * 5 + y) * 5 + z) as usize;
    let inside = |p: [i32; 3]| (0..3).all(|k| p[k] < 5);
    let wide: Vec<f64> = host.iter().map(|x| f64::from(*x)).collect();
    let rows = map.rows();
    let edges = edges_of(&vertices, &lattice(dims), inside, |p| wide[at(p)], &rows)?;
    let wanted = slopes(&wide, |wide| {
        let vertices: Vec<f64> =
            edges.iter().flat_map(|edge| vertex(*edge, &|p| wide[at(p)], &rows)).collect();
        asked.iter().map(|q| closest(&vertices, &faces, q.map(f64::from)).distance.powi(2)).sum()
    });
    near(&tape.gradient(&given)?.to_vec(&stream)?, &wanted)
}

fn deterministic_bits(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1465));
    let marching = MarchingCubes::new(&device.geometry());
    let dims = [9, 9, 64];
    let given = DeviceBuffer::from_slice(&stream, &values(&mut rng, dims.iter().product()))?;
    let field = DenseField::new(&given, dims, Map::from_rows(ROWS)?)?;
    let n = marching.extract(&stream, &field, ISO)?.vertices.len();
    let seeds = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 1.0))?;
    let mut all = Vec::new();
    for deterministic in [true, true, false] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        let mut surface = None;
        tape.record_again(&stream, |t| {
            t.watch(&given)?;
            surface = Some(marching.record_extract(t, &field, ISO)?);
            Ok(())
        })?;
        let Some(surface) = surface else { return Err(Failure::new("no surface")) };
        tape.backward_with(&stream, &Seeds::new().with(&surface.vertices, &seeds)?)?;
        all.push(tape.gradient(&given)?.to_vec(&stream)?);
    }
    let bits = |of: &[f32]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    ensure!(bits(&all[0]) == bits(&all[1]), "other bits");
    ensure!(all[0].iter().any(|x| *x != 0.0));
    let wanted: Vec<Option<f64>> = all[0].iter().map(|x| Some(f64::from(*x))).collect();
    near(&all[2], &wanted)
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let marching = MarchingCubes::new(&device.geometry());
    let mut given =
        DeviceBuffer::from_slice(&stream, &[-1.0f32, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])?;
    let mut vertices = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 3)?;
    let mut normals = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 3)?;
    let mut faces = DeviceBuffer::<[u32; 3]>::zeroed(&stream, 3)?;
    let mut counts = DeviceBuffer::<Counts>::zeroed(&stream, 1)?;
    let field = DenseField::new(&given, [2; 3], Map::default())?;
    let with_normals = Tape::record(&stream, |t| {
        let output = Output::new(&mut vertices, &mut faces, &mut counts).normals(&mut normals);
        marching.record_extract_into(t, &field, ISO, output)
    });
    refused(with_normals.map(|_| ()), "normals of marching cubes have no gradient")?;
    let infinite = Tape::record(&stream, |t| {
        let output = Output::new(&mut vertices, &mut faces, &mut counts);
        marching.record_extract_into(t, &field, f32::INFINITY, output)
    });
    refused(infinite.map(|_| ()), "a surface where a field is inf")?;
    let seeds = DeviceBuffer::from_slice(&stream, &[[1.0f32; 3]; 3])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&given)?;
        let output = Output::new(&mut vertices, &mut faces, &mut counts);
        marching.record_extract_into(t, &field, ISO, output)
    })?;
    let seeds = Seeds::new().with(&vertices, &seeds)?;
    tape.backward_with(&stream, &seeds)?;
    given.fill(&stream, 1.0)?;
    refused(tape.backward_with(&stream, &seeds), "`marching cubes`) was overwritten")
}

/// What a graph works on.
struct State {
    map: Map,
    given: DeviceBuffer<f32>,
    vertices: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
    counts: DeviceBuffer<Counts>,
    marching: MarchingCubes,
    weights: DeviceBuffer<[f32; 3]>,
    tape: Tape,
}

const GRAPH_DIMS: [usize; 3] = [4, 5, 33];

impl State {
    fn forward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let Self { map, given, vertices, faces, counts, marching, tape, .. } = self;
        let field = DenseField::new(&*given, GRAPH_DIMS, *map)?;
        tape.record_again(stream, |t| {
            t.watch(&*given)?;
            let output = Output::new(&mut *vertices, &mut *faces, &mut *counts);
            marching.record_extract_into(t, &field, ISO, output)
        })
    }

    fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let seeds = Seeds::new().with(&self.vertices, &self.weights)?;
        self.tape.backward_with(stream, &seeds)
    }
}

/// Other fields, so other numbers of vertices.
fn in_graphs(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1466));
    let (count, room) = (GRAPH_DIMS.iter().product::<usize>(), 2000);
    let weights = points(&mut rng, room, 1.0);
    let vertices = DeviceBuffer::zeroed(&stream, room)?;
    let ones = DeviceBuffer::from_slice(&stream, &weights)?;
    let mut state = State {
        map: Map::from_rows(ROWS)?,
        given: DeviceBuffer::from_slice(&stream, &values(&mut rng, count))?,
        weights: ones,
        vertices,
        faces: DeviceBuffer::zeroed(&stream, room)?,
        counts: DeviceBuffer::zeroed(&stream, 1)?,
        marching: MarchingCubes::new(&device.geometry()),
        tape: Tape::new(&stream)?,
    };
    state.forward(&stream)?;
    state.backward(&stream)?;
    let mut forward = device.context().capture(Some(state), |stream, state| {
        state.as_mut().map_or(Ok(()), |state| state.forward(stream))
    })?;
    let Some(state) = forward.state_mut().take() else { return Ok(()) };
    let mut backward = device.context().capture(state, |stream, state| state.backward(stream))?;
    let at = |[x, y, z]: [i32; 3]| ((x * 5 + y) * 33 + z) as usize;
    let inside = |p: [i32; 3]| (0..3).all(|k| p[k] < GRAPH_DIMS[k] as i32);
    for _ in 0..3 {
        let host = values(&mut rng, count);
        backward.state_mut().given.upload(&stream, &host)?;
        forward.launch(&stream)?;
        backward.launch(&stream)?;
        let state = backward.state();
        let n = state.counts.to_vec(&stream)?[0].vertices as usize;
        let found = state.vertices.to_vec(&stream)?;
        let wide: Vec<f64> = host.iter().map(|x| f64::from(*x)).collect();
        let edges = edges_of(&found[..n], &lattice(GRAPH_DIMS), inside, |p| wide[at(p)], &ROWS)?;
        let by = state.tape.gradient(&state.given)?.to_vec(&stream)?;
        near(&by, &slopes(&wide, |wide| loss(&edges, &weights, &ROWS, |p| wide[at(p)])))?;
    }
    Ok(())
}
