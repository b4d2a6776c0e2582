//! The subgradients that the documentation of `geom_kernels::tape` promises: ties, faces without area, distance 0.
//! Those of norms: `norms.rs`; of faces that there are not, and of normals: `mesh_evaluate.rs`.

use bytemuck::Zeroable;
use cuda_safe::DeviceBuffer;
use geom_kernels::isosurface::{DenseField, Map, MarchingCubes};
use geom_kernels::mesh::{
    ClosestPoint, FacePoint, Mesh, MeshOptions, PointQueries, Ray, RayHit, Sign, Surface, Topology,
    TriangleMesh, shapes,
};
use geom_kernels::volume::{DenseOptions, Interpolation, Samples, Volume, VolumeOptions};
use tape::{Seeds, Tape};

use super::mesh_points::upload;
use super::{OF_F32, near, slopes, wide, within};
use crate::Geometry;
use geom_oracle::linear::{cross, dot, length, scale, sub};
use geom_oracle::plain::point;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::ties",
        device(distance_zero),
        device(faces_that_are_as_near),
        device(faces_without_area),
        device(rays_through_an_edge),
        device(normals_that_cancel),
        device(samples_between_cells),
        device(surfaces_through_lattice_points),
    ]
}

/// Points inside a face, on an edge and at a vertex of a cube: queries are exactly there.
fn distance_zero(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let cube = shapes::cube(1.0)?;
    let mesh = upload(device, &stream, &cube)?;
    let top = cube.points.iter().fold(0.0f32, |most, p| most.max(p[2]));
    let host = [[0.25 * top, 0.125 * top, top], [-0.25 * top, -0.5 * top, top]];
    let queries = DeviceBuffer::from_slice(&stream, &host)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 2])?;
    let mut out = DeviceBuffer::from_slice(&stream, &[7.0f32; 2])?;
    for signed in [false, true] {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&queries)?;
            t.watch(mesh.points())?;
            let at = PointQueries::at(&queries);
            match signed {
                true => mesh.record_signed_distances(t, &at, Sign::Normal, &mut out),
                false => mesh.record_distances(t, &at, &mut out),
            }
        })?;
        ensure_eq!(out.to_vec(&stream)?, [0.0; 2]);
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let by = tape.gradient(&queries)?.to_vec(&stream)?;
        let wanted = if signed { [0.0, 0.0, 1.0] } else { [0.0; 3] };
        ensure_eq!(by, [wanted; 2]);
        let by = tape.gradient(mesh.points())?.to_vec(&stream)?;
        let sum: f32 = by.iter().map(|g| g[2]).sum();
        ensure!((sum + 2.0 * wanted[2]).abs() < 1e-6, "{by:?}");
    }
    // Its square is smooth.
    let mut found = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 2)?;
    let seed = ClosestPoint { distance_squared: 1.0, ..ClosestPoint::zeroed() };
    let seeds = DeviceBuffer::from_slice(&stream, &[seed; 2])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&queries)?;
        mesh.record_closest_points(t, &PointQueries::at(&queries), &mut found)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&found, &seeds)?)?;
    ensure_eq!(tape.gradient(&queries)?.to_vec(&stream)?, [[0.0; 3]; 2]);
    Ok(())
}

/// From the middle of a cube, and from a plane of symmetry: the gradient is that of the answer.
fn faces_that_are_as_near(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mesh = upload(device, &stream, &shapes::cube(1.0)?)?;
    let host = [[0.0f32, 0.0, 0.0], [0.125, 0.125, 0.0], [0.0, 0.25, 0.25], [1.0, 1.0, 0.25]];
    let n = host.len();
    let queries = DeviceBuffer::from_slice(&stream, &host)?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut found = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
    mesh.closest_points(&stream, &PointQueries::at(&queries), &mut found)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&queries)?;
        mesh.record_distances(t, &PointQueries::at(&queries), &mut out)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    let by = tape.gradient(&queries)?.to_vec(&stream)?;
    for (i, found) in found.to_vec(&stream)?.iter().enumerate() {
        let away = sub(host[i].map(f64::from), found.position.map(f64::from));
        let unit = scale(away, 1.0 / length(&away));
        let off = length(&sub(unit, by[i].map(f64::from)));
        ensure!(off < 1e-6, "{:?}, not {unit:?}", by[i]);
    }
    Ok(())
}

/// A face that is a line, and one that is a point: they are an edge and a vertex.
fn faces_without_area(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1500));
    let line = [[0.0, 0.0, 0.0], [1.0, 0.5, 0.25], [2.0, 1.0, 0.5]];
    let spot = [[-3.0f32, 0.0, 0.0]; 3];
    let points = [line, spot].concat();
    let mesh = TriangleMesh { points, faces: vec![[0, 1, 2], [3, 4, 5]] };
    // In f64: the line is its longest edge, as a face of two corners; the spot its first corner.
    let thin = [[0, 2, 2], [3, 3, 3]];
    let built = upload(device, &stream, &mesh)?;
    let n = 60;
    let host: Vec<[f32; 3]> = super::points(&mut rng, n, 4.0);
    let queries = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let weights = rng.floats(n);
    let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
    for signed in [false, true] {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&queries)?;
            t.watch(built.points())?;
            let at = PointQueries::at(&queries);
            match signed {
                true => built.record_signed_distances(t, &at, Sign::Parity, &mut out),
                false => built.record_distances(t, &at, &mut out),
            }
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let at = wide(&host);
        let loss = |at: &[f64], vertices: &[f64]| {
            let one = |i| {
                let by = |face: [u32; 3]| edge_distance(vertices, face, point(at, i));
                f64::from(weights[i]) * thin.into_iter().map(by).fold(f64::INFINITY, f64::min)
            };
            (0..n).map(one).sum::<f64>()
        };
        let vertices = wide(&mesh.points);
        let by = tape.gradient(&queries)?.to_vec(&stream)?;
        near(by.as_flattened(), &slopes(&at, |at| loss(at, &vertices)))?;
        let by = tape.gradient(built.points())?.to_vec(&stream)?;
        // The edges of the line lie on each other, and any of them may be the answer: how its corners share the
        // gradient is a tie; that it pulls the line so strongly, and turns it so, is not.
        let by_line = slopes(&vertices, |vertices| loss(&at, vertices));
        let wanted: Vec<f64> = by_line.iter().map(|g| g.unwrap_or(f64::NAN)).collect();
        for corners in [0..3, 3..6] {
            let (got, wanted) =
                (pull(&vertices, &wide(&by), corners.clone()), pull(&vertices, &wanted, corners));
            within(OF_F32, &got, &wanted.map(Some))?;
        }
    }
    // The distance of 0 has no plane here.
    let there = DeviceBuffer::from_slice(&stream, &[line[0], spot[0]])?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 2])?;
    let mut zeros = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&there)?;
        let at = PointQueries::at(&there);
        built.record_signed_distances(t, &at, Sign::Parity, &mut zeros)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&zeros, &ones)?)?;
    ensure_eq!(tape.gradient(&there)?.to_vec(&stream)?, [[0.0; 3]; 2]);
    Ok(())
}

/// The sum of the gradients of some vertices, and of their moments about the origin.
fn pull(vertices: &[f64], by: &[f64], some: std::ops::Range<usize>) -> [f64; 6] {
    let mut sum = [0.0; 6];
    for i in some {
        let (p, g) = (point(vertices, i), point(by, i));
        let turn = cross(p, g);
        sum.iter_mut().zip(g.into_iter().chain(turn)).for_each(|(sum, x)| *sum += x);
    }
    sum
}

/// From the edge between the first two corners.
fn edge_distance(vertices: &[f64], face: [u32; 3], q: [f64; 3]) -> f64 {
    let [a, b, _] = face.map(|i| point(vertices, i as usize));
    let (along, to) = (sub(b, a), sub(q, a));
    let squared = dot(&along, &along);
    let s = if squared > 0.0 { (dot(&to, &along) / squared).clamp(0.0, 1.0) } else { 0.0 };
    length(&sub(to, scale(along, s)))
}

/// Two faces that share an edge: the gradient is that of the face that the answer names.
fn rays_through_an_edge(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    // A roof, whose ridge is along y.
    let points = vec![[-1.0, 0.0, 0.0], [0.0, -1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]];
    let roof = TriangleMesh { points, faces: vec![[0, 1, 2], [3, 2, 1]] };
    let mesh = upload(device, &stream, &roof)?;
    let rays = DeviceBuffer::from_slice(
        &stream,
        &[
            Ray::new([0.0, 0.25, 3.0], [0.0, 0.0, -1.0]),
            Ray::new([0.0, 1.5, 3.0], [0.0, 0.0, -1.0]),
        ],
    )?;
    let mut hits = DeviceBuffer::<RayHit>::zeroed(&stream, 2)?;
    let seeds = DeviceBuffer::from_slice(&stream, &[RayHit { t: 1.0, ..RayHit::zeroed() }; 2])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&rays)?;
        mesh.record_closest_hits(t, &rays, &mut hits)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&hits, &seeds)?)?;
    let by = tape.gradient(&rays)?.to_vec(&stream)?;
    let face = hits.to_vec(&stream)?[0].face;
    // Down the left side t grows towards negative x, down the right one towards positive x.
    let slope = if face == 0 { -1.0 } else { 1.0 };
    ensure!(face < 2, "nothing is hit");
    ensure_eq!(by[0].origin, [slope, 0.0, 1.0]);
    // Past the roof.
    ensure_eq!(by[1].origin, [0.0; 3]);
    Ok(())
}

/// A face and the same the other way round: the normals of their vertices cancel.
fn normals_that_cancel(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let host = [[0.0f32, 0.0, 0.0], [1.0, 0.25, 0.0], [0.25, 1.0, 0.5], [2.0, 2.0, 2.0]];
    let vertices = DeviceBuffer::from_slice(&stream, &host)?;
    let faces =
        DeviceBuffer::from_slice(&stream, &[[0u32, 1, 2], [0, 2, 1], [3, 3, 1], [0, 1, 0]])?;
    let surface = Surface::new(&vertices, &faces)?;
    let mut normals = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 4)?;
    let ones = DeviceBuffer::from_slice(&stream, &[[1.0f32; 3]; 4])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&vertices)?;
        Topology::new(&device.geometry()).record_vertex_normals(t, surface, &mut normals)
    })?;
    ensure_eq!(normals.to_vec(&stream)?, [[0.0; 3]; 4]);
    tape.backward_with(&stream, &Seeds::new().with(&normals, &ones)?)?;
    ensure_eq!(tape.gradient(&vertices)?.to_vec(&stream)?, [[0.0; 3]; 4]);
    // A face's own, without area.
    let mesh = Mesh::build(&stream, &device.geometry(), &vertices, &faces, MeshOptions::default())?;
    let asked = DeviceBuffer::from_slice(&stream, &[FacePoint { face: 3, u: 0.25, v: 0.25 }])?;
    let mut one = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(mesh.points())?;
        mesh.record_normals_at(t, &asked, &mut one)
    })?;
    ensure_eq!(one.to_vec(&stream)?, [[0.0; 3]]);
    tape.backward_with(&stream, &Seeds::new().with(&one, ones.slice(..1)?)?)?;
    ensure_eq!(tape.gradient(mesh.points())?.to_vec(&stream)?, [[0.0; 3]; 4]);
    Ok(())
}

/// The trilinear sample at a voxel: the gradient is that of the cell towards greater coordinates. Beyond what is
/// stored there is none.
fn samples_between_cells(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let value = |[x, y, z]: [i32; 3]| (x * x + 3 * y * y + x * z * z) as f32;
    let options = DenseOptions::new(VolumeOptions::new(0.0f32));
    let volume = Volume::from_fn(&stream, &device.geometry(), [6; 3], options, value)?;
    let host = [[2.0f32, 3.0, 1.0], [1.0, 1.0, 1.0], [3e9, 0.0, 0.0], [f32::NAN, 0.0, 0.0]];
    let at = DeviceBuffer::from_slice(&stream, &host)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 4])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        volume.record_sample(t, &Samples::index(&at), Interpolation::Trilinear, &mut out)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    let by = tape.gradient(&at)?.to_vec(&stream)?;
    for (p, g) in [([2, 3, 1], by[0]), ([1, 1, 1], by[1])] {
        let next = |axis: usize| {
            let mut to = p;
            to[axis] += 1;
            value(to) - value(p)
        };
        ensure_eq!(g, [0, 1, 2].map(next));
    }
    ensure_eq!(by[2..], [[0.0; 3]; 2]);
    Ok(())
}

/// A number that is the surface's value: it has the vertices of those of its edges that end inside, and its
/// gradient is the sum of theirs. Edges that the surface runs along have no vertex, and no gradient.
fn surfaces_through_lattice_points(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut host = [0.5f32; 27];
    // In the middle it is 0; below it is inside.
    host[13] = 0.0;
    host[12] = -1.0;
    host[4] = -0.5;
    let given = DeviceBuffer::from_slice(&stream, &host)?;
    let field = DenseField::new(&given, [3; 3], Map::default())?;
    let mut surface = None;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&given)?;
        surface = Some(MarchingCubes::new(&device.geometry()).record_extract(t, &field, 0.0)?);
        Ok(())
    })?;
    let Some(surface) = surface else { return Err(Failure::new("no surface")) };
    let found = surface.vertices.to_vec(&stream)?;
    let middle = found.iter().filter(|p| **p == [1.0; 3]).count();
    ensure_eq!(middle, 2);
    let ones = DeviceBuffer::from_slice(&stream, &vec![[1.0f32; 3]; found.len()])?;
    tape.backward_with(&stream, &Seeds::new().with(&surface.vertices, &ones)?)?;
    let by = tape.gradient(&given)?.to_vec(&stream)?;
    // Along z from -1 to 0, and along x from -1/2 to 0: t = 1, so -1 / (b - a) each.
    ensure_eq!(by[13], -1.0 - 2.0);
    // Between 0 and 1/2 no vertex is.
    ensure_eq!(by[14], 0.0);
    ensure_eq!(by[22], 0.0);
    // A field that is the value everywhere has none at all.
    let flat = DeviceBuffer::<f32>::zeroed(&stream, 27)?;
    let field = DenseField::new(&flat, [3; 3], Map::default())?;
    let plain = MarchingCubes::new(&device.geometry()).extract(&stream, &field, 0.0)?;
    ensure_eq!(plain.vertices.len(), 0);
    Ok(())
}
